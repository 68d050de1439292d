"""An answer and all that is said of it: its totals, what is known of their error, their source, what was paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from thebes.privacy.measurement import Floats

Amounts = tuple[Decimal, Decimal]  #: an epsilon and a delta
NOTHING: Amounts = (Decimal(0), Decimal(0))


class AnswerSource(StrEnum):
    """The source that an answer came from."""

    MECHANISM = "mechanism"  #: rows were read for it, and noise was drawn
    CACHE = "cache"  #: the same had been asked, and was answered well enough
    SYNOPSIS = "synopsis"  #: what was released before says enough about it


@dataclass(frozen=True, slots=True)
class Answered:
    """`made`: the epsilon and delta to which the noise in `totals` was calibrated (`noise_for` gives it back), None
    for a synopsis. `bound`: within which width of the exact totals all of them lie, and the odds of missing that,
    where a synopsis promises it. `cost`: what one unit was charged for this answer; nothing for a free one."""

    totals: Floats
    made: Amounts | None
    bound: tuple[float, float] | None
    source: AnswerSource
    cost: Amounts = field(default=NOTHING)
