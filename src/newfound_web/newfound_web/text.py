# SPDX-License-Identifier: Apache-2.0
"""Text that came from elsewhere, made fit for a log line, a message or a folder's name."""

import hashlib
import html
import re
import unicodedata

LONGEST_LABEL = 100  # characters, as in FetchImages.srv


def one_line(text: object, longest: int = 300) -> str:
    """Printable characters only, one line, not too long; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    printable = "".join(c if c.isprintable() else " " for c in text[: 10 * longest])
    line = " ".join(printable.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def without_markup(text: object, longest: int = 300) -> str:
    """The words of a piece of HTML; for showing, never to be used as HTML again."""
    if not isinstance(text, str):
        return ""
    return one_line(html.unescape(re.sub(r"<[^<>]*>", " ", text[: 10 * longest])), longest)


def label_problem(label: str) -> str | None:
    """Why this cannot be a label, or None."""
    if not label.strip():
        return "the label is empty"
    if len(label) > LONGEST_LABEL:
        return f"the label has {len(label)} characters, {LONGEST_LABEL} are allowed"
    if not label.isprintable():
        return "the label has characters that cannot be printed"
    return None


def same_name(text: str) -> str:
    """Equal for labels that mean the same: "Coffee_Mug" and "coffee mug"."""
    return " ".join(re.split(r"[\s_-]+", unicodedata.normalize("NFKC", text).casefold())).strip()


def folder_name(label: str) -> str:
    """A safe and readable name for a label's folder; different labels have different ones."""
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    readable = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:40] or "label"
    return f"{readable}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
