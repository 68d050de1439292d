"""Gradient questions: what is clipped, what a direction costs and promises, what moves made-up rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, norm

from papers.smartcache.directions import BITS, Direction, Noised, Taken, Taught
from papers.smartcache.downhill import downhill
from papers.smartcache.steering import Steered, Steering
from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.smart.check import SparseCheck
from thebes.curator.cache.smart.guesses import Smart
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.synopsis import View
from thebes.curator.questions.plans import Integers, QuestionPlan
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.data.table import Table
from thebes.learning.features import Categories, Features, Range
from thebes.learning.network import NetworkSlopes
from thebes.learning.slopes import LinearSlopes
from thebes.learning.updates import Sgd
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.randomness import Randomness, seeded_for_simulation
from thebes.testing.statistics import assert_scale

SCHEMA = schema_of(
    {
        "unit": "event",
        "columns": {
            "size": {"type": "float", "low": 0, "high": 10},
            "kind": {"type": "string", "values": ["a", "b", "c"]},
            "price": {"type": "float", "low": 0, "high": 10},
        },
    }
)
FEATURES = Features([Range("size", 0, 10), Categories("kind", ("a", "b", "c"))])
LINEAR = Taught(SCHEMA, FEATURES, "price", LinearSlopes(FEATURES.width))
EPSILON, DELTA = 0.1, 1e-6


def sales(rows: int = 12_000, *, seed: int = 1) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    size, kind = draw.uniform(0, 10, rows), draw.integers(3, size=rows)
    price = 0.6 * size + 1.5 * kind + draw.normal(0, 0.5, rows)
    return pd.DataFrame({"size": size, "kind": np.array(list("abc"))[kind], "price": price.clip(0, 10)})


@dataclass
class Held:
    frame: pd.DataFrame
    view: View = ()

    def table(self, blocks: View | None = None) -> Table:
        return frame_table(SCHEMA, self.frame)

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        return plan.totals(self.table())


@lru_cache(maxsize=2)
def taken(seed: int) -> Taken:
    return Taken(LINEAR, frame_table(SCHEMA, sales(seed=seed)))


def steered(taught: Taught = LINEAR, *, filter: str = "basic", **steering: float) -> Steered:
    smart = Smart(SCHEMA, SmartParameters(rows=256, parts=4, epsilon=2))
    smart.prepare(Held(sales()), lambda _: None, seeded_for_simulation(1))
    made = smart.made_up()
    assert made is not None
    told = {"rows": 256, **steering}
    return Steered(Noised(taught, EPSILON, DELTA, made.size), made, seed=5, filter=filter, steering=Steering(**told))


def test_gradients_are_clipped_layer_by_layer_and_counted_in_whole_steps():
    slopes = NetworkSlopes(FEATURES.width, (6,), classes=False)
    taught = Taught(SCHEMA, FEATURES, "price", slopes, layers=slopes.layers, clip=0.01)
    draw = np.random.default_rng(2)
    inputs, targets = draw.uniform(0, 1, (50, FEATURES.width)), draw.uniform(-1, 1, 50)
    whole = taught.whole(slopes.start, inputs, targets)
    lengths = [np.linalg.norm(layer.astype(float), axis=1) for layer in np.split(whole, taught.starts, axis=1)]
    assert max(length.max() for length in lengths) <= 2**BITS
    assert min(length.max() for length in lengths) > 0.99 * 2**BITS  # such a short clip is reached in every layer
    assert taught.step * 2**BITS * np.sqrt(2) == pytest.approx(0.01)
    assert taught.sensitivity(SCHEMA.change).l2_squared == 2 * 4**BITS
    told, _ = slopes.of(slopes.start, inputs, targets)
    loose = replace(taught, clip=1e3)
    assert np.allclose(loose.whole(slopes.start, inputs, targets) * loose.step, told, atol=3 * loose.step)


@pytest.mark.parametrize("layers", [(5,), (2, 3), (1, 1, 1, 1, 1)])
def test_one_unit_moves_an_agreement_by_no_more_than_its_reach(layers):
    found = steered(replace(LINEAR, layers=layers), alike=0.7)
    reach, draw, most = found.reach, np.random.default_rng(3), 0
    length = found.taught.sensitivity(SCHEMA.change).l2
    for trial in range(400):
        guess, total = draw.normal(size=5), draw.normal(size=5) * 10.0 ** draw.uniform(3, 10)
        away = draw.normal(size=5)
        if trial % 2:  # the worst: a sum against the guess, and a unit that has it turn, in each layer alike
            away = np.concatenate([u / np.linalg.norm(u) for u in np.split(guess, found.taught.starts)])
            total = -1e8 * away
        away *= length / np.linalg.norm(away)
        there = np.trunc(total)
        before, after = (found.agreement(guess, one.astype(np.int64)) for one in (there, there + np.trunc(away)))
        most = max(most, abs(after - before))
    assert most <= reach
    assert most > 0.99 * reach


def test_an_agreement_is_not_negative_where_the_cosine_is_as_promised():
    found = steered(alike=0.6)
    guess, aside = np.array([1.0, 0, 0, 0, 0]), np.array([0, 1.0, 0, 0, 0])
    for cosine, near in ((0.599, False), (0.601, True), (-1.0, False), (1.0, True)):
        total = 1e9 * (cosine * guess + np.sqrt(1 - cosine**2) * aside)
        assert (found.agreement(guess, total.astype(np.int64)) >= 0) is near


def test_what_is_not_alike_passes_no_more_often_than_beta():
    found, chance = steered(beta=0.2), seeded_for_simulation(4)
    passed = 0
    for _ in range(1500):
        found.check = SparseCheck()
        course = found._course(np.zeros(5))
        found.check.begin(found.opening.epsilon, chance)
        passed += found.check.passes(course.sought, 1, chance)  # an agreement of -1
    allowed = 0.2 / 5.6  # of the first opening
    assert binomtest(passed, 1500, allowed, "greater").pvalue > 1e-6
    assert passed > 0.6 * allowed * 1500  # and no more is paid than that needs


def test_directions_have_the_noise_of_their_budget():
    noised, chance = Noised(LINEAR, 0.5, 1e-6, 1000.0), seeded_for_simulation(5)
    drawn = [noised.drawn(np.zeros(5, dtype=np.int64), chance).mean * 1000 / LINEAR.step for _ in range(600)]
    from thebes.privacy.accounting.gaussian import ratio_for

    scale = ratio_for(0.5, 1e-6) * 2**BITS
    assert_scale(np.concatenate(drawn), lambda sigma: norm(scale=sigma).cdf, scale)


class _Same(Randomness):
    """Noise drawn once and added to whatever is there, so that both runs release the same."""

    simulated = True

    def __init__(self, answers: list[np.ndarray], *, again: bool) -> None:
        self.source, self.answers, self.again, self.place = seeded_for_simulation(6), answers, again, 0

    def _told(self, drawn: np.ndarray) -> np.ndarray:
        if not self.again:
            self.answers.append(drawn)
        self.place += 1
        return self.answers[self.place - 1]

    def words(self, count: int) -> np.ndarray:
        return self._told(self.source.words(count))

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return self._told(self.source.laplace(values, scale=scale))

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return self._told(self.source.gaussian(values, scale=scale))


def descent(found: Steered, sums: Taken, chance: Randomness, steps: int = 25) -> tuple[list[Purchase], list[Direction]]:
    paid: list[Purchase] = []
    way = downhill(
        found, sums, start=np.zeros(5), rule=Sgd(0.1), steps=steps, pay=paid.append, randomness=chance, penalty=1e-4
    )
    return paid, [step.direction for step in way]


def test_the_same_releases_from_other_rows_leave_the_same_rows_made_up():
    answers: list[np.ndarray] = []
    first, second = steered(), steered()
    told = descent(first, taken(1), _Same(answers, again=False))
    again = descent(second, Taken(LINEAR, frame_table(SCHEMA, sales(700, seed=3))), _Same(answers, again=True))
    assert told[0] == again[0]
    assert [one.source for one in told[1]] == [one.source for one in again[1]]
    assert {one.source for one in told[1]} == {AnswerSource.MECHANISM, AnswerSource.SYNOPSIS}
    one, other = first.kept(), second.kept()
    assert one.public == other.public
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


def test_a_descent_pays_openings_and_noised_answers_and_nothing_else():
    found = steered()
    paid, directions = descent(found, taken(1), seeded_for_simulation(7))
    noised = sum(one.source is AnswerSource.MECHANISM for one in directions)
    assert found.passed > found.failed
    assert paid.count(found.opening) == found.check.openings
    assert len(paid) == found.check.openings + noised
    assert float(found.opening.epsilon) == pytest.approx(4 * EPSILON)
    assert sum(one.cost[0] for one in directions) == sum(one.epsilon for one in paid)
    assert all(one.alike == (0.5, 0.01) for one in directions if one.source is AnswerSource.SYNOPSIS)


def test_an_opening_in_a_concentrated_filter_costs_as_much_as_so_many_answers():
    from thebes.privacy.accounting import concentrated

    found = steered(filter="zcdp")
    opening, answer = (
        float(concentrated.price(one.event, adjacency="add-remove-one").rho)
        for one in (found.opening, found.drawing.purchase)
    )
    assert opening == pytest.approx(4 * answer, rel=1e-3)


def test_the_same_loss_costs_less_out_of_made_up_rows():
    rows = taken(1)

    def loss(weights: np.ndarray) -> float:
        return float(LINEAR.slopes.of(weights, rows._inputs, rows._targets)[1].mean())

    found, costs = steered(), []
    assert loss(np.zeros(5)) > 0.09
    for directions in (found, found.drawing):
        paid: list[Purchase] = []
        way = downhill(
            directions, rows, start=np.zeros(5), rule=Sgd(0.3), steps=150, pay=paid.append,
            randomness=seeded_for_simulation(8), penalty=1e-4,
        )  # fmt: skip
        next(step for step in way if loss(step.weights) < 0.012)
        costs.append(float(sum(one.epsilon for one in paid)))
    assert costs[0] < 0.8 * costs[1]


@pytest.mark.slow
def test_a_network_goes_down_by_directions_too():
    slopes = NetworkSlopes(FEATURES.width, (8,), classes=False)
    taught = Taught(SCHEMA, FEATURES, "price", slopes, layers=slopes.layers)
    found = steered(taught, rows=64)
    rows = Taken(taught, frame_table(SCHEMA, sales(2000)))
    way = downhill(
        found, rows, start=slopes.start, rule=Sgd(0.3), steps=30, pay=lambda _: None,
        randomness=seeded_for_simulation(9),
    )  # fmt: skip
    steps = list(way)

    def loss(weights: np.ndarray) -> float:
        return float(slopes.of(weights, rows._inputs, rows._targets)[1].mean())

    assert loss(steps[-1].weights) < 0.8 * loss(slopes.start)


def test_a_restart_goes_on_and_a_lost_secret_closes():
    found, chance = steered(), seeded_for_simulation(10)
    weights = np.zeros(5)
    while not found.check.open:
        found.answer(weights, taken(1), lambda _: None, chance)
    kept = found.kept()
    assert kept.secret
    other = steered()
    other.restore(kept)
    assert other.most(weights) == found.most(weights)
    same = [one.answer(weights, taken(1), lambda _: None, seeded_for_simulation(11)) for one in (found, other)]
    assert np.array_equal(same[0].mean, same[1].mean)
    assert found.kept().public == other.kept().public
    lost = steered()
    lost.restore(replace(kept, secret={}))
    assert not lost.check.open


def test_nobody_pays_for_what_was_not_said():
    class Greedy:
        def most(self, weights: np.ndarray) -> list[Purchase]:
            return [Purchase.pure(1)]

        def answer(self, weights, sums, pay, randomness) -> Direction:
            pay(Purchase.pure(1))
            pay(Purchase.pure(1))
            raise AssertionError("it was paid")

    paid: list[Purchase] = []
    way = downhill(
        Greedy(), taken(1), start=np.zeros(5), rule=Sgd(1), steps=1, pay=paid.append,
        randomness=seeded_for_simulation(1),
    )  # fmt: skip
    with pytest.raises(Fault, match="did not say"):
        next(way)
    assert paid == [Purchase.pure(1)]


def test_a_model_over_columns_that_are_not_made_up_is_refused():
    smart = Smart(SCHEMA, SmartParameters(rows=64, parts=2, columns=("size", "price")))
    smart.prepare(Held(sales(200)), lambda _: None, seeded_for_simulation(1))
    made = smart.made_up()
    assert made is not None
    with pytest.raises(Mistake, match="'kind'"):
        Steered(Noised(LINEAR, EPSILON, DELTA, made.size), made, seed=1)
    with pytest.raises(Mistake, match="share out all weights"):
        replace(LINEAR, layers=(2, 2))
