"""A task document as JSON: read, priced and put into words, whatever its kind."""

from __future__ import annotations

import json

from thebes.tasks import registry


def one(data: bytes) -> None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return  # never reaches the check
    document = registry.check(body)
    again = registry.check(json.loads(json.dumps(document.as_json(), allow_nan=False)))
    assert again.digest == document.digest
    kind = registry.kind(document.type)
    kind.price(document)
    kind.explain(document)
