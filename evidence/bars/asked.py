"""Everything that is answered with an error bar, by who answers it and how: one line each, with the exact answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evidence.bars.rows import Floats
from thebes.privacy.measurement import Interval
from thebes.privacy.randomness import Randomness

Ends = tuple[float, float]
ROWS = (100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class BarAnswer:
    """One noisy answer and its bar; None where it has none."""

    value: float
    bar: Interval | None


#: one noisy answer over the rows of a law
Ask = Callable[[Randomness], BarAnswer]


@dataclass(frozen=True, slots=True)
class Barred:
    """A statistic that is answered in one way, over rows of some laws."""

    statistic: str
    way: str
    laws: tuple[str, ...]
    asked: Callable[[str, int, float], Ask]  #: of a law, so many rows, an epsilon
    exact: Callable[[Floats], Ends]  #: the ends between which every exact answer lies
    tight: float = 1.25  #: a bar may be so many times as wide as 95 % of errors, beside one step
    rows: tuple[int, ...] = ROWS

    @property
    def name(self) -> str:
        return f"{self.statistic}, {self.way}"


def everything() -> list[Barred]:
    """List all of them."""
    from evidence.bars import people, sites, unheard

    return [*people.barred(), *sites.barred(), *unheard.barred()]
