"""The losses that were asked of a ledger and that are left of a claim: exact losses, kept as text, from which parts are
taken.

What must stay true: the parts of a claim, summed exactly, never pass what was asked.
"""

from __future__ import annotations

import json
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from thebes.ledger.amounts import plain
from thebes.ledger.journal import canonical
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate, Both, Concentrated, Loss, Pure, Renyi, concentrated_to_renyi

_DOWN = Context(prec=120, rounding=ROUND_FLOOR)
_INFINITY = Decimal("Infinity")


def text(argument: str, value: object) -> str:
    """A name or a reason, or a Mistake."""
    if not isinstance(value, str) or not value.strip() or len(value) > 500 or not value.isprintable():
        raise Mistake(argument, "must be a text of 1 to 500 printable characters")
    return value


def loss_asked(epsilon: exact.Number | None, delta: exact.Number | None, loss: Loss | None) -> Loss:
    """A request as a loss: either an epsilon with an optional delta, or a loss; never nothing at all."""
    if loss is not None:
        if epsilon is not None or delta is not None:
            raise Mistake("loss", "stands alone; leave epsilon and delta out")
        if not isinstance(loss, (Pure, Approximate, Concentrated, Renyi, Both)):
            raise Mistake("loss", "must be Pure, Approximate, Concentrated, Renyi or Both")
        if not any(_numbers(loss)):
            raise Mistake("loss", "must be greater than 0")
        single = (loss.rho,) if isinstance(loss, Both) else () if isinstance(loss, Renyi) else _numbers(loss)
        if not all(number.is_finite() for number in single):
            raise Mistake("loss", "must be finite")
        return Pure(loss.epsilon) if isinstance(loss, Approximate) and not loss.delta else loss
    if epsilon is None:
        raise Mistake("epsilon", "is missing; give epsilon (and delta), or loss")
    exact_epsilon, exact_delta = exact.epsilon(epsilon), exact.delta(0 if delta is None else delta)
    return Approximate(exact_epsilon, exact_delta) if exact_delta else Pure(exact_epsilon)


def part_asked(epsilon: exact.Number | None, delta: exact.Number | None, loss: Loss | None) -> Loss | None:
    """A part as a loss; None for all that is left. A part may take delta alone."""
    if epsilon is None and delta is None and loss is None:
        return None
    if epsilon is None and loss is None and delta is not None:
        exact_delta = exact.delta(delta)
        if not exact_delta:
            raise Mistake("delta", "must be greater than 0 in a part without epsilon")
        return Approximate(0, exact_delta)
    return loss_asked(epsilon, delta, loss)


def text_of(loss: Loss) -> str:
    """The one spelling of a loss, in claims and journal entries."""
    if isinstance(loss, Pure):
        value: object = {"epsilon": plain(loss.epsilon)}
    elif isinstance(loss, Approximate):
        value = {"delta": plain(loss.delta), "epsilon": plain(loss.epsilon)}
    elif isinstance(loss, Concentrated):
        value = {"rho": plain(loss.rho)}
    elif isinstance(loss, Both):
        value = {"epsilon": _spelled(loss.epsilon), "rho": plain(loss.rho)}
    else:
        value = {"renyi": [_spelled(e) for e in loss.epsilons]}
    return canonical(value)


def _spelled(value: Decimal) -> str:
    return plain(value) if value.is_finite() else "Infinity"


@lru_cache(maxsize=256)
def loss_of_text(text: str) -> Loss:
    """The loss that `text_of` spelled."""
    value = json.loads(text)
    if "renyi" in value:
        return Renyi(Decimal(e) for e in value["renyi"])
    if "rho" in value and "epsilon" in value:
        return Both(Decimal(value["epsilon"]), Decimal(value["rho"]))
    if "rho" in value:
        return Concentrated(Decimal(value["rho"]))
    if "delta" in value:
        return Approximate(Decimal(value["epsilon"]), Decimal(value["delta"]))
    return Pure(Decimal(value["epsilon"]))


def after(left: Loss, part: Loss) -> Loss | None:
    """Return what is left once `part` is taken; None where it does not fit. A Mistake where the two cannot be
    compared."""
    if isinstance(left, (Pure, Approximate)) and isinstance(part, (Pure, Approximate)):
        epsilon, delta = _DOWN.subtract(left.epsilon, part.epsilon), _DOWN.subtract(_delta(left), _delta(part))
        if epsilon < 0 or delta < 0:
            return None
        return Approximate(epsilon, delta) if isinstance(left, Approximate) else Pure(epsilon)
    if isinstance(left, Concentrated) and isinstance(part, Concentrated):
        rho = _DOWN.subtract(left.rho, part.rho)
        return None if rho < 0 else Concentrated(rho)
    if isinstance(left, Both) and isinstance(part, Both):
        rest = [_less(left.epsilon, part.epsilon), _less(left.rho, part.rho)]
        return None if any(e < 0 for e in rest) else Both(*rest)
    if isinstance(left, Renyi) and isinstance(part, (Renyi, Concentrated)):
        curve = part if isinstance(part, Renyi) else concentrated_to_renyi(part)
        rest = [_less(a, b) for a, b in zip(left.epsilons, curve.epsilons, strict=True)]
        return None if any(e < 0 for e in rest) else Renyi(rest)
    raise Mistake("loss", "a part is taken in the terms in which its claim was asked")


def nothing_of(left: Loss) -> Loss:
    """Return what is left once all of it is taken."""
    rest = after(left, left)
    assert rest is not None  # noqa: S101
    return rest


def exhausted(left: Loss) -> bool:
    """Return whether nothing can be taken any more (an order without a promise has nothing to take)."""
    return not any(number for number in _numbers(left) if number.is_finite())


def _less(left: Decimal, part: Decimal) -> Decimal:
    """Return what is left; where nothing is promised there is always enough."""
    return left if left == _INFINITY else _DOWN.subtract(left, part)


def _delta(loss: Pure | Approximate) -> Decimal:
    return loss.delta if isinstance(loss, Approximate) else Decimal(0)


def _numbers(loss: Loss) -> tuple[Decimal, ...]:
    if isinstance(loss, Pure):
        return (loss.epsilon,)
    if isinstance(loss, Approximate):
        return (loss.epsilon, loss.delta)
    if isinstance(loss, Both):
        return (loss.epsilon, loss.rho)
    return (loss.rho,) if isinstance(loss, Concentrated) else loss.epsilons
