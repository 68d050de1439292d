"""The choice between a declared range and one that is estimated, told with its price before anything is spent."""

from __future__ import annotations

from decimal import Decimal

from thebes.privacy import exact
from thebes.privacy.mechanisms.additive import LeastNoise
from thebes.privacy.mechanisms.estimated_range import SHARES
from thebes.privacy.stability import Sensitivity
from thebes.tasks.choice import DocumentChoice, RuledChoice
from thebes.tasks.missing_values import part
from thebes.tasks.release import LEVEL
from thebes.tasks.trusted_columns import TrustedDocument

BOUNDS_SHARE = Decimal("0.4")  #: of epsilon, to find ranges
RANGE_SHARE = Decimal("0.65")  #: the same, where the values outside are counted too, so that there can be an error bar
_STEPS = 2**20


def estimated(document: TrustedDocument, *, counted: bool) -> DocumentChoice[float] | RuledChoice:
    """Say that declared bounds avoid the price of estimated ones. `counted`: of a mean or a sum, how long the error bar
    will be, in widths of the range, follows from the document."""
    if counted:
        makers = {"declared": lambda: _declared(document), "estimated": lambda: _estimated(document)}
        of = f"half width of the {LEVEL:.0%} interval of a mean of {document.min_count} people, in widths of the range"
        return DocumentChoice("bounds", "estimated", makers, float, of=of)
    why = (
        "declare bounds, and no part of epsilon is spent on finding them, and the error bar is shorter or there at all"
    )
    return RuledChoice("bounds", "estimated", why)


def _declared(document: TrustedDocument) -> float:
    return _width(document, exact.epsilon(document.epsilon), LEVEL, document.delta)


def _estimated(document: TrustedDocument) -> float:
    """The least there can be: where no value lies outside."""
    epsilon = exact.epsilon(document.epsilon)
    looking = part(epsilon, RANGE_SHARE)
    counting = part(looking, Decimal(SHARES[2]) / sum(SHARES))
    noise = _width(document, epsilon - looking, (1 + LEVEL) / 2, document.delta)
    return noise + _width(document, counting, LEVEL, 0.0)


def _width(document: TrustedDocument, epsilon: Decimal, level: float, delta: float) -> float:
    noise = LeastNoise(epsilon, delta).noise(Sensitivity(_STEPS, _STEPS**2))
    return noise.width(level) / _STEPS / document.min_count
