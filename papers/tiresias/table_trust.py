"""Beyond the paper: the same questions with the same promise, by whom people or institutions must trust."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from papers.datasets import People
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.tiresias import PAPER
from papers.tiresias.table_people import (
    CHANCE,
    EPSILONS,
    INPUTS,
    MEAN,
    NUMBERS,
    SHARE,
    about_column,
    chance_trusted,
    drawn,
    points_off,
    yes_of,
)
from thebes.tasks.mixed_document import planned
from thebes.tasks.rehearsal import HARMLESS
from thebes.tasks.trust_models import MIXED, NOBODY, SPLIT, TRUSTED

PEOPLE, QUICK_PEOPLE = (1_000, 10_000, 32_000), (1_000, 10_000)
REPEATS, QUICK_REPEATS = 4, 2  #: of the cheap questions, for each seed
MEDIAN, GRADIENT = "a median age, years off", "a network's mean gradient, error over its length"
SITES_SHARE, SITES_MEAN = "a share at 15 sites, points off", "a mean age at 15 sites, years off"
FEW = {CHANCE: 1, GRADIENT: 1, SITES_SHARE: 2, SITES_MEAN: 2}  #: repeats of what takes long
SITE, COORDINATOR = "each site adds noise", "the coordinator adds noise"
HOSPITALS = 15
BINS, SPLIT_BINS = 16, 64  #: of ages, where noise is added at home, and where two servers count
_LOW, _HIGH = 17, 90

Document = dict[str, Any]
#: (people, epsilon, seed) -> an error or a score
Asking = Callable[[People, float, int], float]


@dataclass(frozen=True, slots=True)
class AskedError:
    """A question as a document, and how far off its answer is."""

    document: Callable[[People, float], Document]
    error: Callable[[People, Any], float]

    def __call__(self, people: People, epsilon: float, seed: int) -> float:
        return self.error(people, released(self.document(people, epsilon), people, seed))

    @property
    def mixed(self) -> AskedError:
        """The same with the local epsilon that keeps its own as a promise about the collected answers."""

        def document(people: People, epsilon: float) -> Document:
            return planned(self.document(people, epsilon), mixed=epsilon, people=size_of(people)).as_json()

        return AskedError(document, self.error)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers import datasets
    from papers.anonml.asking import about

    everybody = datasets.people("adult")
    sizes = [size for size in (QUICK_PEOPLE if quick else PEOPLE) if size <= size_of(everybody)]
    rows: list[Row] = []
    for panel, by_trust in ASKED.items():
        repeats = FEW.get(panel, QUICK_REPEATS if quick else REPEATS)
        for trust, ask in by_trust.items():
            for size in sizes:
                crowds = [drawn(everybody, size, seed) for seed in seeds]
                for epsilon in EPSILONS:
                    scores = [
                        float(np.mean([ask(crowd, epsilon, seed * repeats + again) for again in range(repeats)]))
                        for seed, crowd in zip(seeds, crowds, strict=True)
                    ]
                    where = {"panel": panel, "series": f"{trust}, epsilon {epsilon:g}", "at": float(size)}
                    paid = ask.document(crowds[0], epsilon)["epsilon"] if isinstance(ask, AskedError) else epsilon
                    rows.append(Row.over(scores, **where, epsilon=float(paid)))
    return Found(rows=rows, data=about(everybody), made_up=everybody.made_up, notes=NOTES)


def size_of(people: People) -> int:
    return len(people.train[people.label])


def released(document: Mapping[str, Any], people: People, seed: int) -> Any:
    """Simulate what would answer; two servers without shares and proofs, which change no sum."""
    import thebes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer people than min_count
        if "dataset" not in document:
            return thebes.simulate(dict(document), dict(people.train), seed=seed, proofs=False)
        parts = np.array_split(np.arange(size_of(people)), HOSPITALS)
        rows = {f"site-{n}": {c: people.train[c][part] for c in ("age", people.label)} for n, part in enumerate(parts)}
        told = {"type": "string", "values": list(people.bounds[people.label]["values"])}
        columns = {"age": {"type": "integer", "low": _LOW, "high": _HIGH}, people.label: told}
        return thebes.simulate(dict(document), rows, seed=seed, schema={"unit": "person", "columns": columns})


# --- documents ------------------------------------------------------------------------------------------------


def rows_about(column: str) -> Callable[[People, float], Document]:
    """Return the document of one column that each person changes, as is best for it."""
    return lambda people, epsilon: about_column(
        "bounded", people.label if column == "label" else column, people, epsilon
    )


def statistic(column: str, aggregator: str, server: str, **more: Any) -> Callable[[People, float], Document]:
    def asked(people: People, epsilon: float) -> Document:
        told = about_column("basic", people.label if column == "label" else column, people, epsilon)
        return {**told, "aggregator": aggregator, "server": server, **more}

    return asked


def ages_by_bin(people: People, epsilon: float) -> Document:
    """Return the document of everybody's age as one of a few bins, which each person changes."""
    bounds = {"bin": {"type": "set", "values": list(range(BINS)), "default": 0}}
    cut = f"SELECT CAST((age - {_LOW}) * {BINS} / {_HIGH - _LOW}.001 AS INTEGER) AS bin FROM p.t"  # noqa: S608
    return {"type": "bounded", "epsilon": epsilon, "featurizer": cut, "bounds": bounds}


def step(server: str) -> Callable[[People, float], Document]:
    """Return the document of one step of a network over seven columns, each between -1 and 1."""

    def asked(people: People, epsilon: float) -> Document:
        ends = {name: (people.bounds[name]["low"], people.bounds[name]["high"]) for name in NUMBERS}
        scaled = []
        for name, sql in INPUTS.items():
            low, high = ends.get(name, (0, 1))
            scaled.append(f"2.0 * ({sql} - {low}) / {high - low} - 1 AS {name}")
        yes = f"CASE WHEN {people.label} = '{yes_of(people)}' THEN 1 ELSE 0 END AS y"
        model, loss = _network(len(scaled))
        read = f"SELECT {', '.join([*scaled, yes])} FROM p.t"  # noqa: S608
        network = {"inputs": list(INPUTS), "outputs": ["y"], "model": model, "loss": loss}
        return {"type": "gradient", "server": server, "epsilon": epsilon, "featurizer": read, **network}

    return asked


@cache
def _network(columns: int) -> tuple[str, str]:
    """A linear model of two classes that starts at nothing, and its loss."""
    import torch

    from thebes.torch import encode

    module = torch.nn.Linear(columns, 2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    return encode(module, torch.nn.CrossEntropyLoss())


def forecast(people: People, epsilon: float) -> Document:
    from papers.anonml.asking import automatic

    return automatic(people, epsilon)


def at_sites(noise: str, **question: Any) -> Callable[[People, float], Document]:
    def asked(people: People, epsilon: float) -> Document:
        told = {"type": "query", "dataset": "people", "noise": noise, "epsilon": epsilon, **question}
        return {**told, **({"where": f"{people.label} = '{yes_of(people)}'"} if "column" not in question else {})}

    return asked


# --- errors ---------------------------------------------------------------------------------------------------


def share_of_rows(people: People, release: Any) -> float:
    return points_off(people, release.frequencies[people.label][yes_of(people)])


def share_of_counts(people: People, release: Any) -> float:
    counted = release.value[yes_of(people)] if isinstance(release.value, Mapping) else release.value
    return points_off(people, counted / size_of(people))


def mean_of_rows(people: People, release: Any) -> float:
    return abs(float(release.mean("age")[0]) - float(people.train["age"].mean()))


def mean_told(people: People, release: Any) -> float:
    return abs(float(release.value) - float(people.train["age"].mean()))


def median_of_rows(people: People, release: Any) -> float:
    """Read the median off shares of bins, within its bin as if ages were spread evenly there."""
    shares = np.array(list(release.frequencies["bin"].values()))
    below = np.concatenate([[0.0], np.maximum.accumulate(np.cumsum(shares))])
    place = min(max(int(np.searchsorted(below, 0.5)) - 1, 0), BINS - 1)
    inside = (0.5 - below[place]) / max(float(below[place + 1] - below[place]), 1e-9)
    told = _LOW + (place + min(max(inside, 0.0), 1.0)) * (_HIGH - _LOW) / BINS
    return abs(float(told) - float(np.median(people.train["age"])))


def median_told(people: People, release: Any) -> float:
    return abs(float(release.value) - float(np.median(people.train["age"])))


def gradient_off(people: People, release: Any) -> float:
    """Compare with the mean of everybody's shortened gradient."""
    exact = released(step("split")(people, HARMLESS), people, 0).gradient
    return float(np.linalg.norm(release.gradient - exact) / np.linalg.norm(exact))


def area(people: People, release: Any) -> float:
    from papers.anonml.asking import auc

    return auc(people, release.model)


_SHARE, _MEAN = AskedError(rows_about("label"), share_of_rows), AskedError(rows_about("age"), mean_of_rows)
_MEDIAN, _STEP = AskedError(ages_by_bin, median_of_rows), AskedError(step("untrusted"), gradient_off)
_FORECAST = AskedError(forecast, area)
ASKED: Mapping[str, Mapping[str, Asking]] = {
    SHARE: {
        NOBODY: _SHARE,
        MIXED: _SHARE.mixed,
        SPLIT: AskedError(statistic("label", "histogram", "split"), share_of_counts),
        TRUSTED: AskedError(statistic("label", "histogram", "trusted"), share_of_counts),
    },
    MEAN: {
        NOBODY: _MEAN,
        MIXED: _MEAN.mixed,
        SPLIT: AskedError(statistic("age", "mean", "split"), mean_told),
        TRUSTED: AskedError(statistic("age", "mean", "trusted"), mean_told),
    },
    MEDIAN: {
        NOBODY: _MEDIAN,
        MIXED: _MEDIAN.mixed,
        SPLIT: AskedError(statistic("age", "median", "split", bins=SPLIT_BINS), median_told),
        TRUSTED: AskedError(statistic("age", "median", "trusted"), median_told),
    },
    CHANCE: {NOBODY: _FORECAST, MIXED: _FORECAST.mixed, TRUSTED: chance_trusted},
    GRADIENT: {NOBODY: _STEP, MIXED: _STEP.mixed, SPLIT: AskedError(step("split"), gradient_off)},
    SITES_SHARE: {
        SITE: AskedError(at_sites("site", statistic="count"), share_of_counts),
        COORDINATOR: AskedError(at_sites("coordinator", statistic="count"), share_of_counts),
    },
    SITES_MEAN: {
        SITE: AskedError(at_sites("site", statistic="mean", column="age"), mean_told),
        COORDINATOR: AskedError(at_sites("coordinator", statistic="mean", column="age"), mean_told),
    },
}
NOTES = (
    "Not of the paper: what somebody wants to know who is about to ask, and chooses whom people must trust. Everything "
    "is simulated by the code that answers, with the same people; errors are means without their sign, beside what "
    "all of those who were asked would have said together.",
    "Every answer of a line promises the same epsilon: with nobody to trust about each person's own report; mixed "
    "about all reports together (delta .000001, half of the others taken as colluding), so that people pay the larger "
    "local epsilon that keeps it; with two servers and with one about the answer.",
    f"The median is read off shares of {BINS} bins where noise is added at home, and off {SPLIT_BINS} bins by two "
    "servers. The forecast is of who earns over 50,000: by `ensemble` (log-odds) where nobody is trusted, by "
    "`integrated` (a logistic regression, delta .000001) with a server; two servers open sums alone, so that they have "
    "the gradient instead: one step of a linear network over seven columns, 16 weights, error as a share of the exact "
    "gradient's length. One server that is trusted with gradients does not exist.",
    f"{HOSPITALS} sites share the rows evenly. Where each adds noise nobody is shown a total; where the coordinator "
    "does, it is shown the exact total of each.",
)
EXPERIMENT = Experiment(
    name="tiresias-trust",
    paper=PAPER,
    place="beyond: by whom people must trust",
    shows="How far off the same questions with the same promise are, by who has to keep their word.",
    measure="what its panel says",
    across="people",
    find=find,
    seeds=3,
    quick_seeds=2,
    better={CHANCE: "more", "": "less"},
    blind=0.5,
    headline=Headline(panels=("",), drawn=(GRADIENT,)),
)
