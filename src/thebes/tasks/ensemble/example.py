"""An example of an ask and of how its answer reads, for a person who looks at one before agreeing.

Only the server's ask says which features a packet is about and, where thresholds are looked for, where they lie. An
example takes asks that a server could make which keeps to the document; ranges whose thresholds are not known are cut
into equal pieces.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thebes.privacy.randomness import Randomness
from thebes.tasks.aggregation.packets import part_of, parts_of
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import Range
from thebes.tasks.ensemble import plan
from thebes.tasks.ensemble.cells import FeatureCut, SubsetCells, cells_of, given
from thebes.tasks.ensemble.kind import EnsembleDocument
from thebes.tasks.protocols import Ask

MOST_CELLS_TOLD = 4  #: of a report that names many


def possible(document: EnsembleDocument, randomness: Randomness) -> list[Ask]:
    """One ask for each packet of a participation, of a peer partition of chance."""
    phase = document.learning - document.scouting
    asks = []
    for packet in range(document.packets(phase)):
        partitions = len(document.features) if document.scouting else plan.partitions(document)
        partition = int(randomness.below(partitions, 1)[0])
        payload = {"features": [cut.as_json() for cut in _cells(document, packet, partition).cuts]}
        part = part_of(phase, packet, document.packets(phase))
        asks.append(Ask("example", part, phase, payload, partition=partition))
    return asks


def in_words(document: EnsembleDocument, contributions: Contributions) -> dict[str, list[str]]:
    """Answers to such an ask as their server reads them: the combinations of bins that each report speaks for."""
    phase = document.learning - document.scouting
    packet = parts_of(f"phase-{phase}", document.packets(phase)).index(contributions.part)
    cells = _cells(document, packet, contributions.partition)
    reports = np.asarray(contributions.fields[plan.REPORT])
    named = [[int(report)] if reports.ndim == 1 else np.flatnonzero(report).tolist() for report in reports]
    return {" with ".join([*cells.columns, cells.label.column]): [_spoken_for(cells, each) for each in named]}


def _spoken_for(cells: SubsetCells, named: list[int]) -> str:
    if not named:
        return f"none of {cells.size} combinations"
    bins = [cut.names() for cut in (*cells.cuts, cells.label)]
    told = []
    for cell in named[:MOST_CELLS_TOLD]:
        places = np.unravel_index(cell, cells.shape)
        told.append(" with ".join(names[int(place)] for names, place in zip(bins, places, strict=True)))
    more = len(named) - len(told)
    return "; or ".join(told) + (f"; or {more} more of {cells.size} combinations" if more else "")


def _cells(document: EnsembleDocument, packet: int, partition: int) -> SubsetCells:
    columns = (document.features[partition],) if document.scouting else plan.subset(document, packet, partition)
    return cells_of(document, [_cut(document, column) for column in columns])


def _cut(document: EnsembleDocument, column: str) -> FeatureCut:
    cut = given(document, column)
    if not isinstance(cut.bound, Range) or isinstance(document.bins, dict):
        return cut
    bins = document.bins if isinstance(document.bins, int) else 2
    return replace(cut, thresholds=tuple(np.linspace(cut.bound.low, cut.bound.high, bins + 1)[1:-1].tolist()))
