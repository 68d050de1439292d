"""A stranger's words as they may be shown to people."""

from __future__ import annotations

import unicodedata


def plain_text(text: str) -> str:
    """A stranger's words as they may be shown: without characters that hide, reorder or erase what stands there."""
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if character == "\n" or category not in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"):
            kept.append(character)
        elif character in "\t\r":
            kept.append(" ")
    return "".join(kept)


def shortened(text: str, longest: int) -> str:
    """Write text in one line of at most so many characters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
