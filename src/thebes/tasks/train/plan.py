"""The plan that follows from a train document and a data set's schema, the same for every site and for the coordinator.

The budget is shared out in rho (what a Gaussian release of a ratio costs is 1 / (2 ratio^2) of it): equally over all
steps of all rounds, and in each step over what is told there: the gradients' sum, the loss where it was bought, and, in
the round in which a site first takes part, how many people it has. All of these are one vector with one ratio, so every
round costs the same. With a `batch` the vector is a sample's, and its ratio that of noise on samples.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from thebes.data.filter import RowFilter, read_filter
from thebes.data.schema import Schema
from thebes.learning.graph import GraphLoss, Model, read_loss, read_model
from thebes.learning.graph.document import SITE
from thebes.learning.slopes import LinearSlopes, LogisticSlopes, steepest, triangle
from thebes.privacy import exact
from thebes.privacy.accounting.calibration import rho_for, sampled_ratio
from thebes.privacy.events import ConcentratedEvent, Event, PoissonGaussianEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import FINEST, concentrated_to_approximate, renyi_to_approximate, repeat
from thebes.privacy.losses import Concentrated as Rho
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.concentrated import ConcentratedNoise
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Coin
from thebes.privacy.samplers import LARGEST_SCALE
from thebes.privacy.stability import Change, Transformation
from thebes.privacy.transformations.counts import Count
from thebes.privacy.transformations.sums import BoundedSum, VectorSum
from thebes.tasks.aggregation import site_shares
from thebes.tasks.contributions import Layout, Slot
from thebes.tasks.train.descent import CommonDescent
from thebes.tasks.train.encoder import Encoding

UPDATE, SUM, SIZE, LOSS, CURVATURE = "update", "sum", "size", "loss", "curvature"
WEIGHTS = "weights"  #: of the ask, beside SIZE
MOST_SHARED = 2**19  #: numbers of a round that go in shares
FARTHEST = 3e38  #: no weight lies further from 0: what float32 holds

_MOST_WEIGHTS = 5_000_000
_FINEST_BITS = 24
_LOSS_BITS = 20
_MOST_PEOPLE = 2**28
_KEPT = 32  #: plans
_SURE = 40.0  #: standard deviations of Gaussian noise that no honest site ever sees
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepShares:
    """The shares of one step's budget; together 1."""

    sums: Decimal
    size: Decimal
    loss: Decimal
    curvature: Decimal


@dataclass(frozen=True, slots=True)
class StepBudget:
    """The budget that every step may spend. `rho` is 1 / (2 ratio^2) of its one noised vector."""

    descent: CommonDescent
    rho: Decimal
    coin: Coin | None

    @property
    def ratio(self) -> float:
        """The ratio of the noise of one step, rounded up."""
        return ConcentratedNoise(self.rho).ratio

    @property
    def rate(self) -> float:
        """The chance with which a person takes part in a step."""
        return 1.0 if self.coin is None else float(self.coin.probability)

    @property
    def event(self) -> Event:
        """The event that one round is to one person."""
        if self.coin is None:
            return Repeated(ConcentratedEvent(self.rho), self.descent.local_steps)
        # A ratio that is a hair too small costs more, never less.
        return Repeated(PoissonGaussianEvent(_above(self.coin), self.ratio * (1 - 1e-12)), self.descent.local_steps)

    @property
    def epsilon(self) -> Decimal:
        """One round's part of the document's epsilon, as a claim counts it; a ledger prices `event`."""
        return _DOWN.divide(exact.epsilon(self.descent.epsilon), self.descent.phases).quantize(
            exact.EPSILON_STEP, ROUND_FLOOR, _DOWN
        )

    @property
    def delta(self) -> Decimal:
        return _DOWN.divide(exact.delta(self.descent.delta), self.descent.phases).quantize(
            exact.DELTA_STEP, ROUND_FLOOR, _DOWN
        )

    def shares(self, *, buying: bool) -> StepShares:
        """Of a step in which the number of people is bought too, or is not."""
        loss = Decimal(str(self.descent.loss_share or 0))
        size = Decimal(0)
        if buying:
            size = min(Decimal("0.5"), Decimal(str(self.descent.size_share)) * self.descent.rounds)
        left = 1 - loss - size
        curvature = left / 2 if self.descent.curved else Decimal(0)
        return StepShares(left - curvature, size, loss, curvature)

    def noise(self, of: Transformation, share: Decimal) -> Additive:
        """Noise for this share of a step's budget on a sum to which each person adds at most once."""
        rho = _DOWN.multiply(self.rho, share)
        return ConcentratedNoise(rho).noise(of.sensitivity(_ONE_PERSON))

    def spent(self, rounds: int) -> float:
        """The epsilon, at the document's delta, of so many rounds: what a ledger was charged for them, not a promise of
        its own."""
        if not rounds:
            return 0.0
        delta = exact.delta(self.descent.delta)
        times = rounds * self.descent.local_steps
        if self.coin is None:
            return float(concentrated_to_approximate(Rho(self.rho) * times, delta).epsilon)
        from thebes.privacy.accounting import renyi
        from thebes.privacy.accounting.calibration import at_whole_orders

        once = PoissonGaussianEvent(_above(self.coin), self.ratio * (1 - 1e-12))
        curve = repeat(renyi.price(once, adjacency=Adjacency.ADD_REMOVE_ONE), times)
        return float(renyi_to_approximate(at_whole_orders(curve), delta).epsilon)


#: A person's rows were brought together before anything is summed, so a person is one row of every sum here.
_ONE_PERSON = Change(Adjacency.ADD_REMOVE_ONE)


@lru_cache(maxsize=16)
def budget(descent: CommonDescent) -> StepBudget:
    """Share the document's (epsilon, delta) out; a `Mistake` where it is too small for that."""
    epsilon, delta = exact.epsilon(descent.epsilon), exact.delta(descent.delta)
    if descent.batch is None or descent.batch == 1:
        whole = rho_for(epsilon, delta)
        counted = whole.quantize(exact.EPSILON_STEP, ROUND_FLOOR, _DOWN)  # what a ledger's block of this size holds
        rho = _DOWN.divide(counted if counted > 0 else whole, descent.steps).quantize(FINEST, ROUND_FLOOR, _DOWN)
        if rho <= 0:
            raise Mistake("epsilon", "is too small for so many steps")
        return StepBudget(descent, rho, None)
    coin = Coin.nearest(descent.batch)
    if not coin.heads:
        raise Mistake("batch", "is too small for any coin")
    ratio = sampled_ratio(rate=_above(coin), rounds=descent.steps, epsilon=epsilon, delta=delta)
    return StepBudget(descent, _DOWN.divide(Decimal("0.5"), Decimal(ratio) * Decimal(ratio)), coin)


def _above(coin: Coin) -> float:
    return min(1.0, math.nextafter(float(coin.probability), 2.0))


@lru_cache(maxsize=16)
def network(model: str, loss: str) -> tuple[Model, GraphLoss]:
    """A document's network, read and checked."""
    read = read_model(model, limits=SITE)
    if read.graph.parameter_count < 1:
        raise Mistake("model", "has no weights to train")
    return read, read_loss(loss, read)


def check(descent: CommonDescent) -> None:
    """Refuse, naming the field, what cannot work whatever the sites' schemas are."""
    if descent.family is None:
        _, loss = network(descent.model, str(descent.loss))
        if loss.targets.columns != 1:
            raise Mistake("loss", "must compare what the model says with one output")
    _bits(budget(descent))


def _bits(made: StepBudget) -> int:
    """The finest grid on which a gradient's noise can be drawn."""
    shares = made.shares(buying=True)
    least = min(share for share in (shares.sums, shares.size, shares.loss, shares.curvature) if share)
    bits = min(
        _FINEST_BITS,
        math.floor(math.log2(LARGEST_SCALE / ConcentratedNoise(_DOWN.multiply(made.rho, least)).ratio)) - 1,
    )
    if bits < _LOSS_BITS:
        raise Mistake("epsilon", "is too small for so many steps")
    return bits


class TrainingPlan:
    """A document at sites of one schema (of the columns that it reads). `Mistake`s name field and column."""

    def __init__(self, descent: CommonDescent, schema: Schema) -> None:
        self.descent, self.budget = descent, budget(descent)
        self.where: RowFilter | None = None if descent.where is None else read_filter(descent.where, schema)
        schema = descent.made.schema(schema)
        # Pictures and arrays are for networks; whatever else is made from them is refused by its name.
        offered = schema.column if descent.family is not None else schema.offered
        inputs = {name: offered(name, "inputs") for name in descent.inputs}
        output = schema.column(descent.output, "output")
        self.encoding = Encoding(inputs, descent.output, output)
        self.weights = self._fitted()
        if descent.noise == "split" and self.numbers > MOST_SHARED:
            raise Mistake("model", f'tells more than {MOST_SHARED:,} numbers a round, the most with "noise": "split"')

    def _fitted(self) -> int:
        descent, encoding = self.descent, self.encoding
        if descent.curved and (descent.family is None or triangle(encoding.width) > _MOST_WEIGHTS):
            raise Mistake("update", "by newton is for linear and logistic models, of some thousand inputs at most")
        if descent.family == "LinearRegression":
            if encoding.classes is not None:
                raise Mistake("output", f"names {descent.output!r}, which needs a declared low and high")
            return LinearSlopes(encoding.width).count
        if descent.family == "LogisticRegression":
            if encoding.classes is None:
                raise Mistake("output", f"names {descent.output!r}, which has no declared values to tell apart")
            if descent.curved and len(encoding.classes) > 2:
                raise Mistake("update", f"by newton tells two values apart; {descent.output!r} has more")
            count = LogisticSlopes(encoding.width, len(encoding.classes)).count
            if count > _MOST_WEIGHTS:
                raise Mistake("inputs", f"make a model of more than {_MOST_WEIGHTS:,} weights")
            return count
        model, loss = network(descent.model, str(descent.loss))
        encoding.check_fed(model.input.shape[1:])
        if loss.targets.kind == "number" and encoding.classes is not None:
            raise Mistake("output", f"names {descent.output!r}, which needs a declared low and high")
        if loss.targets.kind == "class":
            wanted = loss.targets.shape[1]
            if encoding.classes is None or len(encoding.classes) != wanted:
                raise Mistake("output", f"names {descent.output!r}, of which the loss wants {wanted} declared values")
        return model.graph.parameter_count

    @property
    def start(self) -> Floats:
        """The weights before the first round."""
        if self.descent.family is not None:
            return np.zeros(self.weights)
        return network(self.descent.model, str(self.descent.loss))[0].initial.astype(np.float64)

    # --- what is told, and the noise on it ------------------------------------------------------------------

    @cached_property
    def sums(self) -> VectorSum:
        """Everybody's clipped gradient."""
        return VectorSum(self.descent.clip, 2, self.weights, _bits(self.budget))

    @cached_property
    def losses(self) -> BoundedSum:
        return BoundedSum(0.0, self.descent.loss_bound, _LOSS_BITS)

    @cached_property
    def curvature(self) -> VectorSum:
        """Everybody's second derivatives, which are never longer than this."""
        width = self.encoding.width
        longest = steepest(width, logistic=self.descent.family == "LogisticRegression")
        return VectorSum(longest, 2, triangle(width), _bits(self.budget))

    @property
    def numbers(self) -> int:
        """The numbers that a site tells of a round beside how many people it has."""
        curved, lossy = self.descent.curved, self.descent.loss_share is not None
        return self.weights + (self.curvature.coordinates if curved else 0) + (1 if lossy else 0)

    @property
    def people(self) -> Count:
        return Count()

    def noises(self, *, buying: bool) -> Noises:
        """The noise of one step on each of what it tells."""
        return self._first if buying else self._later

    @cached_property
    def _first(self) -> Noises:
        return self._noises(buying=True)

    @cached_property
    def _later(self) -> Noises:
        return self._noises(buying=False)

    def _noises(self, *, buying: bool) -> Noises:
        shares, made = self.budget.shares(buying=buying), self.budget
        return Noises(
            made.noise(self.sums, shares.sums),
            made.noise(self.people, shares.size) if buying else None,
            made.noise(self.losses, shares.loss) if shares.loss else None,
            made.noise(self.curvature, shares.curvature) if shares.curvature else None,
        )

    @cached_property
    def doubt(self) -> float:
        """The standard deviation of the number of people that one site tells, as far as noise goes."""
        noise = self.noises(buying=True).size
        assert noise is not None  # noqa: S101
        return noise.deviation / self.budget.rate / math.sqrt(self.descent.local_steps)

    def believed(self, size: float) -> float:
        """The number of people to divide by: as it was told, but never so small that it is mostly noise."""
        return max(1.0, self.doubt, size)

    def layout(self, *, buying: bool) -> Layout:
        """Return the layout of what a site sends."""
        descent = self.descent
        told_size = Slot("number", -_SURE * self.doubt, 2.0 * _MOST_PEOPLE + _SURE * self.doubt)
        if descent.noise == "split":
            shared = dict(site_shares.layout_of(self.numbers))
            return {**shared, SIZE: told_size} if buying else shared
        if descent.noise == "coordinator":
            most = _MOST_PEOPLE << self.sums.bits
            slots = {SUM: Slot("integer", -most, most, length=self.weights)}
            if descent.curved:
                slots[CURVATURE] = Slot("integer", -most, most, length=self.curvature.coordinates)
            if descent.loss_share is not None:
                slots[LOSS] = Slot("integer", 0, _MOST_PEOPLE << _LOSS_BITS + 1)
            if buying:
                slots[SIZE] = Slot("integer", 0, _MOST_PEOPLE)
            return slots
        slots = {UPDATE: Slot("number", -self.farthest, self.farthest, length=self.weights, packed=True)}
        bend = self.noises(buying=True).curvature
        if bend is not None:
            most_bent = self._mean_at_most(self.curvature.bound, bend.deviation * self.curvature.step)
            slots[CURVATURE] = Slot("number", -most_bent, most_bent, length=self.curvature.coordinates, packed=True)
        if descent.loss_share is not None:
            noise = self.noises(buying=True).loss
            assert noise is not None  # noqa: S101
            most_loss = self._mean_at_most(descent.loss_bound, noise.deviation * self.losses.step)
            slots[LOSS] = Slot("number", -most_loss, most_loss)
        if buying:
            slots[SIZE] = told_size
        return slots

    @cached_property
    def farthest(self) -> float:
        """No honest site moves a weight further in one round."""
        descent = self.descent
        step = self._mean_at_most(descent.clip, self.noises(buying=True).sums.deviation * self.sums.step)
        return min(FARTHEST, descent.rule.learning_rate * descent.local_steps * step * (1 + 1e-6))

    def _mean_at_most(self, each: float, deviation: float) -> float:
        """No coordinate of a mean that a site tells is larger, where one person adds at most `each` to it: the people
        are at most 1 + _SURE times those believed in, and every person's coin may have come up."""
        return (each * (1 + _SURE) + _SURE * deviation / self.believed(0.0)) / self.budget.rate


_plans: OrderedDict[tuple[str, int], tuple[Schema, TrainingPlan]] = OrderedDict()
_turn = threading.Lock()


def plan_of(descent: CommonDescent, schema: Schema) -> TrainingPlan:
    """The plan of a document at this very schema; that of the last few is kept, as every round asks for it."""
    key = (descent.digest, id(schema))
    with _turn:
        kept = _plans.get(key)
        if kept is not None and kept[0] is schema:
            _plans.move_to_end(key)
            return kept[1]
    made = TrainingPlan(descent, schema)
    with _turn:
        _plans[key] = schema, made
        while len(_plans) > _KEPT:
            _plans.popitem(last=False)
    return made


@dataclass(frozen=True, slots=True)
class Noises:
    """In steps of the grids of what they hide; None for what is not told."""

    sums: Additive
    size: Additive | None
    loss: Additive | None
    curvature: Additive | None
