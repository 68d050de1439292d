"""Rows as the numbers a model is fed: public, the same at every site and for whoever predicts.

Each input in order: a range scaled to [-1, 1], a set of m values as m - 1 columns of 0 and 1 (the last value is the
reference). Or one input of pictures or arrays and no other: its numbers from 0 to 1, channels first. The output is the
number of its value in the set, or a range scaled to [-1, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.data.schema import Column
from thebes.data.table import Batch
from thebes.learning.inputs import columns_of
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]


class Encoding:
    """`columns` are the inputs, in order, and the output, as the data set declares them."""

    def __init__(self, inputs: Mapping[str, Column], name: str, output: Column) -> None:
        for column, declared in inputs.items():
            if declared.tensor is not None:
                if len(inputs) > 1:
                    raise Mistake("inputs", f"name {column!r} beside others; a network takes pictures or arrays alone")
                continue
            if not declared.ranged and (declared.values is None or len(declared.values) < 2):
                raise Mistake("inputs", f"names {column!r}, which has neither bounds nor two values or more")
        if not output.ranged and (output.values is None or len(output.values) < 2):
            raise Mistake("output", f"names {name!r}, which has neither bounds nor two values or more")
        self.inputs, self.name, self.output = inputs, name, output

    @property
    def tensor(self) -> Column | None:
        """The input that is of pictures or arrays, and then the only one."""
        return next((column for column in self.inputs.values() if column.tensor is not None), None)

    @property
    def width(self) -> int:
        """The width of a model's input, in numbers."""
        return sum(_wide(column) for column in self.inputs.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each: `age`, `sex=female`."""
        found: list[str] = []
        for name, column in self.inputs.items():
            found += [name] if column.values is None else [f"{name}={value}" for value in column.values[:-1]]
        return tuple(found)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The values that the output may have; None where it is a number."""
        return self.output.values

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of an output that is a number."""
        return _ends(self.output)

    def lines(self, batch: Batch) -> NDArray[Any]:
        """Return one line for each row of a batch that has the inputs in order, as they are kept between steps: a
        picture's in bytes."""
        if self.tensor is None:
            return self.design(np.asarray(batch.numbers[:, : len(self.inputs)], dtype=np.float64))
        (name,) = self.inputs
        return batch.tensors[name]

    def fed(self, lines: NDArray[Any]) -> NDArray[Any]:
        """Return lines as a model is fed them, each by itself."""
        if self.tensor is None or self.tensor.type != "image":
            return lines
        return lines.astype(np.float32) / np.float32(255)

    def check_fed(self, shape: tuple[int, ...]) -> None:
        """Refuse a network that takes something else of one row."""
        taken = math.prod(shape)
        if taken != self.width:
            raise Mistake("inputs", f"give {self.width} numbers where the network takes {taken}")
        own = None if self.tensor is None else self.tensor.tensor
        if own is not None and shape not in (own, (self.width,)):
            raise Mistake("inputs", f"give arrays of {list(own)}, the network takes {list(shape)}")

    def design(self, numbers: Floats) -> Floats:
        """One line for each row of numbers that has the inputs in order."""
        table = np.empty((len(numbers), self.width))
        start = 0
        for place, column in enumerate(self.inputs.values()):
            stop = start + _wide(column)
            own = numbers[:, place]
            if column.values is None:
                table[:, start] = scaled(column, own)
            else:
                table[:, start:stop] = own[:, None] == np.arange(stop - start)
            start = stop
        return table

    def target(self, numbers: Floats) -> Floats:
        """The output of each row."""
        return numbers if self.output.values is not None else scaled(self.output, numbers)

    def unscaled(self, said: Floats) -> Floats:
        """Convert what a model says of a number to the output's own units."""
        low, high = _ends(self.output)
        return np.asarray(low + (said + 1) / 2 * (high - low))

    def of_table(self, rows: Any) -> Floats:
        """The design of a table with the inputs as columns (DataFrame, mapping of columns, or lines in their order).
        What is missing or not declared counts as the middle of a range or the last value. A column of pictures holds
        arrays [channels, height, width] of 0 to 255, one of arrays holds them in their own units."""
        names = tuple(self.inputs)
        if self.tensor is not None:
            return _tensors(self.tensor, list(columns_of(rows, names)[names[0]]))
        table = Rows.one_each(columns_of(rows, names))
        numbers = np.empty((table.people, len(names)))
        for place, (name, column) in enumerate(self.inputs.items()):
            if column.values is not None:
                index, absent = table.categories(name, column.values)
                numbers[:, place] = np.where(absent, len(column.values) - 1, index)
            else:
                own, absent = table.numbers(name)
                low, high = _ends(column)
                numbers[:, place] = np.where(absent, (low + high) / 2, own)
        return self.design(numbers)


def scaled(column: Column, numbers: Floats) -> Floats:
    """Numbers of a range as shares of it, from -1 to 1, clamped to that."""
    low, high = _ends(column)
    return np.asarray(np.clip((numbers - low) / (high - low) * 2 - 1, -1, 1))


def _tensors(column: Column, cells: Sequence[Any]) -> Floats:
    low, high = (0.0, 255.0) if column.type == "image" else _ends(column)
    try:
        table = np.array([np.asarray(cell, dtype=np.float64).reshape(-1) for cell in cells])
    except (TypeError, ValueError):
        table = np.empty((0, 0))
    if cells and table.shape != (len(cells), _wide(column)):
        raise Mistake(
            "rows", f"must hold arrays of {' x '.join(map(str, column.tensor or ()))} numbers, channels first"
        )
    return np.asarray((np.clip(table, low, high) - low) / (high - low)).reshape(len(cells), _wide(column))


def _wide(column: Column) -> int:
    if column.tensor is not None:
        return math.prod(column.tensor)
    return 1 if column.values is None else len(column.values) - 1


def _ends(column: Column) -> tuple[float, float]:
    assert column.low is not None  # noqa: S101
    assert column.high is not None  # noqa: S101
    return column.low, column.high
