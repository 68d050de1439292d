"""The file in which a steward describes the place of rows, with the lines that say how a file is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.site.toml_text import entries

#: field of a CSV file's source -> an example, and what it says
_LINES = {
    "delimiter": ('";"', "where no comma stands between fields"),
    "encoding": ('"windows-1252"', "where the file is not in UTF-8"),
    "missing": ('["NA"]', "what is written where a value is missing"),
    "decimal_comma": ('["COLUMN"]', "80,5 and 1.234,5"),
    "thousands_comma": ('["COLUMN"]', "1,234.5"),
}
_TABLES = {
    "dates": ('"%d.%m.%Y"', "the form of dates, such as 31.01.2026"),
    "yes_no": ('["yes", "no"]', "the word for yes, then the word for no"),
}


def source_text(source: Mapping[str, Any]) -> str:
    """Write a source's file; where it is one of text, with a comment for each way of writing that it does not declare:
    those of one line above every table, because below one they would belong to it."""
    plain = {name: value for name, value in source.items() if not isinstance(value, Mapping)}
    tables = {name: value for name, value in source.items() if isinstance(value, Mapping)}
    written = [*entries(plain)]
    if source["kind"] != "csv":
        return "\n".join([*written, *entries(tables)]) + "\n"
    hints = [f"# {name} = {told}   # {why}" for name, (told, why) in _LINES.items() if name not in source]
    written += [
        "# How the file is written, where it is so (COLUMN: the name here); these lines stay above [...]:",
        *hints,
    ]
    written += entries(tables)
    for name, (told, why) in _TABLES.items():
        written += [] if name in source else [f"\n# [{name}]   # {why}", f"# COLUMN = {told}"]
    return "\n".join(written) + "\n"
