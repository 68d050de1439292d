"""Names that somebody probably meant: the nearest of those that are known, so that a refusal can say it."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return what was probably meant: the same but for capitals, underscores and an s, or nearly the same."""
    plain = {_plain(each): each for each in known}
    found = get_close_matches(_plain(name), plain, n=1, cutoff=0.79)  # as far as lo is from low
    return plain[found[0]] if found else None


def did_you_mean(name: str, known: Collection[str], words: dict[str, str] | None = None) -> str:
    """Ask back after a name that is not known; nothing where no known one is near. `words` are what others call it."""
    meant = (words or {}).get(name.lower()) or nearest(name, known)
    return f"; did you mean {meant}?" if meant in known else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").removesuffix("s")
