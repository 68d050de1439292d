"""Ranges of blocks in halves of halves, so that guesses about many of them share what was learned.

Blocks are numbered in the order in which they were first asked about. A node is 2^k blocks whose first number is a
multiple of 2^k; any run of blocks is at most two nodes of each size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thebes.curator.cache.synopsis import View


def nodes_of(view: View, numbers: Mapping[str, int]) -> tuple[View, ...]:
    """The fewest nodes that make up a view, every block in exactly one; a view of no blocks is one node."""
    if not view:
        return ((),)
    names = sorted(view, key=lambda name: numbers[name])
    found, start = list[View](), 0
    while start < len(names):
        first = numbers[names[start]]
        length = 1
        while first % (2 * length) == 0 and _runs(names, numbers, start, 2 * length):
            length *= 2
        found.append(tuple(names[start : start + length]))
        start += length
    return tuple(found)


def _runs(names: Sequence[str], numbers: Mapping[str, int], start: int, length: int) -> bool:
    """Return whether so many of them follow each other without a gap."""
    last = start + length - 1
    return last < len(names) and numbers[names[last]] - numbers[names[start]] == length - 1
