"""Names on the command line, read alike wherever an option takes several: with commas between, or the option again."""

from __future__ import annotations

from collections.abc import Sequence

from thebes.privacy.faults import Mistake


def names(option: str, told: Sequence[str]) -> list[str]:
    """The names in `option`, each once and in order; a Mistake where one is empty, which is mostly a comma too many."""
    found = [name.strip() for each in told for name in each.split(",")]
    if not all(found):
        raise Mistake(option, "has an empty name: write one name, or several with commas between")
    return list(dict.fromkeys(found))
