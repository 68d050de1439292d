"""What noise does to a person's own rows: one draw that is shown to its owner and then forgotten.

What must stay true: the draw is fresh each time, made on a claim that exists nowhere, never stored and never sent; what
is sent is drawn elsewhere, once, after consent.
"""

from __future__ import annotations

from typing import Any

from thebes.data.rows import Rows
from thebes.person.participation import is_trusted
from thebes.privacy.exact import Number
from thebes.privacy.faults import ThebesError
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.document import Document
from thebes.tasks.shape import Ask, Legible

_PART = "example"


class _MadeUp:
    """A claim on nothing: no ledger hears of an example."""

    def consume(self, *, epsilon: Number, delta: Number = 0) -> None:
        return None


def example(document: Document, rows: Rows) -> dict[str, Any]:
    """What would leave: `leaves` says in which form, `columns` holds one draw where it can be read, and `numbers`
    says how many numbers a contribution has, by field."""
    owner = registry.owner(document)
    told: dict[str, Any] = {
        "leaves": "values" if is_trusted(document) else "noised",
        "numbers": {
            name: max(1, slot.length) if slot.kind != "text" else 1 for name, slot in _layout(document).items()
        },
        "columns": None,
    }
    if isinstance(owner, Legible):
        made = owner.contribute(document, Ask(_PART, _PART, 0), rows, _MadeUp(), randomness=system())
        told["columns"] = {name: values[0] for name, values in owner.legible(document, made).items()}
    else:
        told["leaves"] = "report" if told["leaves"] == "noised" else "values"
    return told


def _layout(document: Document) -> dict[str, Any]:
    try:
        return dict(registry.owner(document).layout(document, Ask(_PART, _PART, 0)))
    except (ThebesError, LookupError, TypeError, ValueError):  # a kind whose parts differ knows its own parts only
        return {}
