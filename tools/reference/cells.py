"""Cells of the tables of reference: a type in words out of its schema, and text that stands in one cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def type_of(schema: Schema, parts: Mapping[str, Schema]) -> str:
    """Return in words what a schema takes; `parts` are the schemas that it may refer to."""
    if "$ref" in schema:
        named = parts.get(named_by(schema), {})
        return type_of(named, parts) if named.get("type") != "object" else "object"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(each, parts) for each in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}), parts)}"
    return {"string": "text", "integer": "whole number", "boolean": "true or false", "null": "null"}.get(
        str(schema.get("type", "")), str(schema.get("type", "anything"))
    )


def named_by(schema: Schema) -> str:
    """Return the name of the part that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def cell(told: str) -> str:
    """Return text in one line, with nothing that would end a cell or begin a tag."""
    return re.sub(r"\s+", " ", told).replace("|", "\\|").replace("<", "&lt;").strip()
