"""Conditions that say which rows of a growing data set's files are meant, in a form that every engine reads alike.

What must stay true: which part a row is in follows from its own random number and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from thebes.privacy.faults import Mistake

ROW = "_row"  #: the column with a row's own random number; for persons the same in all rows of one
Part = Literal["train", "test"]
_COINS = 2**32  # a share is rounded to one of so many
_MOST_RANGES = 100  # of users in one condition


@dataclass(frozen=True, slots=True)
class Users:
    """The blocks of users at these places, each of so many ids in a row, the first from 1."""

    column: str
    users: int
    places: tuple[int, ...]

    def sql(self, quoted: Callable[[str], str]) -> str:
        if not self.places:
            return "false"
        key, size, wanted = quoted(self.column), self.users, sorted(self.places)
        breaks = [place for place, (one, other) in enumerate(pairwise(wanted), 1) if other != one + 1]
        if len(breaks) < _MOST_RANGES:
            ends = pairwise([0, *breaks, len(wanted)])
            ranges = ((wanted[low] * size + 1, (wanted[high - 1] + 1) * size) for low, high in ends)
            return " OR ".join(f"{key} BETWEEN {first} AND {last}" for first, last in ranges)
        firsts = ", ".join(str(place * size) for place in wanted)
        return f"{key} >= 1 AND ({key} - 1) - (({key} - 1) % {size}) IN ({firsts})"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of these users (None: of all), and of a share of them: those whose coin is below `test`, or the others."""

    users: Users | None = None
    part: Part | None = None
    test: float = 0.0

    def of(self, part: Part, test: float) -> Chosen:
        """Of these rows, a part."""
        if part not in ("train", "test") or not 0 < test < 1:
            raise Mistake("part", "must be train or test, and the share for testing between 0 and 1")
        if self.part is not None:
            raise Mistake("part", "of a part cannot be had")
        return replace(self, part=part, test=test)

    def sql(self, quoted: Callable[[str], str]) -> str:
        """As a condition; `quoted` says how the engine writes a column's name."""
        said = [f"({self.users.sql(quoted)})"] if self.users is not None else []
        if self.part is not None:
            coin = f"(({quoted(ROW)} & {_COINS - 1}) < {round(self.test * _COINS)})"
            said.append(coin if self.part == "test" else f"NOT {coin}")
        return " AND ".join(said) or "true"
