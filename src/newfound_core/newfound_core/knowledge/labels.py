# SPDX-License-Identifier: Apache-2.0
"""What a class may be called."""

LONGEST = 100


def problem_with_label(label: str) -> str | None:
    """Why this cannot be the name of a class, or None."""
    shown = repr(label[:40] + "…" if len(label) > 40 else label)
    if not label.strip():
        return "the label is empty"
    if len(label) > LONGEST:
        return f"the label has {len(label)} characters, at most {LONGEST} are allowed"
    if not label.isprintable():
        return f"the label {shown} holds characters that cannot be printed"
    if "/" in label or "\\" in label or label.strip(".") == "":
        return f"the label {shown} looks like a path"
    if label != label.strip():
        return f"the label {shown} begins or ends with a space"
    return None
