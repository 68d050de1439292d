"""Lists of tasks, sites and algorithms that print as tables in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from thebes.privacy.figures import figure
from thebes.tasks import notebook
from thebes.wire.problems import printable

_WIDEST = 60


class Listing(list[dict[str, Any]]):
    """A plain list of objects; `columns` are those that a table of it shows."""

    def __init__(self, rows: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> None:
        super().__init__(rows)
        self.columns = columns

    def __repr__(self) -> str:
        lines = [self.columns, *([_cell(row, column) for column in self.columns] for row in self)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
        return "\n".join(line.rstrip() for line in padded) if self else "(none)"

    def _repr_html_(self) -> str:
        rows = ([_cell(row, column) for column in self.columns] for row in self)
        return notebook.shown(notebook.table(self.columns, rows))


def _cell(row: Mapping[str, Any], column: str) -> str:
    """One value in one line; `a.b` is the field b of the object a, and unknown where there is none."""
    value: Any = row
    for name in column.split("."):
        if value is None:
            return "unknown"
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    if isinstance(value, float):
        return figure(value)
    if isinstance(value, Mapping) and value and all(isinstance(each, Mapping) for each in value.values()):
        value = ", ".join(map(str, value))
    elif isinstance(value, Mapping):
        value = "; ".join(f"{name}: {_cell(value, str(name))}" for name in value)
    elif isinstance(value, (list, tuple)):
        value = ", ".join(str(item) for item in value)
    text = printable(str(value))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
