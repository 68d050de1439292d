"""The pipeline that a developer writes: how data are prepared, a model trained, and what it has to reach.

A developer with rights on a stream is trusted with its rows, and that every step spends no more than it was allowed is
their promise. What their models then tell the world is what the blocks paid for.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any, ClassVar

import numpy as np

from thebes.curator.pipelines.adaptation import RunLimits, Strategy
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.bundles import checked
from thebes.curator.pipelines.data import Data, Floats
from thebes.curator.pipelines.validators import METRICS, Best, Validation, validate
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake

PREVIOUS = "previous"
_LEAST_EPSILON = Decimal("1e-6")  #: of an attempt: noise for less is wider than 64 bits hold
_STEPS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Trial(Allowance):
    """The allowance of a validation, and what it has to show: every one of `targets`. A wrong verdict may have
    probability `eta`: tests that only ever ACCEPT have it whole, those that may REJECT share it. Instead of epsilon it
    may spend `rho` on Gaussian noise, 0 where its blocks have no price for that; a share of one for a share of the
    other, and one kind of noise for all. `doubted` are the metrics by which the attempt before was measured to miss its
    target."""

    def __init__(
        self,
        epsilon: exact.Number,
        delta: exact.Number,
        targets: Mapping[str, float],
        eta: float,
        rho: Decimal = Decimal(0),
        doubted: Collection[str] = (),
    ) -> None:
        super().__init__(epsilon, delta)
        self.rho, self.doubted = rho, frozenset(doubted)
        self.targets, self.eta = dict(targets), eta


@dataclass(frozen=True, slots=True)
class AttemptShares:
    """The shares of an attempt's epsilon and delta: preparing adds to what training costs; validating costs nothing
    more, because no row is both trained and validated on."""

    preprocess: float
    train: float


class Pipeline(ABC):
    """One model that is trained again and again from a stream, each time until it is good enough.

    The most that one run costs any block is (`epsilon`, `delta`), over all its attempts. `targets` are what a model has
    to reach with `confidence`: a number, or "previous" for what the version before was shown to reach (`first` says
    what the first has to).
    """

    name: ClassVar[str]
    stream: ClassVar[str]
    window: str | None = None  #: "30d": only blocks of that time; None: all that are offered
    context: str | None = None  #: whose rows, of a stream that keeps them apart; None: of all that its rule gives
    epsilon: exact.Number
    delta: exact.Number = 0
    start_epsilon: exact.Number | None = None  #: of the first attempt; None: an eighth of epsilon
    least_blocks: int = 1  #: of the first attempt
    targets: Mapping[str, float | str]
    first: Mapping[str, float] = {}
    confidence: float = 0.95
    largest: Mapping[str, float] = {}  #: the largest loss that one row counts for, by metric
    strategy: str = "conserve"
    timeout: str = "7d"  #: after its start a run makes no further attempt
    train_share: float = 0.9  #: of the rows; the others are tested on
    preprocess_share: float = 0.0  #: of an attempt's epsilon and delta, which `preprocess` may spend
    inputs: tuple[str, ...] = ()  #: the columns a model predicts from
    output: str = ""  #: the column it predicts

    # --- what a developer writes ----------------------------------------------------------------------

    def preprocess(self, data: Data, budget: Allowance) -> Data:
        """The rows as the model needs them. It sees those to train and those to test on, so what it spends is paid
        beside them."""
        return data

    @abstractmethod
    def train(self, data: Data, budget: Allowance) -> Any:
        """A model with `as_json()`, made of what JSON has, and `predict(rows)` for an array with a column for each of
        `inputs`."""

    def validate(self, model: Any, data: Data, budget: Trial) -> Validation | list[Validation]:
        """Test whether the model meets every target: by default with the validators of their metrics, on the rows that
        nothing was trained on."""
        found = []
        rho = (budget.rho / len(budget.targets)).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
        for metric, target in budget.targets.items():
            best = self.best(metric, data) if metric in budget.doubted and data.schema.change.rows == 1 else None
            found.append(
                validate(
                    metric,
                    target,
                    self.values(metric, model, data),
                    epsilon=budget.take(1 / len(budget.targets)).spend().epsilon,
                    rho=rho,
                    # whole for each: a model that misses a target is accepted only if its test errs; REJECT shares it
                    eta=budget.eta if best is None else budget.eta / len(budget.targets),
                    best=best,
                    change=data.schema.change,
                    largest=self._most(metric, data.schema),
                    randomness=data.randomness,
                )
            )
        return found

    def best(self, metric: str, data: Data) -> Best | None:
        """Return the least that any model of this pipeline's kind loses on these rows, so that its test may REJECT;
        None where that is not known, whatever the rows are. Asked for where the attempt before measured worse than the
        target, as the test for it costs half of what there is."""
        return None

    def values(self, metric: str, model: Any, data: Data) -> Iterator[Floats]:
        """Return what each row's prediction is worth by a metric, some rows at a time."""
        self._measurable(metric)
        for rows in data.arrays((*self.inputs, self.output)):
            predicted = np.asarray(model.predict(rows[:, :-1]), dtype=np.float64).reshape(-1)
            if len(predicted) != len(rows):
                raise Mistake("model", "must predict one number for each row")
            yield METRICS[metric].losses(rows[:, -1], predicted)

    def event(self, epsilon: exact.Number, delta: exact.Number) -> Event | None:
        """Return what training with this budget releases, as an event. Streams with a filter that charges events
        charge it; None: these cannot be trained on."""
        return None

    # --- what it says ---------------------------------------------------------------------------------

    @property
    def limits(self) -> RunLimits:
        """The limits of what one run may take."""
        epsilon = exact.epsilon(self.epsilon)
        start = epsilon / 8 if self.start_epsilon is None else exact.epsilon(self.start_epsilon, "start_epsilon")
        least = min(_LEAST_EPSILON, epsilon)
        if self.start_epsilon is not None and start < least:
            raise Mistake("start_epsilon", f"must be at least {least:f}: below, every answer is noise alone")
        start = max(least, start.quantize(exact.EPSILON_STEP)).normalize()
        return RunLimits(epsilon, exact.delta(self.delta), start, self.least_blocks, _strategy(self.strategy))

    @property
    def shares(self) -> AttemptShares:
        share = self.preprocess_share
        if not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise Mistake("preprocess_share", "must be at least 0 and below 1")
        return AttemptShares(float(share), 1 - float(share))

    @property
    def eta(self) -> float:
        """The odds of a wrong verdict over all attempts of a run."""
        return 1 - self.confidence

    def check(self) -> None:
        """Refuse what cannot work, naming it, before anything is paid for."""
        for field in ("name", "stream", "epsilon", "targets"):
            if not hasattr(self, field):
                raise Mistake(field, f"is missing in {type(self).__name__}")
        checked(self.name)
        if not isinstance(self.stream, str) or not self.stream:
            raise Mistake("stream", "must be the name of a growing data set")
        self.limits  # noqa: B018  it checks itself
        self.shares  # noqa: B018
        seconds(self.timeout, "timeout")
        if self.window is not None:
            seconds(self.window, "window")
        if not isinstance(self.confidence, float) or not 0.5 <= self.confidence < 1:
            raise Mistake("confidence", "must be at least 0.5 and below 1")
        if not isinstance(self.train_share, float) or not 0 < self.train_share < 1:
            raise Mistake("train_share", "must be greater than 0 and below 1")
        if not isinstance(self.targets, Mapping) or not self.targets:
            raise Mistake("targets", "must name at least one metric and what it has to reach")
        for field, targets in (("targets", self.targets), ("first", self.first)):
            for metric, target in targets.items():
                if target == PREVIOUS and field == "targets":
                    continue
                if isinstance(target, bool) or not isinstance(target, (int, float)) or not math.isfinite(target):
                    raise Mistake(field, f'must say a number for {str(metric)[:40]!r}, or "{PREVIOUS}" in targets')

    def fits(self, schema: Schema) -> None:
        """Refuse, before anything is paid for, a stream on which it cannot run, naming the field and the column. What a
        developer writes anew is theirs to refuse here."""
        own = type(self)
        if own.validate is not Pipeline.validate:
            return
        for metric in self.targets:
            if own.values is Pipeline.values:
                self._measurable(metric)
            self._most(metric, schema)

    def aims(self, before: Mapping[str, Any] | None) -> dict[str, float]:
        """The targets as numbers: `before` is what the newest version was shown to reach, by metric."""
        found = {}
        for metric, target in self.targets.items():
            reached = (before or {}).get(metric)
            if target != PREVIOUS:
                found[metric] = float(target)
            elif reached is not None:
                found[metric] = float(reached)
            elif metric in self.first:
                found[metric] = float(self.first[metric])
            else:
                raise Mistake("first", f"must say what the first model's {metric!r} has to reach; there is none before")
        return found

    def terms(self, aims: Mapping[str, float]) -> dict[str, Any]:
        """All that decides how a run goes, as JSON."""
        limits = self.limits
        return {
            "stream": self.stream,
            "window": self.window,
            "context": self.context,
            "epsilon": str(limits.epsilon),
            "delta": str(limits.delta),
            "start_epsilon": str(limits.start),
            "least_blocks": limits.least,
            "targets": dict(aims),
            "confidence": self.confidence,
            "strategy": str(limits.strategy),
            "timeout": self.timeout,
            "train_share": self.train_share,
            "preprocess_share": self.preprocess_share,
        }

    def _measurable(self, metric: str) -> None:
        if metric not in METRICS:
            raise Mistake("targets", f"names {metric[:40]!r}; known are {', '.join(METRICS)}, or write `values` for it")
        if not self.inputs or not self.output:
            raise Mistake("inputs", "and output must name columns, or `validate` must be written")

    def _most(self, metric: str, schema: Schema) -> float:
        """The largest value of a row by a metric: as declared, as the metric has it, or as the output's range has it.
        A metric that is not known here is a loss of the developer's own."""
        if metric in METRICS and METRICS[metric].higher:
            return 1.0
        if metric in self.largest:
            return float(self.largest[metric])
        known = METRICS[metric].largest if metric in METRICS else None
        if known is not None:
            return known
        column = schema.columns.get(self.output)
        if column is None or column.low is None or column.high is None:
            raise Mistake("largest", f"must say the largest {metric} that one row counts for")
        width = column.high - column.low
        return width**2 if metric == "mse" else width


def seconds(text: str, field: str) -> float:
    """A time as people write it: 90s, 30m, 6h, 30d, 4w."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhdw])", text) if isinstance(text, str) else None
    if found is None:
        raise Mistake(field, "must be a number and s, m, h, d or w: 30m, 6h, 30d")
    return float(timedelta(seconds=int(found[1]) * _STEPS[found[2]]).total_seconds())


def _strategy(value: str) -> Strategy:
    try:
        return Strategy(value)
    except ValueError:
        raise Mistake("strategy", f"must be {', '.join(Strategy)}") from None
