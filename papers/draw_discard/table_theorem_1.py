"""Draw and Discard, theorem 1: how far instances lie apart, by their number and by how many updates are under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from papers.draw_discard import PAPER
from papers.draw_discard.crowd import Crowd
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

COLUMNS = tuple(f"x{place}" for place in range(9))
FEATURIZER = f"SELECT {', '.join(COLUMNS)}, y FROM app.nothing"  # noqa: S608, our own names
EPSILON = 1.0  #: of one weight
VARIANCE = 2 * (2 / EPSILON) ** 2  #: of the noise on one weight, clipped at 1
_UNIT = {"type": "range", "low": 0.0, "high": 1.0}
DOCUMENT: dict[str, Any] = {
    "type": "draw-discard",
    "min_count": 100,
    "featurizer": FEATURIZER,
    "family": "linear",
    "inputs": list(COLUMNS),
    "output": "y",
    "bounds": dict.fromkeys((*COLUMNS, "y"), _UNIT),
    "learning_rate": 1.0,
    "mechanism": "laplace",
    "epsilon_per_weight": EPSILON,
}
WEIGHTS = 1 + len(COLUMNS)
K = 20
_SETTLED = 0.25  #: of the updates pass before the spread is looked at


def find(quick: bool, seeds: Sequence[int]) -> Found:
    crowd = nobody(40_000 if quick else 300_000)
    rows = []
    for k in (2, 10, 20) if quick else (2, 5, 10, 20, 30, 50):
        found = [apart(crowd, k, 1, seed) for seed in seeds]
        where: dict[str, Any] = {"panel": "one update at a time, by k", "at": k, "epsilon": WEIGHTS * EPSILON}
        rows.append(Row.over(found, series="drawing and discarding", printed=k / 2, **where))
        rows.append(Row(series="theorem 1: k / 2", ours=k / 2, **where))
    for flight in (1, 50) if quick else (1, 10, 30, 100, 300):
        found = [apart(crowd, K, flight, seed) for seed in seeds]
        where = {"panel": f"k = {K}, by updates under way", "at": flight, "epsilon": WEIGHTS * EPSILON}
        rows.append(Row.over(found, series="drawing and discarding", printed=K / 2, **where))
        rows.append(Row(series="(k + s) / 2", ours=(K + flight - 1) / 2, **where))
    notes = (
        "Printed is k / 2, which theorem 1 proves for one update after another.",
        "With s more updates under way, each made from a model that has moved on when it comes back, the instances lie "
        "about (k + s) / 2 apart, and less than that where s is many times k. So limits for outliers follow from what "
        "is seen, not from theorem 1.",
        "A weight seen alone costs 1; the column epsilon is what a person pays for all ten.",
    )
    return Found(rows=rows, data="none: people who have no row, and so send noise around nothing", notes=notes)


def nobody(people: int) -> Crowd:
    """People who have a row in which everything is missing: their gradient is zero."""
    nothing = np.full(people, np.nan)
    return Crowd(FEATURIZER, dict.fromkeys((*COLUMNS, "y"), nothing))


def apart(crowd: Crowd, k: int, in_flight: int, seed: int) -> float:
    """The variance between the instances, in units of one update's noise: an average over the training."""
    run = crowd.trained({**DOCUMENT, "instances": k}, seed, in_flight=in_flight)
    (lane,) = run.release.extra["lanes"]
    seen = [spread**2 for updates, spread in lane["history"] if updates > _SETTLED * run.release.updates]
    return float(np.mean(seen)) / VARIANCE


EXPERIMENT = Experiment(
    name="draw-discard-theorem-1",
    paper=PAPER,
    place="theorem 1",
    shows="The instances stay k/2 times one update's noise apart, and farther the more updates are under way at once.",
    measure="variance between instances, in units of one update's noise",
    across="k, or updates under way",
    find=find,
    seeds=5,
    quick_seeds=2,
    better={"drawing and discarding": "same"},
    blind=0.5,
    headline=Headline(series=("drawing",), differs=1),
)
