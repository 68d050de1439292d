"""One table or figure of one paper: what it shows, and how to find it out again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from papers.outcome import Found, Made, Outcome, Picture, Row
from thebes.privacy.faults import Mistake

#: what a module of an experiment does: (quick, seeds) -> what it found
Finding = Callable[[bool, Sequence[int]], Found]
#: which way a measure is better; `same`: neither, it is known beforehand
Better = Literal["more", "less", "same"]
MOST_TOLD = 16  #: rows in short, where no headline chooses them


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The rows that tell the story in short. Words are looked for in a row's panel and series, places are along the
    axis; what is left empty asks for nothing. `drawn` are words of panels whose picture belongs to the story;
    `differs` is the number of the note that says where we differ from the paper, and why."""

    panels: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    at: tuple[float | str, ...] = ()
    drawn: tuple[str, ...] = ()
    differs: int = 0

    def of(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(
            row
            for row in rows
            if (not self.panels or any(word in row.panel for word in self.panels))
            and (not self.series or any(word in row.series for word in self.series))
            and (not self.at or row.at in self.at)
        )


def ends(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Find the row with which every curve ends; rows with a name for a place are kept."""
    found: dict[tuple[str, str, str | None], Row] = {}
    for row in rows:
        key = row.panel, row.series, row.at if isinstance(row.at, str) else None
        if key not in found or _along(row) > _along(found[key]):
            found[key] = row
    return tuple(found.values())


def _along(row: Row) -> float:
    return row.at if isinstance(row.at, float | int) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """`find(quick, seeds)` runs the real kinds on real data where there are some; quick: within half a minute.

    `name` is what one types, `place` where the paper has it, `measure` what the numbers are and `across` what they
    are drawn over; `unit` is who pays the epsilon of every row; `picture` how rows over a number are drawn.

    `better` says which way is better: of all rows, or by words of their panel and series (the first that is found; ""
    is found everywhere). Rows for which nothing is said are not compared with earlier ones: times, what others do.
    `blind` is the share of a row's value by which one seed may differ from another of which nothing else is known.
    """

    name: str
    paper: str
    place: str
    shows: str
    measure: str
    across: str
    find: Finding
    unit: str = "person"
    seeds: int = 5
    quick_seeds: int = 2
    picture: Picture = "curves"
    better: Better | Mapping[str, Better | None] | None = None
    blind: float = 0.1
    headline: Headline | None = None

    def direction(self, row: Row) -> Better | None:
        """Tell which way `row` is better; None where it is not for comparing."""
        if self.better is None or isinstance(self.better, str):
            return self.better
        where = f"{row.panel}: {row.series}"
        return next((way for word, way in self.better.items() if word in where), None)

    def told(self, outcome: Outcome) -> tuple[Row, ...]:
        """The rows that its headline chooses; else some with a printed value; else where every curve ends."""
        asked = self.headline
        chosen = asked.of(outcome.rows) if asked is not None and (asked.panels or asked.series or asked.at) else ()
        printed = tuple(row for row in outcome.rows if row.printed is not None)
        return chosen or printed[:MOST_TOLD] or ends(outcome.rows)[:MOST_TOLD]

    def run(self, *, quick: bool = False, seeds: Sequence[int] | None = None) -> Outcome:
        """Run it, once for each seed. Seeds make every draw repeatable, which protects nobody and need not: nobody's
        data but published ones are used."""
        chosen = tuple(range(self.quick_seeds if quick else self.seeds)) if seeds is None else tuple(seeds)
        if not chosen:
            raise Mistake("seeds", "must be at least one")
        started = time.perf_counter()
        found = self.find(quick, chosen)
        return Outcome(
            name=self.name,
            paper=self.paper,
            place=self.place,
            shows=self.shows,
            measure=self.measure,
            across=self.across,
            unit=self.unit,
            data=found.data,
            made_up=found.made_up,
            quick=quick,
            seeds=chosen,
            seconds=round(time.perf_counter() - started, 2),
            rows=tuple(found.rows),
            notes=tuple(found.notes),
            picture=self.picture,
            made=Made.here(),
        )
