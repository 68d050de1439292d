"""Its rows of the audit: what is sent on all days together; the whole epsilon each day must be caught."""

from __future__ import annotations

from typing import Any

from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.audit.case import Audited, Case
from thebes.tasks.audit.people import HERE, SET, THERE, document_of, sent
from thebes.tasks.protocols import Ask

_DRAWS = 20_000
_TOLD: dict[str, Any] = {"type": "daily", "featurizer": "SELECT g FROM p.t", "bounds": {"g": SET}, "days": 3}


def cases() -> list[Case]:
    return [_row("daily, every day", 1.0), _row("daily, every day pays for itself", 3.0, positive_control=True)]


def _row(name: str, epsilon: float, *, positive_control: bool = False) -> Audited:
    document = document_of({**_TOLD, "epsilon": epsilon})
    asks = [Ask("any", part_of(0, day, 3), 0, {"day": day}) for day in range(3)]
    one, other = (sent(document, own, asks=asks) for own in (HERE, THERE))
    return Audited(name, 1.0, 0.0, Adjacency.REPLACE_ONE, one, other, positive_control, _DRAWS)
