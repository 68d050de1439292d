"""Words of ours for what a reader of JSON found wrong. Only limits of ours are repeated, never what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.privacy.figures import plural

_WORDS = {
    "bool": "must be true or false",
    "date": "must be a day such as 2026-01-31",
    "datetime": "must be a moment such as 2026-01-31T12:00:00Z",
    "timezone_aware": "needs a time zone, such as the Z in 2026-01-31T12:00:00Z",
    "decimal": "must be a number",
    "dict": "must be an object",
    "extra_forbidden": "is not a known field",
    "finite_number": "must be a finite number",
    "float": "must be a number",
    "frozen_set": "must be a list",
    "int": "must be a whole number",
    "list": "must be a list",
    "mapping": "must be an object",
    "missing": "is missing",
    "model": "must be an object",
    "none_required": "must be left out",
    "set": "must be a list",
    "string": "must be text",
    "string_pattern_mismatch": "has characters that are not allowed here, or too few or too many of them",
    "tuple": "must be a list",
}
_LIMITS = {
    "greater_than": ("must be greater than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "literal_error": ("must be {}", "expected"),
    "enum": ("must be {}", "expected"),
}
_SIZES = {
    "string_too_short": ("must have at least {}", "min_length", "character", "characters"),
    "string_too_long": ("must have at most {}", "max_length", "character", "characters"),
    "too_short": ("must have at least {}", "min_length", "entry", "entries"),
    "too_long": ("must have at most {}", "max_length", "entry", "entries"),
}
#: what pydantic appends to the name of a type; the longest first
_ENDINGS = ("_unit_separator", "_attributes_type", "_from_float", "_parsing_size", "_parsing", "_type")


def in_words(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as what the field must be."""
    kind = str(error["type"])
    if kind == "value_error":  # raised by our own code
        return str(error["msg"]).removeprefix("Value error, ")
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return words.format(error.get("ctx", {}).get(limit, "something else"))
    if kind in _SIZES:
        words, limit, one, many = _SIZES[kind]
        return words.format(plural(error.get("ctx", {}).get(limit, 1), one, many))
    for ending in _ENDINGS:
        kind = kind.removesuffix(ending) if kind not in _WORDS else kind
    return _WORDS.get(kind, "is not what belongs here")
