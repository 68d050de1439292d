"""Beyond the paper: what the same questions give by how many people answer, with and without anybody to trust."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.datasets import People
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.tiresias import PAPER

PEOPLE, QUICK_PEOPLE = (100, 1_000, 10_000, 32_000), (1_000, 10_000)
EPSILONS = (0.1, 1.0)
DELTA = 1e-6  #: of the trusted regression, which has no pure form
REPEATS, QUICK_REPEATS = 20, 5  #: of the cheap questions, for each seed
TRUSTED, UNTRUSTED = "somebody is trusted", "nobody is trusted"
SHARE, MEAN, CHANCE = "a share, points off", "a mean age, years off", "a forecast, AUC on other people"
NUMBERS = ("age", "education", "gain", "loss", "hours")
INPUTS = {
    **{column: column for column in NUMBERS},
    "wed": "CASE WHEN married = 'Married-civ-spouse' THEN 1 ELSE 0 END",
    "man": "CASE WHEN sex = 'Male' THEN 1 ELSE 0 END",
}

#: (people, epsilon, seed) -> an error or a score
Asking = Callable[[People, float, int], float]


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers import datasets
    from papers.anonml.asking import about

    everybody = datasets.people("adult")
    sizes = [size for size in (QUICK_PEOPLE if quick else PEOPLE) if size <= len(everybody.train["age"])]
    repeats = QUICK_REPEATS if quick else REPEATS
    rows: list[Row] = []
    for panel, by_trust in ASKED.items():
        for trust, ask in by_trust.items():
            for size in sizes:
                crowds = [drawn(everybody, size, seed) for seed in seeds]
                ceiling = 0.0 if panel != CHANCE else float(np.mean([PLAIN[trust](crowd) for crowd in crowds]))
                for epsilon in EPSILONS:
                    times = 1 if panel == CHANCE else repeats
                    scores = [
                        float(np.mean([ask(crowd, epsilon, seed * times + again) for again in range(times)]))
                        for seed, crowd in zip(seeds, crowds, strict=True)
                    ]
                    where = {"panel": panel, "series": f"{trust}, epsilon {epsilon:g}", "at": float(size)}
                    rows.append(Row.over(scores, **where, epsilon=epsilon, ceiling=ceiling))
    return Found(rows=rows, data=about(everybody), made_up=everybody.made_up, notes=NOTES)


def drawn(people: People, size: int, seed: int) -> People:
    """So many of them, by chance."""
    chosen = np.random.default_rng([seed, size]).permutation(len(people.train[people.label]))[:size]  # not noise
    some = {column: values[chosen] for column, values in people.train.items()}
    return People(people.name, some, people.test, people.label, people.bounds, people.made_up)


def _released(document: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], seed: int) -> Any:
    import thebes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer people than min_count
        return thebes.simulate(dict(document), dict(columns), seed=seed)


# --- the questions ------------------------------------------------------------------------------------------


def _share_trusted(people: People, epsilon: float, seed: int) -> float:
    counts = _released(
        {**about_column("basic", people.label, people, epsilon), "aggregator": "histogram"}, people.train, seed
    )
    return points_off(people, counts.value[yes_of(people)] / len(people.train[people.label]))


def _share_untrusted(people: People, epsilon: float, seed: int) -> float:
    release = _released(_split(people.label, people, epsilon), people.train, seed)
    return points_off(people, release.frequencies[people.label][yes_of(people)])


def _mean_trusted(people: People, epsilon: float, seed: int) -> float:
    release = _released({**about_column("basic", "age", people, epsilon), "aggregator": "mean"}, people.train, seed)
    return abs(float(release.value) - float(people.train["age"].mean()))


def _mean_untrusted(people: People, epsilon: float, seed: int) -> float:
    found, _ = _released(_split("age", people, epsilon), people.train, seed).mean("age")
    return abs(float(found) - float(people.train["age"].mean()))


def chance_trusted(people: People, epsilon: float, seed: int) -> float:
    numbers = {column: people.bounds[column] for column in NUMBERS}
    flags = {name: {"type": "range", "low": 0, "high": 1} for name in INPUTS if name not in NUMBERS}
    columns = [f"{sql} AS {name}" for name, sql in INPUTS.items()]
    document = {
        "type": "integrated",
        "quality": False,  # scored on rows of the experiment's own
        "epsilon": epsilon,
        "delta": DELTA,
        "featurizer": f"SELECT {', '.join(columns)}, {people.label} FROM p.t",  # noqa: S608
        "model": "LogisticRegression",
        "inputs": list(INPUTS),
        "output": people.label,
        "bounds": {**numbers, **flags, people.label: people.bounds[people.label]},
    }
    model = _released(document, people.train, seed).model
    return _auc(people, model.predict_proba(_as_numbers(people.test))[:, 1])


def _chance_untrusted(people: People, epsilon: float, seed: int) -> float:
    from papers.anonml.asking import auc, automatic, released

    return auc(people, released(automatic(people, epsilon), people, seed).model)


def _plain_trusted(people: People) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    yes = people.train[people.label] == yes_of(people)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(_as_numbers(people.train), yes)
    return _auc(people, model.predict_proba(_as_numbers(people.test))[:, 1])


def _plain_untrusted(people: People) -> float:
    from papers.anonml.asking import auc, automatic, released

    return auc(people, released({**automatic(people, 8.0), "perturbation": "none"}, people, 0).model)


ASKED: Mapping[str, Mapping[str, Asking]] = {
    SHARE: {TRUSTED: _share_trusted, UNTRUSTED: _share_untrusted},
    MEAN: {TRUSTED: _mean_trusted, UNTRUSTED: _mean_untrusted},
    CHANCE: {TRUSTED: chance_trusted, UNTRUSTED: _chance_untrusted},
}
PLAIN: Mapping[str, Callable[[People], float]] = {TRUSTED: _plain_trusted, UNTRUSTED: _plain_untrusted}


def about_column(kind: str, column: str, people: People, epsilon: float) -> dict[str, Any]:
    """A document about one column."""
    told = {"type": kind, "epsilon": epsilon, "featurizer": f"SELECT {column} FROM p.t"}  # noqa: S608
    return {**told, "bounds": {column: people.bounds[column]}}


def _split(column: str, people: People, epsilon: float) -> dict[str, Any]:
    """A document about one column that each person changes as the paper has it, whatever else would err less."""
    return {**about_column("bounded", column, people, epsilon), "mechanism": "split"}


def yes_of(people: People) -> Any:
    return people.bounds[people.label]["values"][1]


def points_off(people: People, found: float) -> float:
    return 100 * abs(float(found) - float(np.mean(people.train[people.label] == yes_of(people))))


def _as_numbers(table: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    told = [table[column].astype(np.float64) for column in NUMBERS]
    return np.column_stack([*told, table["married"] == "Married-civ-spouse", table["sex"] == "Male"])


def _auc(people: People, score: Any) -> float:
    from papers.anonml.asking import auc_of

    return auc_of(people, score)


NOTES = (
    "Not of the paper: what somebody wants to know who is about to ask. Errors are means without their sign over many "
    "draws, beside what those who were asked would have said together; whom one happens to ask comes on top.",
    "The share is of those who earn over 50,000; trusted by `basic` (histogram), else by `bounded`. The age is bounded "
    "by 17 and 90; trusted by `basic` (mean), else by `bounded`.",
    "The forecast is of who earns over 50,000: trusted by `integrated` (a logistic regression on seven columns, delta "
    f"{DELTA:g}), else by `ensemble` (log-odds of twelve, joints by rule, delta 0). .5 is a coin. Not private is what "
    "as many people teach without noise.",
)
EXPERIMENT = Experiment(
    name="tiresias-people",
    paper=PAPER,
    place="beyond: by how many people answer",
    shows="How much better the same questions are answered the more people take part, at two small epsilons.",
    measure="what its panel says",
    across="people",
    find=find,
    seeds=5,
    quick_seeds=2,
    better={CHANCE: "more", "": "less"},
    blind=0.5,
    headline=Headline(panels=("",), drawn=(CHANCE,)),
)
