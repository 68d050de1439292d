"""The rehearsal of a model that is drawn and discarded: how right it is, which stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.rehearsal import HARMLESS, MOST_PEERS, Quantities, Rehearsal, RehearsalRun


class LanesRehearsal(Rehearsal[DrawDiscardDocument]):
    def people(self, document: DrawDiscardDocument) -> int:
        needed = sum(document.least_in(phase) for phase in range(document.phases))
        return min((document.max_count or document.min_count) if document.endless else needed, MOST_PEERS)

    def truth(
        self, document: DrawDiscardDocument, rows: Mapping[str, NDArray[Any]], run: RehearsalRun
    ) -> Quantities | None:
        return run(mechanism="none", epsilon=HARMLESS, epsilon_per_weight=None, diagnostics=None)

    def quantities(self, release: Any) -> Quantities | None:
        return None if release.value is None else {}


REHEARSAL = LanesRehearsal()
