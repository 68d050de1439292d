"""Attacks on tasks that people answer, through both halves of their kinds: all that is told of one person's row, where
everybody else's is known. Who trusts a server is attacked by a reader of its release, who trusts nobody by the server
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.data.rows import Rows
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness, system
from thebes.tasks import registry
from thebes.tasks.audit.case import Audited, Draw, Floats, Written, repeatedly
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.release import Release

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
_BULK = system()
_FIRST = Ask("any", "phase-0", 0, {})

RANGE = {"type": "range", "low": 0.0, "high": 1.0, "default": 0.0}
LABEL = {"type": "set", "values": [0, 1], "default": 0}
SET = {"type": "set", "values": ["a", "b", "c"], "default": "a"}

#: four whose rows the attacker knows, about whom the fifth tips every scale; and the two rows that the fifth may have
OTHERS: list[dict[str, Any]] = [
    {"x": 0.0, "g": "a", "y": 0},
    {"x": 0.0, "g": "b", "y": 0},
    {"x": 1.0, "g": "a", "y": 1},
    {"x": 1.0, "g": "c", "y": 1},
]
HERE: dict[str, Any] = {"x": 0.0, "g": "a", "y": 0}
THERE: dict[str, Any] = {"x": 1.0, "g": "c", "y": 1}
#: somebody without a value, where a document counts such people
ABSENT: dict[str, Any] = {"x": float("nan"), "g": None, "y": None}


def document_of(fields: Mapping[str, Any]) -> PeopleDocument:
    """Check a document that five people answer; its epsilon is 1 where it does not say."""
    document = registry.check({"epsilon": 1.0, "min_count": 5, **fields})
    assert isinstance(document, PeopleDocument)  # noqa: S101
    return document


def rows_of(document: PeopleDocument, people: Sequence[Mapping[str, Any]]) -> Rows:
    """Return one row for each of these people, of the columns that the document is given."""
    return Rows.one_each({name: np.array([person[name] for person in people]) for name in document.gives})


# --- what everybody is told ---


def released(document: PeopleDocument, own: Mapping[str, Any], randomness: Randomness = _BULK) -> Release:
    """Release what everybody is told of the four and the fifth."""
    everybody = [*OTHERS, own]
    setting = Setting(unit=Unit.PERSON, randomness=randomness, simulated=True)
    aggregator = registry.aggregator(document, setting)
    aggregator.expect(len(everybody))
    ask = aggregator.ask("somebody")
    assert isinstance(ask, Ask)  # noqa: S101
    owner = registry.owner(document, simulated=True)
    aggregator.accept(
        owner.contribute(document, ask, rows_of(document, everybody), RecordedClaim(), randomness=randomness)
    )
    aggregator.advance(_NOON)
    release = aggregator.release()
    assert release is not None  # noqa: S101
    return release


def told(name: str, fields: Mapping[str, Any], look: Callable[[Any], list[float]], *, draws: int) -> Audited:
    """Return the row of a trusted server's task: whoever sees its release looks at these numbers of it."""
    document = document_of(fields)
    one, other = (repeatedly(partial(_looked, look, document, own)) for own in (HERE, THERE))
    return Audited(name, document.epsilon, document.delta, Adjacency.REPLACE_ONE, one, other, draws=draws)


def _looked(look: Callable[[Any], list[float]], document: PeopleDocument, own: Mapping[str, Any]) -> list[float]:
    return look(released(document, own))


def drawn(name: str, fields: Mapping[str, Any], *, used: float, there: Mapping[str, Any] = THERE) -> Written:
    """Return the row of a trusted server's task that judges the noise itself."""
    document = document_of(fields)
    one, other = (partial(_certified, document, own) for own in (HERE, there))
    return Written(f"drawn: {name}", document.epsilon, document.delta, Adjacency.REPLACE_ONE, one, other, used=used)


def _certified(document: PeopleDocument, own: Mapping[str, Any], randomness: Randomness) -> Certificate:
    return released(document, own, randomness).certificate


# --- what one of them sends ---


def _all_fields(given: Contributions) -> Floats:
    return np.column_stack([_numbers(np.asarray(field)).reshape(given.count, -1) for field in given.fields.values()])


def sent(
    document: PeopleDocument,
    own: Mapping[str, Any],
    *,
    asks: Sequence[Ask] = (_FIRST,),
    look: Callable[[Contributions], ArrayLike] = _all_fields,
) -> Draw:
    """Draw what one person sends when asked these, again and again."""
    owner = registry.owner(document, simulated=True)

    def draw(n: int) -> NDArray[np.float64]:
        rows = Rows.one_each({name: np.full(n, own[name]) for name in document.gives})
        given = [owner.contribute(document, ask, rows, RecordedClaim(), randomness=_BULK) for ask in asks]
        return np.concatenate([np.asarray(look(each), dtype=np.float64).reshape(n, -1) for each in given], axis=1)

    return draw


def _numbers(field: NDArray[Any]) -> Floats:
    if field.dtype.kind in "OUS":
        return np.array([SET["values"].index(value) for value in field.tolist()], dtype=np.float64)
    return field.astype(np.float64)


def sent_once(document: PeopleDocument, own: Mapping[str, Any], randomness: Randomness) -> None:
    """Run an owner's half for one person with the noise it is given."""
    rows = rows_of(document, [own])
    registry.owner(document, simulated=True).contribute(document, _FIRST, rows, RecordedClaim(), randomness=randomness)
