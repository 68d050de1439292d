"""Bounds that are typed about one column beforehand, and single values as people type them.

What must stay true: a value that is written as text reads back the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_COLUMNS = 200
_PARTS = ("low", "high", "values", "default")
_SUGGESTED = {"float": "range", "integer": "range", "string": "set"}


@dataclass(frozen=True, slots=True)
class BoundDraft:
    """The bounds of one column, as they are typed. `kind` is "", "range" or "set"."""

    column: str
    kind: str = ""
    low: str = ""
    high: str = ""
    values: str = ""
    default: str = ""

    @property
    def untouched(self) -> bool:
        """True where nothing was typed yet: a suggested kind alone declares nothing."""
        return not any(typed.strip() for typed in (self.low, self.high, self.values, self.default))

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Iterator[BoundDraft]:
        """Every column's, as a browser sent them."""
        for place in range(MOST_COLUMNS):
            column = body.get(f"bound-{place}-column")
            if not isinstance(column, str):
                return
            kind = text(body, f"bound-{place}-kind")
            parts = {part: text(body, f"bound-{place}-{part}") for part in _PARTS}
            yield cls(column, kind if kind in ("range", "set") else "", **parts)

    @classmethod
    def first(cls, column: str, columns: Mapping[str, Any]) -> BoundDraft:
        """Draft what a column's published type suggests. Never numbers: those are for the requestor to know."""
        type_ = columns.get(column, {}).get("type", "")
        if type_ == "boolean":
            return cls(column, "set", values="true, false")
        return cls(column, _SUGGESTED.get(type_, ""))

    @classmethod
    def of(cls, column: str, bound: Mapping[str, Any]) -> BoundDraft:
        """Draft what would have been typed for this part of a document."""
        kind = bound.get("type")
        if kind == "set":
            values, default = bound.get("values"), bound.get("default")
            listed = values if isinstance(values, (list, tuple)) else []
            missing = "" if default is None else _member(default)
            return cls(column, "set", values=", ".join(map(_member, listed)), default=missing)
        ends = {n: typed(bound[n]) if bound.get(n) is not None else "" for n in ("low", "high", "default")}
        return cls(column, "range" if kind == "range" else "", **ends)

    def as_json(self, problems: list[tuple[str, str]]) -> dict[str, Any]:
        """This part of a document; what cannot be read is added to `problems`."""
        made: dict[str, Any] = {"type": self.kind}
        if self.kind == "set":
            made["values"] = [value(part.strip()) for part in re.split(r"[,\n]", self.values) if part.strip()]
            if self.default.strip():
                made["default"] = value(self.default.strip())
            return made
        for name in ("low", "high", "default"):
            written = getattr(self, name).strip()
            read = number(written)
            if written and read is None:
                problems.append((f"bounds.{self.column}.{name}", "must be a number"))
            elif read is not None:
                made[name] = read
        return made


def text(body: Mapping[str, Any], name: str) -> str:
    """Return what stands in one field of a form."""
    found = body.get(name, "")
    return found.replace("\r\n", "\n") if isinstance(found, str) else ""


def texts(found: object) -> tuple[str, ...]:
    """Return what is chosen in one field of a form, of which there may be several."""
    listed = found if isinstance(found, list) else [found]
    return tuple(each for each in listed if isinstance(each, str) and each)


def number(written: str) -> int | float | None:
    """The number that somebody typed, or None."""
    try:
        return int(written) if re.fullmatch(r"[+-]?\d{1,18}", written) else _finite(float(written))
    except ValueError:
        return None


def value(written: str) -> Any:
    """One member of a set: a number or a truth value where it reads as one, else the words. Quotes keep words."""
    if len(written) > 1 and written[0] == written[-1] == '"':
        return written[1:-1]
    if written in ("true", "false"):
        return written == "true"
    read = number(written)
    return written if read is None else read


def typed(found: Any) -> str:
    """A member of a set, or a number, as it is typed so that it reads back the same."""
    return found if isinstance(found, str) else json.dumps(found)


def _member(found: Any) -> str:
    written = typed(found)
    return f'"{written}"' if isinstance(found, str) and value(written) != found else written


def _finite(read: float) -> float | None:
    return read if math.isfinite(read) else None
