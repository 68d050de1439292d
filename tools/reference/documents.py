"""Write the fields of every kind's documents as one page, out of their schemas and of what the kinds say they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thebes.privacy.figures import figure
from thebes.tasks import registry
from thebes.tasks.document import Document, Range, Values
from thebes.tasks.field_meanings import common, meaning
from thebes.tasks.form import Form
from tools.reference.cells import Schema, cell, named_by, type_of

_TOP = """# Fields of documents

*For everybody who writes a document: every field of every task type, what it takes, and what it means.*

A field without a default must be given. What a task type is for, and how to read its answer, stands with the tasks that
[people answer](tasks-people.md) and those that [institutions answer](tasks-sites.md). `thebes task check FILE` names
what is wrong with a document.
"""
_OF_BOUNDS = """A column's bounds are a range or a set.

{rows}"""
HEAD = "| field | takes | default | means |\n|---|---|---|---|\n"


def written() -> str:
    """Return the page."""
    people, sites = (
        [registry.kind(type_).document for type_ in types] for types in (registry.people_types(), registry.site_types())
    )
    pieces = [_TOP.rstrip()]
    pieces += _common("Every document that people answer", people)
    pieces += ["### Bounds", _OF_BOUNDS.format(rows=_of_parts({"range": Range, "set": Values}))]
    pieces += _common("Every document that institutions answer", sites)
    pieces += [piece for group in (people, sites) for each in group for piece in _of_kind(each, group)]
    return "\n\n".join(pieces) + "\n"


def _type(document: type[Document]) -> str:
    return str(document.model_fields["type"].default)


def _shared(kinds: list[type[Document]]) -> dict[str, tuple[str, list[str]]]:
    """By path, the row that most of the kinds with this field have that say nothing of their own, and those kinds."""
    found: dict[str, dict[str, list[str]]] = {}
    for document in kinds:
        form = registry.form(_type(document))
        for path, row in _rows(document, form).items():
            if path not in form.meanings and path in common(document):
                found.setdefault(path, {}).setdefault(row, []).append(_type(document))
    return {path: max(rows.items(), key=lambda row: len(row[1])) for path, rows in found.items()}


def _common(title: str, kinds: list[type[Document]]) -> Iterator[str]:
    yield f"## {title}"
    yield HEAD + "\n".join(
        row if len(of) == len(kinds) else f"{row.removesuffix(' |')}. *Of {', '.join(of)}* |"
        for row, of in _shared(kinds).values()
    )


def _of_kind(document: type[Document], kinds: list[type[Document]]) -> Iterator[str]:
    shared = {row for row, of in _shared(kinds).values() if _type(document) in of}
    yield f"## {_type(document)}"
    yield cell((document.__doc__ or "").split("\n\n")[0])
    yield HEAD + "\n".join(row for row in _rows(document, registry.form(_type(document))).values() if row not in shared)


def _of_parts(parts: Mapping[str, type[Any]]) -> str:
    told = {"low": "the least", "high": "the largest", "values": "all that count; anything else is missing"}
    told["default"] = "replaces a missing value"
    rows = []
    for name, part in parts.items():
        schema = part.model_json_schema()
        for field, found in schema["properties"].items():
            rows.append(row(field, found, {}, told.get(field, f"a {name}"), must=field in schema["required"]))
    return HEAD + "\n".join(rows)


def _rows(document: type[Document], form: Form) -> dict[str, str]:
    schema = document.model_json_schema()
    parts = schema.get("$defs", {})
    rows: dict[str, str] = {}

    def add(found: Schema, prefix: str) -> None:
        for name, one in found["properties"].items():
            path = f"{prefix}{name}"
            if path == "type" and prefix == "":
                continue
            told = meaning(path, document, form) or one.get("description", "")
            rows[path] = row(path, one, parts, told, must=name in found.get("required", ()))
            if path != "bounds":
                for mark, part in _inside(one, parts):
                    add(part, f"{path}.{mark}")

    add(schema, "")
    return rows


def _inside(found: Schema, parts: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """The parts that a field holds, with a mark where it holds many by name."""
    for each in found.get("anyOf", [found]):
        many = _by_name(each)
        inner = many or each
        part = parts.get(named_by(inner), {}) if "$ref" in inner else {}
        if "properties" in part:
            yield "*." if many else "", part


def _by_name(schema: Schema) -> Schema:
    """Return what stands under each name, where a field is such an object; else nothing."""
    values = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    return next((each for each in values if isinstance(each, dict)), {})


def row(path: str, found: Schema, parts: Mapping[str, Schema], told: str, *, must: bool) -> str:
    """Return the row of one field: its name, what it takes, its default, and what it means."""
    ways = [each for each in found.get("anyOf", [found]) if each.get("type") != "null"]
    takes = " or ".join(dict.fromkeys(_taken(each, parts) for each in ways))
    default = found.get("default")
    said = "-" if must else "none" if default is None else f"`{_plain(default)}`"
    return f"| `{path}` | {cell(takes)} | {said} | {cell(told)} |"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        figure(value)
        if isinstance(value, (int, float))
        else ", ".join(map(str, value))
        if isinstance(value, (list, tuple))
        else str(value)
    )


def _taken(schema: Schema, parts: Mapping[str, Schema]) -> str:
    if inner := _by_name(schema):
        return "bounds by column" if "oneOf" in inner else f"by name: {_taken(inner, parts)}"
    if schema.get("type") != "array":
        return type_of(schema, parts) + _limits(schema)
    several = schema.get("prefixItems")
    most = f", at most {figure(schema['maxItems'])}" if "maxItems" in schema and not several else ""
    exactly = f" {len(several)}" if several else ""
    return f"list of{exactly} {_taken(several[0] if several else schema.get('items', {}), parts)}{most}"


def _limits(schema: Schema) -> str:
    """The limits of a number, or of how long something is."""
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    ends = [
        *([f"from {figure(least)}"] if least is not None else []),
        *([f"above {figure(above)}"] if above is not None else []),
        *([f"to {figure(most)}"] if most is not None else []),
        *([f"below {figure(below)}"] if below is not None else []),
    ]
    if "maxLength" in schema:
        ends.append(f"of at most {figure(schema['maxLength'])} characters")
    return f" {' '.join(ends)}" if ends else ""
