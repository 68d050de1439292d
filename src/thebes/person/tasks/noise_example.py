"""The effect of noise on a person's own rows: one draw that is shown to its owner and then forgotten.

What must stay true: the draw is fresh each time, made on a claim that exists nowhere, never stored and never sent; what
is sent is drawn elsewhere, once, after consent.
"""

from __future__ import annotations

from typing import Any

from thebes.data.rows import Rows
from thebes.person.participation.participation import is_trusted
from thebes.privacy.exact import Number
from thebes.privacy.faults import ThebesError
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Ask, Foreseeing, Legible

_PART = "example"


class _MadeUp:
    """A claim on nothing: no ledger hears of an example."""

    def consume(self, *, epsilon: Number, delta: Number = 0) -> None:
        return None


def example(document: PeopleDocument, rows: Rows) -> dict[str, Any]:
    """Show what would leave: `leaves` says in which form (values, noised, report), `columns` holds one draw where it
    can be read, and `numbers` says how many numbers would leave, by field, where the document alone says so."""
    owner = registry.owner(document)
    told: dict[str, Any] = {
        "leaves": "values" if is_trusted(document) else "noised",
        "numbers": _numbers(document),
        "columns": None,
    }
    if document.server == "split":  # a share is chance alone: there is nothing to look at
        return {**told, "leaves": "shares"}
    if isinstance(owner, Legible):
        told["columns"] = {}
        for ask in owner.foreseen(document, system()) if isinstance(owner, Foreseeing) else [Ask(_PART, _PART, 0)]:
            made = owner.contribute(document, ask, rows, _MadeUp(), randomness=system())
            told["columns"] |= {name: values[0] for name, values in owner.legible(document, made).items()}
    else:
        told["leaves"] = "report" if told["leaves"] == "noised" else "values"
    return told


def _numbers(document: PeopleDocument) -> dict[str, int]:
    """Count the numbers that one participation sends, by field. Nothing where that depends on the phase or on the
    ask."""
    told = [_numbers_in(document, phase) for phase in sorted({0, document.phases - 1})]
    return told[0] if all(numbers == told[0] for numbers in told) else {}


def _numbers_in(document: PeopleDocument, phase: int) -> dict[str, int]:
    try:
        layout = registry.owner(document).layout(document, Ask(_PART, _PART, phase))
    except (ThebesError, LookupError, TypeError, ValueError):  # known only from what the server asks
        return {}
    packets = document.packets(phase)
    return {name: packets * (max(1, slot.length) if slot.kind != "text" else 1) for name, slot in layout.items()}
