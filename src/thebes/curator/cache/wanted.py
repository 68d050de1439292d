"""What a requestor needs of every total of a plan: at most so much loss, or also so much accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from thebes.curator.noise import noise_for
from thebes.curator.plans import Plan
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.mechanisms.additive import Additive

_DIGITS = 4  #: of an epsilon that is searched for


@dataclass(frozen=True, slots=True)
class Wanted:
    """`epsilon` and `delta` are the most that an answer may cost one unit; without `width` the noise is calibrated to
    them. With it, every total of the plan, all of them together, shall lie within `width` (in the totals' own steps) of
    the exact one with probability at least 1 - `beta`, and the noise is calibrated to the least epsilon that gives
    this."""

    epsilon: Decimal
    delta: Decimal
    width: float | None = None
    beta: float | None = None

    def __init__(
        self,
        epsilon: exact.Number,
        delta: exact.Number = 0,
        width: float | None = None,
        beta: float | None = None,
    ) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))
        object.__setattr__(self, "delta", exact.delta(delta))
        if (width is None) != (beta is None):
            raise Mistake("accuracy", "needs both a width and the odds of missing it")
        if width is not None and not 0 < width < float("inf"):
            raise Mistake("accuracy.alpha", "must be a finite number greater than 0")
        if beta is not None and not 0 < beta < 1:
            raise Mistake("accuracy.beta", "must lie between 0 and 1")
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "beta", beta)

    def level(self, plan: Plan) -> float:
        """At which each total must lie within the width, so that all of them do together (union bound)."""
        return 1 - (self.beta or 0.0) / plan.size

    def satisfied(self, plan: Plan, noise: Additive) -> bool:
        """Whether this noise gives the width that is wanted."""
        return self.width is None or noise.width(self.level(plan)) <= self.width

    def noise(self, plan: Plan, schema: Schema) -> tuple[Additive, Decimal]:
        """The noise with which a mechanism answers, and the epsilon to which it is calibrated: what is allowed, or the
        least that gives the width. A Refusal where that is more than is allowed."""
        most = noise_for(plan, schema, epsilon=self.epsilon, delta=self.delta)
        if self.width is None:
            return most, self.epsilon
        if not self.satisfied(plan, most):
            raise Refusal("this accuracy costs more than the most that may be paid; allow more, or ask for less")
        low, high = Decimal(0), self.epsilon
        while (middle := _rounded((low + high) / 2)) < high and middle > low:
            try:
                enough = self.satisfied(plan, noise_for(plan, schema, epsilon=middle, delta=self.delta))
            except Mistake:  # too little for any noise that can be drawn
                enough = False
            low, high = (low, middle) if enough else (middle, high)
        return noise_for(plan, schema, epsilon=high, delta=self.delta), high


def _rounded(epsilon: Decimal) -> Decimal:
    """To a few digits, upwards: an epsilon that people can read."""
    if not epsilon:
        return epsilon
    step = Decimal(1).scaleb(epsilon.adjusted() - _DIGITS + 1)
    return max(exact.EPSILON_STEP, epsilon.quantize(step, ROUND_CEILING))
