"""The form that makes a schema out of a file's first line and what is known beforehand: no row comes here."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.data.connectors.connector import read_source
from thebes.data.connectors.csv import CsvSource
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.site.steward.proposal import MOST_COLUMNS, check_names, columns_of, header_columns
from thebes.site.steward.source_file import source_text
from thebes.site.toml_text import entries
from thebes.web.site.layout import SiteLayout

#: what a column may be: a type; text that says whose a row is; or nothing that is declared
KINDS = {
    "integer": "whole number",
    "float": "number",
    "string": "text",
    "boolean": "yes or no",
    "timestamp": "date or time",
    "image": "path of a picture in colour",
    "grey": "path of a picture in grey",
    "array": "array of numbers, written as [0.5, 2]",
    "key": "says whose a row is; never shown",
    "absent": "is left out",
}
#: encodings that browsers and Python know by the same names
ENCODINGS = {
    "utf-8": "UTF-8",
    "windows-1252": "Western European (windows-1252, Latin-1)",
    "iso-8859-15": "Western European with the euro (ISO 8859-15)",
    "windows-1250": "Central European (windows-1250)",
    "windows-1251": "Cyrillic (windows-1251)",
    "macintosh": "older Macintosh",
    "utf-16": "UTF-16",
    "shift_jis": "Japanese (Shift JIS)",
    "gb18030": "Chinese (GB 18030)",
}
#: how numbers are written with commas -> what a source declares
COMMAS = {"1.234,5": "decimal_comma", "1,234.5": "thousands_comma"}
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_LONGEST = 2**16  #: characters of a first line
_FIELDS = ("name", "column", "kind", "low", "high", "values", "size", "written")


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/propose")
    async def begin(request: Request) -> Response:
        return layout.page(
            request, "propose.html", title="Declare a data set", delimiters=DELIMITERS, encodings=ENCODINGS
        )

    @made.post("/propose/columns")
    async def columns(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """A form with a part for each column, in which what must be known beforehand is open."""
        header, delimiter, encoding = _text(body, "header"), _delimiter(body), _encoding(body)
        named = header_columns(header.strip("\r\n"), delimiter)
        check_names(list(named), in_form=True)
        told: dict[str, Any] = {"kinds": KINDS, "delimiter": delimiter, "encoding": encoding, "commas": COMMAS}
        return layout.part("propose_columns.html", columns=columns_of(named), **told)

    @made.post("/propose/schema")
    async def schema(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """The two files that the form makes, and the command that declares a data set with them."""
        declared, delimiter = _declared(body), _delimiter(body)
        checked = schema_of(declared)
        names = {r["name"]: r["column"] for r in _rows(body) if r["kind"] != "absent" and r["name"] != r["column"]}
        source: dict[str, Any] = {"kind": "csv", "path": "rows.csv"}
        source |= {} if delimiter == "," else {"delimiter": delimiter}
        source |= {} if (encoding := _encoding(body)) == "utf-8" else {"encoding": encoding}
        source |= _ways(body)
        source |= {"files": "files"} if any(told["type"] == "image" for told in declared["columns"].values()) else {}
        source |= {"columns": names} if names else {}
        read_source(CsvSource, source)
        return layout.part(
            "propose_files.html",
            schema="\n".join(entries(declared)).strip(),
            source=source_text(source).strip(),
            files="files" in source,
            keyless=checked.unit == "person" and checked.key is None,
        )

    return made


def _declared(body: Mapping[str, Any]) -> dict[str, Any]:
    """Read the form as a schema; a Mistake names the column and what of it is open."""
    unit, columns = _text(body, "unit"), dict[str, dict[str, Any]]()
    most = _number(_text(body, "max_rows_per_unit"), "max_rows_per_unit")
    for row in _rows(body):
        name, kind = row["name"], row["kind"]
        if kind not in KINDS:
            raise Mistake(name, "must be said to be something, or left out")
        if kind == "absent":
            continue
        told: dict[str, Any] = {"type": {"key": "string", "grey": "image"}.get(kind, kind)}
        told |= {"key": True} if kind == "key" else {}
        for bound in ("low", "high"):
            if row[bound] and kind in ("integer", "float", "array"):
                told[bound] = _number(row[bound], f"{name}.{bound}")
        if row["values"] and kind == "string":
            told["values"] = _listed(row["values"], f"{name}.values")
        if kind in ("image", "grey"):
            told |= dict(zip(("width", "height"), _sides(row["size"], f"{name}.size", 2), strict=True))
            told["channels"] = 1 if kind == "grey" else 3
        if kind == "array":
            told["shape"] = _sides(row["size"], f"{name}.size", None)
        if ("low" in told) != ("high" in told):
            raise Mistake(name, "needs both a least and a greatest value, or neither: then it is for conditions only")
        if name in columns:
            raise Mistake(name, "is the name of two columns")
        columns[name] = told
    if not columns:
        raise Mistake("columns", "are all left out")
    rows = {"max_rows_per_unit": most} if unit == "person" else {}
    return {"unit": unit, **rows, "columns": columns}


def _ways(body: Mapping[str, Any]) -> dict[str, Any]:
    """Read how the values of columns are written, as a source declares it."""
    found: dict[str, Any] = {}
    for row in _rows(body):
        name, kind, written = row["name"], row["kind"], row["written"].strip()
        if not written or kind == "absent":
            continue
        if kind in ("integer", "float"):
            if written not in COMMAS:
                raise Mistake(f"{name}.written", f"must be {' or '.join(COMMAS)}, or empty where a point is decimal")
            found.setdefault(COMMAS[written], []).append(name)
        elif kind == "timestamp":
            found.setdefault("dates", {})[name] = written
        elif kind == "boolean":
            found.setdefault("yes_no", {})[name] = _listed(written, f"{name}.written")
        else:
            raise Mistake(f"{name}.written", "is for numbers, for dates, and for yes or no")
    return found


def _rows(body: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The parts of the form, column by column."""
    lists = [[told] if isinstance(told := body.get(name), str) else told for name in _FIELDS]
    if not all(isinstance(told, list) and all(isinstance(each, str) for each in told) for told in lists):
        raise Mistake("columns", "are not as the form has them; reload the page")
    try:
        rows = [dict(zip(_FIELDS, row, strict=True)) for row in zip(*lists, strict=True)]
    except ValueError:
        raise Mistake("columns", "are not as the form has them; reload the page") from None
    if len(rows) > MOST_COLUMNS:
        raise Mistake("columns", f"are more than {MOST_COLUMNS:,}")
    return iter(rows)


def _text(body: Mapping[str, Any], name: str) -> str:
    told = body.get(name)
    if not isinstance(told, str) or not told.strip("\r\n") or len(told) > _LONGEST:
        raise Mistake(name, f"must be a text of 1 to {_LONGEST:,} characters")
    return told


def _listed(told: str, place: str) -> list[str]:
    try:
        return [value.strip() for value in next(csv.reader([told], skipinitialspace=True), [])]
    except csv.Error:
        raise Mistake(place, "must be texts with commas between, in quotes where one has a comma itself") from None


def _sides(told: str, place: str, wanted: int | None) -> list[int]:
    found = [int(side) for side in re.split(r"\s*[x×,]\s*", told.strip()) if re.fullmatch(r"\d{1,5}", side)]
    if not found or len(found) != (wanted or len(found)):
        example = "width x height, such as 224 x 224" if wanted else "such as 3 x 32 x 32"
        raise Mistake(place, f"says how many numbers there are: {example}")
    return found


def _delimiter(body: Mapping[str, Any]) -> str:
    told = body.get("delimiter")
    if told not in DELIMITERS:
        raise Mistake("delimiter", f"must be one of {', '.join(DELIMITERS.values())}")
    return str(told)


def _encoding(body: Mapping[str, Any]) -> str:
    told = body.get("encoding")
    if told not in ENCODINGS:
        raise Mistake("encoding", f"must be one of {', '.join(ENCODINGS)}")
    return str(told)


def _number(told: str, place: str) -> int | float:
    try:
        number = float(told)
    except ValueError:
        raise Mistake(place, "must be a number, with a point before decimals") from None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
