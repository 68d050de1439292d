"""A loss together with whom it protects and against which change: the only form in which it may be said aloud."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate, Concentrated, Loss, Pure, Renyi
from thebes.privacy.promise import Adjacency, Unit, adjacency_of, unit_of

_UP = Context(prec=60, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class Price:
    """The price that a contributor is asked to pay: epsilon and delta for one unit. Exact decimals."""

    epsilon: Decimal
    delta: Decimal
    unit: Unit

    def __init__(self, epsilon: exact.Number, delta: exact.Number, unit: str | Unit) -> None:
        value = exact.declared("epsilon", epsilon)
        if value < 0:
            raise Mistake("epsilon", "must not be negative")
        object.__setattr__(self, "epsilon", value)
        object.__setattr__(self, "delta", exact.delta(delta))
        object.__setattr__(self, "unit", unit_of(unit))

    def at_sites(self, sites: int, *, one_noise: bool) -> tuple[Decimal, Decimal]:
        """Return the epsilon and delta that one unit pays in all whose rows lie at so many sites, each at this price.

        With noise of its own at each site the answers are so many mechanisms over that unit's rows, asked for side by
        side: epsilons and deltas add up (basic composition; also of concurrent interactive mechanisms: Lyu 2022,
        Vadhan & Zhang 2022). With one noise for all of them, drawn for one site's rows, the unit moves the total m
        times as far: epsilons add up, and delta is multiplied by 1 + e^epsilon + ... + e^((m - 1) epsilon) (group
        privacy: Vadhan 2017, lemma 2.2, summed). Rounded up; beyond 1 a delta says nothing more.
        """
        factor = Decimal(sites)
        if one_noise and self.delta:
            grown = _exp_up(self.epsilon)
            factor = Decimal(0)
            for _ in range(sites):
                factor = _UP.add(1, _UP.multiply(factor, grown))
        return _UP.multiply(self.epsilon, sites), min(Decimal(1), _UP.multiply(self.delta, factor))

    def as_json(self) -> dict[str, object]:
        return {"epsilon": float(self.epsilon), "delta": float(self.delta), "unit": str(self.unit)}


def _exp_up(epsilon: Decimal) -> Decimal:
    """Return e^epsilon or a little more: Decimal rounds its exponential to the nearest, whatever a context says."""
    return min(epsilon, Decimal(1000)).exp(_UP).next_plus(_UP)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """`loss` for one `unit` under `adjacency`. None of the three has a default."""

    loss: Loss
    unit: Unit
    adjacency: Adjacency

    def __init__(self, loss: Loss, unit: str | Unit, adjacency: str | Adjacency) -> None:
        if not isinstance(loss, (Pure, Approximate, Concentrated, Renyi)):
            raise Mistake("loss", "must be Pure, Approximate, Concentrated or Renyi")
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "unit", unit_of(unit))
        object.__setattr__(self, "adjacency", adjacency_of(adjacency))

    @property
    def kind(self) -> str:
        """The word on a certificate."""
        names = {Pure: "pure", Approximate: "approximate", Concentrated: "zcdp", Renyi: "renyi"}
        return names[type(self.loss)]


def as_replace_one(guarantee: Guarantee) -> Guarantee:
    """The one valid conversion between adjacencies: replacing is removing and then adding.

    (epsilon, delta) under add-remove-one implies (2 epsilon, (1 + e^epsilon) delta) under replace-one, by
    group privacy for two steps; the reverse never holds. Rounded up. Concentrated: 4 rho (Bun & Steinke,
    proposition 1.9). A Renyi curve must be converted to one of the others first.
    """
    if guarantee.adjacency is Adjacency.REPLACE_ONE:
        return guarantee
    loss = guarantee.loss
    if isinstance(loss, Pure):
        doubled: Loss = loss + loss
    elif isinstance(loss, Approximate):
        factor = _UP.add(1, _exp_up(loss.epsilon))
        doubled = Approximate((loss + loss).epsilon, min(Decimal(1), _UP.multiply(loss.delta, factor)))
    elif isinstance(loss, Concentrated):
        doubled = loss * 4
    else:
        raise Mistake("guarantee", "convert a Renyi curve to (epsilon, delta) before changing its adjacency")
    return Guarantee(doubled, guarantee.unit, Adjacency.REPLACE_ONE)
