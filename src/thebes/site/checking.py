"""A look at a data set's rows for its steward's own eyes: how well they fit what was declared. Its figures are data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thebes.data.schema import Column, Schema

if TYPE_CHECKING:
    from thebes.data.engines.table import EngineTable


def looked_at(table: EngineTable) -> dict[str, Any]:
    """How many rows there are, and of each column how many values are missing (or not of its type), lie outside its
    bounds, or are none of its values. Not private: never to be sent anywhere."""
    import narwhals.stable.v2 as nw

    schema: Schema = table.schema
    frame = table.engine.rows(list(schema.columns), [], None)
    wanted = [nw.len().alias("rows")]
    for place, column in enumerate(schema.columns.values()):
        for what, counted in _counts(nw.col(list(schema.columns)[place]), column).items():
            wanted.append(counted.sum().alias(f"{place} {what}"))
    found = table.engine.collected(frame.select(*wanted)).iloc[0].fillna(0)
    columns: dict[str, dict[str, int]] = {name: {} for name in schema.columns}
    for place, name in enumerate(schema.columns):
        for key, value in found.items():
            number, _, what = str(key).partition(" ")
            if what and int(number) == place:
                columns[name][what] = int(value)
    return {"rows": int(found["rows"]), "columns": columns}


def _counts(values: Any, column: Column) -> dict[str, Any]:
    counts = {"missing": values.is_null()}
    if column.ranged:
        counts["below"], counts["above"] = values < column.low, values > column.high
    if column.values is not None:
        counts["undeclared"] = ~values.is_in(list(column.values)) & ~values.is_null()
    return counts
