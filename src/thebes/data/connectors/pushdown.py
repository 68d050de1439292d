"""The part of a condition that a database may answer already: never less than the rows that the engine will keep.

Every part asks one column and counts only where it is true, so that leaving out parts, or answering one for more rows,
gives more rows and never fewer. What a database might see otherwise than the engine (the order of texts, what counts
as missing, a value that is not of its column's type) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from thebes.data.connectors.connector import Held
from thebes.data.filter import ENDS, Among, Condition, Either, Every, Present, Value

#: writes a column's name, and a value of the kind that the column holds
Written = Callable[[str], str]
Valued = Callable[[Value], str]


def pushed(condition: Condition, held: Mapping[str, Held], name: Written, value: Valued) -> str | None:
    """The condition in SQL, or None where nothing of it can be asked."""
    if isinstance(condition, (Every, Either)):
        parts = [pushed(part, held, name, value) for part in condition.parts]
        if isinstance(condition, Either):
            known = [part for part in parts if part is not None]
            return " OR ".join(f"({part})" for part in known) or "1 = 0" if len(known) == len(parts) else None
        return " AND ".join(f"({part})" for part in parts if part is not None) or None
    if isinstance(condition, Present):
        return f"{name(condition.column)} IS NOT NULL" if condition.there else None
    values = condition.values if isinstance(condition, Among) else (condition.value,)
    if not all(_alike(one, held[condition.column]) for one in values):
        return None
    column = name(condition.column)
    if isinstance(condition, Among):
        if not condition.inside and held[condition.column] == "string":
            return None
        listed = ", ".join(map(value, condition.values))
        return f"{column} {'IN' if condition.inside else 'NOT IN'} ({listed})"
    if isinstance(condition.value, str) and condition.operator != "=":
        return None  # by its collation a database may find two texts the same, or order them otherwise
    return f"{column} {condition.operator} {value(condition.value)}"


def _alike(value: Value, holds: Held) -> bool:
    """Return whether the database compares this value just as the engine will."""
    if isinstance(value, bool):
        return holds == "boolean"
    if isinstance(value, int):
        return holds == "integer" and ENDS[0] < value < ENDS[1]
    if isinstance(value, float):
        return holds == "float"
    return holds == ("timestamp" if isinstance(value, datetime) else "string")
