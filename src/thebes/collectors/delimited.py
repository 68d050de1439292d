"""Tables in text as exports write them: CSV, row by row, under the names of its columns.

What must stay true: memory is bounded by one row; a row that does not fit the names is a Mistake with its line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from thebes.collectors.sources import LONGEST_LINE, SourceFile, broken, lines

DELIMITERS = ",;\t"
LATEST_HEADER = 50  #: lines; banks write some above the names of the columns


def records(
    member: SourceFile, needed: Sequence[str], *, encoding: str = "utf-8"
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, {column: text}) for each row below the first line that names all `needed` columns, which also says
    the delimiter. Rows without anything in them are passed over."""
    csv.field_size_limit(LONGEST_LINE)
    rest = lines(member.stream, member.name, encoding=encoding)
    header = next((found for number, line in rest if (found := _header(number, line, needed)) is not None), None)
    if header is None:
        raise broken(member.name, None, f"has no line with the columns {', '.join(needed)}")
    begun, delimiter, titles = header
    if begun > LATEST_HEADER:
        raise broken(member.name, begun, "names its columns too late")
    reader = csv.reader((f"{line}\n" for _, line in rest), delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if len(fields) != len(titles):
                why = f"has {len(fields)} fields where {len(titles)} are expected"
                raise broken(member.name, begun + reader.line_num, why)
            yield begun + reader.line_num, dict(zip(titles, fields, strict=True))
    except csv.Error:
        raise broken(member.name, begun + reader.line_num, "is not CSV: check its quotes") from None


def _header(number: int, line: str, needed: Sequence[str]) -> tuple[int, str, list[str]] | None:
    """Return (number, delimiter, titles) of a line that names the columns."""
    if number <= LATEST_HEADER or all(title in line for title in needed):
        for delimiter in DELIMITERS:
            titles = [field.strip() for field in next(csv.reader([line.replace("\r", " ")], delimiter=delimiter), [])]
            if set(needed) <= set(titles):
                return number, delimiter, titles
    return None
