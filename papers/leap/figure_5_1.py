"""LEAP, figure 5.1: how long a residual network takes to train over sites, by what the time goes into."""

from __future__ import annotations

from collections.abc import Sequence

from papers.experiment import Experiment, Headline
from papers.leap import PAPER
from papers.outcome import Found

SITES, QUICK_SITES = (1, 5, 10, 15), (2,)
ROUNDS, QUICK_ROUNDS = 10, 1
LOCAL, QUICK_LOCAL = 5, 1
TOGETHER, QUICK_TOGETHER = 8000, 60  #: pictures at all sites
EPSILON = 10_000.0


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.leap.pictures import SCHEMA, WEIGHTS, pictures, training
    from papers.leap.timing import timed

    held = pictures()
    learned = held.train.iloc[: QUICK_TOGETHER if quick else TOGETHER]
    answers = held.test["kind"].to_numpy()
    document = training(
        rounds=QUICK_ROUNDS if quick else ROUNDS,
        local_steps=QUICK_LOCAL if quick else LOCAL,
        batch=0.12,
        epsilon=EPSILON,
        patience=600.0,
    )
    rows = timed(
        document,
        learned,
        SCHEMA,
        QUICK_SITES if quick else SITES,
        EPSILON,
        lambda model: float((model.predict(held.test) == answers).mean()),
    )
    notes = (
        f"The paper trains ResNet-18 on lesions' pictures of full size; a residual network of {WEIGHTS:,} weights with "
        "group normalisation and pictures of 8 x 8 dots stand in: a site's engine holds no more columns in the memory "
        "that it is given by default. What is compared is the time of the same steps, at sites and in one process.",
        "The same pictures are shared out over more and more sites, so all sites together compute as much as one did. "
        "Every person's gradient is computed apart from the others', which is what clipping needs and what costs most.",
        "Compute is the slowest site's, which shares this machine's cores with all the others.",
        "Epsilon is so large that it protects nobody; what the time is spent on is the same with any.",
    )
    return Found(rows=rows, data=str(held), made_up=held.made_up, notes=notes)


EXPERIMENT = Experiment(
    name="leap-5-1",
    paper=PAPER,
    place="figure 5.1",
    shows="What the time of training a network over sites goes into, beside the same steps in one process.",
    measure="seconds of a training, or what its panel says",
    across="sites",
    find=find,
    unit="row",
    seeds=1,
    quick_seeds=1,
    better={"accuracy": "more"},
    blind=0.3,
    headline=Headline(panels=("times", "accuracy"), drawn=("seconds",)),
)
