"""The name of a block. One that was opened again on other terms, as after a changed limit, ends in the number of its
generation, which tells nobody anything who reads a sentence."""

from __future__ import annotations

import re

_GENERATION = re.compile(r" #(\d+)$")


def base_name(name: str) -> str:
    """Return a block's name without the number of its generation."""
    return _GENERATION.sub("", name)


def generation(name: str) -> int:
    """Return how many blocks have had this name, with this one."""
    found = _GENERATION.search(name)
    return int(found.group(1)) if found else 1


def next_name(name: str) -> str:
    """Return the name of the block that takes this one's place."""
    return f"{base_name(name)} #{generation(name) + 1}"
