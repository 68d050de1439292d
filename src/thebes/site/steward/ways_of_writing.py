"""Hints for a steward's own eyes on how the values of a CSV file are written that do not fit: what the source would
have to declare. Nothing is declared by it, because what a value means is never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thebes.data.schema import Column, Schema
from thebes.site.toml_text import value_of

#: what texts look like that are written otherwise than their type is read
_NUMBER = r"^\s*[+-]?[\d.,]*\d,[\d.,]*\d\s*$"
_DATE = r"^\s*(\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2})\b"
_WORD = r"^\s*\pL{1,20}\s*$"
_LOOKS = {"integer": _NUMBER, "float": _NUMBER, "timestamp": _DATE, "boolean": _WORD}


def ways_of_writing(
    schema: Schema, source: Mapping[str, Any], columns: Sequence[str], *, folder: Path, scratch: Path
) -> dict[str, str]:
    """Return for each of the columns whose texts look like values that are written otherwise what to declare. Not
    private, as it depends on the rows."""
    import narwhals.stable.v2 as nw

    from thebes.data.engines.source import table_of

    asked = [name for name in columns if schema.columns[name].type in _LOOKS]
    if source.get("kind") != "csv" or not asked:
        return {}
    texts = Schema(unit="event", columns={name: Column(type="string") for name in asked})
    table = table_of(texts, source, folder=folder, scratch=scratch)
    try:
        looks = {name: nw.col(name).str.contains(_LOOKS[schema.columns[name].type]) for name in asked}
        frame = table.engine.rows(asked, None).select(**{name: look.sum() for name, look in looks.items()})
        found = table.engine.collected(frame).iloc[0].fillna(0)
    finally:
        table.close()
    return {name: _remedy(name, schema.columns[name].type) for name in asked if found[name] > 0}


def _remedy(name: str, kind: str) -> str:
    if kind == "timestamp":
        return f'[dates] {name} = "%d.%m.%Y" (or in what order and with what signs the days are written)'
    if kind == "boolean":
        return f'[yes_no] {name} = ["WORD FOR YES", "WORD FOR NO"]'
    listed = value_of([name])
    return f"decimal_comma = {listed} (80,5 is eighty and a half) or thousands_comma = {listed} (1,234 is no fraction)"
