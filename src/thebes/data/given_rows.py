"""The one door for rows that somebody gives from Python: what forms there are, for people and for sites alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thebes.privacy.faults import Mistake

FILES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
FORMS = (
    "must be a pandas DataFrame, a polars DataFrame, an Arrow table, a dict of columns, or the path of a .csv, .tsv or "
    ".parquet file"
)


def given_file(rows: Any, argument: str = "rows") -> Path | None:
    """Return the file that a path names; None where no path was given."""
    if not isinstance(rows, (str, Path)):
        return None
    path = Path(rows)
    if path.suffix.lower() not in FILES:
        raise Mistake(argument, FORMS)
    if not path.is_file():
        raise Mistake(argument, f"there is no file {str(path)!r}")
    return path


def given_columns(rows: Any, argument: str = "rows") -> dict[str, Any]:
    """Return the columns of a data frame, an Arrow table or a dict, by name; each as its library has it, those of Arrow
    as lists, in which whole numbers stay whole beside missing ones."""
    if isinstance(rows, Mapping):
        return {str(name): rows[name] for name in rows}
    if _is_arrow(rows):
        return {str(name): rows.column(place).to_pylist() for place, name in enumerate(rows.schema.names)}
    if not hasattr(rows, "columns") or not hasattr(rows, "shape"):
        raise Mistake(argument, FORMS)
    return {str(name): rows[name] for name in rows.columns}


def given_frame(rows: Any, argument: str = "rows") -> Any:
    """The same as a pandas DataFrame, in which no cell depends on another: beside a missing one whole numbers would
    else become floats, and long ones the same."""
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        return rows
    if hasattr(rows, "to_pandas") and hasattr(rows, "shape"):  # polars and Arrow
        table = rows if _is_arrow(rows) or not hasattr(rows, "to_arrow") else rows.to_arrow()
        return _of_arrow(table) if _is_arrow(table) else table.to_pandas()
    columns = given_columns(rows, argument)
    held = {name: _cells(values) for name, values in columns.items()}
    lengths = {len(values) for values in held.values() if hasattr(values, "__len__")}
    try:
        if len(lengths) > 1:
            raise ValueError
        return pd.DataFrame(held)
    except ValueError:  # it would say so without the name of what is wrong
        raise Mistake(argument, "must have columns of one length, each a list or an array") from None


def _cells(values: Any) -> Any:
    """A column of a dict: of pandas and numpy as it is, of anything else each cell as Python has it."""
    import numpy as np
    import pandas as pd

    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray, np.ndarray)):
        return values
    for told in ("to_pylist", "to_list"):  # of Arrow, of polars
        if hasattr(values, told):
            return pd.Series(getattr(values, told)(), dtype=object)
    return (
        pd.Series(list(values), dtype=object)
        if isinstance(values, Sequence) and not isinstance(values, str)
        else values
    )


def _of_arrow(table: Any) -> Any:
    """A table of Arrow; what a column becomes follows from its type, never from whether a cell is missing."""
    import pandas as pd
    import pyarrow as pa

    whole = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    plain = {getattr(pa, name.lower())(): pd.api.types.pandas_dtype(name) for name in whole}
    plain[pa.bool_()] = pd.BooleanDtype()
    # Days so far away that Python has none are no reason to fail, and a missing number in a list none to take others'
    # numbers for floats.
    return pd.DataFrame({
        str(name): pd.Series(column.to_pylist(), dtype=object)
        if pa.types.is_nested(column.type)
        else _readable(column).to_pandas(types_mapper=plain.get, date_as_object=False)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    })  # fmt: skip


def _readable(column: Any) -> Any:
    """The same column of Arrow, but for texts that are none: one would break the whole."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return pa.chunked_array(
            [pa.array([_decoded(each) for each in column.cast(pa.binary()).to_pylist()], pa.string())]
        )
    return column


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _is_arrow(rows: Any) -> bool:
    return type(rows).__module__.partition(".")[0] == "pyarrow" and hasattr(rows, "schema") and hasattr(rows, "column")
