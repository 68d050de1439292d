"""One unit adds to a sum the same whole numbers in any company, bit for bit.

Every price rests on this: were the last bit of a person's numbers to follow from who else is there, one person more
would move everybody's, and no clipping would bound that. Each learner is run alone, with others, and with others in
another order and of other sizes; all hear the same noisy answers, so that sums can be taken from each other.

Kinds that add noise at each person (gradient, draw-discard) are not here: what one person sends is computed from that
person's rows alone, and no price of theirs rests on what a crowd simulated at once has in its last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thebes.learning as learning
from papers.smartcache.directions import Taken, Taught
from tests.support.examples import examples
from tests.support.training import DOCUMENT, SCHEMA, Silent
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.learning import moments, network, odds
from thebes.learning.budget import FitBudget
from thebes.learning.estimator import PrivateClassifier
from thebes.learning.features import Bins, Categories, Features, Range
from thebes.learning.graph.gradient_clip import clip_rows
from thebes.learning.network import NetworkSlopes, Sampling
from thebes.learning.slopes import LinearSlopes, LogisticSlopes
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Change
from thebes.privacy.transformations.sums import VectorSum
from thebes.tasks import registry
from thebes.tasks.train import local, trial
from thebes.tasks.train.owner import Nursery
from thebes.tasks.train.plan import TrainingPlan
from thebes.testing.recorder import Recorder

FEATURES = Features([Range("size", 0.0, 10.0), Categories("kind", (0, 1, 2)), Bins("age", (0.0, 3.0, 7.0, 10.0))])
#: in the order of `FEATURES.columns`, then a target from -1 to 1
WIDTH = 4

ESTIMATORS: list[tuple[str, dict[str, Any]]] = [
    ("GaussianNB", {"mechanism": "gaussian"}),
    ("GaussianNB", {"mechanism": "laplace"}),
    ("GaussianNB", {"delta": 0, "epsilon": 0.5}),
    ("LogisticRegression", {"steps": 3, "learning_rate": 20.0}),
    ("LogisticRegression", {"epsilon": 300.0}),
    ("LinearRegression", {"method": "moments"}),
    ("LinearRegression", {"method": "descent", "steps": 3}),
    ("Ridge", {"method": "moments"}),
    ("RandomForestClassifier", {"n_estimators": 3, "max_depth": 3, "rows": "shared"}),
    ("RandomForestClassifier", {"n_estimators": 3, "max_depth": 3, "delta": 0, "epsilon": 0.1}),
    ("RandomForestRegressor", {"n_estimators": 3, "max_depth": 3}),
    ("DecisionTreeClassifier", {"max_depth": 3}),
    ("KMeans", {"n_clusters": 3, "steps": 3}),
    ("KMeans", {"n_clusters": 3, "steps": 3, "delta": 0}),
    ("KMeans", {"n_clusters": 3, "epsilon": 500.0}),
    ("KMeans", {"n_clusters": 3, "epsilon": 500.0, "delta": 0}),
    ("StandardScaler", {}),
    ("StandardScaler", {"delta": 0}),
    ("PCA", {}),
]


@st.composite
def companies(draw: Any) -> list[tuple[Any, ...]]:
    """A unit, and three lots of others around it: some with one row each, some with several, all in any order."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    most = draw(st.integers(1, 5))

    def person(rows: int) -> np.ndarray:
        made = generator.uniform(0, 10, (rows, WIDTH))
        made[:, 1], made[:, 3] = generator.integers(0, 3, rows), generator.uniform(-1, 1, rows)
        return made

    unit = person(draw(st.integers(1, most)))
    single = [person(1) for _ in range(draw(st.integers(0, 40)))]
    mixed = [person(int(rows)) for rows in generator.integers(1, most + 1, draw(st.integers(0, 40)))]
    crowd = [*single, *mixed]
    turned = [crowd[place] for place in generator.permutation(len(crowd))]
    return [(unit, others, draw(st.integers(0, len(others)))) for others in (single, mixed, turned)]


def alone_and_together(sums: Callable[[list[np.ndarray], Any], list[np.ndarray]], cases: list[Any]) -> None:
    """`sums(people, script)` gives every exact sum of a run that hears `script`; None: what it hears is the script."""
    script: list[Any] = []
    first, nobody = sums([cases[0][0]], script), sums([], script)
    for unit, others, place in cases:
        with_it = sums([*others[:place], unit, *others[place:]], script)
        without = sums(others, script)
        assert len(with_it) == len(without) == len(first)
        for own, whole, rest, none in zip(first, with_it, without, nobody, strict=True):
            assert np.array_equal(own - none, whole - rest)


def rows_of(people: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(people) if people else np.zeros((0, WIDTH))


def heard(fit: Callable[[Any], Any], script: list[Any]) -> list[np.ndarray]:
    """The sums of a fit, in Python's whole numbers. The first run of all writes the script."""
    recorder = Recorder(3, script or None)
    fit(recorder)
    if not script:
        script += recorder.answers
    return [each.astype(object) for each in recorder.sums]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "options"), ESTIMATORS, ids=[f"{n}-{'-'.join(map(str, o.values()))}" for n, o in ESTIMATORS]
)
@examples(4)
@given(cases=companies())
def test_a_row_adds_the_same_to_every_sum_of_an_estimator(name: str, options: dict[str, Any], cases: list[Any]) -> None:
    told: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "bounds": {"*": (0.0, 10.0), "y": (-1.0, 1.0)}, **options}
    if issubclass(getattr(learning, name), PrivateClassifier):
        told["classes"] = [0, 1, 2]

    def sums(people: list[np.ndarray], script: list[Any]) -> list[np.ndarray]:
        rows = rows_of([each[:1] for each in people])
        target = rows[:, 1].astype(int) if "classes" in told else rows[:, 3]
        made = getattr(learning, name)
        return heard(
            lambda r: made(adjacency="add-remove-one", random_state=r, **told).fit(rows[:, [0, 2]], target), script
        )

    alone_and_together(sums, cases)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [False, True])
@examples(4)
@given(cases=companies())
def test_a_unit_adds_the_same_to_every_sum_of_a_network(classes: bool, cases: list[Any]) -> None:
    pytest.importorskip("torch")
    # So large that one of the two accountants, the slow one, is not asked.
    sampling = Sampling.of(20.0, 1e-5, steps=2, rate=1.0)

    def sums(people: list[np.ndarray], script: list[Any]) -> list[np.ndarray]:
        numbers = np.concatenate([np.full(len(each), place) for place, each in enumerate(people)] or [np.zeros(0)])
        rows = rows_of(people)
        target = (rows[:, 3] > 0).astype(float) if classes else rows[:, 3]
        batch = rows[:, :3], target, numbers.astype(np.int64)
        found = heard(
            lambda r: network.fitted(
                FEATURES,
                [batch],
                ends=None if classes else (0.0, 1.0),
                layers=(5, 3),
                sampling=sampling,
                clip=0.3,
                count=50.0,
                change=Change(Adjacency.ADD_REMOVE_ONE),
                randomness=r,
            ),
            script,
        )
        if len(people) == 1:  # what is priced: the length `VectorSum` says, in its 2^20 steps
            assert all(int((each * each).sum()) <= 2**40 for each in found)
        return found

    alone_and_together(sums, cases)


@examples(4)
@given(cases=companies(), cut=st.integers(1, 90))
def test_a_row_adds_the_same_to_every_sum_of_moments_and_of_odds(cases: list[Any], cut: int) -> None:
    def pieces(rows: np.ndarray) -> list[np.ndarray]:
        return [rows[start : start + cut] for start in range(0, len(rows), cut)]

    def by_moments(recorder: Any, rows: np.ndarray) -> None:
        budget = FitBudget(epsilon=2.0, delta=1e-5, adjacency="add-remove-one", randomness=recorder)
        moments.fitted(
            FEATURES,
            (0.0, 1.0),
            lambda: ((FEATURES.of(part[:, :3]), part[:, 3]) for part in pieces(rows)),
            count=50.0,
            budget=budget,
        )

    def by_odds(recorder: Any, rows: np.ndarray) -> None:
        budget = FitBudget(epsilon=2.0, delta=1e-5, adjacency="add-remove-one", randomness=recorder)
        batches = [(part[:, :3], (part[:, 3] > 0).astype(float)) for part in pieces(rows)]
        odds.fitted(FEATURES, batches, count=50.0, budget=budget, steps=3)

    for fit in (by_moments, by_odds):
        alone_and_together(
            lambda people, script, fit=fit: heard(lambda r: fit(r, rows_of([each[:1] for each in people])), script),
            cases,
        )


TRAINED: list[dict[str, Any]] = [
    {"model": "LinearRegression", "output": "dose"},
    {"model": "LinearRegression", "output": "dose", "reduce": "sum", "loss_share": 0.1},
    {"model": "LogisticRegression", "loss_share": 0.1},
    {"model": "LogisticRegression", "update": "newton", "learning_rate": 0.5, "ridge": 0.1, "reduce": "sum"},
    {"model": "LogisticRegression", "output": "sex", "inputs": ["age", "height"]},
    {"model": "network"},
]


def _document(more: dict[str, Any]) -> dict[str, Any]:
    if more["model"] != "network":
        return {**DOCUMENT, **more}
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    torch.manual_seed(3)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    model, loss = encode(layers, torch.nn.CrossEntropyLoss())
    return {**DOCUMENT, "model": model, "loss": loss, "loss_share": 0.1}


@pytest.mark.few(2)
@pytest.mark.parametrize("more", TRAINED, ids=[" ".join(map(str, one.values())) for one in TRAINED])
@examples(4)
@given(cases=companies(), seed=st.integers(0, 2**20))
def test_a_person_adds_the_same_to_every_total_of_a_site(more: dict[str, Any], cases: list[Any], seed: int) -> None:
    document: Any = registry.check(_document(more))
    descent = document.descent
    plan = TrainingPlan(descent, schema_of(SCHEMA))
    draw = np.random.default_rng(seed)
    weights = plan.start + draw.normal(0, 1, plan.weights)
    slopes = _slopes(plan)

    def sums(people: list[np.ndarray], script: list[Any]) -> list[np.ndarray]:
        found = local.totals(plan, held(plan, people), slopes, weights, None, Silent())
        return [each.astype(object) for each in (found.sums, found.curvature, np.array([found.loss, found.people]))]

    alone_and_together(sums, cases)


def held(plan: TrainingPlan, people: list[np.ndarray]) -> list[local.PeopleRows]:
    """These people as a site reads them."""
    rows = rows_of(people)
    raw = np.column_stack([10 * rows[:, 0], 100 + 12 * rows[:, 2], rows[:, 1] % 2])[:, : len(plan.descent.inputs)]
    said = (rows[:, 3] > 0) * 1.0 if plan.encoding.classes is not None else 10 * np.abs(rows[:, 3])
    starts = np.cumsum([0, *(len(each) for each in people)])[:-1].astype(np.int64)
    return [local.PeopleRows(plan.encoding.design(raw), plan.encoding.target(said), starts)] if people else []


@pytest.mark.few(1)
@pytest.mark.parametrize("more", TRAINED, ids=[" ".join(map(str, one.values())) for one in TRAINED])
@examples(4)
@given(cases=companies(), seed=st.integers(0, 2**20))
def test_a_person_adds_the_same_to_the_test_of_a_model(more: dict[str, Any], cases: list[Any], seed: int) -> None:
    document: Any = registry.check({**_document(more), "quality": True, "noise": "coordinator"})
    plan = TrainingPlan(document.descent, schema_of(SCHEMA))
    weights = plan.start + np.random.default_rng(seed).normal(0, 1, plan.weights)

    def sums(people: list[np.ndarray], script: list[Any]) -> list[np.ndarray]:
        with Nursery(trusted=True, warm_seconds=1).outputs(plan) as said:
            found = trial.contributed(plan, held(plan, people), lambda rows: said(weights, rows), Silent())
            exact = [said(weights, part.inputs[:1]) for part in held(plan, people)]
            together = [said(weights, part.inputs)[:1] for part in held(plan, people)]
        assert np.array_equal(exact, together)
        return [found["table"][0].astype(object)]

    alone_and_together(sums, cases)


def _slopes(plan: TrainingPlan) -> Any:
    descent, encoding = plan.descent, plan.encoding
    if descent.family == "LinearRegression":
        return LinearSlopes(encoding.width)
    if descent.family == "LogisticRegression":
        return LogisticSlopes(encoding.width, len(encoding.classes or ()))
    from thebes.learning.graph.sandbox import GradientWorker

    class Apart:
        """As the site's half has it, in this process."""

        count = plan.weights

        def of(self, weights: Any, inputs: Any, targets: Any) -> Any:
            with GradientWorker(str(descent.model), str(descent.loss), trusted=True) as worker:
                found = worker.apart(weights.astype(np.float32), inputs, targets[:, None])
            assert found is not None
            return found[:, :-1].astype(np.float64), found[:, -1].astype(np.float64)

    return Apart()


PRICES = schema_of(
    {
        "unit": "event",
        "columns": {
            "size": {"type": "float", "low": 0, "high": 10},
            "kind": {"type": "integer", "values": [0, 1, 2]},
            "age": {"type": "float", "low": 0, "high": 10},
            "price": {"type": "float", "low": -1, "high": 1},
        },
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "network"])
@examples(4)
@given(cases=companies(), seed=st.integers(0, 2**20))
def test_a_row_adds_the_same_to_every_direction(kind: str, cases: list[Any], seed: int) -> None:
    if kind == "network":
        pytest.importorskip("torch")
    slopes: Any = (
        LinearSlopes(FEATURES.width) if kind == "linear" else NetworkSlopes(FEATURES.width, (4,), classes=False)
    )
    layers = () if kind == "linear" else slopes.layers
    taught = Taught(PRICES, FEATURES, "price", slopes, layers, clip=0.5)
    weights = np.random.default_rng(seed).normal(0, 1, slopes.count)

    def sums(people: list[np.ndarray], script: list[Any]) -> list[np.ndarray]:
        rows = rows_of([each[:1] for each in people])
        frame = pd.DataFrame(rows, columns=["size", "kind", "age", "price"]).astype({"kind": "int64"})
        return [Taken(taught, frame_table(PRICES, frame))(weights).astype(object)]

    alone_and_together(sums, cases)


@examples(12)
@given(
    count=st.integers(2, 130),
    width=st.sampled_from([1, 2, 7, 8, 9, 100, 387, 9000]),
    norm=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**20),
    order=st.sampled_from(["C", "F"]),
)
def test_a_clipped_row_is_the_same_whole_numbers_in_any_company(
    count: int, width: int, norm: int, seed: int, order: Any
) -> None:
    rows = np.random.default_rng(seed).normal(0, 1, (count, width)).astype(order=order, dtype=float)
    bounded, one = VectorSum(1.0, norm, width), int(seed % count)
    whole, clipped = bounded.integers(rows), clip_rows(rows, 1.0)
    for some in (rows[one : one + 1], np.ascontiguousarray(rows[one : one + 1]), rows[max(0, one - 1) : one + 2]):
        at = 0 if len(some) == 1 else min(one, 1)
        assert np.array_equal(bounded.integers(some)[at], whole[one])
        assert np.array_equal(clip_rows(some, 1.0)[at], clipped[one])
