"""The kinds of task there are and what their documents let one choose, read off the kinds themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thebes.tasks import registry
from thebes.tasks.document import Document

_EVERYWHERE = frozenset({"type", "version", "server", "anonymity"})


def algorithms() -> list[dict[str, Any]]:
    """One object for each kind: `type`, `answered_by` ("people" or "sites"), `server` (whether it must be trusted; None
    where it does not apply, or depends on where noise is added), `about`, the document's `fields`, and `choices`: what
    a field with a fixed list of values may say."""
    registry.load_all()
    documents = {model.model_fields["type"].default: model for model in _all(Document)}
    return [_described(type_, documents[type_]) for type_ in registry.types() if type_ in documents]


def _described(type_: str, model: type[Document]) -> dict[str, Any]:
    fields = model.model_json_schema()["properties"]
    server = fields.get("server", {})
    return {
        "type": type_,
        "answered_by": "sites" if type_ in registry.site_types() else "people",
        "server": server.get("const", server.get("default")),
        "about": (model.__doc__ or "").partition("\n")[0],
        "choices": {n: found for n in fields if n not in _EVERYWHERE and (found := _choices(fields[n]))},
        "fields": list(fields),
    }


def _choices(schema: dict[str, Any]) -> list[Any]:
    """List the values that a field may have; of one that may be left out the same."""
    offered = [schema, *schema.get("anyOf", [])]
    return [value for each in offered for value in each.get("enum", [each["const"]] if "const" in each else [])]


def _all(model: type[Document]) -> Iterator[type[Document]]:
    for child in model.__subclasses__():
        if isinstance(child.model_fields["type"].default, str):
            yield child
        yield from _all(child)
