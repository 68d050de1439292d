"""Models that are trained by gradient questions: with noise each time, out of made-up rows alone, or steered by both.

The made-up rows and the check of a guess are `curator.cache.smart`, as data sets use them; descent, noise and steering
are `downhill`, `directions` and `steering` here, which no data set uses. What is paid is read in rho at a
delta of 1e-6, as a data set with such a budget counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from papers.smartcache.asking import Paid, Truth
from papers.smartcache.directions import Direction, Directions, Noised, Sums, Taken, Taught
from papers.smartcache.downhill import downhill
from papers.smartcache.steering import Steered, Steering
from papers.smartcache.tables import Asked, table
from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.smart.guesses import Smart
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.synopsis import Pay
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain
from thebes.curator.cache.synthesis.recipe import Independent
from thebes.data.engines.source import frame_table
from thebes.learning.features import Categories, Features, Range
from thebes.learning.network import NetworkSlopes
from thebes.learning.slopes import LinearSlopes
from thebes.learning.updates import Adam, Sgd, Update
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness, seeded_for_simulation

OUTPUTS = {"avocado": "price", "bank": "y"}
MODELS = ("ridge regression", "fully connected")
NOISED, MADE_UP, STEERED, PLAIN = "real rows with noise", "synthetic only", "smart", "real rows, not private"
HOW = (NOISED, MADE_UP, STEERED, PLAIN)
EPSILON, DELTA = "0.05", "1e-9"  #: of a direction with noise
_BOUGHT = "0.1"  #: epsilon of made-up rows, once
_HIDDEN, _RIDGE, _SHARE = 8, 1e-3, 0.8


@dataclass(frozen=True, slots=True)
class Descent:
    """After each step: what one row has paid, and the mean loss on rows that were held back."""

    paid: tuple[float, ...]
    losses: tuple[float, ...]
    sources: Counter[str]


@dataclass(frozen=True, eq=False)
class Lesson:
    """A model over one table: rows to learn from, and rows held back."""

    asked: Asked
    taught: Taught
    taken: Taken
    inputs: Floats
    targets: Floats
    start: Floats
    rule: Callable[[], Update]
    penalty: Floats | float

    def loss(self, weights: Floats) -> float:
        """Of rows that were held back."""
        _, losses = self.taught.slopes.of(weights, self.inputs, self.targets)
        return float(np.mean(losses))


@lru_cache(maxsize=4)
def lesson(name: str, model: str, rows: int = 0) -> Lesson:
    """`rows`: learn from no more than so many, which costs accuracy and saves time."""
    whole = table(name)
    order = np.random.default_rng(0).permutation(whole.rows)[: rows or None]  # a split, not noise
    cut = round(_SHARE * len(order))
    learn, test = (whole.frame.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    asked = replace(whole, frame=learn)
    output = OUTPUTS[name]
    features = Features([_piece(whole, column) for column in whole.schema.columns if column != output])
    if model == MODELS[0]:
        slopes: Any = LinearSlopes(features.width)
        rule: Callable[[], Update] = lambda: Sgd(0.5)  # noqa: E731
        start, penalty = np.zeros(slopes.count), np.full(slopes.count, _RIDGE)
        layers: tuple[int, ...] = ()
    else:
        slopes = NetworkSlopes(features.width, (_HIDDEN,), classes=False)
        rule = lambda: Adam(0.05)  # noqa: E731
        start, penalty, layers = slopes.start, np.zeros(1), slopes.layers
    taught = Taught(whole.schema, features, output, slopes, layers=layers, clip=1.0)
    inputs, targets = _all(taught, asked, test)
    return Lesson(asked, taught, Taken(taught, frame_table(asked.schema, learn)), inputs, targets, start, rule, penalty)


@lru_cache(maxsize=256)
def descend(name: str, model: str, how: str, steps: int, seed: int, rows: int = 0) -> Descent:
    """One descent."""
    told, randomness, paid = lesson(name, model, rows), seeded_for_simulation(seed), Paid("zcdp")

    def pay(purchase: Purchase) -> None:
        paid.pay(purchase, 0)

    directions = _directions(told, how, pay, randomness, seed)
    costs, losses, sources = [], [], Counter[str]()
    rule: Update = told.rule()
    for step in downhill(
        directions,
        told.taken,
        start=told.start,
        rule=rule,
        steps=steps,
        pay=pay,
        randomness=randomness,
        penalty=told.penalty,
    ):
        sources[step.direction.source] += 1
        costs.append(paid.epsilon)
        losses.append(told.loss(step.weights))
    return Descent(tuple(costs), tuple(losses), sources)


def _directions(told: Lesson, how: str, pay: Pay, randomness: Randomness, seed: int) -> Directions:
    asked = told.asked
    if how == PLAIN:
        return _Plain(told, told.taken, asked.rows)
    if how == MADE_UP:
        return _made_up(told, pay, randomness)
    noised = Noised(told.taught, EPSILON, DELTA, asked.rows)
    if how == NOISED:
        return noised
    smart = Smart(
        asked.schema, SmartParameters.of({"bins": asked.bins, "epsilon": _BOUGHT, "rows": 512}), filter="zcdp"
    )
    smart.prepare(Truth(asked), pay, randomness)
    made = smart.made_up()
    assert made is not None  # noqa: S101
    return Steered(replace(noised, size=made.size), made, seed=seed, steering=Steering(), filter="zcdp")


@dataclass(frozen=True)
class _Plain:
    """The gradient of some rows as it is: of those that are nobody's, or to show what there is to be reached."""

    told: Lesson
    taken: Taken
    count: int

    def most(self, weights: Floats) -> tuple[Purchase, ...]:
        return ()

    def answer(self, weights: Floats, sums: Sums, pay: Pay, randomness: Randomness) -> Direction:
        mean: Floats = self.taken(weights).astype(np.float64) * (self.told.taught.step / self.count)
        return Direction(mean, AnswerSource.SYNOPSIS)


def _made_up(told: Lesson, pay: Pay, randomness: Randomness) -> _Plain:
    """The gradient of rows that were bought once, every column by itself; nothing is looked at afterwards."""
    import pandas as pd

    asked = told.asked
    recipe = Independent(Domain.of(asked.schema, None, asked.bins, missing=False), SynthesisAllowance(_BOUGHT))
    rows = frame_table(asked.schema, asked.frame)
    learned = recipe.learned(rows, lambda: pay(Purchase.of_pure(recipe.event)), randomness)
    frame = pd.DataFrame(learned.drawn(asked.rows, randomness))
    return _Plain(told, Taken(told.taught, frame_table(asked.schema, frame)), asked.rows)


def _piece(asked: Asked, name: str) -> Any:
    column = asked.schema.columns[name]
    if column.values is not None:
        return Categories(name, column.values)
    return Range(name, column.low or 0.0, column.high or 0.0)


def _all(taught: Taught, asked: Asked, frame: Any) -> tuple[Floats, Floats]:
    """Rows as the model is fed them."""
    found: Iterator[Any] = frame_table(asked.schema, frame).batches(taught.columns)
    fed = [taught.inputs(np.asarray(batch.numbers)) for batch in found]
    return np.concatenate([inputs for inputs, _ in fed]), np.concatenate([targets for _, targets in fed])
