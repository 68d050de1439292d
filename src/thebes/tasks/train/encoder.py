"""Rows as the numbers a model is fed: public, the same at every site and for whoever predicts.

Each input in order: a range scaled to [-1, 1], a set of m values as m - 1 columns of 0 and 1 (the last value is the
reference). The output is the number of its value in the set, or a range scaled to [-1, 1].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.data.schema import Column
from thebes.learning.inputs import columns_of
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]


class Encoding:
    """`columns` are the inputs, in order, and the output, as the data set declares them."""

    def __init__(self, inputs: Mapping[str, Column], name: str, output: Column) -> None:
        for column, declared in inputs.items():
            if not declared.ranged and (declared.values is None or len(declared.values) < 2):
                raise Mistake("inputs", f"names {column!r}, which has neither bounds nor two values or more")
        if not output.ranged and (output.values is None or len(output.values) < 2):
            raise Mistake("output", f"names {name!r}, which has neither bounds nor two values or more")
        self.inputs, self.name, self.output = inputs, name, output

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

    def design(self, numbers: Floats) -> Floats:
        """One line for each row of a batch (`thebes.data.table.Batch`) that has the inputs in order."""
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
        What is missing or not declared counts as the middle of a range or the last value."""
        names = tuple(self.inputs)
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


def _wide(column: Column) -> int:
    return 1 if column.values is None else len(column.values) - 1


def _ends(column: Column) -> tuple[float, float]:
    assert column.low is not None  # noqa: S101
    assert column.high is not None  # noqa: S101
    return column.low, column.high
