"""The types of a table's columns, judged by every value of them: nothing is guessed from a sample.

What must stay true: what is inferred reads every value that was seen; a day that could be two days is text, no guess;
digits that begin with zero are text, since zip codes and account numbers are not numbers.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from thebes.collectors.sources import moment, words
from thebes.data.store.values import LONGEST_STRING, says_none

_TRUTH = {"true": True, "false": False, "yes": True, "no": False}
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d{0,18})", re.ASCII)
_POINT = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?", re.ASCII)
_CURRENCY = re.compile(r"^[€$£¥]\s?|\s?(€|\$|£|¥|EUR|USD|GBP|CHF)$")
_DAY = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?:[ ,T]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII)
_NAME = re.compile(r"[^a-z0-9]+")
_SPELLED = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d"}
)
_TAKEN = frozenset({"rowid", "oid"})

Parser = Callable[[Any], Any]


class Unreadable(ValueError):
    """A value that a way of reading cannot read."""


@dataclass(slots=True)
class ColumnReading:
    """The ways in which every value of a column seen so far can be read, most exact first."""

    as_text: bool = False
    dates: str | None = None  #: dmy or mdy
    decimals: str | None = None  #: point or comma
    open: list[str] = field(default_factory=list)
    filled: int = 0

    def __post_init__(self) -> None:
        orders = [self.dates] if self.dates is not None else ["dmy", "mdy"]
        marks = [self.decimals] if self.decimals is not None else ["point", "comma"]
        self.open = ["text"] if self.as_text else ["truth", "integer", *marks, "time", *orders, "text"]

    def see(self, value: Any) -> None:
        if missing(value):
            return
        self.filled += 1
        self.open = [way for way in self.open if way == "text" or _reads(way, value)]

    def way(self) -> str:
        """The way to read this column. Days that both orders can read say nothing about which one is meant."""
        if not self.filled or {"dmy", "mdy"} <= set(self.open):
            return "text"
        if {"point", "comma"} <= set(self.open) and "integer" not in self.open:
            return "text"  # 1,234 may be a thousand or a little more than one
        return self.open[0]

    def doubt(self) -> str | None:
        """Name what could mean two things, and the option that says which; None where nothing could."""
        if not self.filled or self.way() != "text":
            return None
        if {"dmy", "mdy"} <= set(self.open):
            return "could be dates: say --dates dmy (day first) or --dates mdy (month first)"
        if {"point", "comma"} <= set(self.open):
            return "could be numbers: say --decimals point or --decimals comma"
        return None


@dataclass(frozen=True, slots=True)
class Types:
    """Titles of a file's columns in order, their names in SQL, the types declared, and how values are read."""

    columns: Sequence[str]
    names: Mapping[str, str]
    kinds: Mapping[str, str]
    ways: Mapping[str, str]
    clash: str | None  #: a column that cannot be read as what was declared before
    doubts: Mapping[str, str]  #: what could mean two things, and the option that says which

    @classmethod
    def of(cls, readings: Mapping[str, ColumnReading], before: Mapping[str, str]) -> Types:
        names = _named(list(readings), before)
        ways = {title: reading.way() for title, reading in readings.items()}
        clash = None
        for title, reading in readings.items():
            held = before.get(names[title])
            if held is None or _KINDS[ways[title]] == held:
                continue
            fitting = [way for way in reading.open if _KINDS[way] == held]
            if reading.filled and not fitting:
                clash = clash or title
            else:
                ways[title] = fitting[0] if fitting else next(way for way, kind in _KINDS.items() if kind == held)
        doubts = {title: doubt for title, reading in readings.items() if (doubt := reading.doubt()) is not None}
        return cls(list(readings), names, {title: _KINDS[way] for title, way in ways.items()}, ways, clash, doubts)

    def value(self, title: str, value: Any) -> Any:
        """A value as the store takes it; an Unreadable where the file is not the one that was judged."""
        if missing(value):
            return None
        try:
            return _WAYS[self.ways[title]](value)
        except Unreadable as error:
            return error


def misfit(values: Iterable[tuple[int, Any]], reading: ColumnReading, kind: str) -> int | None:
    """The line of the first value that is not of a kind, read in the way that reads most of them; a `reading` that has
    seen nothing says which ways there are."""
    ways = [way for way in reading.open if _KINDS[way] == kind]
    fits, first = Counter(dict.fromkeys(ways, 0)), dict[str, int]()
    for line, value in values:
        for way in ways if not missing(value) else ():
            if _reads(way, value):
                fits[way] += 1
            else:
                first.setdefault(way, line)
    return first.get(fits.most_common(1)[0][0]) if ways else None


def missing(value: Any) -> bool:
    """Return whether a value says that there is none."""
    if isinstance(value, str):
        return says_none(value)
    if isinstance(value, (float, Decimal)):
        return not math.isfinite(value)
    return value is None


def _reads(way: str, value: Any) -> bool:
    try:
        _WAYS[way](value)
    except Unreadable:
        return False
    return True


def _truth(value: Any) -> bool:
    found = value if isinstance(value, bool) else _TRUTH.get(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise Unreadable
    return bool(found)


def _integer(value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    raise Unreadable


def _point(value: Any) -> float:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return _finite(value)
    text = _amount(value)
    if not _POINT.fullmatch(text) or not re.search(r"\d", text) or _no_number(text):
        raise Unreadable
    return _finite(text.replace(",", ""))


def _comma(value: Any) -> float:
    text = _amount(value)
    if not _COMMA.fullmatch(text) or _no_number(text):
        raise Unreadable
    return _finite(text.replace(".", "").replace(",", "."))


def _amount(value: Any) -> str:
    """A number's spelling without a currency and without narrow spaces between thousands."""
    if not isinstance(value, str) or len(value) > 60:
        raise Unreadable
    return _CURRENCY.sub("", value.strip()).replace("\u202f", "").replace("\u00a0", "")


def _no_number(text: str) -> bool:
    """Digits that stand for something else: zip codes, and numbers of accounts that no float could hold."""
    return re.match(r"[+-]?0\d", text) is not None or re.fullmatch(r"[+-]?\d{16,}", text) is not None


def _finite(value: Any) -> float:
    try:
        found = float(value)
    except (ValueError, OverflowError):
        raise Unreadable from None
    if not math.isfinite(found):
        raise Unreadable
    return found


def _time(value: Any) -> datetime:
    if isinstance(value, datetime):
        found: datetime | None = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    elif isinstance(value, date):
        found = datetime(value.year, value.month, value.day, tzinfo=UTC)
    else:
        # a mere row of digits is a number, whatever ISO 8601 allows
        found = moment(value) if isinstance(value, str) and not value.strip().isdigit() else None
    if found is None:
        raise Unreadable
    return found


def _day(order: str) -> Parser:
    def read(value: Any) -> datetime:
        found = _DAY.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise Unreadable
        first, second, year = int(found[1]), int(found[2]), int(found[3])
        day, month = (first, second) if order == "dmy" else (second, first)
        try:
            clock = [int(part or 0) for part in found.groups()[3:]]
            return datetime(year, month, day, clock[0], clock[1], clock[2], tzinfo=UTC)
        except ValueError:
            raise Unreadable from None

    return read


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:LONGEST_STRING].hex()
    if isinstance(value, (dict, list)):
        value = json.dumps(value, default=str)
    return words(value if isinstance(value, str) else str(value), LONGEST_STRING) or ""


_WAYS: dict[str, Parser] = {
    "truth": _truth,
    "integer": _integer,
    "point": _point,
    "comma": _comma,
    "time": _time,
    "dmy": _day("dmy"),
    "mdy": _day("mdy"),
    "text": _text,
}
_KINDS = {
    "truth": "boolean",
    "integer": "integer",
    "point": "float",
    "comma": "float",
    "time": "timestamp",
    "dmy": "timestamp",
    "mdy": "timestamp",
    "text": "string",
}


def _named(titles: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    """A name in SQL for every title: small letters, digits and underscores, each once. Letters with marks are spelled
    out, except where a table that was declared `before` knows them left out."""
    found: dict[str, str] = {}
    for title in titles:
        name = _single(_plain(_ascii(str(title))), found)
        earlier = _single(_plain(str(title)), found)
        found[title] = earlier if earlier in before and name not in before else name
    return found


def _ascii(title: str) -> str:
    return unicodedata.normalize("NFKD", title.lower().translate(_SPELLED))


def _plain(title: str) -> str:
    plain = _NAME.sub("_", title.strip().lower().encode("ascii", "ignore").decode()).strip("_")[:50] or "column"
    if not plain[0].isalpha() or plain.startswith(("sqlite_", "thebes_")) or plain in _TAKEN:
        plain = f"c_{plain}"
    return plain


def _single(plain: str, found: Mapping[str, str]) -> str:
    name, count = plain, 1
    while name in found.values():
        count += 1
        name = f"{plain}_{count}"
    return name
