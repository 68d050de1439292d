"""The outcome of an experiment: one shape for every table and figure, so that one page can show them all.

An epsilon is what one `unit` pays in all, never what a part of it paid; a printed value stands only where the paper
prints a number (a curve without numbers has none).
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self

import numpy as np

from thebes import __version__
from thebes.privacy.faults import Fault, Mistake

#: rows over a number: a curve for each series, or a point for each row beside the line where both are equal
Picture = Literal["curves", "points"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point of a figure, or one cell of a table.

    `series` is the curve or column it belongs to and `at` its place along the axis (a name in a table); `spread` is
    the standard deviation of `ours` over the seeds, `ceiling` what is reached without privacy.
    """

    series: str
    ours: float
    at: float | str | None = None
    panel: str = ""
    spread: float | None = None
    printed: float | None = None
    ceiling: float | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in ("ours", "spread", "printed", "ceiling", "epsilon"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise Fault(f"an experiment found {name} = {number} for {self.series!r}, which is no number")

    @classmethod
    def over(cls, scores: Sequence[float], **where: Any) -> Self:
        """The mean of what each seed gave, and how far they lie apart."""
        apart = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
        return cls(ours=float(np.mean(scores)), spread=apart, **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The findings that an experiment's own code hands over. `data` says which data; `made_up` that they only stand in
    for them; `notes` where we differ from the paper, and why."""

    rows: Sequence[Row]
    data: str
    made_up: bool = False
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The versions and cores that an outcome was made with, and the day (UTC): enough to make it again, nothing about
    whose machine it was but how many cores it lent."""

    version: str
    day: str
    python: str
    numpy: str
    cores: int

    @classmethod
    def here(cls) -> Self:
        return cls(
            version=__version__,
            day=datetime.now(UTC).date().isoformat(),
            python=platform.python_version(),
            numpy=np.__version__,
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        )

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"Thebes {self.version}, Python {self.python}, numpy {self.numpy}, {cores}, {self.day}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one experiment, as it is printed, kept and compared."""

    name: str
    paper: str
    place: str
    shows: str
    measure: str
    across: str
    unit: str
    data: str
    made_up: bool
    quick: bool
    seeds: tuple[int, ...]
    seconds: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    picture: Picture = "curves"
    made: Made | None = None

    def of(self, panel: str) -> str:
        """Say what the numbers of a panel are, in words: its own, where the measure leaves that to them."""
        if panel and "panel says" in self.measure:
            return panel
        return f"{self.measure}, {panel}" if panel else self.measure

    def table(self, rows: Sequence[Row] | None = None) -> dict[str, list[str]]:
        """For the eyes, of all rows or of some: a column for everything that at least one of them has."""
        told = self.rows if rows is None else rows
        every = {
            "panel": [row.panel for row in told],
            "series": [row.series for row in told],
            self.across: [row.at if isinstance(row.at, str) else _figure(row.at) for row in told],
            "printed": [_figure(row.printed) for row in told],
            "ours": [_figure(row.ours) for row in told],
            "spread": [_figure(row.spread, 2) for row in told],
            "not private": [_figure(row.ceiling) for row in told],
        }
        if self.across != "epsilon":
            every["epsilon"] = [_figure(row.epsilon) for row in told]
        return {name: cells for name, cells in every.items() if any(cells)}

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `as_json` gave; a Mistake where it is something else."""
        try:
            rows = tuple(Row(**row) for row in told["rows"])
            lists = {"seeds": tuple(told["seeds"]), "notes": tuple(told["notes"]), "rows": rows}
            made = None if told.get("made") is None else Made(**told["made"])
            return cls(**{**told, **lists, "made": made})
        except (KeyError, TypeError):
            raise Mistake("results", "hold what no experiment of this version wrote: run it again") from None


def _figure(number: float | None, digits: int = 4) -> str:
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.{digits}g}"
