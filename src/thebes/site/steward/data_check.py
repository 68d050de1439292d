"""A look at a data set's rows for its steward's own eyes: how well they fit what was declared. Its figures are data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.data.connectors.connector import HandWrittenConnector, LeftOut
from thebes.data.connectors.registry import open_connector
from thebes.data.pictures.limits import SHARED
from thebes.data.schema import Column, Schema

if TYPE_CHECKING:
    from thebes.data.engines.table import EngineTable


def left_out(schema: Schema, source: Mapping[str, Any], *, folder: Path) -> tuple[int, Sequence[LeftOut]]:
    """Count the records of a source that can be read in every declared column, and all others by reason; (0, nothing)
    where every record is a row by itself. Not private: never to be sent anywhere."""
    if source.get("kind") == "spark":
        return 0, ()
    connector = open_connector(source, folder=folder)
    try:
        known = connector.columns()
        columns = [name for name in schema.columns if name in known]
        return connector.records(columns) if isinstance(connector, HandWrittenConnector) else (0, ())
    finally:
        connector.close()


def looked_at(table: EngineTable) -> dict[str, Any]:
    """Count the rows, and of each column the values that are missing (or not of its type), lie outside its bounds, or
    are none of its values; of pictures and arrays, each of which is read for it, those that cannot be. Not private:
    never to be sent anywhere."""
    import narwhals.stable.v2 as nw

    schema: Schema = table.schema
    frame = table.engine.rows(list(schema.columns), None)
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
    for name, reasons in _misread(table).items():
        columns[name] = {**reasons, **_shared(table, name)}
    return {"rows": int(found["rows"]), "columns": columns, **_people(table)}


def _people(table: EngineTable) -> dict[str, int]:
    """Count the people whom the key tells apart, and those of them with more rows than count."""
    import narwhals.stable.v2 as nw

    schema: Schema = table.schema
    if schema.unit != "person" or schema.key is None:
        return {}
    each = table.engine.rows([schema.key], None).select(_who=nw.col(schema.key)).filter(~nw.col("_who").is_null())
    each = each.group_by("_who").agg(_rows=nw.len())
    over = (nw.col("_rows") > schema.max_rows_per_unit).sum()
    found = table.engine.collected(each.select(_people=nw.len(), _over=over)).iloc[0].fillna(0)
    return {"people": int(found["_people"]), "people_over": int(found["_over"])}


def fitting_nowhere(figures: Mapping[str, Any]) -> list[str]:
    """Return the columns of which no row has a value that fits: what is asked about them would be told of nothing."""
    return [
        name
        for name, counts in figures["columns"].items()
        if 0 < figures["rows"] <= sum(count for what, count in counts.items() if what != SHARED)
    ]


def _misread(table: EngineTable) -> dict[str, dict[str, int]]:
    """Read every row's pictures and arrays once, and count those that are zeros to a network, by column and reason."""
    import narwhals.stable.v2 as nw

    if not table.schema.tensors:
        return {}
    names = {name: f"_x{place}" for place, name in enumerate(table.schema.tensors)}
    frame = table.engine.rows(list(names), None)
    kept = table.engine.kept([frame.select(**{at: nw.col(name) for name, at in names.items()})])
    counted = {name: Counter[str]() for name in names}
    with ExitStack() as held:
        held.callback(kept.close)
        tensors = table.tensors(kept, names)
        held.callback(tensors.close)
        for chunk in kept.chunks(tensors.fitting(10_000)):
            for name, reasons in tensors.misread(chunk).items():
                counted[name] += reasons
    return {name: dict(reasons) for name, reasons in counted.items()}


def _shared(table: EngineTable, name: str) -> dict[str, int]:
    """Count the files of pictures that rows of several people name: what hides one person's rows hides none of these,
    since whoever is pictured there counts as often as they are named."""
    import narwhals.stable.v2 as nw

    engine: Any = table.engine
    if table.schema.columns[name].type != "image" or engine.holds(name):
        return {}
    owner = table.schema.key if table.schema.unit == "person" else None
    named = engine.rows([name, *([] if owner is None else [owner])], None).filter(
        nw.col(name) != ""
    )  # of none: nothing, too
    if owner is not None:
        named = named.select(name, owner).unique()
    each = named.select(_file=nw.col(name)).group_by("_file").agg(_times=nw.len())
    found = table.engine.collected(each.filter(nw.col("_times") > 1).select(_shared=nw.len()))
    shared = int(found["_shared"].iloc[0])
    return {SHARED: shared} if shared else {}


def _counts(values: Any, column: Column) -> dict[str, Any]:
    if column.tensor is not None:
        return {}
    counts = {"missing": values.is_null()}
    if column.ranged:
        counts["below"], counts["above"] = values < column.low, values > column.high
    if column.values is not None:
        counts["undeclared"] = ~values.is_in(list(column.values)) & ~values.is_null()
    return counts
