"""Privacy filters: how a block's (epsilon, delta) is counted, so that it holds however requests are chosen.

The only file that tells one filter from another: everybody else asks `filter_of`. A new filter is a class here, and its
place in `FILTERS`.

What must stay true: whatever sequence of requests a filter grants, each chosen after seeing all answers
before it, everything released together is (epsilon, delta)-private. Prices round up, capacities down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal

from thebes.ledger.amounts import Budget, Steps, delta_steps, epsilon_steps
from thebes.ledger.filter_bounds import DOWN, largest_divergences, largest_pure, largest_pure_of_rho, largest_rho
from thebes.ledger.filter_protocol import DELTA, EPSILON, PURE, RHO, EventFilter, Filter
from thebes.privacy import exact, losses
from thebes.privacy.accounting import concentrated, pure, renyi
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import at_most, figure
from thebes.privacy.losses import ORDERS, Approximate, Both, Concentrated, Loss, Pure, Renyi, compose
from thebes.privacy.promise import Adjacency


class Basic(Filter):
    """Epsilons add and deltas add.

    Sound when epsilons and deltas are chosen adaptively (Rogers, Roth, Ullman & Vadhan 2016): extend the
    interaction to the moment before either sum would pass its capacity. Along every path the granted losses sum
    to at most (E, D); by induction from the last step backwards, an (e1, d1)-private answer followed, whatever
    its value, by something (E - e1, D - d1)-private is (E, D)-private.
    """

    name = "basic"
    measure = EPSILON

    def loss(self, events: Sequence[Event], epsilon: Decimal, delta: Decimal, *, adjacency: str | Adjacency) -> Loss:
        return Approximate(epsilon, delta) if delta else Pure(epsilon)

    def size(self, event: Event, epsilon: Decimal, *, adjacency: str | Adjacency) -> Decimal:
        return epsilon

    def most_of_an_answer(self, most: str, left: Mapping[str, int]) -> str:
        return f"an answer may cost up to {most}"

    def capacity(self, epsilon: Decimal, delta: Decimal, orders: Iterable[float] | None = None) -> Steps:
        _no_orders(orders, self.name)
        return {
            EPSILON: exact.steps_down(epsilon, exact.EPSILON_STEP),
            DELTA: exact.steps_down(delta, exact.DELTA_STEP),
        }

    def price(self, loss: Loss, places: Iterable[str]) -> Steps:
        if isinstance(loss, Pure):
            return {EPSILON: epsilon_steps(loss.epsilon)}
        if isinstance(loss, Approximate):
            both = {EPSILON: epsilon_steps(loss.epsilon), DELTA: delta_steps(loss.delta)}
            return {place: amount for place, amount in both.items() if amount}
        raise Mistake(
            "loss", "a block with the basic filter is paid in epsilon and delta; convert this loss at a delta"
        )

    def reading(self, steps: Mapping[str, int], delta: int) -> Budget:
        return Budget.of_steps(max(0, steps.get(EPSILON, 0)), max(0, steps.get(DELTA, 0)))


class ZCDP(EventFilter):
    """Rhos add, up to the largest rho whose tight conversion at delta stays within epsilon.

    Sound adaptively: at every order a the granted Renyi losses sum to at most rho a, so by Feldman & Zrnic
    (2021; Lecuyer 2021 has the same Renyi filter) the whole is (a, rho a)-Renyi private. This holds
    for all orders at once, with nothing chosen along the path: the whole is rho-zCDP, converted once at the end.
    """

    name = guarantee = "zcdp"

    def of_event(self, event: Event, *, adjacency: str | Adjacency) -> Loss:
        return concentrated.price(event, adjacency=adjacency)

    def of_pure(self, loss: Pure) -> Loss:
        return losses.pure_to_concentrated(loss)

    def pure_within(self, loss: Loss, most: Decimal) -> Decimal:
        assert isinstance(loss, Concentrated)  # noqa: S101
        return min(most, exact.of_steps(largest_pure_of_rho(exact.steps_down(loss.rho, exact.EPSILON_STEP))))

    def rho_within(self, loss: Loss) -> Decimal:
        assert isinstance(loss, Concentrated)  # noqa: S101
        return loss.rho

    def rho_worth(self, price: Mapping[str, int]) -> Decimal:
        return exact.of_steps(price.get(RHO, 0))

    def capacity(self, epsilon: Decimal, delta: Decimal, orders: Iterable[float] | None = None) -> Steps:
        _no_orders(orders, self.name)
        rho = largest_rho(epsilon, delta) if delta > 0 else 0
        if rho == 0:
            raise Mistake("delta", "a block with the zcdp filter needs a delta greater than 0 to convert at")
        return {RHO: rho}

    def price(self, loss: Loss, places: Iterable[str]) -> Steps:
        if isinstance(loss, Concentrated):
            return {RHO: _clamped(loss.rho)}
        return {RHO: _clamped(losses.pure_to_concentrated(_pure(loss, self.name)).rho)}

    def reading(self, steps: Mapping[str, int], delta: int) -> Budget:
        return Budget.of_steps(largest_pure_of_rho(steps.get(RHO, 0)), delta)


class EitherFilter(EventFilter):
    """Pure epsilons add and rhos add; a request is granted while at least one of the two sums has room for it. So it
    grants in full whatever `zcdp` grants in full, and whatever pure answers `basic` does.

    A block of (E, D) holds E at the place `pure`, and at the place `rho` what `zcdp` holds for (E, D): the whole D.
    Something without a pure price costs more at `pure` than all of it, so that this place pays for nothing while it
    is open, and for ever once any of it was consumed; what is given back (nothing of what an answer used) leaves both.

    Sound adaptively, at no price for the choice. What claims hold or have spent is, after every grant, within its
    capacity at one place, and no other step raises it at a place: so at the end of every full path of the interaction
    what was spent is within capacity at `pure` or at `rho`, and, as spending only grows, it was so all along. Let A be
    the paths that end within E at `pure`, and B the others, which end within rho. P and Q are the probabilities of
    paths in two neighbouring worlds; the whole is (E, D)-private if the sum of (P - e^E Q)+ over all paths is at most
    D. On a path of A every answer was pure, given all answers before it, and multiplied P/Q by at most e to its
    epsilon: P <= e^E Q, and A adds nothing. A path of B is also, with the same probability in both worlds, a path of
    the interaction that is cut off before its rhos would pass the capacity. That is a zCDP filter, so it is rho-zCDP
    (see `zcdp`) and, converted, (E, D)-private: its sum of (P - e^E Q)+ over all its paths is at most D, and over those
    in B no more, as no term is negative. Where a block of (E, 0) would do, nothing of D is used; else all of it once.
    Pure answers enter B at their own price in rho, for which nothing is assumed but their epsilon.
    """

    name, guarantee = "either", "zcdp"
    firm = False

    def of_event(self, event: Event, *, adjacency: str | Adjacency) -> Both:
        rho = concentrated.price(event, adjacency=adjacency).rho
        try:
            return Both(pure.price(event, adjacency=adjacency).epsilon, rho)
        except Mistake:  # it is not pure
            return Both(Decimal("Infinity"), rho)

    def loss(self, events: Sequence[Event], epsilon: Decimal, delta: Decimal, *, adjacency: str | Adjacency) -> Loss:
        # What is promised of pure answers is as good as what their noise came to, and never a rounding above it.
        # Of what is not pure nothing pure can be promised.
        whole = compose(self.of_event(event, adjacency=adjacency) for event in events)
        return whole if delta or whole.epsilon.is_infinite() else Both(min(whole.epsilon, epsilon), whole.rho)

    def of_pure(self, loss: Pure) -> Loss:
        return Both(loss.epsilon, losses.pure_to_concentrated(loss).rho)

    def pure_within(self, loss: Loss, most: Decimal) -> Decimal:
        assert isinstance(loss, Both)  # noqa: S101
        return CONCENTRATED.pure_within(Concentrated(loss.rho), min(most, loss.epsilon))

    def rho_within(self, loss: Loss) -> Decimal:
        assert isinstance(loss, Both)  # noqa: S101
        return loss.rho if loss.epsilon.is_infinite() else Decimal(0)  # Gaussian noise would end the pure place

    def most_of_an_answer(self, most: str, left: Mapping[str, int]) -> str:
        by = [exact.of_steps(left.get(PURE, 0)), exact.of_steps(largest_pure_of_rho(left.get(RHO, 0)))]
        epsilons, rhos = (at_most(float(one), 4) if one > 0 else "nothing" for one in by)
        return (
            f"one more answer without a delta may cost epsilon {most} (by the filter {self.name}: {epsilons} as "
            f"epsilons add up, while no answer has a delta; {rhos} as rhos do)"
        )

    def capacity(self, epsilon: Decimal, delta: Decimal, orders: Iterable[float] | None = None) -> Steps:
        _no_orders(orders, self.name)
        rho = largest_rho(epsilon, delta) if delta > 0 else 0
        if rho == 0:
            raise Mistake("delta", f"a block with the {self.name} filter needs a delta greater than 0 to convert at")
        return {PURE: exact.steps_down(epsilon, exact.EPSILON_STEP), RHO: rho}

    def price(self, loss: Loss, places: Iterable[str]) -> Steps:
        if isinstance(loss, Concentrated):
            both: Loss = Both(Decimal("Infinity"), loss.rho)
        else:
            both = loss if isinstance(loss, Both) else self.of_pure(_pure(loss, self.name))
        assert isinstance(both, Both)  # noqa: S101
        at = {PURE: _clamped(both.epsilon), RHO: _clamped(both.rho)}
        return {place: at[place] for place in places if at[place]}

    def fits(self, price: Steps, left: Mapping[str, int]) -> bool:
        return any(price.get(place, 0) <= amount for place, amount in left.items() if amount > 0)

    def reading(self, steps: Mapping[str, int], delta: int) -> Budget:
        return Budget.of_steps(max(0, steps.get(PURE, 0), largest_pure_of_rho(steps.get(RHO, 0))), delta)

    def worth(self, price: Mapping[str, int], delta: int) -> Budget:
        at = {place: largest_pure_of_rho(amount) if place == RHO else amount for place, amount in price.items()}
        return Budget.of_steps(min(at.values(), default=0), delta)


class RenyiFilter(EventFilter):
    """A Renyi curve per block; a request is granted while at least one watched order has room for it.

    Sound adaptively, paying for the choice of the order. Let A be the watched orders, fixed when the block
    opens, and cap(a) the largest divergence whose conversion at delta/|A| stays within epsilon. For each a let
    M_a be the interaction cut off before its losses at order a would pass cap(a): a Renyi filter at one fixed
    order, so M_a is (a, cap(a))-Renyi private (Feldman & Zrnic 2021; Lecuyer 2021) and its hockey-stick
    divergence at e^epsilon is at most delta/|A|. Every full path stays within cap(a) at some a; give it to the
    first such a. There it is a path of M_a with the same probability in both worlds, so the hockey-stick sum
    over all paths is at most the sum over a of M_a's: |A| delta/|A| = delta. With one order nothing is paid.
    """

    name = guarantee = "renyi"
    firm = False

    def of_event(self, event: Event, *, adjacency: str | Adjacency) -> Loss:
        return renyi.price(event, adjacency=adjacency)

    def of_pure(self, loss: Pure) -> Loss:
        return losses.pure_to_renyi(loss)

    def pure_within(self, loss: Loss, most: Decimal) -> Decimal:
        assert isinstance(loss, Renyi)  # noqa: S101

        def holds(epsilon: Decimal) -> bool:
            own = losses.pure_to_renyi(Pure(epsilon))
            return all(a <= b for a, b in zip(own.epsilons, loss.epsilons, strict=True))

        if holds(most):
            return most
        low, high = Decimal(0), most
        for _ in range(40):
            middle = ((low + high) / 2).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
            low, high = (middle, high) if holds(middle) else (low, middle)
        if not low:
            raise Mistake(
                "event", f"leaves validation nothing at the orders {figure(ORDERS[0])} to {figure(ORDERS[-1])}"
            )
        return low

    def rho_within(self, loss: Loss) -> Decimal:
        assert isinstance(loss, Renyi)  # noqa: S101
        told = [(Decimal(order), at) for order, at in zip(ORDERS, loss.epsilons, strict=True) if at.is_finite()]
        return min((DOWN.divide(at, order) for order, at in told), default=Decimal(0))

    def rho_worth(self, price: Mapping[str, int]) -> Decimal:
        at = (DOWN.divide(exact.of_steps(amount), Decimal(order)) for order, amount in price.items())
        return max(at, default=Decimal(0)).quantize(exact.EPSILON_STEP, ROUND_FLOOR)

    def capacity(self, epsilon: Decimal, delta: Decimal, orders: Iterable[float] | None = None) -> Steps:
        if delta <= 0:
            raise Mistake("delta", "a block with the renyi filter needs a delta greater than 0 to convert at")
        if orders is not None:
            steps = largest_divergences(epsilon, delta, _watched(orders))
        else:  # drop orders that can hold nothing, so that the others share delta among fewer
            usable = tuple(float(place) for place in largest_divergences(epsilon, delta, ORDERS))
            steps = largest_divergences(epsilon, delta, usable)
        if not steps:
            raise Mistake("epsilon", "is too small for the renyi filter at this delta; use a larger one, zcdp or basic")
        return dict(steps)

    def allowance(self, epsilon: Decimal, delta: Decimal, places: Iterable[str]) -> Steps:
        orders = tuple(float(place) for place in places)
        steps = largest_divergences(epsilon, delta, orders) if delta > 0 and epsilon > 0 else {}
        return {place: steps.get(place, 0) for place in places}

    def price(self, loss: Loss, places: Iterable[str]) -> Steps:
        if isinstance(loss, Renyi):
            curve = loss
        elif isinstance(loss, Concentrated):
            curve = losses.concentrated_to_renyi(loss)
        else:
            curve = losses.pure_to_renyi(_pure(loss, self.name))
        at = dict(zip(map(str, ORDERS), curve.epsilons, strict=True))
        return {place: amount for place in places if (amount := _clamped(at[place]))}

    def fits(self, price: Steps, left: Mapping[str, int]) -> bool:
        return any(price.get(place, 0) <= amount for place, amount in left.items() if amount > 0)

    def reading(self, steps: Mapping[str, int], delta: int) -> Budget:
        most = max((largest_pure(float(place), left) for place, left in steps.items() if left > 0), default=0)
        return Budget.of_steps(most, delta)


BASIC, CONCENTRATED, EITHER, RENYI = Basic(), ZCDP(), EitherFilter(), RenyiFilter()
FILTERS: dict[str, Filter] = {one.name: one for one in (BASIC, CONCENTRATED, EITHER, RENYI)}


def filter_of(value: str) -> Filter:
    """Read the name of a filter."""
    found = FILTERS.get(value) if isinstance(value, str) else None
    if found is None:
        raise Mistake("filter", f"must be one of {', '.join(map(repr, FILTERS))}")
    return found


def firm(name: str) -> bool:
    """Return whether every place of a block must hold that is counted so; true of a name that nobody knows."""
    return name not in FILTERS or FILTERS[name].firm


def usual(delta: Decimal) -> Filter:
    """Return the filter of a budget that names none."""
    return EITHER if delta else BASIC


def charging_events() -> list[str]:
    """Return the names of the filters that charge what was released, not what was promised of it."""
    return [name for name, one in FILTERS.items() if isinstance(one, EventFilter)]


def _pure(loss: Loss, name: str) -> Pure:
    if isinstance(loss, Pure):
        return loss
    if isinstance(loss, Approximate):
        message = (
            f"a block with the {name} filter takes a pure epsilon or loss=; an approximate guarantee has no such loss"
        )
        raise Mistake("delta", message)
    raise Mistake(
        "loss", f"a block with the {name} filter takes a pure epsilon or a rho; this {type(loss).__name__} is neither"
    )


#: More than any capacity: what "nothing is promised at this order" costs.
BEYOND = 4 * 10**18


def _clamped(value: Decimal) -> int:
    return min(epsilon_steps(value), BEYOND) if value.is_finite() else BEYOND


def _no_orders(orders: Iterable[float] | None, name: str) -> None:
    if orders is not None:
        raise Mistake("orders", f"belong to the renyi filter; the {name} filter has none")


def _watched(orders: Iterable[float]) -> tuple[float, ...]:
    chosen = tuple(sorted({float(order) for order in orders}))
    if not chosen or not set(chosen) <= set(ORDERS):
        raise Mistake("orders", f"must be some of {', '.join(figure(order) for order in ORDERS)}")
    return chosen
