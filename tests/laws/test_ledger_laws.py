"""Laws of the ledger: it does what an exact model says whatever is asked in whatever order, and its filters
keep (epsilon, delta) against somebody who chooses every request after seeing all answers."""

from __future__ import annotations

import math
import os
import random
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from tests.support.examples import examples
from thebes.ledger import BudgetExceeded, ClaimEnded, Ledger, LedgerClaim, LedgerStore, NoKeeper, verification
from thebes.ledger.address import open_store
from thebes.ledger.filters import FILTERS
from thebes.ledger.memory import MemoryStore
from thebes.privacy import losses
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate, Concentrated, Pure

BLOCKS = ("a", "b", "c")
SPENDERS = ("ana", "ben")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
percents = st.integers(1, 70)


class Model:
    """The word that a ledger must give, in whole hundredths, with nothing but additions."""

    def __init__(self) -> None:
        self.held = {(block, spender): 0 for block in BLOCKS for spender in SPENDERS}
        self.claims: dict[int, dict] = {}
        self.caps: dict[tuple[str, str | None], int] = {}
        self.retired: set[str] = set()
        self.frozen = False

    def left(self, block: str, spender: str | None = None) -> int:
        if self.frozen or block in self.retired:
            return 0
        left = 100 - sum(self.held[block, who] for who in SPENDERS)
        cap = self.caps.get((spender, block), self.caps.get((spender, None))) if spender else None
        return left if cap is None else max(0, min(left, cap - self.held[block, spender]))

    def give_back(self, claim: dict) -> None:
        for block in claim["blocks"]:
            self.held[block, claim["spender"]] -= claim["left"]
        claim.update(left=0, open=False)


class LedgerMachine(RuleBasedStateMachine):
    claims = Bundle("claims")
    on_disk = False

    @initialize()
    def start(self) -> None:
        self.model = Model()
        self.directory = tempfile.TemporaryDirectory(dir=MEMORY)
        self.memory = MemoryStore()
        self.ledger = self.opened()
        for block in BLOCKS:
            self.ledger.open_block(block, epsilon=1, delta=0)

    def opened(self) -> Ledger:
        path = Path(self.directory.name) / "budget.db"
        store: LedgerStore = open_store(f"sqlite:///{path}") if self.on_disk else self.memory
        return Ledger(store, keeper=NoKeeper())

    @rule(
        target=claims,
        blocks=st.sets(st.sampled_from(BLOCKS), min_size=1),
        amount=percents,
        who=st.sampled_from(SPENDERS),
    )
    def reserve(self, blocks: set[str], amount: int, who: str) -> object:
        fits = all(amount <= self.model.left(block, who) for block in blocks)
        ask = {"epsilon": Decimal(amount) / 100, "purpose": "law", "spender": who}
        if not fits:
            with pytest.raises(BudgetExceeded) as refused:
                self.ledger.reserve(sorted(blocks), **ask)
            assert refused.value.block in blocks
            assert refused.value.remaining.epsilon < Decimal(amount) / 100
            return multiple()
        claim = self.ledger.reserve(sorted(blocks), **ask)
        for block in blocks:
            self.model.held[block, who] += amount
        self.model.claims[claim.id] = {"blocks": blocks, "spender": who, "left": amount, "spent": 0, "open": True}
        return claim

    @rule(claim=claims, amount=st.one_of(st.none(), percents))
    def consume(self, claim: LedgerClaim, amount: int | None) -> None:
        known = self.model.claims[claim.id]
        fits = known["open"] and not self.model.frozen and (amount is None or amount <= known["left"])
        handle = self.ledger.claim(claim.id)
        part = {} if amount is None else {"epsilon": Decimal(amount) / 100}
        if not fits:
            with pytest.raises((ClaimEnded, BudgetExceeded)):
                handle.consume(**part)
            return
        handle.consume(**part)
        taken = known["left"] if amount is None else amount
        known["left"] -= taken
        known["spent"] += taken
        known["open"] = known["left"] > 0

    @rule(claim=claims)
    def release(self, claim: LedgerClaim) -> None:
        known = self.model.claims[claim.id]
        handle = self.ledger.claim(claim.id)
        if known["open"] and self.model.frozen:
            with pytest.raises(BudgetExceeded):
                handle.release()
            return
        handle.release()
        if known["open"]:
            self.model.give_back(known)

    @rule(claim=claims)
    def acquire(self, claim: LedgerClaim) -> None:
        known = self.model.claims[claim.id]
        handle = self.ledger.claim(claim.id)
        if known["open"] and (not self.model.frozen or handle.state == "acquired"):
            assert handle.acquire().state == "acquired"

    @rule(
        who=st.sampled_from(SPENDERS), block=st.one_of(st.none(), st.sampled_from(BLOCKS)), amount=st.integers(0, 100)
    )
    def cap(self, who: str, block: str | None, amount: int) -> None:
        self.ledger.cap(who, Decimal(amount) / 100, block=block)
        self.model.caps[who, block] = amount

    @rule(block=st.sampled_from(BLOCKS), sure=st.integers(0, 9))
    def retire(self, block: str, sure: int) -> None:
        if sure == 0:
            self.ledger.retire_block(block)
            self.model.retired.add(block)

    @rule(sure=st.integers(0, 4))
    def freeze(self, sure: int) -> None:
        if sure == 0:
            self.ledger.freeze()
            self.model.frozen = True

    @rule()
    def thaw(self) -> None:
        settled = self.ledger.thaw()
        if self.model.frozen:
            assert settled == sorted(n for n, claim in self.model.claims.items() if claim["open"])
            for number in settled:
                claim = self.model.claims[number]
                claim.update(spent=claim["spent"] + claim["left"], left=0, open=False)
        self.model.frozen = False

    @rule()
    def crash(self) -> None:
        """A crash is: never closed, opened anew."""
        self.ledger = self.opened()

    @invariant()
    def balances_are_those_of_the_model(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for block in BLOCKS:
            assert self.ledger.remaining(block).epsilon * 100 == self.model.left(block)
            for who in SPENDERS:
                assert self.ledger.remaining(block, who).epsilon * 100 == self.model.left(block, who)

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        self.ledger.verify()
        replayed, troubles = self.ledger._store.read(lambda t: verification.replay(t.entries()))
        live = self.ledger._store.read(lambda t: t.books())
        assert troubles == []
        assert list(verification.differences(replayed, live)) == []
        for claim in self.ledger.claims():
            known = self.model.claims[claim.id]
            assert claim.state.open == known["open"]
            if known["open"]:
                assert claim.remaining.epsilon * 100 == known["left"]
        self.ledger.close()
        self.directory.cleanup()


class SqliteMachine(LedgerMachine):
    on_disk = True


TestLedgerInMemory = LedgerMachine.TestCase
TestLedgerInMemory.settings = examples(50, stateful_step_count=40)
TestLedgerInSqlite = pytest.mark.slow(SqliteMachine.TestCase)
TestLedgerInSqlite.settings = examples(20, stateful_step_count=25)


# --- filters ---------------------------------------------------------------------------------------

EPSILON, DELTA = Decimal("1.5"), Decimal("0.01")


def hockey_stick(name: str, seed: int, orders: tuple[float, ...] | None, depth: int = 9) -> float:
    """The exact delta, at epsilon, of an adaptive sequence of randomised responses that a filter lets through. Where it
    takes approximate losses, some of them tell everything with the probability delta.

    Which epsilon is asked next is any function of the answers so far (drawn by `seed`); a refusal is an answer
    too. All paths are walked, so the sum over outcomes of (P - e^epsilon Q)+ is exact up to float arithmetic.
    """
    counting = FILTERS[name]
    capacity = counting.capacity(EPSILON, DELTA, orders)
    menu: list[Pure | Approximate] = [Pure(e) for e in ("0.05", "0.2", "0.4", "0.8", "1.2")]
    if name == "basic":
        menu += [Approximate("0.02", "0.004"), Approximate("0.1", "0.009")]
    prices = [counting.price(loss, capacity) for loss in menu]
    total = 0.0

    def walk(path: tuple[int, ...], left: dict[str, int], p: float, q: float) -> None:
        nonlocal total
        choice = random.Random(f"{seed} {path}")
        while len(path) < depth:
            which = choice.randrange(len(menu))
            if counting.fits(prices[which], left):
                after = {place: amount - prices[which].get(place, 0) for place, amount in left.items()}
                e, told = float(menu[which].epsilon), float(getattr(menu[which], "delta", 0))
                total += p * told
                truth, lie = ((1 - told) * odds / (1 + math.exp(e)) for odds in (math.exp(e), 1))
                # The world decides which answer is the true one; an adversary prefers the same one each time.
                walk((*path, 1), after, p * truth, q * lie)
                walk((*path, 0), after, p * lie, q * truth)
                return
            if choice.random() < 0.3:
                break
            path = (*path, 2)
        total += max(0.0, p - math.exp(float(EPSILON)) * q)

    walk((), capacity, 1.0, 1.0)
    return total


@pytest.mark.parametrize(
    ("name", "orders"), [("basic", None), ("zcdp", None), ("either", None), ("renyi", None), ("renyi", (4.0,))]
)
@pytest.mark.parametrize("seed", range(6))
def test_adaptive_requests_stay_within_epsilon_and_delta(
    name: str, orders: tuple[float, ...] | None, seed: int
) -> None:
    assert hockey_stick(name, seed, orders) <= float(DELTA)


def test_the_walk_would_catch_a_filter_with_twice_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: with a doubled capacity the same walk does exceed delta."""
    honest = FILTERS["basic"].capacity
    doubled = lambda *terms: {place: 2 * steps for place, steps in honest(*terms).items()}  # noqa: E731
    monkeypatch.setattr(FILTERS["basic"], "capacity", doubled)
    assert max(hockey_stick("basic", seed, None) for seed in range(6)) > float(DELTA)


@given(
    epsilon=st.decimals("0.000000000001", "8", places=12),
    delta=st.decimals("0.000000000000000001", "0.1", places=18),
    rho=st.decimals("0.000000000001", "8", places=12),
)
def test_no_price_is_less_than_what_is_paid_for(epsilon: Decimal, delta: Decimal, rho: Decimal) -> None:
    orders = FILTERS["renyi"].capacity(EPSILON, DELTA)
    both = FILTERS["basic"].price(Approximate(epsilon, delta), ("epsilon", "delta"))
    assert Decimal(both["epsilon"]).scaleb(-12) >= epsilon
    assert Decimal(both["delta"]).scaleb(-18) >= delta
    assert Decimal(FILTERS["basic"].price(Pure(epsilon), ("epsilon", "delta"))["epsilon"]).scaleb(-12) >= epsilon
    assert Decimal(FILTERS["zcdp"].price(Concentrated(rho), ("rho",))["rho"]).scaleb(-12) >= rho
    curve = FILTERS["renyi"].price(Concentrated(rho), orders)
    assert all(Decimal(curve[order]).scaleb(-12) >= rho * Decimal(order) for order in orders)
    # of a randomised response: its divergence at every order, by definition
    truth = -math.log1p(math.exp(-epsilon))
    lie = truth - float(epsilon)
    mean = FILTERS["zcdp"].price(Pure(epsilon), ("rho",))["rho"]
    assert mean * 1e-12 >= float(epsilon) * (math.exp(truth) - math.exp(lie)) * (1 - 1e-9) - 1e-12
    curve = FILTERS["renyi"].price(Pure(epsilon), orders)
    for order in map(float, orders):
        high, low = order * truth + (1 - order) * lie, order * lie + (1 - order) * truth
        diverged = (high + math.log1p(math.exp(low - high))) / (order - 1)
        assert curve.get(str(order), 0) * 1e-12 >= diverged * (1 - 1e-9) - 1e-12


epsilons = st.decimals("0.01", "10", places=2)
deltas = st.sampled_from([Decimal("1e-3"), Decimal("1e-6"), Decimal("1e-9")])


@given(epsilon=epsilons, delta=deltas)
@examples(12)
def test_a_zcdp_capacity_converts_to_no_more_than_was_declared_and_a_little_more_would(
    epsilon: Decimal, delta: Decimal
) -> None:
    steps = FILTERS["zcdp"].capacity(epsilon, delta)["rho"]
    rho = Decimal(steps).scaleb(-12)
    assert losses.concentrated_to_approximate(Concentrated(rho), delta).epsilon <= epsilon
    more = Concentrated(rho * Decimal("1.0001") + Decimal("2e-12"))
    assert losses.concentrated_to_approximate(more, delta).epsilon > epsilon


@given(epsilon=epsilons, delta=deltas)
@examples(12)
def test_a_renyi_capacity_holds_at_each_watched_order_alone(epsilon: Decimal, delta: Decimal) -> None:
    try:
        capacity = FILTERS["renyi"].capacity(epsilon, delta)
    except Mistake:  # too small for any order: nothing is held, nothing can break
        assume(False)
    for order, steps in capacity.items():
        curve = [Decimal(steps).scaleb(-12) if str(one) == order else Decimal("Infinity") for one in losses.ORDERS]
        share = delta / len(capacity)
        assert losses.renyi_to_approximate(losses.Renyi(curve), share).epsilon <= epsilon


@given(parts=st.lists(st.decimals("0.001", "0.5", places=3), min_size=1, max_size=8), data=st.data())
@examples(20)
def test_the_order_of_requests_never_matters(parts: list[Decimal], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(parts))
    left = []
    for sequence in (parts, shuffled):
        ledger = Ledger("memory://")
        for name in FILTERS:
            ledger.open_block(name, epsilon=50, delta=1e-6, filter=name)
        for part in sequence:
            ledger.reserve(list(FILTERS), epsilon=part, purpose="law", spender="ana").consume()
        left.append({block.name: (block.remaining, block.meters) for block in ledger.blocks()})
    assert left[0] == left[1]


@given(amounts=st.lists(st.floats(1e-3, 0.3), min_size=1, max_size=12))
@examples(15)
def test_spent_is_never_less_than_the_exact_sum_of_what_was_consumed(amounts: list[float]) -> None:
    ledger = Ledger("memory://")
    ledger.open_block("a", epsilon=10)
    claim = ledger.reserve(["a"], epsilon=sum(map(Decimal, map(str, amounts))), purpose="law", spender="ana")
    total = Decimal(0)
    for amount in amounts:
        claim.consume(epsilon=amount)
        total += Decimal(str(amount))
        spent = Decimal(ledger.block("a").meters["epsilon"].spent).scaleb(-12)
        assert total <= spent <= total + len(amounts) * Decimal("1e-12")
    assert claim.state == "closed"
