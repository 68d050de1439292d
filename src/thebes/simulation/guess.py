"""A released model beside a guess: what each reaches over rows of a simulation, which knows them.

The rows are those that were kept aside, or, where none were, those that the model learned from: what it reaches over
these is, if anything, too good, so they never show that it is better than guessing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.filter import RowFilter, read_filter
from thebes.data.rows import Rows
from thebes.data.schema import Column
from thebes.data.table import Batch, Table
from thebes.tasks import beside_guess, fit
from thebes.tasks.beside_guess import Guess
from thebes.tasks.document import PeopleDocument, Range, Values
from thebes.tasks.rehearsal import learned_by
from thebes.tasks.release import Release
from thebes.tasks.rows_document import RowsDocument
from thebes.tasks.site_document import SiteDocument

MOST_ROWS = 10_000  #: that are looked at
_MOST_NUMBERS = 2**22  #: and so many numbers of theirs, to bound what predicting takes

Cells = NDArray[Any]


def beside(release: Release, guess: Guess | None) -> Release:
    """The release with what guessing gives, and a warning where its model is no better."""
    if guess is None:
        return release
    if guess.told is not None:
        warnings.warn(guess.told, stacklevel=3)
    return release.beside(beside_guess=guess.as_json())


def of_people(document: PeopleDocument, release: Release, rows: Rows, *, aside: bool) -> Guess | None:
    """Judge the model of a task that people answered; None where none was released, or its loss says of no value how
    far off it is. `aside` says that it did not learn from these rows."""
    if type(release).model is Release.model or release.value is None:
        return None
    outputs = _outputs(document)
    names = [name for name in fit.columns_of(document) if name not in outputs]
    found, owners = fit.whole(document, rows)
    some = _some(found.people, len(names))
    if not len(some):
        return None
    columns, whose = {name: _cells(document, found, name)[some] for name in names}, owners[some]
    told = [_cells(document, found, name)[some] for name in outputs]
    model: Any = release.model
    bounds = document.bounds or {}
    if hasattr(model, "classifies"):  # a network, which tells a class by its number, or what its loss makes of it
        return _of_network(
            ", ".join(outputs), model, columns, told, [bounds.get(each) for each in outputs], aside, whose
        )
    labels = isinstance(bounds.get(outputs[0]), Values) or hasattr(model, "classes_")
    return _judged(outputs[0], model.predict(columns), told[0], number=not labels, aside=aside, whose=whose)


def of_table(
    model: Any,
    inputs: Sequence[str],
    output: str,
    tables: Sequence[Table],
    where: Sequence[RowFilter | None],
    *,
    aside: bool,
    odds: bool = False,
) -> Guess | None:
    """Judge a model over tables; `aside` says that it did not learn from their rows. With `odds` it says how likely the
    second of two values is."""
    column, names = tables[0].schema.column(output), [*inputs, output]
    wide = sum(math.prod(tables[0].schema.offered(name).tensor or (1,)) for name in inputs)
    most = max(1, _most(wide) // len(tables))
    parts: list[dict[str, Cells]] = []
    people: list[NDArray[np.int64]] = []
    for table, condition in zip(tables, where, strict=True):
        batch = next(table.batches(names, condition, rows=most), None)  # their order says nothing about them
        if batch is not None:
            held = {name: _held(table.schema.offered(name), batch, name, at)[:most] for at, name in enumerate(names)}
            parts.append(held)
            people.append(np.unique(batch.people[:most], return_inverse=True)[1].ravel())
    if not parts:
        return None
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    before = np.cumsum([0, *(int(each.max(initial=-1)) + 1 for each in people)])  # a number means one table's person
    whose = np.concatenate([each + start for each, start in zip(people, before, strict=False)])
    told = columns.pop(output)
    said = np.asarray(model.predict(columns))
    if odds and column.values is not None:
        said = np.array(column.values, dtype=object)[(said >= 0.5).astype(np.int64)]
    return _judged(output, said, told, number=column.values is None, aside=aside, whose=whose)


def of_sites(
    document: SiteDocument, release: Release, tables: Mapping[str, Table], aside: Mapping[str, Table]
) -> Guess | None:
    """Judge the model of a task that sites answered over rows kept `aside`, or else of those that answered; None where
    none was released."""
    output = getattr(document, "output", None)
    if type(release).model is Release.model or release.value is None or output is None:
        return None
    model: Any = release.model
    shown = [*aside.values()] or [tables[site] for site in release.extra["coverage"]["answered"]]
    conditions = [condition_of(document, table) for table in shown]
    if isinstance(document, RowsDocument):
        shown = [document.made.table(table) for table in shown]
    return of_table(model, model.inputs, output, shown, conditions, aside=bool(aside), odds=type(release).odds)


def condition_of(document: SiteDocument, table: Table) -> RowFilter | None:
    """Return the condition on the rows of a table that a task counts; None for all."""
    asked = getattr(document, "where", None)
    return None if asked is None else read_filter(asked, table.schema)


def _judged(name: str, said: Cells, told: Cells, *, number: bool, aside: bool, whose: Cells) -> Guess:
    return (beside_guess.of_numbers if number else beside_guess.of_labels)(name, said, told, aside=aside, whose=whose)


def _of_network(
    name: str,
    model: Any,
    columns: Mapping[str, Cells],
    told: Sequence[Cells],
    bounds: Sequence[Any],
    aside: bool,
    whose: Cells,
) -> Guess | None:
    """A network's class is the number of a value; what it says of a 0 or 1 with a loss of logits is its log-odds."""
    places = [
        _places(cells, bound.values) if isinstance(bound, Values) else cells
        for cells, bound in zip(told, bounds, strict=True)
    ]
    if model.classifies:
        return _judged(name, model.predict(columns), places[0].astype(np.int64), number=False, aside=aside, whose=whose)
    losses = {node.operation for node in model.loss.graph.nodes}
    said = model.outputs(columns).reshape(len(places[0]), -1)
    if said.shape[1] != len(places) or any("nll" in loss for loss in losses):
        return None
    table = np.column_stack(places).astype(np.float64)
    if any("with_logits" in loss for loss in losses):
        return beside_guess.of_yes_or_no(name, said > 0, table > 0.5, aside=aside, whose=whose)
    return beside_guess.of_numbers(name, said, table, aside=aside, whose=whose)


def _outputs(document: PeopleDocument) -> tuple[str, ...]:
    if hasattr(document, "outputs"):
        return tuple(document.outputs)
    return (str(learned_by(document)),)


def _cells(document: PeopleDocument, rows: Rows, name: str) -> Cells:
    """A column as a model takes it: numbers within their bounds, else as it is."""
    if not fit.is_number(document, name):
        return np.asarray(rows.columns[name])
    numbers, _ = rows.numbers(name)
    bound = (document.bounds or {}).get(name)
    return np.clip(numbers, bound.low, bound.high) if isinstance(bound, Range) else numbers


def _places(cells: Cells, values: Sequence[Any]) -> NDArray[np.int64]:
    place = {value: number for number, value in enumerate(values)}
    return np.array([place[cell] for cell in cells.tolist()], dtype=np.int64)


def _held(column: Column, batch: Batch, name: str, place: int) -> Cells:
    """A column of a batch in its own units; of pictures or arrays one line for each row."""
    if name in batch.tensors:
        lines = np.asarray(batch.tensors[name], dtype=np.float64)
        ends = None if column.low is None or column.high is None else (column.low, column.high)
        return lines if ends is None else np.asarray(ends[0] + lines * (ends[1] - ends[0]))
    numbers = batch.numbers[:, place]
    return numbers if column.values is None else np.array(column.values, dtype=object)[numbers.astype(np.int64)]


def _some(length: int, columns: int) -> NDArray[np.int64]:
    """Choose the rows that are looked at: all of them, or so many evenly among them."""
    most = _most(columns)
    return np.arange(length) if length <= most else np.arange(most) * length // most


def _most(columns: int) -> int:
    return max(1, min(MOST_ROWS, _MOST_NUMBERS // max(1, columns)))
