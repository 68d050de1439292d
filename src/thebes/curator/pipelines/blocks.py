"""Private building blocks for a pipeline's steps: statistics, and features made of released numbers.

Each spends all that its allowance has left: hand it a part (`budget.take(0.2)`). Sensitivities follow from the
stream's schema, so whatever its unit is, one unit is what is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data, Floats
from thebes.curator.questions.groups import bins_of
from thebes.curator.questions.noise import noise_for
from thebes.curator.questions.plans import NoisyResult, Plan
from thebes.curator.questions.quantiles import QuantilePlan, levels_for
from thebes.curator.questions.question import Question
from thebes.learning.features import places_among, written_numbers
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.variance import VarianceMoments
from thebes.privacy.transformations.counts import LevelCounts

_BINS = 256  #: between which quantiles are looked for
_LEAST_SPREAD = 1e-3  #: of a column, as a share of its range


@dataclass(frozen=True)
class BoughtStatistic:
    """A statistic that was bought: its plan, the noisy totals, and the noise in them."""

    plan: Plan
    totals: Floats
    noise: Additive

    def found(self, level: float = 0.95) -> NoisyResult:
        """The value, or one for each group by name, with error bars."""
        return self.plan.finish(self.totals, self.noise, (level,))

    @property
    def value(self) -> Any:
        return self.plan.finish(self.totals, None, ()).value


def ask(data: Data, budget: Allowance, question: Question) -> BoughtStatistic:
    """Any question of a query, with noise: discrete Laplace, or Gaussian where delta makes that quieter."""
    problem = question.problem()
    if problem is not None:
        raise Mistake(*problem)
    paid = budget.spend()
    return _bought(data, question.plan(data.schema, epsilon=paid.epsilon, delta=paid.delta), paid.epsilon, paid.delta)


def dp_count(data: Data, budget: Allowance, *, where: str | None = None) -> float:
    """Count, with noise, the rows there are, or those that meet a condition."""
    return float(ask(data, budget, Question("count", where=where)).value)


def dp_mean(data: Data, column: str, budget: Allowance, *, where: str | None = None) -> float:
    """The mean of a column within its bounds."""
    return float(ask(data, budget, Question("mean", (column,), where=where)).value)


def dp_group_by_mean(data: Data, key: str, value: str, budget: Allowance) -> dict[str, float]:
    """The mean of `value` for each declared value of `key`. A row is in one group, so all groups share one noise."""
    means: dict[str, float] = ask(data, budget, Question("mean", (value,), by=(key,))).value
    return means


def dp_histogram(
    data: Data, column: str, budget: Allowance, *, bins: int | tuple[float, ...] | None = None
) -> dict[str, float]:
    """Count, with noise, the rows that have each declared value of a column, or fall into each bin of its range."""
    counts: dict[str, float] = ask(data, budget, Question("histogram", (column,), bins=bins)).value
    return counts


def dp_quantiles(data: Data, column: str, shares: Sequence[float], budget: Allowance) -> list[float]:
    """The values below which these shares of the rows lie, all read off the same noisy counts."""
    if not shares or not all(0 < share < 1 for share in shares):
        raise Mistake("shares", "must lie between 0 and 1")
    declared = data.schema.column(column)
    if not declared.ranged:
        raise Mistake("column", f"names {column[:63]!r}, which needs a declared low and high")
    paid = budget.spend()
    levels = levels_for(_BINS, 0.5, epsilon=paid.epsilon, delta=paid.delta)
    groups = Question("count").plan(data.schema).groups
    (axis,) = bins_of(column, declared, _BINS).axes
    plans = [QuantilePlan(groups, None, axis, float(share), LevelCounts(levels)) for share in shares]
    bought = _bought(data, plans[0], paid.epsilon, paid.delta)
    return [plan.value(bought.totals) for plan in plans]


# --- features: made of columns, for `data.with_features` ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Standardised:
    """A number less its (released) mean, over its spread, at most five spreads from 0."""

    column: str
    name: str
    centre: float
    spread: float
    kind: ClassVar[str] = "standardised"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def makes(self) -> tuple[str, ...]:
        return (self.name,)

    def of(self, numbers: Floats) -> Floats:
        return np.asarray(np.clip((numbers - self.centre) / self.spread, -5.0, 5.0))

    def number(self, values: NDArray[Any]) -> Floats:
        """Its column as somebody writes it, as a batch would have it; None is missing."""
        return written_numbers(self.column, values)

    def as_json(self) -> Mapping[str, Any]:
        return {
            "kind": self.kind,
            "needs": self.column,
            "makes": self.name,
            "centre": self.centre,
            "spread": self.spread,
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Self:
        made = cls(str(told["needs"]), str(told["makes"]), float(told["centre"]), float(told["spread"]))
        if not math.isfinite(made.centre) or not 0 < made.spread < math.inf:
            raise ValueError
        return made


@dataclass(frozen=True, slots=True)
class OneHot:
    """A column of 0 and 1 for each of the declared values; rows of no declared value have zeros."""

    column: str
    values: tuple[Any, ...]
    kind: ClassVar[str] = "one-hot"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def makes(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={value}" for value in self.values)

    def of(self, numbers: Floats) -> Floats:
        return np.asarray(numbers == np.arange(len(self.values)), dtype=np.float64)

    def number(self, values: NDArray[Any]) -> Floats:
        """Its column as somebody writes it, as a batch would have it; what is not declared is NaN."""
        return places_among(self.values, values)

    def as_json(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "needs": self.column, "makes": list(self.makes), "values": list(self.values)}

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Self:
        return cls(str(told["needs"]), tuple(told["values"]))


@dataclass(frozen=True, slots=True)
class Binned:
    """The bin between `cuts` into which a number falls: 0, 1, ..."""

    column: str
    name: str
    cuts: tuple[float, ...]
    kind: ClassVar[str] = "binned"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def makes(self) -> tuple[str, ...]:
        return (self.name,)

    def of(self, numbers: Floats) -> Floats:
        places = np.searchsorted(np.array(self.cuts), numbers, side="right").astype(np.float64)
        return np.where(np.isnan(numbers), np.nan, places)

    def number(self, values: NDArray[Any]) -> Floats:
        """Its column as somebody writes it, as a batch would have it; None is missing."""
        return written_numbers(self.column, values)

    def as_json(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "needs": self.column, "makes": self.name, "cuts": list(self.cuts)}

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Self:
        cuts = tuple(float(cut) for cut in told["cuts"])
        if any(not math.isfinite(cut) for cut in cuts) or any(a >= b for a, b in pairwise(cuts)):
            raise ValueError
        return cls(str(told["needs"]), str(told["makes"]), cuts)


Made = Standardised | OneHot | Binned
#: by the `kind` in a bundle
FEATURES: Mapping[str, type[Made]] = {made.kind: made for made in (Standardised, OneHot, Binned)}


def feature_of(told: Any) -> Made:
    """A feature from its document in a bundle; a Refusal for a kind that is not one of these."""
    kind = told.get("kind") if isinstance(told, Mapping) else None
    if not isinstance(kind, str) or kind not in FEATURES:
        raise Refusal(
            "a feature of its developer's own kind is not made here, because that would take their code: download the "
            "model and use it where the code is"
        )
    try:
        return FEATURES[kind].of_json(told)
    except (KeyError, TypeError, ValueError):
        raise Mistake("features", "are not as Thebes writes them") from None


def scaling(data: Data, columns: Sequence[str], budget: Allowance) -> tuple[Standardised, ...]:
    """Features `COLUMN_scaled` with mean about 0 and spread about 1, each column's from an equal part of the budget."""
    made = []
    for own, column in zip(_even(budget, columns), columns, strict=True):
        answer = ask(data, own, Question("variance", (column,)))
        declared = data.schema.column(column)
        low, high = declared.grid(1).low, declared.grid(1).high
        moments = VarianceMoments.of_cells(answer.totals)
        middle = min(max(moments.sum / max(moments.count, 1.0), 0.0), 1.0)
        spread = max(float(answer.value) ** 0.5, _LEAST_SPREAD * (high - low))
        made.append(Standardised(column, f"{column}_scaled", low + middle * (high - low), spread))
    return tuple(made)


def one_hot(data: Data, columns: Sequence[str]) -> tuple[OneHot, ...]:
    """Features `COLUMN=VALUE`; declared values are public, so they cost nothing."""
    made = []
    for name in columns:
        column = data.schema.column(name)
        values = column.values if column.values is not None else (False, True) if column.type == "boolean" else None
        if values is None:
            raise Mistake("columns", f"name {name[:63]!r}, which has no declared values")
        made.append(OneHot(name, tuple(values)))
    return tuple(made)


def quantile_bins(data: Data, columns: Sequence[str], budget: Allowance, *, bins: int = 8) -> tuple[Binned, ...]:
    """Features `COLUMN_bin`: about as many rows in each bin, each column's cuts from an equal part of the budget."""
    if isinstance(bins, bool) or not isinstance(bins, int) or not 2 <= bins <= 64:
        raise Mistake("bins", "must be from 2 to 64")
    shares = [place / bins for place in range(1, bins)]
    made = []
    for own, column in zip(_even(budget, columns), columns, strict=True):
        cuts = dp_quantiles(data, column, shares, own)
        made.append(Binned(column, f"{column}_bin", tuple(sorted(set(cuts)))))
    return tuple(made)


def _even(budget: Allowance, columns: Sequence[str]) -> list[Allowance]:
    """All that is left, in equal parts."""
    if not columns:
        raise Mistake("columns", "must name at least one")
    left = budget.spend()
    whole = Allowance(left.epsilon, left.delta)
    return [whole.take(1 / len(columns) if len(columns) > 1 else 1) for _ in columns]


def _bought(data: Data, plan: Plan, epsilon: Any, delta: Any) -> BoughtStatistic:
    noise = noise_for(plan, data.schema, epsilon=epsilon, delta=delta)
    return BoughtStatistic(plan, noise.add(plan.of_sums(data.sums(plan.sums)).reshape(-1), data.randomness), noise)
