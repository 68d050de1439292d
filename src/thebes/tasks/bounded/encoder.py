"""The plan of how a row becomes reports: which mechanism carries which columns, with which share of epsilon.

Owner and aggregator build the same plan from the document alone. The shares add up to at most the document's
epsilon and delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.additive import LocalGaussian, LocalLaplace
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.choose import choose_categorical, choose_number
from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.privacy.mechanisms.local.privunit import STEPS, PrivUnit
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.tasks.bounded.kind import MISSING, PRESENT, SHORT, BoundedDocument
from thebes.tasks.choice import DocumentChoice
from thebes.tasks.contributions import Slot
from thebes.tasks.document import FAILURE, Range, Values

PRESENCE_SHARE = Decimal("0.1")  #: of epsilon, for all presence bits together
REPORT = "report"  #: the field of a whole-row report
#: what m ranges' squares are taken to add up to at most where rows are shortened: m * _MEAN_SQUARE + sqrt(m) * _SPREAD
#: (a set adds 1). Chosen once for all data: longer radii mean more noise, shorter ones shorten more rows.
_MEAN_SQUARE, _SPREAD = 0.2, 0.5

_EXACT_IN_JSON = 2**53  #: whole numbers from here on do not survive every JSON reader

Mechanism = NumberMechanism | CategoryMechanism | PrivUnit
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EncodingPlan:
    """`choice` says which mechanism is taken and why; `parts` maps each field of a contribution to what perturbs it;
    `whole` is what perturbs the whole row, if any."""

    document: BoundedDocument
    choice: DocumentChoice[Mapping[str, Mechanism]]
    parts: Mapping[str, Mechanism]

    @property
    def mechanism(self) -> str:
        return self.choice.taken

    @property
    def whole(self) -> PrivUnit | None:
        found = self.parts.get(REPORT)
        return found if isinstance(found, PrivUnit) else None

    @property
    def shortens(self) -> bool:
        """Return whether rows may be shortened: single columns are then told with a bias, and no error bar is known."""
        return self.mechanism == SHORT

    def epsilon(self) -> Decimal:
        """Add up what the parts declare; the sum is at most the document's."""
        return sum((m.epsilon for m in self.parts.values()), Decimal(0))

    def delta(self) -> Decimal:
        return sum((m.delta for m in self.parts.values()), Decimal(0))

    def slots(self) -> dict[str, Slot]:
        """The layout of a contribution."""
        return {name: _slot(mechanism) for name, mechanism in self.parts.items()}


def _slot(mechanism: Mechanism) -> Slot:
    if isinstance(mechanism, PrivUnit):
        return Slot("integer", -STEPS, STEPS, length=mechanism.dimensions)
    if isinstance(mechanism, NumberMechanism):
        return Slot("integer", mechanism.least, mechanism.most)
    return Slot("integer", 0, mechanism.size - 1)


def categories(bound: Values) -> tuple[Any, ...]:
    """The declared values, and `missing` where there is no default to stand in."""
    return bound.values if bound.default is not None else (*bound.values, MISSING)


def presence_bits(document: BoundedDocument) -> list[str]:
    """The ranges without a default: only the owner knows whether there was a value."""
    return [c for c in document.gives if isinstance(b := document.bounds[c], Range) and b.default is None]


_plans: dict[str, EncodingPlan] = {}  # by digest: making a plan searches for caps and coins


def plan(document: BoundedDocument) -> EncodingPlan:
    """Plan which mechanism carries which columns; a `Mistake` names what cannot work."""
    digest = document.digest
    if digest not in _plans:
        if len(_plans) >= 64:
            _plans.clear()
        _plans[digest] = _made(document)
    return _plans[digest]


def _made(document: BoundedDocument) -> EncodingPlan:
    bits = presence_bits(document)
    epsilon, delta = exact.epsilon(document.epsilon), exact.delta(document.delta)
    parts: dict[str, Mechanism] = {}
    if document.diagnostics is not None:
        told = _down(epsilon * Decimal(str(document.diagnostics)))
        parts[FAILURE] = RandomizedResponse(1 + len(FAILURES), told)
        epsilon -= told
    for_bits = epsilon * PRESENCE_SHARE if bits else Decimal(0)
    for column in bits:
        parts[column + PRESENT] = RandomizedResponse(2, _down(for_bits / len(bits)))
    choice = _choice(document, epsilon - for_bits, delta)
    return EncodingPlan(document, choice, {**parts, **choice.value})


def _choice(document: BoundedDocument, epsilon: Decimal, delta: Decimal) -> DocumentChoice[Mapping[str, Mechanism]]:
    """Compare the ways by what one row leaves in an entry of the second moment, from which models are fitted."""
    dimension = sum(1 for _ in coordinates(document))
    share, delta_share = _down(epsilon / len(document.gives)), _down(delta / len(document.gives), exact.DELTA_STEP)

    def split() -> Mapping[str, Mechanism]:
        return {column: _for_column(document.bounds[column], share, delta_share) for column in document.gives}

    def whole(*, short: bool = False) -> Mapping[str, Mechanism]:
        return {REPORT: PrivUnit(dimension, epsilon, radius=radius(document, short=short), aim="second-moment")}

    def error(parts: Mapping[str, Mechanism]) -> float:
        report = parts.get(REPORT)
        if isinstance(report, PrivUnit):
            return math.sqrt(report.second_moment_error(_usual_square(document)))
        return math.sqrt(_split_error(document, parts)) / dimension

    ways: dict[str, Callable[[], Mapping[str, Mechanism]]] = {"split": split, "privunit": whole}
    if document.mechanism == SHORT:  # never chosen: nobody knows how far its columns are biased
        ways = {SHORT: partial(whole, short=True)}
    of = "what one row is expected to err in a product of two of its columns, each scaled to run from -1 to 1"
    return DocumentChoice("mechanism", document.mechanism, ways, error, of=of)


def _down(value: Decimal, step: Decimal = exact.EPSILON_STEP) -> Decimal:
    return value.quantize(step, ROUND_FLOOR)


def _for_column(bound: Range | Values, epsilon: Decimal, delta: Decimal) -> NumberMechanism | CategoryMechanism:
    if isinstance(bound, Values):
        return choose_categorical(len(categories(bound)), epsilon, 1000, delta=delta, among=(RandomizedResponse.name,))
    names = (LocalLaplace.name, LocalGaussian.name) if delta else (LocalLaplace.name,)
    try:
        chosen = choose_number(bound.low, bound.high, epsilon, 1000, delta=delta, among=names)
    except Mistake:
        if not delta:
            raise
        return _for_column(bound, epsilon, Decimal(0))  # no Gaussian grid suits so small a delta; pure noise keeps it
    if max(-chosen.least, chosen.most) >= _EXACT_IN_JSON:
        raise Mistake("epsilon", "is too small for so many columns")
    return chosen


# --- the whole row as one vector -------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinate:
    """One axis of the row's vector: a range scaled to [-1, 1], or one axis of a set's regular simplex."""

    column: str
    axis: int = 0


def coordinates(document: BoundedDocument) -> Iterator[Coordinate]:
    """A range has one axis, a set of k categories k - 1."""
    for column in document.gives:
        bound = document.bounds[column]
        count = len(categories(bound)) - 1 if isinstance(bound, Values) else 1
        for axis in range(count):
            yield Coordinate(column, axis)


def radius(document: BoundedDocument, *, short: bool = False) -> float:
    """The public length that no row's vector exceeds: each column adds at most 1 to its square. `short` is the length
    to which rows are shortened for less noise."""
    ranges = sum(isinstance(document.bounds[c], Range) for c in document.gives)
    most = min(ranges, ranges * _MEAN_SQUARE + math.sqrt(ranges) * _SPREAD) if short else ranges
    return math.sqrt(most + len(document.gives) - ranges)


@lru_cache(maxsize=64)
def simplex(size: int) -> Floats:
    """`size` points of length 1 in size - 1 dimensions, as far from each other as can be; row c stands for c.

    Helmert's contrasts: an explicit basis, so that an owner's machine and a requestor's mean the same axes.
    """
    k = np.arange(1, size, dtype=np.float64)
    contrasts = np.tri(size - 1, size) - np.diag(k, 1)[:-1]
    points: Floats = np.ascontiguousarray((contrasts / np.sqrt(k * (k + 1))[:, None]).T) * math.sqrt(size / (size - 1))
    points.setflags(write=False)
    return points


def kept(mechanism: CategoryMechanism) -> float:
    """Return what randomised response makes of a simplex point on average, as a share of it: the points sum to zero."""
    keep = float(mechanism.parameters()["p"])
    return keep - (1 - keep) / (mechanism.size - 1)


def vector(document: BoundedDocument, columns: Mapping[str, NDArray[Any]], only: tuple[str, ...] = ()) -> Floats:
    """Rows of numbers and category indices as vectors, of all columns or of some."""
    blocks = []
    for column in only or document.gives:
        bound = document.bounds[column]
        if isinstance(bound, Values):
            blocks.append(simplex(len(categories(bound)))[columns[column]])
        else:
            half = (bound.high - bound.low) / 2
            blocks.append(((np.clip(columns[column], bound.low, bound.high) - bound.middle) / half)[:, None])
    return np.concatenate(blocks, axis=1)


def _usual_square(document: BoundedDocument) -> float:
    """Return the squared length of a row whose ranges have the usual mean square."""
    ranges = sum(isinstance(document.bounds[column], Range) for column in document.gives)
    return ranges * _MEAN_SQUARE + len(document.gives) - ranges


def _split_error(document: BoundedDocument, parts: Mapping[str, Mechanism]) -> float:
    """Return the variance that one report of each column leaves in the second moment, added up over all its entries,
    for a row whose ranges have the usual mean square."""
    columns = [_column_noise(document.bounds[column], parts[column]) for column in document.gives]
    own = math.fsum(c.own for c in columns)
    return own + _products([c.seen for c in columns]) - _products([c.true for c in columns])


@dataclass(frozen=True)
class ColumnNoise:
    """The noise of one report of a column: the variance of the column's own block of the second moment (`own`), and the
    squared length of the decoded vector (`seen`) and of the true one (`true`), added up over the column's axes."""

    own: float
    seen: float
    true: float


def _column_noise(bound: Range | Values, mechanism: Mechanism) -> ColumnNoise:
    if isinstance(bound, Values):
        assert isinstance(mechanism, CategoryMechanism)  # noqa: S101
        size, seen = len(categories(bound)), 1 / kept(mechanism) ** 2
        # Points of length 1 whose mean block is 1/(size-1) of the unit matrix: the blocks' squares are 1 each.
        return ColumnNoise((1 - 1 / (size - 1)) * (seen - 1), seen, 1.0)
    assert isinstance(mechanism, NumberMechanism)  # noqa: S101
    noise = mechanism.variance(1, bound.middle) / ((bound.high - bound.low) / 2) ** 2
    fourth = 6 if isinstance(mechanism, LocalLaplace) else 3  # of noise of variance 1
    return ColumnNoise((fourth - 1) * noise**2 + 4 * _MEAN_SQUARE * noise, _MEAN_SQUARE + noise, _MEAN_SQUARE)


def _products(squares: list[float]) -> float:
    """Add up the products of every two different columns, either way round."""
    return math.fsum(squares) ** 2 - math.fsum(square**2 for square in squares)
