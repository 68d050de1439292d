"""The events that happened, as frozen values that check themselves. What an event costs is decided by an accountant,
never here.

An event describes a pair of output distributions, the worst that two neighbouring worlds can give; the
adjacency under which it was calibrated travels beside it (`Measurement.adjacency`). Events are never re-meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from thebes.privacy import exact
from thebes.privacy.faults import Mistake

_LARGEST = 1e300  #: far above any ratio, and any integer below it is a float


def _positive(argument: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _LARGEST:
        raise Mistake(argument, "must be a finite number greater than 0")


@dataclass(frozen=True, slots=True)
class PureEvent:
    """Any mechanism known only to be epsilon-DP."""

    epsilon: Decimal

    def __init__(self, epsilon: exact.Number) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))


@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """Any mechanism known only to be (epsilon, delta)-DP."""

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: exact.Number, delta: exact.Number) -> None:
        value = exact.declared("epsilon", epsilon)
        if value < 0:
            raise Mistake("epsilon", "must not be negative")
        object.__setattr__(self, "epsilon", value)
        object.__setattr__(self, "delta", exact.delta(delta))


@dataclass(frozen=True, slots=True)
class ConcentratedEvent:
    """Any mechanism known only to be rho-zCDP; the discrete Gaussian is one with rho = 1 / (2 ratio^2)."""

    rho: Decimal

    def __init__(self, rho: exact.Number) -> None:
        value = exact.declared("rho", rho)
        if value <= 0:
            raise Mistake("rho", "must be greater than 0")
        object.__setattr__(self, "rho", value)


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Laplace noise, continuous or on a grid, whose scale is `ratio` times the L1 sensitivity.

    `steps` is that sensitivity in steps of the noise's grid, where the scale is that many times `ratio` or larger; as
    large as you like for continuous noise. Noise on a count (one step) costs exactly what randomised response costs,
    the most that its epsilon allows: so 1 is the safe value where the distance is not known, and no other is.

    How many numbers share the distance does not matter. Let f_a be the trade-off of noise against noise moved by a.
    Moving one number by a and then another by b keeps f_b(1 - f_a) (group privacy; Dong, Roth & Su 2022), and that is
    f_(a+b), for whole steps too: f_a is linear between its knots, where 1 - f_a takes F(k) to F(k + a), a knot of f_b.
    """

    ratio: float
    steps: int = 1

    def __post_init__(self) -> None:
        _positive("ratio", self.ratio)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 0 < self.steps < 2**63:
            raise Mistake("steps", "must be a whole number of at least 1, below 2^63")


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Gaussian noise whose standard deviation is `ratio` times the L2 sensitivity.

    `slack` is what must be added to every delta, because the noise was drawn on a grid (see
    `accounting.gaussian.grid_slack`); 0 for the continuous mechanism.
    """

    ratio: float
    slack: float = 0.0

    def __post_init__(self) -> None:
        _positive("ratio", self.ratio)
        if isinstance(self.slack, bool) or not isinstance(self.slack, (int, float)) or not 0 <= self.slack < 1:
            raise Mistake("slack", "must be at least 0 and below 1")


@dataclass(frozen=True, slots=True)
class RandomizedResponseEvent:
    """One of `categories` values: the true one with probability `keep`, each other one equally likely."""

    categories: int
    keep: float

    def __post_init__(self) -> None:
        if (
            isinstance(self.categories, bool)
            or not isinstance(self.categories, int)
            or not 2 <= self.categories < 2**63
        ):
            raise Mistake("categories", "must be a whole number of at least 2, below 2^63")
        if not isinstance(self.keep, (int, float)) or not 1 / self.categories <= self.keep < 1:
            raise Mistake("keep", "must lie between 1/categories and 1")


@dataclass(frozen=True, slots=True)
class ExponentialEvent:
    """The exponential mechanism with total `epsilon`.

    Its zCDP cost is epsilon^2 / 8 (bounded range; Cesar & Rogers 2021), better than what
    a pure epsilon costs until that is large.
    """

    epsilon: Decimal

    def __init__(self, epsilon: exact.Number) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))


@dataclass(frozen=True, slots=True)
class PoissonGaussianEvent:
    """The Gaussian mechanism on a sample in which every unit takes part with probability `rate`, by its own coin.

    `ratio` is the standard deviation divided by the greatest L2 norm of one unit's own contribution, under either
    adjacency: that replacing moves the sum by twice that norm is the accountant's business. `slack` is that of a
    `GaussianEvent`, under add-remove-one; curves of Renyi at whole orders need none.
    """

    rate: float
    ratio: float
    slack: float = 0.0

    def __post_init__(self) -> None:
        _positive("ratio", self.ratio)
        if isinstance(self.slack, bool) or not isinstance(self.slack, (int, float)) or not 0 <= self.slack < 1:
            raise Mistake("slack", "must be at least 0 and below 1")
        if isinstance(self.rate, bool) or not isinstance(self.rate, (int, float)) or not 0 < self.rate <= 1:
            raise Mistake("rate", "must be greater than 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Repeated:
    """`event` happened `times` times, each time with fresh noise."""

    event: Event
    times: int

    def __post_init__(self) -> None:
        _event("event", self.event)
        if isinstance(self.times, bool) or not isinstance(self.times, int) or not 0 < self.times < 2**63:
            raise Mistake("times", "must be a whole number of at least 1, below 2^63")


@dataclass(frozen=True, slots=True)
class Composed:
    """All of `events` happened, each perhaps chosen after seeing the ones before."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple) or not self.events:
            raise Mistake("events", "needs a tuple of at least one event")
        for event in self.events:
            _event("events", event)


SingleEvent = (
    PureEvent
    | ApproximateEvent
    | ConcentratedEvent
    | LaplaceEvent
    | GaussianEvent
    | RandomizedResponseEvent
    | ExponentialEvent
    | PoissonGaussianEvent
)
Event = SingleEvent | Repeated | Composed


def _event(argument: str, value: object) -> None:
    if not isinstance(value, Event):
        raise Mistake(argument, "must be an event of this module; an unknown event is refused, never guessed")
