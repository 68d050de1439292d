"""The thesis' figures 10.1 and 10.2: what is paid for 500 statistical questions, in every way to answer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thebes.experiments.experiment import Experiment
from thebes.experiments.outcome import Found
from thebes.experiments.smartcache import PAPER


def _finding(name: str) -> Callable[[bool, Sequence[int]], Found]:
    def find(quick: bool, seeds: Sequence[int]) -> Found:
        from thebes.experiments.smartcache import statistics
        from thebes.experiments.smartcache.tables import about, table

        asked = table(name)
        found = statistics.rows(name, statistics.shown(), quick, seeds)
        return Found(rows=found, data=about(asked), made_up=asked.made_up, notes=statistics.NOTES)

    return find


EXPERIMENTS = tuple(
    Experiment(
        name=f"smartcache-figure-10-{number}",
        paper=PAPER,
        place=f"figure 10.{number}",
        shows="Reusing exact answers saves most; with Gaussian noise it leaves little that a synopsis could save.",
        measure="what one row has paid, and how far answers are off",
        across="questions asked",
        find=_finding(name),
        unit="row",
        seeds=3,
        quick_seeds=1,
    )
    for number, name in ((1, "avocado"), (2, "bank"))
)
