"""A released model beside a guess: what each reaches over the rows that the model was simulated on.

Exact figures of the rows at hand: for simulations, which know them. The rows are those the model learned from, so what
it reaches is, if anything, a little too good; what guessing gives is the best that one answer for everybody can be.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.derived_columns import DerivedTable
from thebes.data.filter import Filter, read_filter
from thebes.data.rows import Rows
from thebes.data.schema import Column
from thebes.data.table import Table
from thebes.privacy.figures import figure
from thebes.tasks import fit
from thebes.tasks.document import PeopleDocument, Range, Values
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument

MOST_ROWS = 10_000  #: that are looked at
_MOST_NUMBERS = 2**22  #: and so many numbers of theirs, to bound what predicting takes
RIGHT, SQUARED = "right", "squared error"

Cells = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Guess:
    """Of `column`: by `measure` (the share of values told right, or the mean squared error) what the model `reached`
    over `rows` rows, and what `guessing` gives: the most frequent value, or the mean, for everybody."""

    column: str
    measure: str
    reached: float
    guessing: float
    rows: int

    @property
    def better(self) -> bool:
        """Return whether the model is better than guessing."""
        return self.reached > self.guessing if self.measure == RIGHT else self.reached < self.guessing

    @property
    def told(self) -> str | None:
        """One line, where the model is no better."""
        if self.better:
            return None
        if self.measure == RIGHT:
            said = f"it tells {_percent(self.reached)} of {self.column} right, and the most frequent value alone"
            return f"the model is no better than guessing: {said} {_percent(self.guessing)}"
        said = f"its mean squared error of {self.column} is {figure(self.reached, 3)}, and that of the mean alone"
        return f"the model is no better than guessing: {said} {figure(self.guessing, 3)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "measure": self.measure,
            "reached": self.reached,
            "guessing": self.guessing,
            "rows": self.rows,
        }


def beside(release: Release, guess: Guess | None) -> Release:
    """The release with what guessing gives, and a warning where its model is no better."""
    if guess is None:
        return release
    if guess.told is not None:
        warnings.warn(guess.told, stacklevel=3)
    return release.beside(beside_guess=guess.as_json())


def of_people(document: PeopleDocument, release: Release, rows: Rows) -> Guess | None:
    """Judge the model of a task that people answered; None where none was released, or its loss says of no value how
    far off it is."""
    if not hasattr(type(release), "model") or release.value is None:
        return None
    outputs = _outputs(document)
    names = [name for name in fit.columns_of(document) if name not in outputs]
    found = fit.whole(document, rows)
    some = _some(found.people, len(names))
    if not len(some):
        return None
    columns = {name: _cells(document, found, name)[some] for name in names}
    told = [_cells(document, found, name)[some] for name in outputs]
    model: Any = release.model  # type: ignore[attr-defined]
    bounds = document.bounds or {}
    if hasattr(model, "classifies"):  # a network, which tells a class by its number, or what its loss makes of it
        return _of_network(", ".join(outputs), model, columns, told, [bounds.get(each) for each in outputs])
    labels = isinstance(bounds.get(outputs[0]), Values) or hasattr(model, "classes_")
    return _judged(outputs[0], model.predict(columns), told[0], number=not labels)


def of_table(
    model: Any,
    inputs: Sequence[str],
    output: str,
    tables: Sequence[Table],
    where: Sequence[Filter | None],
    *,
    odds: bool = False,
) -> Guess | None:
    """Judge a model of tables whose rows it has learned from. With `odds` it says how likely the second of two values
    is."""
    column, names = tables[0].schema.column(output), [*inputs, output]
    most = max(1, _most(len(inputs)) // len(tables))
    parts: list[dict[str, Cells]] = []
    for table, condition in zip(tables, where, strict=True):
        batch = next(table.batches(names, condition, rows=most), None)  # their order says nothing about them
        if batch is not None:
            held = [table.schema.column(name) for name in names]
            parts.append({n: _held(held[i], batch.numbers[:most, i]) for i, n in enumerate(names)})
    if not parts:
        return None
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    told = columns.pop(output)
    said = np.asarray(model.predict(columns))
    if odds and column.values is not None:
        said = np.array(column.values, dtype=object)[(said >= 0.5).astype(np.int64)]
    return _judged(output, said, told, number=column.values is None)


def of_sites(document: SiteDocument, release: Release, tables: Mapping[str, Table]) -> Guess | None:
    """Judge the model of a task that sites answered, over those that did; None where none was released."""
    if release.form not in ("train", "pipeline") or release.value is None:
        return None
    model = release.model  # type: ignore[attr-defined]
    if release.form == "pipeline":
        output = getattr(document, "output", None)
        return None if output is None else of_table(model, model.inputs, output, [*tables.values()], [None], odds=True)
    answered = [tables[site] for site in release.extra["coverage"]["answered"]]
    conditions = [condition_of(document, table) for table in answered]
    features = getattr(document, "features", {})
    made = [DerivedTable(table, features) for table in answered] if features else answered
    return of_table(model, model.inputs, model.encoding.name, made, conditions)


def condition_of(document: SiteDocument, table: Table) -> Filter | None:
    """Return the condition on the rows of a table that a task counts; None for all."""
    asked = getattr(document, "where", None)
    return None if asked is None else read_filter(asked, table.schema)


def _judged(name: str, said: Cells, told: Cells, *, number: bool) -> Guess:
    if number:
        off, spread = np.mean((said.astype(np.float64) - told) ** 2), np.var(told)
        return Guess(name, SQUARED, float(off), float(spread), len(told))
    labels = told.tolist()
    right = sum(a == b for a, b in zip(said.tolist(), labels, strict=True)) / len(labels)
    return Guess(name, RIGHT, right, Counter(labels).most_common(1)[0][1] / len(labels), len(labels))


def _of_network(
    name: str, model: Any, columns: Mapping[str, Cells], told: Sequence[Cells], bounds: Sequence[Any]
) -> Guess | None:
    """A network's class is the number of a value; what it says of a 0 or 1 with a loss of logits is its log-odds."""
    places = [
        _places(cells, bound.values) if isinstance(bound, Values) else cells
        for cells, bound in zip(told, bounds, strict=True)
    ]
    if model.classifies:
        return _judged(name, model.predict(columns), places[0].astype(np.int64), number=False)
    losses = {node.operation for node in model.loss.graph.nodes}
    said = model.outputs(columns).reshape(len(places[0]), -1)
    if said.shape[1] != len(places) or any("nll" in loss for loss in losses):
        return None
    table = np.column_stack(places).astype(np.float64)
    if any("with_logits" in loss for loss in losses):
        right, ones = (said > 0) == (table > 0.5), np.mean(table > 0.5, axis=0)
        guessed = float(np.mean(np.maximum(ones, 1 - ones)))
        return Guess(name, RIGHT, float(np.mean(right)), guessed, len(table))
    off, spread = np.mean((said - table) ** 2, axis=0).sum(), table.var(axis=0).sum()
    return Guess(name, SQUARED, float(off), float(spread), len(table))


def _outputs(document: Any) -> tuple[str, ...]:
    if hasattr(document, "outputs"):
        return tuple(document.outputs)
    return (document.output if hasattr(document, "output") else document.label,)


def _cells(document: Any, rows: Rows, name: str) -> Cells:
    """A column as a model takes it: numbers within their bounds, else as it is."""
    if not fit.is_number(document, name):
        return np.asarray(rows.columns[name])
    numbers, _ = rows.numbers(name)
    bound = (document.bounds or {}).get(name)
    return np.clip(numbers, bound.low, bound.high) if isinstance(bound, Range) else numbers


def _places(cells: Cells, values: Sequence[Any]) -> NDArray[np.int64]:
    place = {value: number for number, value in enumerate(values)}
    return np.array([place[cell] for cell in cells.tolist()], dtype=np.int64)


def _held(column: Column, numbers: NDArray[np.float64]) -> Cells:
    """A column of a batch in its own units."""
    return numbers if column.values is None else np.array(column.values, dtype=object)[numbers.astype(np.int64)]


def _some(length: int, columns: int) -> NDArray[np.int64]:
    """Choose the rows that are looked at: all of them, or so many evenly among them."""
    most = _most(columns)
    return np.arange(length) if length <= most else np.arange(most) * length // most


def _most(columns: int) -> int:
    return max(1, min(MOST_ROWS, _MOST_NUMBERS // max(1, columns)))


def _percent(share: float) -> str:
    return f"{figure(100 * share, 3)} %"
