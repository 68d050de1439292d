"""The one door for rows that somebody gives from Python: what forms there are, for people and for sites alike."""

from __future__ import annotations

from collections.abc import Mapping
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
    held = {
        name: pd.Series(list(values), dtype=object) if isinstance(values, (list, tuple)) else values
        for name, values in columns.items()
    }
    lengths = {len(values) for values in held.values() if hasattr(values, "__len__")}
    try:
        if len(lengths) > 1:
            raise ValueError
        return pd.DataFrame(held)
    except ValueError:  # it would say so without the name of what is wrong
        raise Mistake(argument, "must have columns of one length, each a list or an array") from None


def _of_arrow(table: Any) -> Any:
    """A table of Arrow; what a column becomes follows from its type, never from whether a cell is missing."""
    import pandas as pd
    import pyarrow as pa

    whole = {getattr(pa, f"{sign}int{bits}")(): f"{sign}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    mapped = {kind: pd.api.types.pandas_dtype(name.replace("uI", "UI")) for kind, name in whole.items()}
    return table.to_pandas(types_mapper={**mapped, pa.bool_(): pd.BooleanDtype()}.get)


def _is_arrow(rows: Any) -> bool:
    return type(rows).__module__.partition(".")[0] == "pyarrow" and hasattr(rows, "schema") and hasattr(rows, "column")
