"""The rehearsal of a network: how often it tells labels right, or how far off it is, which stands beside it."""

from __future__ import annotations

from typing import Any

from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.rehearsal import MOST_PEERS, UNRELATED, Quantities, Rehearsal


class NetworkRehearsal(Rehearsal[GradientDocument]):
    def refused(self, document: GradientDocument) -> str:
        return UNRELATED if len(document.outputs) > 1 else super().refused(document)

    def people(self, document: GradientDocument) -> int:
        return min(sum(document.least_in(phase) for phase in range(document.phases)), MOST_PEERS)

    def quantities(self, release: Any) -> Quantities | None:
        return None if release.value is None else {}


REHEARSAL = NetworkRehearsal()
