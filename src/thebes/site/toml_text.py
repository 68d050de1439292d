"""TOML as a steward's files are written: plain entries first, then each table under its full name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from thebes.privacy.faults import Mistake


def entries(body: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Write a table, line by line; what TOML has no word for is a Mistake."""
    for name, value in body.items():
        if not isinstance(value, Mapping):
            yield f"{key(name)} = {value_of(value)}"
    for name, value in body.items():
        if isinstance(value, Mapping):
            full = f"{prefix}{key(name)}"
            if not value or not all(isinstance(inner, Mapping) for inner in value.values()):
                yield f"\n[{full}]"
            yield from entries(value, f"{full}.")


def key(name: str) -> str:
    """Return a name as it may stand before `=` and in brackets."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else value_of(name)


def value_of(value: Any) -> str:
    """Return a value as TOML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(value_of(inner) for inner in value)}]"
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    raise Mistake("source", f"holds a {type(value).__name__}, which a data set's file cannot")
