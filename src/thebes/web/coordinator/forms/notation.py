"""The ways in which values of a document are typed, by their schema: numbers, names with commas between them, a line
for each name. Whatever has parts may be typed as JSON, too.

What must stay true: a value that is written as text reads back the same, or there is no text for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from thebes.privacy.reading import NotJSON, read_json
from thebes.web.coordinator.forms.bound import number, value

Schema = Mapping[str, Any]
_ORDER = ("const", "enum", "boolean", "integer", "number", "object", "array", "", "string")
_TRUTH = {"true": True, "false": False}


def alternatives(schema: Schema) -> list[Schema]:
    """List the ways in which a value may be, but for being left out; the narrowest first."""
    found = [each for each in schema.get("anyOf", (schema,)) if each.get("type") != "null"]
    return sorted(found, key=lambda each: _ORDER.index(_sort(each)))


def choices(schema: Schema) -> list[str] | None:
    """List the words that a value may be, where it can be nothing else."""
    found: list[str] = []
    for each in alternatives(schema):
        if _sort(each) not in ("const", "enum", "boolean"):
            return None
        found += ["true", "false"] if _sort(each) == "boolean" else map(_typed, _words(each))
    return found


def parted(schema: Schema) -> bool:
    """Return whether a value may have parts, and so need several lines."""
    return any(_sort(each) in ("object", "array", "") for each in alternatives(schema))


def number_mode(schema: Schema) -> str:
    """Return which keys are needed to type it: those of whole numbers, of numbers, or all."""
    sorts = {_sort(each) for each in alternatives(schema)}
    return "numeric" if sorts == {"integer"} else "decimal" if sorts <= {"integer", "number"} else ""


def read(schema: Schema, text: str) -> Any:
    """Return the value that was typed; ValueError with what it must be."""
    if text[:1] in ("[", "{") and parted(schema):
        try:
            return read_json(text)
        except NotJSON as error:
            raise ValueError(f"begins as JSON, but {error}") from None
    for each in alternatives(schema):
        for found in _read(each, text):
            return found
    raise ValueError(f"must be {wanted(schema)}")


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def wanted(schema: Schema) -> str:
    """Say what must be typed."""
    return ", or ".join(dict.fromkeys(map(_wanted, alternatives(schema))))


def _wanted(schema: Schema) -> str:
    sort = _sort(schema)
    if sort in ("const", "enum"):
        return " or ".join(map(_typed, _words(schema)))
    if sort == "array" and _sort(alternatives(_items(schema))[0]) == "array":
        return "lines of names with commas between them"
    if sort == "array":
        numbers = number_mode(_items(schema))
        of = {"numeric": "whole numbers", "decimal": "numbers"}.get(numbers, "names")
        return f"{of} with commas between them"
    if sort == "object":
        return f"lines of a name, = and {wanted(_inner(schema))}"
    plain = {"integer": "a number", "number": "a number", "boolean": "true or false", "string": "text"}
    return plain.get(sort, "JSON")


def _read(schema: Schema, text: str) -> Iterator[Any]:
    """Give the value that a text means in this one way, if any."""
    sort = _sort(schema)
    if sort in ("const", "enum"):
        yield from (each for each in _words(schema) if _typed(each) == text)
    elif sort == "boolean":
        yield from (_TRUTH[text],) if text in _TRUTH else ()
    elif sort in ("integer", "number"):
        found = number(text)
        yield from () if found is None else (found,)
    elif sort == "string":
        yield text
    elif sort == "":
        yield value(text)
    else:
        try:
            yield _object(schema, text) if sort == "object" else _array(schema, text)
        except ValueError:
            return


def _object(schema: Schema, text: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for line in filter(str.strip, text.splitlines()):
        name, equal, told = (part.strip() for part in line.partition("="))
        if not equal or not name or name in made:
            raise ValueError
        made[name] = read(_inner(schema), told)
    return made


def _array(schema: Schema, text: str) -> list[Any]:
    items = _items(schema)
    deep = _sort(alternatives(items)[0]) == "array"
    parts = text.splitlines() if deep else re.split(r"[,\n]", text)
    return [read(items, part.strip()) for part in parts if part.strip()]


def _written(found: Any) -> str:
    if isinstance(found, Mapping):
        return "\n".join(f"{name} = {_written(told)}" for name, told in found.items())
    if isinstance(found, (list, tuple)):
        deep = any(isinstance(each, (list, tuple)) for each in found)
        return ("\n" if deep else ", ").join(map(_written, found))
    return _typed(found)


def _as_json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False)


WAYS = (_written, _as_json)  #: to write a value; not every one reads back


def _typed(found: Any) -> str:
    return found if isinstance(found, str) else _as_json(found)


def _words(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema["enum"])


def _items(schema: Schema) -> Schema:
    found: Schema = schema.get("items") or (schema.get("prefixItems") or ({},))[0]
    return found


def _inner(schema: Schema) -> Schema:
    found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else {}


def _sort(schema: Schema) -> str:
    return next((name for name in ("const", "enum") if name in schema), str(schema.get("type", "")))
