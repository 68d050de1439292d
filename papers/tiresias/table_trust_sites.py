"""Beyond the paper: how far off answers of institutions are by how many of them there are, and where noise is added."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from papers.datasets import People
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.tiresias import PAPER
from papers.tiresias.table_people import EPSILONS, drawn, points_off, yes_of

SITES, QUICK_SITES = (3, 5, 15, 40), (3, 15)
REPEATS, QUICK_REPEATS = 8, 4  #: for each seed
PEOPLE = 12_000
COUNT, MEAN, MODEL = "a share, points off", "a mean age, years off", "a forecast, wrong of 100"
WHERE: Mapping[str, str] = {
    "site": "each site adds noise",
    "split": "two servers add noise",
    "coordinator": "the coordinator adds noise",
}
_LOW, _HIGH = 17, 90
_HOURS = (1, 99)
_DELTA = 1e-6

Document = dict[str, Any]


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers import datasets
    from papers.anonml.asking import about

    everybody = datasets.people("adult")
    size = min(PEOPLE, len(everybody.train[everybody.label]))
    rows: list[Row] = []
    for panel, (asked, off) in ASKED.items():
        repeats = 1 if panel == MODEL else QUICK_REPEATS if quick else REPEATS
        for noise, told in WHERE.items():
            for sites in QUICK_SITES if quick else SITES:
                crowds = [drawn(everybody, size, seed) for seed in seeds]
                for epsilon in EPSILONS[:1] if panel == MODEL else EPSILONS:
                    document = {**asked(crowds[0]), "dataset": "people", "noise": noise, "epsilon": epsilon}
                    scores = [
                        float(np.mean([off(crowd, released(document, crowd, sites, n)) for n in draws]))
                        for crowd, draws in zip(
                            crowds, [range(s * repeats, (s + 1) * repeats) for s in seeds], strict=True
                        )
                    ]
                    where = {"panel": panel, "series": f"{told}, epsilon {epsilon:g}", "at": float(sites)}
                    rows.append(Row.over(scores, **where, epsilon=epsilon))
    return Found(rows=rows, data=about(everybody), made_up=everybody.made_up, notes=NOTES)


def released(document: Document, people: People, sites: int, seed: int) -> Any:
    """Simulate what sites that share the rows evenly would answer."""
    import thebes

    columns = ("age", "hours", people.label)
    parts = np.array_split(np.arange(len(people.train[people.label])), sites)
    rows = {f"site-{n:02d}": {name: people.train[name][part] for name in columns} for n, part in enumerate(parts)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # models that noise left no better than a guess
        return thebes.simulate(dict(document), rows, seed=seed, schema=schema_of(people))


def schema_of(people: People) -> Document:
    """Declare what the sites have."""
    values = list(people.bounds[people.label]["values"])
    numbers = {"age": (_LOW, _HIGH), "hours": _HOURS}
    told: Document = {name: {"type": "integer", "low": low, "high": high} for name, (low, high) in numbers.items()}
    return {"unit": "person", "columns": {**told, people.label: {"type": "string", "values": values}}}


def _share(people: People) -> Document:
    return {"type": "query", "statistic": "count", "where": f"{people.label} = '{yes_of(people)}'"}


def _mean(people: People) -> Document:
    return {"type": "query", "statistic": "mean", "column": "age"}


def _forecast(people: People) -> Document:
    inputs = ["age", "hours"]
    learned = {"model": "LogisticRegression", "inputs": inputs, "output": people.label, "rounds": 20, "delta": _DELTA}
    return {"type": "train", **learned, "learning_rate": 4.0, "momentum": 0.5}


def _share_off(people: People, release: Any) -> float:
    return points_off(people, release.value / len(people.train[people.label]))


def _mean_off(people: People, release: Any) -> float:
    return abs(float(release.value) - float(people.train["age"].mean()))


def _wrong(people: People, release: Any) -> float:
    said = release.model.predict({name: people.train[name] for name in ("age", "hours")})
    return 100 * float(np.mean(said != people.train[people.label]))


ASKED: Mapping[str, tuple[Callable[[People], Document], Callable[[People, Any], float]]] = {
    COUNT: (_share, _share_off),
    MEAN: (_mean, _mean_off),
    MODEL: (_forecast, _wrong),
}
NOTES = (
    f"Not of the paper: {PEOPLE:,} people, whose rows so many institutions share evenly, asked in one process by the "
    "code that answers. Every line promises the same; errors are means without their sign, beside what all rows say.",
    "Where each site adds noise nobody is shown a total. Where two servers do, each hears one share of every total, "
    "which alone is chance, and one of them must keep its word. Where the coordinator does, it is shown every total.",
    "The forecast is of who earns over 50,000, from age and hours of work: a logistic regression in 20 rounds (delta "
    ".000001), at the smaller epsilon, as the noise of the larger one shows nowhere among so many people.",
)
EXPERIMENT = Experiment(
    name="tiresias-trust-sites",
    paper=PAPER,
    place="beyond: by where institutions' noise is added",
    shows="How far off the same questions to institutions are, by how many there are and who has to keep their word.",
    measure="what its panel says",
    across="institutions",
    find=find,
    seeds=3,
    quick_seeds=2,
    better="less",
    blind=0.5,
    headline=Headline(panels=("",), drawn=(COUNT, MEAN)),
)
