"""Draw and Discard, figure 2: handwritten digits by the number of instances, beside batches at a server, by epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from papers.draw_discard import PAPER
from papers.draw_discard.alternatives import Batches, DrawAndDiscard, Server
from papers.draw_discard.digits import DOCUMENT, EACH, WEIGHTS, Digits, digits
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from thebes.privacy.randomness import Randomness

PASSES, QUICK_PASSES = 20, 4
LOOKS = (1, 2, 4, 7, 10, 14, 20)
PEOPLE, QUICK_PEOPLE = 6000, 800
REDUCED = {"mean": "gradients averaged, as printed", "sum": "gradients summed"}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    held = digits(QUICK_PEOPLE if quick else PEOPLE)
    passes = QUICK_PASSES if quick else PASSES
    looks = [look for look in LOOKS if look <= passes]
    rows = [*_crowds(held, quick, seeds, passes, looks), *_batches(held, quick, seeds, looks)]
    notes: tuple[str, ...] = (
        "The figure shows curves without numbers, so none are printed here.",
        "The paper says that epsilon above log 16 costs next to nothing. Algorithm 1 averages a gradient over a "
        f"person's {EACH} digits, and then it does cost; if they are summed, the sentence holds.",
        "The paper finds k = 10 equal to batches of 100 digits and reads k = root of the batch. That is because k and "
        f"the digits of a person were both {EACH}: what counts is how many people's updates make a batch, and k "
        "instances learn as fast as batches of k updates.",
        "Log 16 is what one weight, seen alone, tells in one pass. What one person pays is that times "
        f"{WEIGHTS:,} weights and {passes} passes, and stands in the column epsilon: no protection of a person at all.",
    )
    if quick:
        notes += (f"Quick: {QUICK_PEOPLE:,} people and {QUICK_PASSES} passes, where the paper has 6,000 and 20.",)
    return Found(rows=rows, data=str(held), made_up=held.made_up, notes=notes)


def _settings(quick: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (panel, series, what differs from the document)."""
    for k in (1, 10) if quick else (1, 10, 20, 50, 100):
        yield f"k, {REDUCED['mean']}", f"k = {k}", {"instances": k, "reduce": "mean"}
    for k in () if quick else (1, 10, 20):
        yield f"k, {REDUCED['sum']}", f"k = {k}", {"instances": k, "reduce": "sum"}
    for reduce, words in REDUCED.items():
        same = {"instances": 10, "reduce": reduce}
        yield f"epsilon, {words}", "no noise", same
        for x in (16,) if quick else (32, 16, 3):
            noise = {"mechanism": "laplace", "epsilon_per_weight": math.log(x)}
            yield f"epsilon, {words}", f"log {x} by weight and pass", {**same, **noise}


def _crowds(held: Digits, quick: bool, seeds: Sequence[int], passes: int, looks: Sequence[int]) -> Iterator[Row]:
    """Through the kind itself. Every setting is trained once, also where two panels show it."""
    known: dict[str, tuple[list[list[float]], float | None]] = {}
    for panel, series, more in _settings(quick):
        asked = {**DOCUMENT, **more, "max_participations": passes}
        if "epsilon_per_weight" in more:
            asked["epsilon_per_weight"] = passes * more["epsilon_per_weight"]
        if str(more) not in known:
            runs = [held.crowd.trained(asked, seed) for seed in seeds]
            scores = [[held.accuracy(run.models[look - 1]) for run in runs] for look in looks]
            known[str(more)] = scores, runs[0].epsilon
        scores, epsilon = known[str(more)]
        best = known.get(str({"instances": more["instances"], "reduce": more["reduce"]}))
        for place, look in enumerate(looks):
            ceiling = None if epsilon is None or best is None else sum(best[0][place]) / len(seeds)
            yield Row.over(scores[place], panel=panel, series=series, at=look, epsilon=epsilon, ceiling=ceiling)


def _batches(held: Digits, quick: bool, seeds: Sequence[int], looks: Sequence[int]) -> Iterator[Row]:
    """Without noise and averaged; sizes are counted in updates."""
    servers: dict[str, tuple[int, Callable[[Any, Randomness], Server]]] = {}
    for k in (10,) if quick else (10, 20):
        servers[f"k = {k}"] = (k, DrawAndDiscard)
    for size in (1, 10, 100) if quick else (1, 10, 20, 40, 100, 1000):
        servers[f"batches of {size * EACH:,} digits ({size})"] = (1, partial(Batches, size=size))
    for series, (k, made) in servers.items():
        curves = held.curves({**DOCUMENT, "instances": k}, made, seeds, looks)
        for look, found in zip(looks, curves, strict=True):
            yield Row.over(found, panel="batches (of so many updates)", series=series, at=look)


EXPERIMENT = Experiment(
    name="draw-discard-2",
    paper=PAPER,
    place="figure 2",
    shows="More instances learn more slowly, as fast as batches of as many updates; noise costs less if gradients are "
    "summed.",
    measure="accuracy on held-out digits",
    across="passes over the people",
    find=find,
    seeds=1,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("epsilon,",), at=(1, 4, 20), drawn=("epsilon, gradients summed", "batches*"), differs=1),
)
