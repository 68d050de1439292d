"""The rehearsal of an ensemble: how often each label is there. How often it tells labels right stands beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from thebes.tasks.ensemble.kind import EnsembleDocument
from thebes.tasks.rehearsal import MOST_PEERS, Quantities, Rehearsal, RehearsalRun, shares, true_shares


class EnsembleRehearsal(Rehearsal[EnsembleDocument]):
    def people(self, document: EnsembleDocument) -> int:
        return min(sum(document.least_in(phase) for phase in range(document.phases)), MOST_PEERS)

    def truth(
        self, document: EnsembleDocument, rows: Mapping[str, NDArray[Any]], run: RehearsalRun
    ) -> Quantities | None:
        found = run(perturbation="none")
        return found and {**found, shares(document.label): true_shares(document, document.label, rows)}

    def quantities(self, release: Any) -> Quantities | None:
        if release.value is None:
            return None
        return {shares(release.value["document"]["label"]): list(release.extra["base_rate"]["value"].values())}


REHEARSAL = EnsembleRehearsal()
