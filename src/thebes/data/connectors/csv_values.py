"""The values of a file of text that are written otherwise than Thebes reads them: as declared, never as guessed.

What must stay true: a value that is not written as was declared is missing, and no value is read as another than it
says: 1.5 never becomes 15, nor the third of April the fourth of March.
"""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.connectors.scanned_source import text

#: a number as it is written where the comma is decimal: points stand between thousands
_WITH_COMMA = r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?([eE][+-]?\d+)?\s*"
#: the same where the point is decimal and commas stand between thousands
_WITH_POINT = r"\s*[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?\s*"
_PIECE = 1 << 20  #: characters
#: what a declared date may be written with, and as what each is read
_PARTS = {"%d": r"\d{1,2}", "%m": r"\d{1,2}", "%Y": r"\d{4}", "%H": r"\d{1,2}", "%M": r"\d{2}", "%S": r"\d{2}"}


def decimal_comma(column: str) -> str:
    """Write SQL for what a field with a decimal comma would be with a point. Whose points are not between thousands was
    written by other rules, and is no number."""
    plain = f"replace(replace({column}, '.', ''), ',', '.')"
    return (
        f"CASE WHEN regexp_full_match({column}, {text(_WITH_COMMA)}) THEN {plain} "
        f"WHEN contains({column}, '.') THEN NULL ELSE {column} END"
    )


def thousands_comma(column: str) -> str:
    """Write SQL for what a field with commas between thousands would be without; one whose commas stand elsewhere was
    written by other rules, and is no number."""
    return f"CASE WHEN regexp_full_match({column}, {text(_WITH_POINT)}) THEN replace({column}, ',', '') END"


def dated(column: str, form: str) -> str:
    """Write SQL for the moment that a field says in a declared form, as ISO 8601; what is written otherwise, or is no
    day of the calendar, is missing."""
    shape = "".join(_PARTS.get(part, re.escape(part)) for part in _parted(form))
    moment = f"try_strptime(trim({column}), {text(form)})"
    return (
        f"CASE WHEN regexp_full_match(trim({column}), {text(shape)}) THEN strftime({moment}, '%Y-%m-%dT%H:%M:%S') END"
    )


def form_fault(form: str) -> str:
    """Say what is wrong with the declared form of a date; nothing where nothing is."""
    parts = _parted(form)
    unknown = [part for part in parts if part.startswith("%") and part not in _PARTS]
    if unknown:
        return f"has {unknown[0]}; a date is written with {', '.join(_PARTS)}"
    if not {"%d", "%m", "%Y"} <= set(parts):
        return "must have %d, %m and %Y"
    return "has a part twice" if len({*parts} & {*_PARTS}) != sum(part in _PARTS for part in parts) else ""


def _parted(form: str) -> list[str]:
    return re.findall(r"%.?|[^%]", form)


def said(column: str, words: Sequence[str]) -> str:
    """Write SQL for the truth of a field in which `words` stand for yes and no."""
    yes, no = (text(word.strip().lower()) for word in words)
    plain = f"lower(trim({column}))"
    return f"CASE WHEN {plain} = {yes} THEN 'true' WHEN {plain} = {no} THEN 'false' END"


def replaced(columns: Mapping[str, str]) -> str:
    """Write what stands in place of columns, by name, in a SELECT *."""
    return ", ".join(f"{made} AS {name}" for name, made in columns.items())


def encoding_fault(name: str) -> str:
    """Say what is wrong with an encoding's name; nothing where nothing is."""
    try:
        known = codecs.lookup(name)
    except (LookupError, ValueError):
        return "is not an encoding that Python knows; latin-1, windows-1252 and utf-16 are some"
    if not getattr(known, "_is_text_encoding", True):
        return "is not an encoding of text; latin-1, windows-1252 and utf-16 are some"
    # In these what a sign means depends on signs before it, in other lines too.
    shifting = known.name.startswith(("iso2022", "utf-7", "hz", "punycode", "idna")) or known.name.endswith("escape")
    return "cannot be read line by line; write the file anew in UTF-8" if shifting else ""


def _unread(error: UnicodeError) -> tuple[str, int]:
    """Put a sign that is no text in UTF-8 in place of what cannot be read or written, and go on after it."""
    assert isinstance(error, (UnicodeDecodeError, UnicodeEncodeError))  # noqa: S101
    return "\udc80", max(error.end, error.start + 1)


UNREAD = "thebes.unread"  #: of bytes that are no text in a file's encoding
codecs.register_error(UNREAD, _unread)


def is_utf8(name: str) -> bool:
    return codecs.lookup(name).name in ("utf-8", "ascii")


def in_utf8(opened: IO[str], what: str) -> tuple[IO[bytes], Path]:
    """Write a file's text anew in UTF-8, into a file without a name that is gone when it is closed; a line that is not
    text in its encoding is none in this one. Gives the file, and the path by which this process reads it."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115  # closed with its source
    try:
        while piece := opened.read(_PIECE):
            copy.write(piece.encode("utf-8", "surrogateescape"))
        copy.flush()
    except (OSError, EOFError, UnicodeError) as error:
        copy.close()
        raise SourceUnavailable(f"{what} cannot be read: {type(error).__name__}") from None
    return copy, Path(f"/dev/fd/{copy.fileno()}")
