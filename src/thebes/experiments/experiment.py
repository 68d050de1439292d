"""One table or figure of one paper: what it shows, and how to find it out again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thebes.experiments.outcome import Found, Outcome, Picture
from thebes.privacy.faults import Mistake

#: what a module of an experiment does: (quick, seeds) -> what it found
Finding = Callable[[bool, Sequence[int]], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """`find(quick, seeds)` runs the real kinds on real data where there are some; quick: within half a minute.

    `name` is what one types, `place` where the paper has it, `measure` what the numbers are and `across` what they
    are drawn over; `unit` is who pays the epsilon of every row; `picture` how rows over a number are drawn.
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
        )
