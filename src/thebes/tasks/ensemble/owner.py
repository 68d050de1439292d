"""A person's half of an ensemble task: one cell of a small histogram, one side of a threshold, or how a classifier
votes and what is true; changed at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.randomness import Randomness
from thebes.tasks import model_check
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import Range
from thebes.tasks.ensemble import example, plan
from thebes.tasks.ensemble.ballot import Ballot, outcomes
from thebes.tasks.ensemble.cells import FeatureCut, SubsetCells, cells_of, given
from thebes.tasks.ensemble.kind import EnsembleDocument
from thebes.tasks.ensemble.model import shown
from thebes.tasks.protocols import Ask, Claim


class EnsembleOwner:
    """`simulated` answers documents without noise too: they are for data of one's own."""

    def __init__(self, *, simulated: bool = False) -> None:
        self._simulated = simulated

    def able(self, document: EnsembleDocument, rows: Rows) -> NDArray[np.bool_]:
        """Everybody: what is missing has a category, or takes its default."""
        return np.ones(rows.people, dtype=np.bool_)

    def contribute(
        self, document: EnsembleDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """One packet. Whatever the ask says, the report is one mechanism's on one row, with this packet's share."""
        if document.only_simulated is not None and not self._simulated:
            raise Refusal("this task adds no noise, so no price covers it; it is for simulations only")
        if document.checks_in(ask.phase):
            gains = _gains(document, ask, rows.first())
            return model_check.answered(document, ask, gains, claim, randomness=randomness)
        reporter = _reporter(document, ask)
        epsilon = plan.share(document, ask.phase)
        one_each = rows.first()
        if ask.phase < document.searching:
            column, bound, threshold = _question(document, ask)
            numbers, missing = one_each.numbers(column)
            numbers = np.where(missing, bound.middle if bound.default is None else bound.default, numbers)
            cells = (numbers >= threshold).astype(np.int64)
        elif ask.phase > document.learning:
            cells = _ballot(document, ask).of(one_each)
        else:
            cells = _cells(document, ask).of(one_each)
        claim.consume(epsilon=epsilon, delta=0)
        report = reporter.perturb(cells, randomness)
        return Contributions(ask.part, rows.people, {plan.REPORT: report}, ask.partition)

    def layout(self, document: EnsembleDocument, ask: Ask) -> Layout:
        if document.checks_in(ask.phase):
            return model_check.LAYOUT
        return plan.layout(_reporter(document, ask))

    def foreseen(self, document: EnsembleDocument, randomness: Randomness) -> list[Ask]:
        return example.possible(document, randomness)

    def legible(self, document: EnsembleDocument, contributions: Contributions) -> dict[str, list[Any]]:
        return example.in_words(document, contributions)


def _gains(document: EnsembleDocument, ask: Ask, rows: Rows) -> NDArray[np.float64]:
    """Return what the model that is asked about gains on its most frequent label, on each row."""
    model = shown(document, ask.payload)
    said, guess = np.argmax(model.of_rows(rows), axis=1), int(np.argmax(model.base_rate))
    return model_check.gains_of_labels(said, guess, given(document, document.label).bins(rows))


def _reporter(document: EnsembleDocument, ask: Ask) -> plan.Reporter:
    if not 0 <= ask.phase < document.phases:
        raise Mistake("ask", "is of a phase that this task does not have")
    if ask.phase < document.searching:
        return plan.question(plan.share(document, ask.phase))
    if ask.phase > document.learning:
        _ballot(document, ask)
        return plan.mechanism(document, outcomes(document).size, ask.phase)
    return plan.mechanism(document, _cells(document, ask).size, ask.phase)


def _question(document: EnsembleDocument, ask: Ask) -> tuple[str, Range, float]:
    told = ask.payload.get("question")
    column = told.get("column") if isinstance(told, Mapping) else None
    threshold = told.get("at") if isinstance(told, Mapping) else None
    bound = document.bounds[column] if column in document.ranges else None
    if not isinstance(bound, Range) or not isinstance(threshold, (int, float)) or threshold != threshold:
        raise Mistake("ask", "is about no range of this task; the server did not keep to the task")
    return str(column), bound, float(threshold)


def _ballot(document: EnsembleDocument, ask: Ask) -> Ballot:
    return Ballot.asked(_cells(document, ask), ask.payload)


def _cells(document: EnsembleDocument, ask: Ask) -> SubsetCells:
    told = ask.payload.get("features")
    if not isinstance(told, list) or not told:
        raise Mistake("ask", "names no features; the server did not keep to the task")
    cells = cells_of(document, [FeatureCut.asked(document, each) for each in told])
    packets = document.packets(ask.phase)
    parts = [part_of(ask.phase, packet, packets) for packet in range(packets)]
    if ask.part not in parts:
        raise Mistake("ask", "is of a part that this task does not have")
    columns = set(cells.columns)
    allowed = [packet for packet in _packets(document, ask, parts) if columns <= set(_may(document, ask, packet))]
    if len(columns) != len(cells.columns) or not allowed:
        raise Mistake("ask", "is about features of another packet; the server did not keep to the task")
    if not any(_agreed(document, packet, cells) for packet in allowed):
        raise Mistake("ask", "is about features together that were not agreed; the server did not keep to the task")
    if not all(_coarse(document, ask.phase, cut) for cut in cells.cuts):
        raise Mistake("ask", "cuts a feature otherwise than was agreed; the server did not keep to the task")
    return cells


def _packets(document: EnsembleDocument, ask: Ask, parts: list[str]) -> Sequence[int]:
    """The packets an ask may be about: its own; a classifier to be scored was learned from any of them."""
    return range(document.subsets) if ask.phase > document.learning else [parts.index(ask.part)]


def _may(document: EnsembleDocument, ask: Ask, packet: int) -> Sequence[str]:
    return plan.block(document, packet) if ask.phase >= document.learning else document.features


def _agreed(document: EnsembleDocument, packet: int, cells: SubsetCells) -> bool:
    """Return whether the document lets a packet be about these features together. Scouts, and who answers where they
    chose, are asked about one; else it is one of the fixed subsets, or as many as a packet holds."""
    if document.scouting:
        return len(cells.columns) == 1
    fixed = plan.pool(document, packet)
    if fixed is not None:
        return set(cells.columns) in [set(subset) for subset in fixed]
    return len(cells.columns) <= document.subset_size


def _coarse(document: EnsembleDocument, phase: int, cut: FeatureCut) -> bool:
    """Return whether a feature is in no finer steps than the document says. Where thresholds are looked for only their
    number is known; what scouts measured may come back with bins put together, never with others."""
    if isinstance(cut.bound, Range) and not isinstance(document.bins, dict):
        return cut.known <= (2 if document.bins == "median" else document.bins)
    told = given(document, cut.column)
    merged = bool(document.scouting) and phase == document.learning
    return cut == told or (merged and told.within(cut) is not None)


OWNER = EnsembleOwner()
SIMULATED = EnsembleOwner(simulated=True)
