"""The plan of who is asked about what: subsets of features by packet and peer partition, and the mechanism of each
report.

Owner and aggregator compute the same from the document alone. One person's packets are over different blocks of
features and share epsilon; an answer about a threshold, or to a scout, is all that its owner sends and has the whole.
"""

from __future__ import annotations

import hashlib
import math
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.choose import choose_categorical
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.mechanisms.local.subset import SubsetSelection
from thebes.privacy.mechanisms.local.unary import AsymmetricUnaryEncoding, SymmetricUnaryEncoding
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Layout, Slot
from thebes.tasks.ensemble.ballot import outcomes
from thebes.tasks.ensemble.cells import given
from thebes.tasks.ensemble.feature_pairs import joints
from thebes.tasks.ensemble.kind import MOST_CELLS, EnsembleDocument

REPORT = "report"  #: the one field of every contribution
MECHANISMS = {
    "krr": RandomizedResponse.name,
    "rappor": SymmetricUnaryEncoding.name,
    "pq": AsymmetricUnaryEncoding.name,
    "subset": SubsetSelection.name,
}


class Unperturbed:
    """No mechanism at all: the cell itself is reported. It protects nothing, and its name says so."""

    name = "none: not private"
    hold, stray = 1, 0

    def __init__(self, size: int) -> None:
        self.size = size

    def perturb(self, values: ArrayLike, randomness: Randomness) -> NDArray[np.int64]:
        return np.asarray(values, dtype=np.int64)

    def check(self, reports: ArrayLike) -> NDArray[Any]:
        return np.asarray(reports)

    def parameters(self) -> dict[str, Any]:
        return {"categories": self.size}


Reporter = CategoryMechanism | Unperturbed


def share(document: EnsembleDocument, phase: int) -> Decimal:
    """Return what one packet of a phase costs its owner, rounded down so that all of them stay within epsilon."""
    whole = exact.epsilon(document.epsilon)
    return (whole / document.packets(phase)).quantize(exact.EPSILON_STEP, ROUND_FLOOR)


def mechanism(document: EnsembleDocument, size: int, phase: int) -> Reporter:
    """The mechanism of a report over so many cells: the named one, or the one with the least expected error
    (equation 4 of AnonML and its kin; it does not depend on the data nor, but for scale, on how many report)."""
    if document.perturbation == "none":
        return Unperturbed(size)
    return _mechanism(document.perturbation, size, share(document, phase))


@lru_cache(maxsize=1024)
def _mechanism(name: str, size: int, epsilon: Decimal) -> CategoryMechanism:
    among = tuple(MECHANISMS.values()) if name == "auto" else (MECHANISMS[name],)
    return choose_categorical(size, epsilon, 1, among=among)


@lru_cache(maxsize=1024)
def question(epsilon: Decimal) -> RandomizedResponse:
    """The mechanism of an answer about a threshold: which of two sides."""
    return RandomizedResponse(2, epsilon)


def layout(reporter: Reporter) -> Layout:
    """One category, or one bit for each of them."""
    if isinstance(reporter, (RandomizedResponse, Unperturbed)):
        return {REPORT: Slot("integer", 0, reporter.size - 1)}
    return {REPORT: Slot("integer", 0, 1, length=reporter.size)}


# --- subsets ------------------------------------------------------------------------------------------------


def block(document: EnsembleDocument, packet: int) -> tuple[str, ...]:
    """The features a packet may be about: no two packets of one person share one."""
    if document.feature_subsets is not None:
        return tuple({f: None for subset in document.feature_subsets[packet :: document.subsets] for f in subset})
    each, more = divmod(len(document.features), document.subsets)
    start = packet * each + min(packet, more)
    return document.features[start : start + each + (packet < more)]


def pool(document: EnsembleDocument, packet: int) -> tuple[tuple[str, ...], ...] | None:
    """The subsets a packet may be about: the given ones, or with "odds" what public rule joins; None where they are
    drawn, or scouts choose."""
    if document.feature_subsets is not None:
        return document.feature_subsets[packet :: document.subsets]
    if document.method == "vote" or document.scouting:
        return None
    name = "auto" if document.perturbation == "none" else document.perturbation  # the same questions, without noise
    labels, epsilon = given(document, document.label).size, share(document, document.learning)
    found = _joined(tuple(_sizes(document).values()), labels, name, epsilon)
    return tuple(tuple(document.features[place] for place in joint) for joint in found)


@lru_cache(maxsize=256)
def _joined(sizes: tuple[int, ...], labels: int, name: str, epsilon: Decimal) -> tuple[tuple[int, ...], ...]:
    def noise(cells: int) -> float:
        try:
            return _mechanism(name, cells, epsilon).variance(1, 0.0)
        except Mistake:  # epsilon is too small for so many cells
            return math.inf

    return joints(sizes, labels, noise, most_cells=MOST_CELLS)


def _sizes(document: EnsembleDocument) -> dict[str, int]:
    """Each feature's bins, as far as the document tells: of a range that is still to be cut, at most so many."""
    looked_for = document.bins if isinstance(document.bins, int) else 2
    sizes = {}
    for feature in document.features:
        cut = given(document, feature)
        sizes[feature] = cut.size if cut.thresholds or cut.groups else looked_for + cut.size - 1
    return sizes


def partitions(document: EnsembleDocument) -> int:
    """Into how many peer partitions those fall who send packets, unless scouts chose what is asked about."""
    subsets = pool(document, 0) if document.method == "odds" else None
    return document.partitions if subsets is None else len(subsets)


def most_partitions(document: EnsembleDocument, phase: int) -> int:
    """Into how many peer partitions a phase falls at most: one for each question, feature, subset or ballot."""
    if phase < document.searching:
        return len(document.ranges) * (document.bins - 1 if isinstance(document.bins, int) else 1)
    if phase < document.learning:
        return len(document.features)
    if document.scouting:  # what scouts choose holds no feature twice
        return max(partitions(document), len(document.features))
    return partitions(document) * (document.subsets if phase > document.learning else 1)


def subset(document: EnsembleDocument, packet: int, partition: int) -> tuple[str, ...]:
    """The features a peer partition is asked about in a packet: dealt out in turn from the fixed subsets, or from
    public shuffles of the packet's block, so that every feature is asked about equally often."""
    fixed = pool(document, packet)
    if fixed is not None:
        return fixed[partition % len(fixed)]
    features, size = block(document, packet), document.subset_size
    turn, place = divmod(partition, len(features) // size)
    seed = f"{document.digest} {packet} {turn}"
    order = sorted(features, key=lambda f: hashlib.sha256(f"{seed} {f}".encode()).digest())
    chosen = set(order[place * size : (place + 1) * size])
    return tuple(f for f in features if f in chosen)


def affordable(document: EnsembleDocument) -> None:
    """Refuse a document whose histograms are too large, or whose epsilon is too small for them."""
    sizes, labels = _sizes(document), given(document, document.label).size
    pieces = document.feature_subsets
    if pieces is None and document.method == "odds":  # what is joined has no more cells than one histogram may have
        pieces = tuple((feature,) for feature in document.features)
    elif pieces is None:
        blocks = (block(document, packet) for packet in range(document.subsets))
        pieces = tuple(tuple(sorted(b, key=sizes.__getitem__)[-document.subset_size :]) for b in blocks)
    largest = max(math.prod(sizes[f] for f in piece) for piece in pieces) * labels
    if largest > MOST_CELLS:
        what = "bounds" if document.subset_size == 1 and document.feature_subsets is None else "subset_size"
        raise Mistake(what, f"makes histograms of more than {MOST_CELLS} cells: ask for fewer or coarser ones")
    for size in {largest, 2 * labels}:
        mechanism(document, size, document.learning)
    if document.searching:
        question(share(document, 0))
    if document.scoring:
        mechanism(document, outcomes(document).size, document.learning + 1)
