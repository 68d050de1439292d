"""A person's own rows as a task would read them, for their eyes only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.data.rows import Rows
from thebes.data.store import Store
from thebes.person.tasks import noise_example
from thebes.privacy.faults import ThebesError
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.tasks.fit import told_to_owner
from thebes.tasks.release_reader import release_from_json


class OwnData:
    """Reads one home's store for what its owner is shown before and after a yes. Nothing of it leaves."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def able(self, document: PeopleDocument) -> bool:
        """Return whether there is a value that fits a task, or the task takes that there is none."""
        return bool(registry.owner(document).able(document, self._rows(document))[0])

    def preview(self, document: PeopleDocument) -> dict[str, Any]:
        """Return exactly the rows that a task would read, and in words which of their values do not count as they
        are."""
        rows = self._rows(document)
        return {
            "columns": list(document.gives),
            "rows": self._shown(document),
            "able": bool(registry.owner(document).able(document, rows)[0]),
            "misfits": told_to_owner(document, rows),
        }

    def example(self, document: PeopleDocument) -> dict[str, Any]:
        """Return one example of what noise does to the rows: a fresh draw, never the one that is sent."""
        return noise_example.example(document, self._rows(document))

    def place(self, document: PeopleDocument, result: Mapping[str, Any]) -> str:
        """Say where the own value lies in an answer; empty where nothing can be said."""
        try:
            return registry.place(document, release_from_json(result), self._shown(document))
        except ThebesError:  # no table any more, or an answer that cannot be read: that is said elsewhere
            return ""

    def _rows(self, document: PeopleDocument) -> Rows:
        return self._store.featurize(document.featurizer, most_rows=document.most_rows)

    def _shown(self, document: PeopleDocument) -> list[dict[str, Any]]:
        return self._store.preview(document.featurizer, most_rows=document.most_rows)
