"""A model's inputs by name: columns of a table are found by what they are called, arrays go by position.

Must stay true: a table whose columns lie in another order gives the same, and one that lacks a column is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake


class NamedInputs:
    """A predictor from the columns that `inputs` names, as scikit-learn's estimators say it."""

    inputs: tuple[str, ...]

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns that it predicts from."""
        return np.array(self.inputs, dtype=object)

    @property
    def n_features_in_(self) -> int:
        return len(self.inputs)


def is_named(rows: Any) -> bool:
    """Return whether columns of a table have names: a mapping of columns, or a data frame."""
    return _is_mapping(rows) or hasattr(rows, "columns")


def columns_of(rows: Any, names: Sequence[str], argument: str = "rows") -> dict[str, NDArray[Any]]:
    """These columns of a table (a data frame, or a mapping of columns), by name; or those of an array, by position."""
    if is_named(rows):
        check_there(rows, names, argument)
        return {name: _cells(rows[name]) for name in names}
    lines = rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=object)
    if lines.ndim != 2 or lines.shape[1] != len(names):
        raise Mistake(argument, f"must be a table with the columns {', '.join(names)}")
    return {name: lines[:, place] for place, name in enumerate(names)}


def _cells(column: Any) -> NDArray[Any]:
    """Each cell as it is: one text in a list would else make texts of all the numbers beside it."""
    return np.array(column, dtype=object) if isinstance(column, (list, tuple)) else np.asarray(column)


def check_there(rows: Any, names: Sequence[str], argument: str = "rows") -> None:
    """Refuse a table that lacks one of these columns, or has one twice."""
    there = list(rows if isinstance(rows, Mapping) else rows.columns)
    for name in names:
        if there.count(name) != 1:
            held = "have no column" if name not in there else "have more than one column"
            raise Mistake(argument, f"{held} {name!r}; wanted are {', '.join(names)}")


def framed(X: Any, names: Sequence[str] | None, *, fitted: bool) -> Any:
    """A table as scikit-learn reads it, with the columns a model was fitted on (`names`; None: without names) in their
    order; what is no table stays as it is. Columns that are called 0, 1, ... are brought into that order."""
    if _is_mapping(X):
        if fitted and names is None:
            raise Mistake("X", "has columns by name, but the model was fitted without names: give an array")
        X = _frame({name: X[name] for name in (X if names is None else _there(X, names))})
    elif hasattr(X, "columns") and not hasattr(X, "isetitem"):
        X = _frame({name: X[name] for name in X.columns})
    if not hasattr(X, "columns"):
        return X
    if names is not None:
        return X[list(_there(X, names))]
    if len(X.columns) > 1 and sorted(map(str, X.columns)) == sorted(map(str, range(len(X.columns)))):
        plain = [name for name in X.columns if isinstance(name, (int, np.integer))]
        return X[sorted(plain)] if len(plain) == len(X.columns) else X
    return X


def _is_mapping(rows: Any) -> bool:
    return isinstance(rows, Mapping) and not hasattr(rows, "shape")  # some sparse matrices are mappings of cells


def _there(X: Any, names: Sequence[str]) -> Sequence[str]:
    check_there(X, names, "X")
    return names


def _frame(columns: Mapping[Any, Any]) -> Any:
    import pandas as pd

    held = {name: _cells(values) for name, values in columns.items()}
    if any(each.ndim != 1 for each in held.values()) or len({len(each) for each in held.values()}) > 1:
        raise Mistake("X", "must have as many values in every column")
    return pd.DataFrame(held)


def without_cells(message: str) -> str:
    """Cut what scikit-learn quotes of a table out of its complaint: the first line, and what it advises."""
    first, *others = message.splitlines()
    return " ".join([first.rstrip(":"), *(line for line in others if line.startswith("Reshape"))])
