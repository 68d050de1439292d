"""Pipelines that come to a stream and wait for data and budget, hour by hour: nothing is learned, only counted.

Who gets what is decided by the code that people run: even shares, DPF and DPack of `ledger.schedulers`, and what an
attempt asks for by `curator.pipelines.adaptive`. A block holds an hour of data and epsilon 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal

import numpy as np

from thebes.curator.pipelines.adaptation import Next, PastAttempt, RunLimits, Strategy, next_attempt
from thebes.ledger.schedulers import BlockAmounts, EvenSplit, Waiting, dpack, dpf, unlocked_by_arrivals

STEP = 10**12
#: rows a model needs at epsilon e are its need at 1 times (CHANCE + NOISE / e): within a seventh what our validator
#: takes to accept a loss of .0026 at a target of .0035, for epsilon from 1 to 1/64
CHANCE, NOISE = 0.91, 0.09
START = Decimal("0.0078125")  #: epsilon of a conserving pipeline's first attempt
FAIR = 20  #: claims that a block shall serve fairly, with DPF
SHAPE = 2.0  #: of the Gamma distribution between two pipelines
DAY = 24


@dataclass(slots=True)
class Model:
    """A pipeline that waits: how many rows it needs at epsilon 1, and what became of it."""

    number: int
    came: int
    needs: float
    past: list[PastAttempt] = field(default_factory=list)
    collected: float = 0.0
    released: int | None = None

    def enough(self, rows: float, epsilon: float, *, noises: float = 1.0) -> bool:
        """Return whether a model of so many rows reaches its target; `noises` counts the blocks noised apart."""
        return rows >= self.needs * (CHANCE + NOISE * math.sqrt(noises) / epsilon)


@dataclass(frozen=True, slots=True)
class Load:
    """Data and pipelines: `rate` of them come in an hour, and need rows by a power law between `least` and `most`."""

    rows: float
    rate: float
    least: float
    most: float
    hours: int = 24 * 14

    def models(self, seed: int) -> list[Model]:
        draw = np.random.default_rng(seed)  # a workload, not noise
        made: list[Model] = []
        at = 0.0
        while True:
            at += float(draw.gamma(SHAPE, 1 / (SHAPE * self.rate)))
            if at >= self.hours:
                return made
            # P(needs > x) falls like 1 / x
            share = float(draw.random())
            needs = self.least / (1 - share * (1 - self.least / self.most))
            made.append(Model(len(made), math.ceil(at), needs))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a workload: mean hours until a model that came in the middle of it was out (of those that were not,
    what they had waited when it ended), how many of all were out, and the most that any block paid."""

    hours: float
    released: int
    models: int
    most_paid: float


class _Hours:
    """The blocks so far, what each paid, and who waits."""

    def __init__(self, load: Load) -> None:
        self.load, self.now = load, 0
        self.paid = np.zeros(load.hours + 1)
        self.waiting: list[Model] = []

    @property
    def blocks(self) -> int:
        return self.now

    def attempt(self, model: Model, found: Next) -> bool:
        """Spend it; whether the model is out."""
        blocks = np.array([int(name) for name in found.blocks])
        self.paid[blocks] += float(found.epsilon)
        model.past.append(PastAttempt(found.epsilon, found.blocks))
        return model.enough(len(blocks) * self.load.rows, float(found.epsilon))


#: one hour of a strategy: the models that are out after it
Turn = Callable[[_Hours], list[Model]]


def run(load: Load, strategy: str, seed: int) -> Result:
    """One workload, hour by hour."""
    hours, turn, coming = _Hours(load), STRATEGIES[strategy](), load.models(seed)
    models = list(coming)
    for hour in range(1, load.hours + 1):
        hours.now = hour
        while coming and coming[0].came <= hour:
            hours.waiting.append(coming.pop(0))
        for model in turn(hours):
            model.released = hour
            hours.waiting.remove(model)
    steady = [model for model in models if load.hours / 4 <= model.came <= load.hours * 3 / 4]
    waited = [(model.released or load.hours) - model.came + 1 for model in steady]
    out = sum(model.released is not None for model in models)
    return Result(float(np.mean(waited)) if waited else 0.0, out, len(models), float(hours.paid.max()))


def _limits(strategy: Strategy) -> RunLimits:
    return RunLimits(Decimal(1), Decimal(0), START, strategy=strategy)


class _Even:
    """Even shares of every new block, used as `adaptive` says."""

    def __init__(self, strategy: Strategy) -> None:
        self._limits, self._shares = _limits(strategy), EvenSplit(1)

    def __call__(self, hours: _Hours) -> list[Model]:
        for model in hours.waiting:
            self._shares.arrive(model.number)
        self._shares.add([[STEP]])
        released = []
        for model in list(hours.waiting):
            if self._released(hours, model):
                released.append(model)
                self._shares.leave(model.number)
        return released

    def _released(self, hours: _Hours, model: Model) -> bool:
        def offered(epsilon: Decimal) -> Sequence[str]:
            return [str(number) for number in self._shares.offered(model.number, [_steps(epsilon)]).tolist()]

        while (found := next_attempt(self._limits, model.past, offered)) is not None:
            blocks = [int(name) for name in found.blocks]
            if not self._shares.spend(model.number, blocks, [_steps(found.epsilon)]):
                return False
            if hours.attempt(model, found):
                return True
        return False


class _Scheduled:
    """Attempts wait for each other: those that a scheduler grants are made, until it grants no more."""

    def __init__(self, packed: bool) -> None:
        self._limits, self._packed = _limits(Strategy.DOUBLE), packed
        self._held: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.zeros((0, 1), dtype=np.int64)
        self._arrived: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.zeros(0, dtype=np.int64)
        self._asked: dict[int, Next] = {}

    def __call__(self, hours: _Hours) -> list[Model]:
        self._held = np.concatenate([self._held, np.zeros((1, 1), dtype=np.int64)])
        self._arrived = np.append(self._arrived, 0)
        released: list[Model] = []
        while True:
            still = (model for model in hours.waiting if model not in released)
            asked = [(model, found) for model in still if (found := self._next(model)) is not None]
            granted = self._granted(asked)
            if not granted:
                return released
            for number in granted:
                model, found = asked[number]
                self._held[[int(name) for name in found.blocks]] += _steps(found.epsilon)
                if hours.attempt(model, found):
                    released.append(model)

    def _next(self, model: Model) -> Next | None:
        def offered(epsilon: Decimal) -> Sequence[str]:
            return [str(number) for number in np.flatnonzero(self._held[:, 0] + _steps(epsilon) <= STEP).tolist()]

        found = next_attempt(self._limits, model.past, offered)
        if found is not None and self._asked.get(model.number) != found:
            self._asked[model.number] = found
            self._arrived[[int(name) for name in found.blocks]] += 1
        return found

    def _granted(self, asked: Sequence[tuple[Model, Next]]) -> list[int]:
        if not asked:
            return []
        capacity = np.full((len(self._held), 1), STEP, dtype=np.int64)
        claims = Waiting(
            [np.array([int(name) for name in found.blocks], dtype=np.int64) for _, found in asked],
            np.array([[_steps(found.epsilon)] for _, found in asked], dtype=np.int64),
        )
        if self._packed:
            return dpack(BlockAmounts(capacity, self._held), claims)
        unlocked = unlocked_by_arrivals(capacity, self._arrived, FAIR)
        return dpf(BlockAmounts(capacity, self._held, unlocked=unlocked), claims)


class _Queries:
    """Every block is asked by itself, with its own noise, and the answers are put together: as many noises as blocks,
    which grow like the root of their number (the least that can be said against it). Budgets are even shares."""

    def __init__(self) -> None:
        self._shares: dict[int, dict[int, float]] = {}

    def __call__(self, hours: _Hours) -> list[Model]:
        newest, waiting = hours.now - 1, hours.waiting
        for model in waiting:
            self._shares.setdefault(model.number, {})[newest] = 1 / len(waiting)
        released = []
        for model in waiting:
            mine = self._shares[model.number]
            count, least = len(mine), min(mine.values())
            if model.enough(count * hours.load.rows, least, noises=count):
                released.append(model)
                for block, epsilon in mine.items():
                    hours.paid[block] += epsilon
        return released


class _Streaming:
    """Every row is given to one of those who wait, who have all its budget; nobody uses it again."""

    def __call__(self, hours: _Hours) -> list[Model]:
        if hours.waiting:
            hours.paid[hours.now - 1] = 1.0
        for model in hours.waiting:
            model.collected += hours.load.rows / len(hours.waiting)
        return [model for model in hours.waiting if model.enough(model.collected, 1.0)]


STRATEGIES: dict[str, Callable[[], Turn]] = {
    "query composition": _Queries,
    "streaming composition": _Streaming,
    "block, aggressive": lambda: _Even(Strategy.AGGRESSIVE),
    "block, conserve": lambda: _Even(Strategy.DOUBLE),
    "conserve, DPF": lambda: _Scheduled(packed=False),
    "conserve, DPack": lambda: _Scheduled(packed=True),
}


def _steps(epsilon: Decimal) -> int:
    return int((epsilon * STEP).to_integral_value(ROUND_FLOOR))
