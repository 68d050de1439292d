"""Statistics as pipelines: run again as data grow, until every number is within the target of the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.blocks import BoughtStatistic, ask
from thebes.curator.pipelines.data import Data, Floats
from thebes.curator.pipelines.pipeline import Trial
from thebes.curator.pipelines.ready.pipeline import Ready
from thebes.curator.pipelines.validators import Validation, absolute
from thebes.curator.questions.noise import noise_for
from thebes.curator.questions.plans import MeanPlan
from thebes.curator.questions.question import Question
from thebes.data.schema import Schema
from thebes.learning.features import places_among, written_numbers
from thebes.learning.inputs import columns_of, is_named
from thebes.ledger.filters import charging_events
from thebes.privacy import exact
from thebes.privacy.events import Event, PureEvent
from thebes.privacy.faults import Fault, Mistake

ERROR = "absolute_error"
Widths = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StatisticsModel:
    """One number for each group, by name and in the order of the groups' places. What noise hid it stays here and is
    not published."""

    column: str
    numbers: dict[str, float]
    answer: BoughtStatistic | None = field(default=None, repr=False, compare=False)
    edges: tuple[float, ...] | None = None  #: of the groups, where they are bins of a range

    def predict(self, rows: Any) -> Floats:
        """The number of each row's group; NaN for a row of none. Of a table the column is found by its name."""
        if is_named(rows):
            rows = self.number(columns_of(rows, (self.column,))[self.column].astype(object))[:, None]
        numbers = np.array([*self.numbers.values(), math.nan])
        own = rows[:, 0]
        if self.edges is not None:
            own = np.where(np.isnan(own), np.nan, np.searchsorted(np.array(self.edges[1:-1]), own, side="right"))
        place = np.where(np.isnan(own), -1, own).astype(np.int64)
        return np.asarray(numbers[np.where((place >= 0) & (place < len(self.numbers)), place, len(self.numbers))])

    def as_json(self) -> dict[str, Any]:
        told = {"kind": "StatisticsModel", "column": self.column, "numbers": self.numbers}
        return told if self.edges is None else {**told, "edges": list(self.edges)}

    @classmethod
    def of_json(cls, told: Any) -> Self:
        """Read what `as_json` gave; a Mistake where it is something else."""
        try:
            numbers = {str(name): float(number) for name, number in told["numbers"].items()}
            edges = None if told.get("edges") is None else tuple(float(edge) for edge in told["edges"])
            made = cls(str(told["column"]), numbers, edges=edges)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Mistake("model", "is not as Thebes writes it") from None
        if not numbers or not all(math.isfinite(each) for each in (*numbers.values(), *(edges or ()))):
            raise Mistake("model", "must hold finite numbers")
        if edges is not None and (len(edges) != len(numbers) + 1 or any(a >= b for a, b in pairwise(edges))):
            raise Mistake("model", "has bins that do not fit its numbers")
        return made

    def number(self, values: NDArray[Any]) -> Floats:
        """The column as somebody writes it, as a batch would have it; NaN for a value that has no group."""
        if self.edges is not None:
            return written_numbers(self.column, values)
        return places_among(tuple(self.numbers), np.array([self._name(each) for each in values], dtype=object))

    def _name(self, value: Any) -> str | None:
        """Return the name of a value's group; 1 and 1.0 have the same."""
        said = [str(value)] if isinstance(value, str | bool | int | float) else []
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            said += [str(float(value)), *([str(int(value))] if value == int(value) else [])]
        return next((name for name in said if name in self.numbers), None)


class _Statistics(Ready):
    """One whose model is a statistic; all rows may serve it, and how far noise may have moved it is public."""

    def _aim(self, budget: Trial) -> float:
        if set(budget.targets) != {ERROR}:
            raise Mistake("target", f"of a statistic is one number called {ERROR!r}")
        return budget.targets[ERROR]

    def check(self) -> None:
        super().check()
        if set(self.targets) != {ERROR}:
            raise Mistake("target", f"of a statistic is one number called {ERROR!r}")

    def event(self, epsilon: exact.Number, delta: exact.Number) -> Event | None:
        """One pure release. With a delta its noise may be Gaussian, by what the schema says, which no event knows."""
        if exact.delta(delta):
            raise Mistake(
                "delta", f"must be left out where blocks count with the {' or '.join(charging_events())} filter"
            )
        return PureEvent(exact.epsilon(epsilon))

    def validate(self, model: Any, data: Data, budget: Trial) -> Validation | list[Validation]:
        """Read off the noise that training drew; the rows to test on are not needed."""
        if not isinstance(model, StatisticsModel) or model.answer is None:
            raise Fault("a statistic is validated in the process that drew its noise")
        return self._judged(model.answer, self._aim(budget), budget.eta, data.schema.change.rows)

    def fits(self, schema: Schema) -> None:
        """Also where no noise can be drawn that its first attempt, the quietest, could pay for."""
        problem = self._question.problem()
        if problem is not None:
            raise Mistake(*problem)
        limits = self.limits
        epsilon, delta = limits.start, limits.delta_for(limits.start)
        noise_for(self._question.plan(schema, epsilon=epsilon, delta=delta), schema, epsilon=epsilon, delta=delta)

    @property
    def _question(self) -> Question:
        """The question that is asked of the rows."""
        raise NotImplementedError

    def _judged(self, answer: BoughtStatistic, aim: float, eta: float, of_a_unit: int) -> Validation:
        """Rows of one unit may depend on each other: n of them, up to `of_a_unit` of each, are as good as n / of_a_unit
        that are drawn apart (Hoeffding's bound on the units' sums)."""
        raise NotImplementedError


class GroupMeans(_Statistics):
    """The mean of `output` for each declared value of the one input; `absolute_error` is in the output's own units.

    A group without rows has an error as large as its range, so a target is met once every group has enough.
    """

    def check(self) -> None:
        super().check()
        if len(self.inputs) != 1 or not self.output:
            raise Mistake("inputs", "must be the one column to group by, and output the column whose mean is asked for")

    def train(self, data: Data, budget: Allowance) -> StatisticsModel:
        answer = ask(data, budget, self._question)
        return StatisticsModel(self.inputs[0], answer.value, answer)

    @property
    def _question(self) -> Question:
        return Question("mean", (self.output,), by=self.inputs)

    def _judged(self, answer: BoughtStatistic, aim: float, eta: float, of_a_unit: int) -> Validation:
        plan = answer.plan
        if not isinstance(plan, MeanPlan):
            raise Fault("means have another plan")
        low, high = plan.grid.low, plan.grid.high
        cells = answer.totals.reshape(-1, 2)
        values = np.array([plan.value(own) for own in cells])

        def noise(failing: float) -> Widths:
            ends = np.array([plan.ends(own, answer.noise, 1 - failing) for own in cells])
            return np.asarray(np.maximum(ends[:, 1] - values, values - ends[:, 0]))

        def rows(failing: float) -> Widths:
            # Both cells' noises together; each lies within its width with half the odds of missing.
            width = 2 * answer.noise.width(1 - failing / 2)
            return np.asarray(np.maximum((cells.sum(axis=1) - width) / plan.grid.steps / of_a_unit, 0.0))

        return absolute(ERROR, aim, noise, eta=eta, rows=rows, reach=high - low)


class Histogram(_Statistics):
    """The share of rows with each declared value of the one input, or in each bin of its range; `absolute_error` is in
    shares of all rows."""

    def check(self) -> None:
        super().check()
        if len(self.inputs) != 1:
            raise Mistake("inputs", "must be the one column whose values are counted")

    def train(self, data: Data, budget: Allowance) -> StatisticsModel:
        (name,) = self.inputs
        answer = ask(data, budget, self._question)
        counts = np.maximum(answer.totals, 0.0)
        shares = counts / max(float(counts.sum()), 1.0)
        groups = answer.plan.groups
        numbers = dict(zip(groups.names, shares.tolist(), strict=True))
        return StatisticsModel(name, numbers, answer, groups.axes[0].edges)

    @property
    def _question(self) -> Question:
        (name,) = self.inputs
        cuts = self.bins.get(name)
        bins = cuts if cuts is None or isinstance(cuts, int) else tuple(float(cut) for cut in cuts)
        return Question("histogram", (name,), bins=bins)

    def _judged(self, answer: BoughtStatistic, aim: float, eta: float, of_a_unit: int) -> Validation:
        counts = np.maximum(answer.totals, 0.0)
        together = float(counts.sum())
        cells = len(counts)

        def least(failing: float) -> float:
            return max(0.0, together - _most(answer, cells, failing))

        def noise(failing: float) -> Widths:
            # |a/n - b/m| <= (|a - b| + |n - m| b/m) / n, with n the rows there are and b/m at most 1.
            width, all_of_them = answer.noise.width(1 - failing / 2), _most(answer, cells, failing / 2)
            rows = max(0.0, together - all_of_them)
            share = counts / max(together, 1.0)
            off = (width + all_of_them * share) / rows if rows > 0 else np.ones(cells)
            return np.asarray(np.minimum(off, 1.0))

        def rows(failing: float) -> Widths:
            return np.full(cells, least(failing) / of_a_unit)

        return absolute(ERROR, aim, noise, eta=eta, rows=rows, reach=1.0)


def _most(answer: BoughtStatistic, cells: int, failing: float) -> float:
    """Within what the sum of all cells, each at least 0, lies of the rows there are: every cell within its width."""
    return cells * answer.noise.width(1 - failing / cells)
