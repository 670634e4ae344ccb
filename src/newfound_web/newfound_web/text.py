# SPDX-License-Identifier: Apache-2.0
"""Sanitise untrusted text for log lines, messages and folder names; compare labels."""

import hashlib
import html
import re
import unicodedata

LONGEST_LABEL = 100  # characters, as in FetchImages.srv


def one_line(text: object, longest: int = 300) -> str:
    """Reduce to one printable line of limited length; empty if it is not a string."""
    if not isinstance(text, str):
        return ""
    printable = "".join(c if c.isprintable() else " " for c in text[: 10 * longest])
    line = " ".join(printable.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def without_markup(text: object, longest: int = 300) -> str:
    """Strip HTML tags and entities; the result is for display only."""
    if not isinstance(text, str):
        return ""
    return one_line(html.unescape(re.sub(r"<[^<>]*>", " ", text[: 10 * longest])), longest)


def label_problem(label: str) -> str | None:
    """Why this is not a valid label; None if it is."""
    if not label.strip():
        return "the label is empty"
    if len(label) > LONGEST_LABEL:
        return f"the label has {len(label)} characters, {LONGEST_LABEL} are allowed"
    if not label.isprintable():
        return "the label has characters that cannot be printed"
    return None


def same_name(text: str) -> str:
    """Normalise a label for comparison: "Coffee_Mug" equals "coffee mug"."""
    return " ".join(re.split(r"[\s_-]+", unicodedata.normalize("NFKC", text).casefold())).strip()


def folder_name(label: str) -> str:
    """A safe, readable and unique folder name for a label."""
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    readable = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:40] or "label"
    return f"{readable}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
