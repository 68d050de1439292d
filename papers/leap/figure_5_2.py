"""LEAP, figure 5.2: how long a logistic regression takes to train over sites, by what the time goes into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers.experiment import Experiment, Headline
from papers.leap import PAPER
from papers.outcome import Found

SITES, QUICK_SITES = (1, 5, 10, 15), (2,)
ROUNDS, QUICK_ROUNDS = 100, 10
LOCAL = 10  #: steps of a site between two averages
EPSILON = 100.0


def document(rounds: int) -> dict[str, Any]:
    from papers.leap.moles import INPUTS, OUTPUT

    return {
        "type": "train",
        "model": "LogisticRegression",
        "inputs": list(INPUTS),
        "output": OUTPUT,
        "rounds": rounds,
        "local_steps": LOCAL,
        "learning_rate": 0.5,
        "clip": 2.0,
        "epsilon": EPSILON,
        "delta": 1e-6,
        "patience": 600.0,
    }


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.leap.moles import OUTPUT, SCHEMA, moles
    from papers.leap.timing import timed

    held, counts = moles(), QUICK_SITES if quick else SITES
    split = round(0.8 * len(held.table))
    learned, test = held.table.iloc[:split], held.table.iloc[split:]
    test = test[test[OUTPUT].isin(["female", "male"]) & test["age"].notna()]

    def accuracy(model: Any) -> float:
        return float((model.predict(test) == test[OUTPUT].to_numpy()).mean())

    rows = timed(document(QUICK_ROUNDS if quick else ROUNDS), learned, SCHEMA, counts, EPSILON, accuracy)
    guessed = max(test[OUTPUT].value_counts(normalize=True))
    notes = (
        "The same rows are shared out over more and more sites, so all sites together compute as much as one did; "
        "in the paper every site added its own. Times the centralised is the whole time over that of the same private "
        "steps over all rows in one process.",
        "Compute is the slowest site's, which shares this machine's cores with all the others; transfer includes "
        "waiting for sites whose turn on a core comes late. Hospitals have machines of their own.",
        "The paper says that the time at the cloud exceeds that at the sites and that it is not clear why. Here "
        "aggregation is adding vectors up and writing one transaction per round.",
        "In the paper rows come from REDCap in every round; here a site reads its file once for a training.",
        f"Whoever guesses the commoner sex is right in {guessed:.1%}; the table says little about it.",
    )
    return Found(rows=rows, data=str(held), made_up=held.made_up, notes=notes)


EXPERIMENT = Experiment(
    name="leap-5-2",
    paper=PAPER,
    place="figure 5.2",
    shows="What the time of training a small model over sites goes into, beside the same steps in one process.",
    measure="seconds of a training, or what its panel says",
    across="sites",
    find=find,
    unit="row",
    seeds=1,
    quick_seeds=1,
    better={"accuracy": "more"},
    headline=Headline(panels=("times", "accuracy"), drawn=("seconds",)),
)
