"""The release of a bounded task: the perturbed rows, and what is needed to use them well."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.privacy.mechanisms.local.shape import Estimate, about
from thebes.tasks.bounded import moment_fit
from thebes.tasks.bounded.checked_model import kind_of
from thebes.tasks.bounded.decoder import Arrays, decoded
from thebes.tasks.bounded.encoder import REPORT, EncodingPlan, categories, plan, simplex
from thebes.tasks.bounded.kind import PRESENT, BoundedDocument, BoundedKind
from thebes.tasks.bounded.moments import NoisyMoments, moments
from thebes.tasks.document import Values
from thebes.tasks.release import LEVEL, Release
from thebes.tasks.release_picture import Point


class RowsRelease(Release):
    """`rows` (also `value`) are the perturbed rows in the columns' own values; `fit` and `mean` take the noise out.

    They are made into a DataFrame when somebody asks: who makes or passes on the release needs no pandas.
    """

    form = "rows"
    no_interval = "No interval of the rows: none can be believed by itself. Means and shares of columns have their own."

    def __post_init__(self) -> None:
        self.__dict__.pop("value", None)  # read off what else it holds, when it is asked for

    def __getattr__(self, name: str) -> Any:
        if name == "value":
            return self.rows
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def answered(self) -> bool:
        """Return that there is an answer: rows, however few."""
        return True

    @cached_property
    def document(self) -> BoundedDocument:
        """The document these rows answer."""
        return BoundedKind().check(self.extra["document"])

    @property
    def _plan(self) -> EncodingPlan:
        return plan(self.document)

    @cached_property
    def _reports(self) -> Arrays:
        return {name: np.asarray(values) for name, values in self.extra["reports"].items()}

    @property
    def reports(self) -> NDArray[np.int64]:
        """The whole-row reports, one row for each contribution in order."""
        if REPORT not in self._reports:
            raise Mistake("mechanism", "there are no whole-row reports: this task perturbed each column by itself")
        return np.asarray(self._reports[REPORT], dtype=np.int64)

    @cached_property
    def rows(self) -> Any:
        """A DataFrame, one row for each contribution in order: sets as declared values, ranges as finite numbers
        that may lie outside the range. No single row can be believed."""
        import pandas as pd

        return pd.DataFrame(self._decoded)

    @cached_property
    def _decoded(self) -> dict[str, Any]:
        return decoded(self._plan, self._reports)

    @cached_property
    def moments(self) -> NoisyMoments:
        """Mean and second moment of the true rows as vectors (see `encoding`), unbiased unless rows were shortened."""
        return moments(self._plan, self._reports)

    @cached_property
    def frequencies(self) -> dict[str, dict[Any, float]]:
        """For every set (and presence bit) how frequent each value is among the contributors, freed of the noise.
        Unbiased, so it may lie outside [0, 1]."""
        found = {}
        for column in self.document.gives:
            bound = self.document.bounds[column]
            if isinstance(bound, Values):
                names, mechanism = categories(bound), self._plan.parts.get(column)
                if isinstance(mechanism, CategoryMechanism):
                    share = mechanism.estimate(self._reports[column]).value
                else:
                    size = len(names)
                    seen = self.moments.mean[self.moments.block(column)]
                    share = 1 / size + (size - 1) / size * simplex(size) @ seen
                found[column] = dict(zip(names, np.asarray(share).tolist(), strict=True))
        for name, mechanism in self._plan.parts.items():
            if name.endswith(PRESENT):
                there = np.asarray(mechanism.estimate(self._reports[name]).value)
                found[name] = {True: float(there[1]), False: float(there[0])}
        return found

    def interval(self, level: float = LEVEL) -> Interval:
        """Refuse: no single row can be believed, so that none has an error bar."""
        raise Mistake(
            "interval",
            'is of no single row; use mean("COLUMN")[1] of a range, or frequency_interval("COLUMN") of a set',
        )

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the perturbed rows by column."""
        return {str(name): np.asarray(values).tolist() for name, values in self._decoded.items()}

    def points(self) -> list[Point]:
        """Return the shares of declared values with their error bars; of a task without any the means of its ranges."""
        found = [
            Point(f"{column}: {one['value']}", one["share"], one.get("low"), one.get("high"))
            for column in self.frequencies
            for one in self._told(column)["shares"]
        ]
        return found or [self._mean_point(column) for column in self.document.gives]

    def _mean_point(self, column: str) -> Point:
        value, bar = self.mean(column)
        return Point(column, value) if bar is None else Point(column, value, float(bar.low), float(bar.high))

    def frequency_interval(self, column: str, level: float = LEVEL) -> Interval | None:
        """The ends of `frequencies[column]`, value by value in their order, each alone as often right as `level` says;
        None where no error bar is known (a range, shortened rows, or a single row that was perturbed as a whole)."""
        if column not in self.frequencies:
            return None
        mechanism = self._plan.parts.get(column)
        estimate = self._share(column) if mechanism is None else mechanism.estimate(self._reports[column])
        bar = None if estimate is None else estimate.interval(level)
        if bar is None:
            return None
        low, high = np.asarray(bar.low), np.asarray(bar.high)
        # `frequencies` says there before not there
        return Interval(level, low[::-1], high[::-1]) if column.endswith(PRESENT) else Interval(level, low, high)

    def _share(self, column: str) -> Estimate | None:
        """The shares of a set in rows that were perturbed as a whole, with their standard errors.

        Each decoded row is an unbiased figure of its person's row, and a share is linear in it, so the scatter of that
        figure over the rows is the scatter of the noise and of the people: it does not understate the noise.
        """
        if self._plan.whole is None or self._plan.shortens or len(self.reports) < 2:
            return None
        points = simplex(len(self.frequencies[column]))
        rows = self._plan.whole.decode(self.reports)[:, self.moments.block(column)]
        each = (1 + (len(points) - 1) * rows @ points.T) / len(points)
        share, error = each.mean(axis=0), each.std(axis=0, ddof=1) / math.sqrt(len(each))
        return about(share, error, len(each))

    def mean(self, column: str, level: float = 0.95) -> tuple[float, Interval | None]:
        """A range's mean over the contributors, freed of the noise, with its error bar; None where rows were shortened,
        which no bar knows of."""
        bound = self.document.bounds.get(column)
        if bound is None or isinstance(bound, Values):
            raise Mistake("column", "must be one of the ranges of this task")
        mechanism = self._plan.parts.get(column)
        if isinstance(mechanism, NumberMechanism):
            estimate = mechanism.estimate(self._reports[column])
            bar = estimate.interval(level)
            return float(estimate.value), Interval(level, float(bar.low), float(bar.high))
        assert self._plan.whole is not None  # noqa: S101
        place, half = self.moments.block(column)[0], (bound.high - bound.low) / 2
        whole = self._plan.whole.estimate(self.reports)
        value, bar = bound.middle + half * float(whole.value[place]), whole.interval(level)
        if self._plan.shortens:
            return value, None
        low, high = (bound.middle + half * float(np.asarray(end)[place]) for end in (bar.low, bar.high))
        return value, Interval(level, low, high)

    def fit(self, model: str, *, output: str) -> moment_fit.FittedRows:
        """A model of `output` from all other columns, corrected for the noise; `model` as in `fitting.MODELS`."""
        return moment_fit.fit(self.moments, self.document, model, output)

    def as_json(self) -> dict[str, Any]:
        body = super().as_json()
        body["frequencies"] = {column: self._told(column) for column in self.frequencies}
        return body

    @property
    def _in_json(self) -> list[dict[str, Any]]:
        columns = self.as_columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _told(self, column: str) -> dict[str, Any]:
        """The shares of one column with their ends, as JSON; values keep their types."""
        bar, shares = self.frequency_interval(column), self.frequencies[column]
        told = [{"value": value, "share": share} for value, share in shares.items()]
        if bar is None:
            return {"level": None, "shares": told}
        ends = zip(np.asarray(bar.low).tolist(), np.asarray(bar.high).tolist(), strict=True)
        return {
            "level": bar.level,
            "shares": [{**of, "low": low, "high": high} for of, (low, high) in zip(told, ends, strict=True)],
        }

    def _lines(self) -> list[str]:
        lines = [f"{len(next(iter(self._reports.values())))} perturbed rows; freed of the noise:"]
        for column in self.document.gives:
            if column in self.frequencies:
                told = self._told(column)
                bars = [
                    f" ({figure(of['low'], 3)} to {figure(of['high'], 3)})" if "low" in of else ""
                    for of in told["shares"]
                ]
                shares = [
                    f"{of['value']} {figure(of['share'], 4)}{bar}" for of, bar in zip(told["shares"], bars, strict=True)
                ]
                level = "" if told["level"] is None else f"  ({told['level']:.0%} intervals)"
                lines.append(f"{column}: {', '.join(shares)}{level}")
            else:
                value, interval = self.mean(column)
                line = f"{column}: mean {figure(value)}"
                if interval is not None:
                    line += f"  ({interval.level:.0%} interval {figure(interval.low)} to {figure(interval.high)})"
                lines.append(line)
        if self.document.quality:
            fitted = f"fit({kind_of(self.document)!r}, output={self.document.predicted!r})"
            lines.append(f"the model that people check: {fitted}")
        return lines
