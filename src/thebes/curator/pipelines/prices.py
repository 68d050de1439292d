"""The price of an attempt for each of its blocks, in the terms in which they count, and what each of its steps may
spend.

What must stay true: the loss that is charged covers preparing, and on top of it the dearer of training and validating.
A row is trained or validated on by a coin of its own, never both: whichever it is, the other step is independent of it
or a function of what the first released. So for either outcome of the coin the loss is that of one of the two, and for
the mixture no more than the larger (Renyi divergences are quasi-convex, hockey-stick divergences convex).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

from thebes.curator.pipelines.pipeline import Pipeline
from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import CONCENTRATED, filter_of
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import (
    Approximate,
    Both,
    Concentrated,
    Loss,
    Pure,
    Renyi,
    compose,
    concentrated_to_approximate,
    renyi_to_approximate,
)
from thebes.privacy.promise import Adjacency

_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
_RELATION = Adjacency.ADD_REMOVE_ONE
_Amounts = tuple[Decimal, Decimal]


@dataclass(frozen=True, slots=True)
class AttemptPrice:
    """`loss` is charged to every block; the others are the (epsilon, delta) that each step is handed. Validating may
    spend `rho` instead of its epsilon."""

    loss: Loss
    preprocess: _Amounts
    train: _Amounts
    validate: _Amounts
    rho: Decimal = Decimal(0)


def price(pipeline: Pipeline, epsilon: Decimal, delta: Decimal, filter: str) -> AttemptPrice:
    """The price of an attempt with (epsilon, delta) on blocks that count with `filter`.

    A basic block is charged (epsilon, delta). Another is charged the event of training; validating then gets as much
    pure epsilon as costs no more than that or, of training with Gaussian noise, the same rho: so the dearer of the two
    is taken in what the block counts, and neither is dearer. Of that rho no more than converts to (epsilon, delta), so
    that the attempt is as private by itself, too. Preparing gets pure epsilon alone.
    """
    shares = pipeline.shares
    before = (_part(epsilon, shares.preprocess, exact.EPSILON_STEP), _part(delta, shares.preprocess, exact.DELTA_STEP))
    rest = (epsilon - before[0], delta - before[1])
    counting = filter_of(filter)
    if not isinstance(counting, EventFilter):
        return AttemptPrice(counting.loss((), epsilon, delta, adjacency=_RELATION), before, rest, rest)
    event = pipeline.event(*rest)
    if event is None:
        raise Mistake(
            "event",
            f"is missing in {pipeline.name!r}: its stream counts with the {filter} filter, which charges it",
        )
    training = counting.of_event(event, adjacency=_RELATION)
    test = counting.pure_within(training, rest[0])
    loss = compose([training, counting.of_pure(Pure(before[0]))]) if before[0] else training
    nothing = Decimal(0)
    whole = CONCENTRATED.rho_worth(CONCENTRATED.allowance(*rest, ()))
    rho = min(counting.rho_within(training), whole).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
    return AttemptPrice(loss, (before[0], nothing), rest, (test, nothing), rho)


def ever_paid(loss: Loss, *, epsilon: Decimal, delta: Decimal, filter: str) -> bool:
    """Return whether a block of (epsilon, delta) that has paid for nothing yet could pay this."""
    counting = filter_of(filter)
    capacity = counting.capacity(epsilon, delta)
    return counting.fits(counting.price(loss, capacity), capacity)


def together(losses: Sequence[Loss], delta: Decimal) -> _Amounts:
    """Return what several attempts cost a block as (epsilon, delta), each chosen after seeing what came of those
    before."""
    if isinstance(losses[0], (Pure, Approximate)):
        whole = compose([one if isinstance(one, Approximate) else Approximate(one.epsilon, 0) for one in losses])  # type: ignore[union-attr]
        return whole.epsilon, whole.delta
    total = compose(list(losses))
    if isinstance(total, Both):
        converted = concentrated_to_approximate(Concentrated(total.rho), delta).epsilon
        return (total.epsilon, Decimal(0)) if total.epsilon <= converted else (converted, delta)
    if isinstance(total, Concentrated):
        return concentrated_to_approximate(total, delta).epsilon, delta
    assert isinstance(total, Renyi)  # noqa: S101
    return renyi_to_approximate(total, delta).epsilon, delta


def dearest(paid: Mapping[str, Sequence[Loss]], delta: Decimal) -> _Amounts:
    """Return an (epsilon, delta) that holds for every block, by what each has paid under its name: the largest of each,
    because one block may have paid more epsilon without a delta, and another less with one."""
    each = [together(losses, delta) for losses in {tuple(one) for one in paid.values()}]
    return max(epsilon for epsilon, _ in each), max(delta for _, delta in each)


def _part(amount: Decimal, share: float, step: Decimal) -> Decimal:
    return _DOWN.multiply(amount, exact.declared("share", share)).quantize(step, ROUND_FLOOR)
