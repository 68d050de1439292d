"""The rehearsal of perturbed rows: of each column its mean, or how often each value is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.tasks.bounded.kind import BoundedDocument
from thebes.tasks.document import Values
from thebes.tasks.rehearsal import Quantities, Rehearsal, RehearsalRun, shares, true_shares


class RowsRehearsal(Rehearsal[BoundedDocument]):
    def truth(
        self, document: BoundedDocument, rows: Mapping[str, NDArray[Any]], run: RehearsalRun
    ) -> Quantities | None:
        found: Quantities = {}
        for column, bound in (document.bounds or {}).items():
            if isinstance(bound, Values):
                found[shares(column)] = true_shares(document, column, rows)
            else:
                found[_mean(column)] = [float(np.mean(rows[column]))]
        return found

    def quantities(self, release: Any) -> Quantities | None:
        told = release.document.bounds
        counted = [column for column, bound in told.items() if isinstance(bound, Values)]
        return {
            **{shares(c): [release.frequencies[c][value] for value in told[c].values] for c in counted},
            **{_mean(c): [float(release.mean(c)[0])] for c in told if c not in counted},
        }


def _mean(column: str) -> str:
    return f"the mean of {column}"


REHEARSAL = RowsRehearsal()
