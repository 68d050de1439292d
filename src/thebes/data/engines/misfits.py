"""Counts of values that do not fit what a schema declares of them, over any engine.

Exact counts of private rows, before any is left out: for whoever owns the rows, and for simulations.
"""

from __future__ import annotations

from collections.abc import Sequence

import narwhals.stable.v2 as nw

from thebes.data.engines.arithmetic import holds
from thebes.data.engines.engine import Engine
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.data.table import Misfits

_TOGETHER = 256  # columns that are looked at in one pass over the rows


def misfits_of(schema: Schema, engine: Engine, columns: Sequence[str], where: RowFilter | None) -> dict[str, Misfits]:
    """Count, of each column, how many of all the rows that meet a condition do not fit."""
    found: dict[str, Misfits] = {}
    for start in range(0, len(columns), _TOGETHER):
        found |= _counted(schema, engine, columns[start : start + _TOGETHER], where)
    return found


def _counted(schema: Schema, engine: Engine, columns: Sequence[str], where: RowFilter | None) -> dict[str, Misfits]:
    asked = where.columns if where is not None else ()
    frame = engine.rows(list(dict.fromkeys([*columns, *asked])), where)
    if where is not None:
        frame = frame.filter(holds(where.condition, columns[0]))
    counts = {"_all": nw.len()}
    for place, name in enumerate(columns):
        for fault, flags in _faults(schema, name).items():
            counts[f"_{place}_{fault}"] = flags.cast(nw.Int64).sum()
    line = engine.collected(frame.select(**counts)).iloc[0].fillna(0).astype("int64")
    found: dict[str, dict[str, int]] = {name: {} for name in columns}
    for at, count in line.drop("_all").items():
        _, placed, fault = str(at).split("_")
        found[columns[int(placed)]][fault] = int(count)
    return {name: Misfits(int(line["_all"]), **faults) for name, faults in found.items()}


def _faults(schema: Schema, name: str) -> dict[str, nw.Expr]:
    """Return, by fault, the expression that finds the rows which have it."""
    column, missing = schema.column(name), nw.col(name).is_null()
    faults = {"missing": missing}
    if column.values is not None:
        faults["undeclared"] = ~missing & ~nw.col(name).is_in(list(column.held))
    if column.ranged:
        faults |= {"above": nw.col(name) > column.high, "below": nw.col(name) < column.low}
    return faults
