"""Several statistics of the same rows under one noise: each total is measured once, whoever asks for it.

What must stay true: the totals of all parts are one vector, whose sensitivity is that of all of it (`Joint`); what each
statistic says is post-processing of its part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thebes.curator.questions.groups import Groups
from thebes.curator.questions.plans import (
    Ends,
    Integers,
    MeanPlan,
    NoisyResult,
    PeoplePlan,
    Plan,
    QuestionPlan,
    sure_levels,
)
from thebes.curator.questions.quantiles import QuantilePlan
from thebes.curator.questions.question import Question
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Floats, Interval
from thebes.privacy.mechanisms.additive import Hiding
from thebes.privacy.mechanisms.offset import Off
from thebes.privacy.mechanisms.summed_noise import apart, together, weighed_widths
from thebes.privacy.transformations.groups import Grouped
from thebes.privacy.transformations.joint import Joint

MOST_STATISTICS = 20
NOTHING_WISHED: Mapping[str, int] = {}
MOST_TOTALS = 100_000


@dataclass(frozen=True)
class Reading:
    """The part that one statistic is read off. `of` says what: "plan" (the part's own statistic), of the two cells of a
    mean "count" and "sum", of a quantile's counts the one of this `share`."""

    part: int
    of: str = "plan"
    share: float | None = None


@dataclass(frozen=True)
class JointPlan(QuestionPlan):
    """`parts` are measured, each times its weight, so that parts of unlike steps get noise alike; `readings` say of
    each statistic by its name which part gives it."""

    groups: Groups
    where: RowFilter | None
    parts: tuple[Plan, ...]
    weights: tuple[int, ...]
    readings: Mapping[str, Reading]

    @property
    def transformation(self) -> Grouped | Joint:
        one = Joint(tuple(part.row for part in self.parts), self.weights)
        return one if self.groups.count == 1 else Grouped(one, self.groups.count)

    @property
    def parameters(self) -> dict[str, Any]:
        own = {
            name: {**self.parts[one.part].parameters, "weight": self.weights[one.part]}
            for name, one in self.readings.items()
        }
        return {**super().parameters, "statistics": own}

    @property
    def notes(self) -> tuple[str, ...]:
        told = dict.fromkeys(note for part in self.parts for note in part.notes)
        if len(self.readings) < 2:
            return tuple(told)
        return ("All statistics were measured at once, with one noise that hides a person in all of them.", *told)

    @property
    def ends_of_totals(self) -> Ends:
        ends = [
            (weight * part.ends_of_totals[0], weight * part.ends_of_totals[1])
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @property
    def measured(self) -> tuple[tuple[Plan, int], ...]:
        return tuple(zip(self.parts, self.weights, strict=True))

    def totals(self, table: Table) -> Integers:
        """The exact totals, the table read once for each part: group after group, in each part after part."""
        each = [
            weight * part.totals(table).reshape(self.groups.count, -1)
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        return np.concatenate(each, axis=1).reshape(-1)

    def examine(self, totals: Integers) -> None:
        for own, part, weight in self._apart(totals):
            self._fair((own % weight == 0).all())
            part.examine((own // weight).reshape(-1))

    def finish(
        self, totals: Floats, hidden: Hiding | None, levels: tuple[float, ...], *, beta: float = 0.0
    ) -> NoisyResult:
        found = [own / weight for own, _, weight in self._apart(np.asarray(totals, dtype=np.float64))]
        keys = self.groups.names if self.groups.axes else [""]
        names = [f"{key}, {name}" if key else name for key in keys for name in self.readings]
        cells = [(group, one) for group in range(self.groups.count) for one in self.readings.values()]
        values = [self._value(one, found[one.part][group]) for group, one in cells]
        bars = {}
        if hidden is not None:
            each = [weighed(hidden, weight) for weight in self.weights]
            for level, sure in sure_levels(levels, hidden, beta):
                ends = [self._ends(one, found[one.part][group], each[one.part], sure) for group, one in cells]
                low, high = np.array(ends).T
                bars[level] = Interval(level, low, high)
        return NoisyResult(dict(zip(names, values, strict=True)), bars)

    def _apart(self, totals: Any) -> list[tuple[Any, Plan, int]]:
        """Each part's own totals, a line for each group."""
        sizes = [part.row.reach.coordinates for part in self.parts]
        each = np.split(totals.reshape(self.groups.count, -1), np.cumsum(sizes)[:-1], axis=1)
        return list(zip(each, self.parts, self.weights, strict=True))

    def _value(self, one: Reading, totals: Floats) -> float:
        if one.of == "plan":
            return self._plan(one).value(totals)
        return float(totals @ self._weights(one))

    def _ends(self, one: Reading, totals: Floats, hidden: Hiding, level: float) -> Ends:
        if one.of == "plan":
            return self._plan(one).ends(totals, hidden, level)
        weights, value = self._weights(one), self._value(one, totals)
        noises, off = apart(hidden)
        width = off * float(np.abs(weights).sum())
        if noises:
            width += float(weighed_widths(noises, weights, np.ones((1, weights.size), dtype=np.int64), level)[0])
        return value - width, value + width

    def _plan(self, one: Reading) -> Plan:
        """The plan that reads its own statistic off a part."""
        part = self.parts[one.part]
        return part if not isinstance(part, QuantilePlan) or one.share is None else replace(part, share=one.share)

    def _weights(self, one: Reading) -> Floats:
        """Weigh the two cells of a mean so that they add up to the number of its rows, or to their sum."""
        part = self.parts[one.part]
        assert isinstance(part, MeanPlan)  # noqa: S101
        ends = (1.0, 1.0) if one.of == "count" else (part.grid.low, part.grid.high)
        return np.array(ends) / part.grid.steps


def joint_plan(
    asked: Mapping[str, Question],
    schema: Schema,
    *,
    epsilon: exact.Number = 0,
    delta: exact.Number = 0,
    wished: Mapping[str, int] = NOTHING_WISHED,
) -> JointPlan:
    """Plan several statistics of the same rows and groups. Here a count may be of a column: of the rows that have a
    value in it. A column's mean, sum and count are read off one part, unless the sum alone is asked, and so are all its
    quantiles, off the counts that suit the first of them. `wished` says how many times the usual share of the price
    some of the statistics are worth, by their names; a part is worth what the dearest read off it is."""
    share = float(epsilon) / len(asked)  # what each gets about: so finely that noise for it fits its samplers
    means = {one.columns for one in asked.values() if one.statistic in ("mean", "count") and one.columns}
    parts: list[Plan] = []
    worth: list[int] = []
    readings: dict[str, Reading] = {}
    quantiles: dict[Any, Question] = {}
    for name, given in asked.items():
        alike = (given.statistic, given.columns, given.bins)
        one = quantiles.setdefault(alike, given) if given.statistic == "quantile" else given
        shared = one.statistic in ("mean", "sum", "count") and one.columns in means
        measured = (
            _people(one, schema)
            if one.statistic == "people"
            else (replace(one, statistic="mean") if shared else one).plan(schema, epsilon=share, delta=delta)
        )
        if measured not in parts:
            parts.append(measured)
            worth.append(1)
        place = parts.index(measured)
        worth[place] = max(worth[place], wished.get(name, 1))
        of = one.statistic if shared and one.statistic != "mean" else "plan"
        readings[name] = Reading(place, of, given.quantile)
    weights = _weights(parts, worth, smooth=bool(delta))
    made = JointPlan(parts[0].groups, parts[0].where, tuple(parts), weights, readings)
    if made.size > MOST_TOTALS:
        raise Mistake("statistics", f"need {made.size} totals over all groups; at most {MOST_TOTALS} can be measured")
    return made


def _people(asked: Question, schema: Schema) -> PeoplePlan:
    """Plan how many people there are."""
    if schema.unit != "person":
        raise Mistake("statistics", "counts people, and each row of this data set is a unit of its own: count the rows")
    plan = replace(asked, statistic="count").plan(schema)
    if plan.features:
        raise Mistake("by", "must be the data set's own columns where people are counted")
    return PeoplePlan(plan.groups, plan.where)


def _weights(parts: Sequence[Plan], worth: Sequence[int], *, smooth: bool) -> tuple[int, ...]:
    """Whole numbers that make all parts about as long as the longest one, for what each is worth: then each gets its
    share of the noise's price."""
    reach = [part.row.reach for part in parts]
    lengths = [math.sqrt(one.l2_squared) if smooth else float(one.l1) for one in reach]
    longest = max(length / own for length, own in zip(lengths, worth, strict=True))
    return tuple(max(1, round(longest * own / length)) for length, own in zip(lengths, worth, strict=True))


def weighed(hidden: Hiding, weight: int) -> Hiding:
    """Noise on totals that were taken `weight` times, as noise on the totals themselves."""
    noises, off = apart(hidden)
    finer = [replace(noise, finer=noise.finer * weight) for noise in noises]
    beside = together(finer) if finer else None
    if not off and beside is not None:
        return beside
    return Off(off / weight, beside)
