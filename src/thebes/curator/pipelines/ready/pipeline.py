"""The parts that all ready pipelines share: reading a document's fields, features by the schema, and batches for a
learner."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data, Floats
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.ready.least_loss import fewest_wrong, least_squares
from thebes.curator.pipelines.validators import Best
from thebes.data.schema import Column, Schema
from thebes.learning.budget import FitBudget
from thebes.learning.features import Bins, Categories, FeaturePiece, Features, Range
from thebes.privacy import exact
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import system

_OPTIONS = ("window", "start_epsilon", "least_blocks", "first", "confidence", "largest", "strategy", "timeout")
_MOST_BINS = 1000
Cuts = int | Sequence[float]
#: one batch: rows with a column for each of the features' columns, and the output
Batches = Iterator[tuple[Floats, Floats]]


class Ready(Pipeline):
    """A pipeline that a document describes. `name` is made of stream, model and output unless it is said.

    `bins` cuts ranged inputs: {column: into how many bins, or the places between which}.
    """

    by_cells: ClassVar[bool] = False  #: whether a range tells rows apart by its cells alone, also where it has no bins

    def __init__(
        self,
        *,
        stream: str,
        inputs: Sequence[str],
        epsilon: exact.Number,
        targets: Mapping[str, float | str],
        delta: exact.Number = 0,
        output: str = "",
        name: str | None = None,
        bins: Mapping[str, Cuts] | None = None,
        **options: Any,
    ) -> None:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise Mistake(unknown[0], "is not an option of a pipeline")
        if not isinstance(inputs, (list, tuple)) or not inputs or not all(isinstance(one, str) for one in inputs):
            raise Mistake("inputs", "must name at least one column")
        if len(set(inputs)) != len(inputs):
            raise Mistake("inputs", "must not name a column twice")
        for field, value in (("stream", stream), ("output", output), ("name", name or "")):
            if not isinstance(value, str):
                raise Mistake(field, "must be a name")
        if bins is not None and not isinstance(bins, Mapping):
            raise Mistake("bins", "must be {column: into how many bins, or the places between which}")
        made = name or re.sub(r"[^a-z0-9]+", "-", f"{stream}-{type(self).__name__}-{output or inputs[0]}".lower())
        self.__dict__.update(options, name=made, stream=stream)
        self.epsilon, self.delta, self.targets = epsilon, delta, targets
        self.inputs, self.output = tuple(inputs), output
        self.bins = dict(bins or {})

    @classmethod
    def fields(cls) -> set[str]:
        """Return the names of the fields that a document may give."""
        found = set(_OPTIONS)
        for one in cls.__mro__:
            if issubclass(one, Ready):
                found |= set(inspect.signature(one.__init__).parameters)
        return found - {"self", "options"}

    def features(self, schema: Schema) -> Features:
        """A piece for every input: declared values apart, a range as its share, or its bins."""
        return Features([self._piece(name, schema.column(name, "inputs")) for name in self.inputs])

    def fits(self, schema: Schema) -> None:
        super().fits(schema)
        self.features(schema)

    def _piece(self, name: str, column: Column) -> FeaturePiece:
        if column.values is not None:
            return Categories(name, column.values)
        _no_bare_flag("inputs", name, column)
        if column.low is None or column.high is None:
            raise Mistake("inputs", f"name {name!r}, which has neither bounds nor declared values")
        if name not in self.bins:
            return Range(name, column.low, column.high)
        cuts = self.bins[name]
        if isinstance(cuts, int):
            if isinstance(cuts, bool) or not 2 <= cuts <= _MOST_BINS:
                raise Mistake("bins", f"must be from 2 to {_MOST_BINS}, or places to cut at")
            return Bins(name, tuple(np.linspace(column.low, column.high, cuts + 1).tolist()))
        try:
            return Bins(name, (column.low, *(float(cut) for cut in cuts), column.high))
        except (Mistake, TypeError, ValueError):
            raise Mistake("bins", f"must cut {name!r} at rising places between its low and its high") from None

    def batches(self, data: Data) -> Batches:
        """The rows that have every input and the output."""
        for rows in data.arrays((*self.inputs, self.output)):
            yield rows[:, :-1], rows[:, -1]

    def ends(self, schema: Schema) -> tuple[float, float]:
        """The bounds of an output that is a number."""
        column = schema.column(self.output, "output")
        if column.low is None or column.high is None:
            raise Mistake("output", f"names {self.output!r}, which needs a declared low and high")
        return column.low, column.high

    def of_two(self, schema: Schema) -> None:
        """Refuse an output that has not two values."""
        column = schema.column(self.output, "output")
        _no_bare_flag("output", self.output, column)
        if column.values is None or len(column.values) != 2:
            raise Mistake("output", f"names {self.output!r}, which needs exactly two declared values")

    def scaled(self, data: Data, features: Features) -> Callable[[], Batches]:
        """Passes over (features, output from -1 to 1)."""
        scale = self.scale(data.schema)

        def rows() -> Batches:
            for inputs, output in self.batches(data):
                yield features.of(inputs), scale(output)

        return rows

    def best(self, metric: str, data: Data) -> Best | None:
        """Return the least that any function of the inputs' cells loses, which every model of these pipelines is where
        each input has declared values or bins; None where one has not, or where losses are cut below what a row in
        range can lose. Which of them is so, the schema decides."""
        features = self.features(data.schema)
        if not (self.by_cells or all(piece.marks for piece in features.pieces)):
            return None
        batches = ((features.cells(rows), output) for rows, output in self.batches(data))
        if metric == "accuracy":
            return fewest_wrong(batches)
        if metric == "mse" and data.schema.column(self.output, "output").ranged:
            low, high = self.ends(data.schema)
            return least_squares(batches, (low, high)) if self._most(metric, data.schema) >= (high - low) ** 2 else None
        return None

    def outputs(self, data: Data) -> Iterator[Floats]:
        """The outputs alone, from -1 to 1."""
        scale = self.scale(data.schema)
        for rows in data.arrays((self.output,)):
            yield scale(rows[:, 0])

    def scale(self, schema: Schema) -> Callable[[Floats], Floats]:
        """An output that is a number, from -1 to 1."""
        low, high = self.ends(schema)
        return lambda output: np.asarray(np.clip((output - low) / (high - low) * 2 - 1, -1, 1))


def _no_bare_flag(field: str, name: str, column: Column) -> None:
    """A boolean is read in rows by its declared values, as every column is."""
    if column.type == "boolean" and column.values is None:
        raise Mistake(field, f"names {name!r}, a boolean without declared values: declare values = [false, true]")


class OfGaussians(Ready):
    """One whose training is a number of Gaussian releases with shares fixed in advance: together they cost one."""

    def paid(self, data: Data, budget: Allowance) -> FitBudget:
        """Return what training may spend: all of it, for one unit of the stream."""
        paid, change = budget.spend(), data.schema.change
        if change.adjacency is not Adjacency.ADD_REMOVE_ONE:
            raise Mistake("stream", "must have units that come or go")
        found = FitBudget(
            epsilon=paid.epsilon,
            delta=paid.delta,
            adjacency=change.adjacency,
            randomness=data.randomness,
            rows=change.rows,
        )
        if found.pure:
            found.refuse_pure(type(self).__name__)
        return found

    def check(self) -> None:
        super().check()
        if exact.delta(self.delta) == 0:
            raise Mistake("delta", f"is missing: {type(self).__name__} has no pure form; 1e-6 is a usual one")
        if not self.output:
            raise Mistake("output", "must name the column to predict")

    def event(self, epsilon: exact.Number, delta: exact.Number) -> Event | None:
        budget = FitBudget(epsilon=epsilon, delta=delta, adjacency=Adjacency.ADD_REMOVE_ONE, randomness=system())
        return budget.event()
