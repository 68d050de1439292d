"""The choice of features that are asked about together, and how far what is heard about them is believed."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.choose import choose_categorical
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.ensemble import odds, plan
from thebes.tasks.ensemble.cells import cells_of, given
from thebes.tasks.ensemble.feature_pairs import joints
from thebes.tasks.ensemble.histogram import SupportHistogram
from thebes.tasks.protocols import Ask

SIZES = {"a": 2, "b": 2, "c": 3, "d": 3, "e": 6}
BOUNDS: dict[str, dict[str, Any]] = {
    name: {"type": "set", "values": list(range(size)), "default": 0} for name, size in {**SIZES, "y": 2}.items()
}
DOCUMENT = {
    "type": "ensemble",
    "epsilon": 8.0,
    "min_count": 100,
    "featurizer": "SELECT a, b, c, d, e, y FROM p.t",
    "label": "y",
    "bounds": BOUNDS,
    "method": "odds",
}


def checked(**more: Any) -> Any:
    return registry.check({**DOCUMENT, **more})


def noise_at(epsilon: float) -> Any:
    return lambda cells: choose_categorical(cells, epsilon, 1).variance(1, 0.0)


# --- together -----------------------------------------------------------------------------------------------------


def every_way(places: list[int]) -> Any:
    """All partitions of a few places."""
    if not places:
        yield []
        return
    first, rest = places[0], places[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            for more in every_way([p for p in rest if p not in others]):
                yield [(first, *others), *more]


def error(made: Any, sizes: list[int], noise: Any) -> float:
    """Return what the docstring says, without n: the squared error of every feature's own table."""
    each = 0.0
    for joint in made:
        cells = 2 * int(np.prod([sizes[place] for place in joint]))
        each += sum(cells * noise(cells) + 1 - 1 / (2 * sizes[place]) for place in joint)
    return each * len(made)


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 6.0, 9.0])
def test_no_other_joints_would_be_much_better(epsilon: float) -> None:
    sizes, noise = list(SIZES.values()), noise_at(epsilon)
    made = joints(sizes, 2, noise, most_cells=4096)
    assert sorted(place for joint in made for place in joint) == list(range(len(sizes)))
    least = min(error(other, sizes, noise) for other in every_way(list(range(len(sizes)))))
    assert error(made, sizes, noise) <= 1.15 * least


def test_the_error_by_which_joints_are_chosen_is_the_error_there_is() -> None:
    """Simulated: the squared distance of a feature's table, added up over the rest of its joint, from the truth."""
    epsilon, peers, repeats = 2.0, 2000, 300
    document = checked(epsilon=epsilon, feature_subsets=[["a", "c"]])
    cells = cells_of(document, [given(document, "a"), given(document, "c")])
    reporter: Any = plan.mechanism(document, cells.size, document.learning)
    draw, source = np.random.default_rng(0), randomness.seeded_for_simulation(3)
    off = []
    for _ in range(repeats):
        histogram = SupportHistogram.empty(cells, reporter)
        histogram.hear(reporter.perturb(draw.integers(0, cells.size, peers), source).astype(np.int64))
        off.append(((odds.of_feature(histogram, 1).shares - 1 / 6) ** 2).sum())
    assert np.mean(off) == pytest.approx(error([(1, 0)], [2, 3], noise_at(epsilon)) / 2 / peers, rel=0.2)


def test_a_small_epsilon_asks_about_features_one_by_one_and_a_large_one_about_several() -> None:
    assert plan.pool(checked(epsilon=0.5), 0) == tuple((name,) for name in SIZES)
    few = plan.pool(checked(epsilon=8.0), 0)
    assert few is not None
    assert len(few) < len(SIZES)
    assert sorted(name for joint in few for name in joint) == sorted(SIZES)
    assert checked(epsilon=8.0).phases == 1  # and nobody is asked which


def test_no_joint_is_larger_than_a_histogram_may_be() -> None:
    bounds = {**BOUNDS, **{name: {"type": "set", "values": list(range(60)), "default": 0} for name in SIZES}}
    document = checked(bounds=bounds, epsilon=12.0)
    fixed = plan.pool(document, 0)
    assert fixed is not None
    assert all(len(joint) == 1 for joint in fixed)  # 60 times 60 times 2 are too many
    bounds["a"]["values"] = list(range(3000))
    with pytest.raises(InvalidDocument, match="more than 4096 cells"):
        checked(bounds=bounds)


def test_a_machine_answers_about_no_other_features_together_than_the_rule_joins() -> None:
    document = checked(epsilon=5.0)
    fixed = plan.pool(document, 0)
    assert fixed is not None
    joint, other = max(fixed, key=len), min(fixed, key=len)
    assert len(joint) > 1
    assert joint != other
    rows = Rows.one_each({name: np.zeros(1, dtype=np.int64) for name in BOUNDS})
    owner = registry.owner(document)

    def answered(*columns: str) -> Any:
        features = [given(document, column).as_json() for column in columns]
        ask = Ask("a", "phase-0", 0, {"features": features})
        return owner.contribute(document, ask, rows, _Free(), randomness=randomness.system())

    assert answered(*joint).count == 1
    for columns in (joint[:1], (*joint, *other)):
        with pytest.raises(Mistake, match="together that were not agreed"):
            answered(*columns)


# --- how far it is believed ------------------------------------------------------------------------------------


def heard(features: list[str], table: dict[str, Any], epsilon: float, seed: int = 1) -> SupportHistogram:
    document = checked(epsilon=epsilon, feature_subsets=[features])
    cells = cells_of(document, [given(document, feature) for feature in features])
    reporter: Any = plan.mechanism(document, cells.size, document.learning)
    histogram = SupportHistogram.empty(cells, reporter)
    reports = reporter.perturb(cells.of(Rows.one_each(table)), randomness.seeded_for_simulation(seed))
    histogram.hear(np.asarray(reports).astype(np.int64))
    return histogram


def people(count: int, *, together: bool) -> dict[str, Any]:
    """Draw people of whom a and b tell about y together only (it is whether they differ), or each by itself."""
    draw = np.random.default_rng(5)
    table: dict[str, Any] = {name: draw.integers(0, size, count) for name, size in SIZES.items()}
    chance = 0.2 + 0.6 * (table["a"] != table["b"]) if together else 0.2 + 0.25 * table["a"] + 0.25 * table["b"]
    table["y"] = (draw.random(count) < chance).astype(np.int64)
    return table


def test_what_features_tell_only_together_is_found() -> None:
    found = odds.member(heard(["a", "b"], people(20_000, together=True), 6.0), (), np.array([0.5, 0.5])).table
    assert (found[[0, 3], 1] < -0.5).all()
    assert (found[[1, 2], 1] > 0.3).all()


def test_what_features_tell_one_by_one_adds_up() -> None:
    table = people(20_000, together=False)
    base = np.array([0.55, 0.45])
    joint = odds.member(heard(["a", "b"], table, 6.0), (), base).table
    singles = [odds.member(heard([name], table, 6.0), (), base).table for name in ("a", "b")]
    added = (singles[0][:, None] + singles[1][None]).reshape(4, 2)
    assert (joint[:, 1] - joint[:, 0]) == pytest.approx(added[:, 1] - added[:, 0], abs=0.25)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_feature_that_tells_nothing_hardly_speaks(epsilon: float) -> None:
    table = people(6000, together=False)
    base = np.array([0.55, 0.45])
    beliefs = []
    for seed in range(60):
        table["e"] = np.random.default_rng(seed).integers(0, 6, 6000)
        one = odds.of_feature(heard(["e"], table, epsilon, seed), 0)
        beliefs.append(one.belief(np.tile(base, (6, 1)), 5))
    assert np.mean(beliefs) < 0.35
    assert np.median(beliefs) < 0.2
    told = odds.of_feature(heard(["a"], table, 4.0), 0).belief(np.tile(base, (2, 1)), 1)
    assert told > 0.9


def test_several_labels_and_missing_ones_are_told_apart() -> None:
    draw = np.random.default_rng(2)
    table: dict[str, Any] = {"a": draw.integers(0, 2, 30_000).astype(float), "b": draw.integers(0, 2, 30_000)}
    table["y"] = np.where(draw.random(30_000) < 0.7, table["a"] + table["b"], draw.integers(0, 3, 30_000))
    table["a"][:500] = np.nan
    document = {
        **DOCUMENT,
        "featurizer": "SELECT a, b, y FROM p.t",
        "bounds": {
            "a": {"type": "set", "values": [0, 1]},
            "b": BOUNDS["b"],
            "y": {"type": "set", "values": [0, 1, 2]},
        },
    }
    release: Any = thebes.simulate(document, table, seed=1)
    assert len(release.value["members"]) == 1  # one joint of two features
    assert release.model.predict({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]}).tolist() == [0, 1, 1, 2]
    assert json.loads(json.dumps(release.as_json()))["value"]["members"][0]["features"]


class _Free:
    def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
        return None
