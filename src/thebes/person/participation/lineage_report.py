"""The ways that this person's data went, as they read them: table, task, release, models begun from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from thebes.data.featurizer import read
from thebes.person.participation.lineage import Lineage
from thebes.person.participation.participation import Participation
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Mistake
from thebes.tasks.document import PeopleDocument
from thebes.wire import release_record


def lineage(task_store: TaskStore, finder: Lineage, known: Mapping[str, PeopleDocument]) -> list[dict[str, Any]]:
    """One entry for every participation of which something left, newest first. `known` are the documents of other tasks
    that were seen, in which a model may go on."""
    documents = {**known, **{p.task_id: p.document for p in task_store.participations()}}
    return [_told(p, finder, documents) for p in reversed(task_store.participations()) if task_store.receipts(p)]


def _told(participation: Participation, finder: Lineage, documents: Mapping[str, PeopleDocument]) -> dict[str, Any]:
    result = participation.result
    return {
        "task_id": participation.task_id,
        "number": participation.number,
        "name": participation.document.name,
        "type": participation.document.type,
        "requestor": participation.requestor,
        "state": str(participation.state),
        "tables": _tables(participation.document),
        "release": None if result is None else release_record.digest(result),
        "receipts": finder.verdict(participation).as_json(),
        "models": [] if result is None else sorted(_begun_from(participation.task_id, result, documents.items())),
    }


def _tables(document: PeopleDocument) -> list[str]:
    try:
        return sorted(read(document.featurizer).tables)
    except Mistake:  # accepted by an earlier version
        return []


def _begun_from(
    task_id: str, result: Mapping[str, Any], documents: Iterable[tuple[str, PeopleDocument]]
) -> Iterable[str]:
    """Return the tasks whose training starts at exactly the weights that were released."""
    value = result.get("value")
    weights = value.get("weights") if isinstance(value, Mapping) else None
    weights = list(weights.values()) if isinstance(weights, Mapping) else None
    for other, document in documents:
        start = getattr(document, "start", None)
        if weights and start is not None and other != task_id and list(start) == weights:
            yield other
