"""The kinds of task there are and what their documents let one choose, read off the kinds themselves."""

from __future__ import annotations

from typing import Any

from thebes.tasks import registry
from thebes.tasks.document import Document
from thebes.tasks.site_document import SiteDocument

_EVERYWHERE = frozenset({"type", "version", "server", "anonymity"})


def algorithms() -> list[dict[str, Any]]:
    """Return one object for each kind, and for each dialect that turns into one.

    It says `type`, `answered_by` ("people" or "sites"), `server` (whether it must be trusted; None where it does not
    apply, or depends on where noise is added), `about`, the document's `fields`, and `choices`: what a field with a
    fixed list of values may say.
    """
    written = {type_: registry.dialect(type_) or registry.kind(type_) for type_ in registry.written_types()}
    return [_described(type_, one.document) for type_, one in written.items()]


def _described(type_: str, model: type[Document]) -> dict[str, Any]:
    fields = model.model_json_schema()["properties"]
    server = fields.get("server", {})
    return {
        "type": type_,
        "answered_by": "sites" if issubclass(model, SiteDocument) else "people",
        "server": server.get("const", server.get("default")),
        "about": (model.__doc__ or "").partition("\n")[0],
        "choices": {n: found for n in fields if n not in _EVERYWHERE and (found := _choices(fields[n]))},
        "fields": list(fields),
    }


def _choices(schema: dict[str, Any]) -> list[Any]:
    """List the values that a field may have; of one that may be left out the same."""
    offered = [schema, *schema.get("anyOf", [])]
    return [value for each in offered for value in each.get("enum", [each["const"]] if "const" in each else [])]
