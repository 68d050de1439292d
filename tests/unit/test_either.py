"""The filter that watches two sums: what it grants, what it promises, and that it is never worse than either."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.curator.cache.purchase import Purchase, loss_of
from thebes.curator.pipelines.prices import dearest, together
from thebes.ledger import BudgetExceeded, Ledger, NoKeeper, Tampered
from thebes.ledger.address import open_store
from thebes.ledger.filters import CONCENTRATED, EITHER, FILTERS
from thebes.ledger.losses import loss_of_text, text_of
from thebes.ledger.memory import MemoryStore, MemoryTransaction
from thebes.ledger.sqlite import SqliteStore
from thebes.privacy.events import GaussianEvent, LaplaceEvent
from thebes.privacy.losses import Both, Concentrated, Loss, Pure, compose, pure_to_concentrated
from thebes.privacy.promise import Adjacency
from thebes.tasks.block_price import cost

ADDED = Adjacency.ADD_REMOVE_ONE
FOREVER = Decimal("Infinity")


def granted(name: str, epsilon: str, delta: str, losses: list[Loss]) -> list[bool]:
    """Tell of each of these requests, one after the other, whether a fresh block grants it."""
    counting = FILTERS[name]
    left, told = counting.capacity(Decimal(epsilon), Decimal(delta)), []
    for loss in losses:
        price = counting.price(loss, left)
        told.append(counting.fits(price, left))
        if told[-1]:
            left = {place: amount - price.get(place, 0) for place, amount in left.items()}
    return told


@pytest.mark.parametrize(
    ("epsilon", "each", "basic", "zcdp", "either"),
    [
        ("1", "0.5", 2, 0, 2),
        ("1", "0.2", 5, 1, 5),
        ("1", "0.1", 10, 4, 10),
        ("1", "0.05", 20, 19, 20),
        ("1", "0.02", 50, 121, 121),
        ("1", "0.01", 100, 487, 487),
        ("10", "5", 2, 0, 2),
        ("10", "2", 5, 1, 5),
        ("10", "1", 10, 3, 10),
        ("10", "0.5", 20, 12, 20),
        ("10", "0.2", 50, 77, 77),
        ("10", "0.1", 100, 308, 308),
    ],
)
def test_equal_pure_answers_that_a_block_grants(epsilon: str, each: str, basic: int, zcdp: int, either: int) -> None:
    """The filter zcdp at its tight price, too: `either` is the larger of both in every line."""
    asked: list[Loss] = [Pure(each)] * 600
    found = [sum(granted(name, epsilon, "1e-6", asked)) for name in ("basic", "zcdp", "either")]
    assert found == [basic, zcdp, either]


# --- what it promises -----------------------------------------------------------------------------------


def worst(epsilon: str, delta: str, seed: int, depth: int = 6, room: Decimal = Decimal(1)) -> float:
    """The exact sum of (P - e^epsilon Q)+ over all paths of a random tree of randomised responses, each chosen after
    the answers before it, that the filter grants; `room` times the capacity, to see that a larger one shows."""
    capacity = {place: int(steps * room) for place, steps in EITHER.capacity(Decimal(epsilon), Decimal(delta)).items()}
    draw, most = random.Random(seed), math.exp(float(epsilon))
    menu = [Pure(Decimal(epsilon) * Decimal(part)) for part in ("0.02", "0.1", "0.2", "0.3", "0.5", "0.8", "1", "1.5")]

    def walk(left: dict[str, int], p: float, q: float, to_go: int) -> float:
        for _ in range(3 if to_go else 0):
            loss = draw.choice(menu)
            price = EITHER.price(loss, left)
            if EITHER.fits(price, left):
                rest = {place: amount - price[place] for place, amount in left.items()}
                truth = 1 / (1 + math.exp(-float(loss.epsilon)))
                yes = walk(rest, p * truth, q * (1 - truth), to_go - 1)
                return yes + walk(rest, p * (1 - truth), q * truth, to_go - 1)
        return max(0.0, p - most * q)

    return walk(capacity, 1.0, 1.0, depth)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("1", "0.1"), ("3", "0.01"), ("3", "1e-4")])
def test_adaptive_trees_stay_within_epsilon_and_delta(epsilon: str, delta: str) -> None:
    assert max(worst(epsilon, delta, seed) for seed in range(300)) <= float(delta)


@pytest.mark.slow
def test_the_trees_would_show_a_filter_with_too_much_room() -> None:
    assert max(worst("1", "0.01", seed, room=Decimal("1.3")) for seed in range(300)) > 0.01


@pytest.mark.parametrize(("each", "times"), [("0.2", 5), ("0.05", 20), ("0.02", 121), ("0.01", 487)])
def test_dp_accounting_finds_no_more_than_delta_in_a_full_block(each: str, times: int) -> None:
    """Fixed requests, whose exact distribution of losses it composes."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = pld.from_randomized_response(2 / (1 + math.exp(float(each))), 2, value_discretization_interval=1e-4)
    whole = one.self_compose(times)
    assert sum(granted("either", "1", "1e-6", [Pure(each)] * 600)) == times
    assert whole.get_delta_for_epsilon(1 + times * 1.01e-4) <= 1e-6


# --- never worse ----------------------------------------------------------------------------------------

pures = st.integers(1, 400).map(lambda n: Pure(Decimal(n) / 1000))
smooths = st.integers(1, 5000).map(lambda n: Concentrated(Decimal(n) / 10**6))


@pytest.mark.slow
@examples(50)
@given(asked=st.lists(st.one_of(pures, smooths), max_size=40), only_pure=st.booleans())
def test_whatever_prefix_another_filter_grants_in_full_it_grants_in_full(asked: list[Loss], only_pure: bool) -> None:
    wanted = [loss for loss in asked if isinstance(loss, Pure) or not only_pure]
    ours = granted("either", "1", "1e-6", wanted)
    for name in ("basic", "zcdp"):
        for end in range(1, len(wanted) + 1):
            if name == "basic" and not isinstance(wanted[end - 1], Pure):
                break
            if not granted(name, "1", "1e-6", wanted[:end])[-1]:
                break
            assert ours[end - 1]


def test_a_price_of_noise_is_never_a_rounding_above_what_was_promised() -> None:
    """Five times a scale rounded to a float came to a step more than the whole, and the last answer was refused."""
    for each in ("0.2", "0.1", "0.05"):
        noise = LaplaceEvent(math.nextafter(1 / float(each), 0))
        document: Any = SimpleNamespace(epsilon=float(each), delta=0, phases=1)
        losses = [cost(document, noise, "either").whole, loss_of([Purchase(noise, Decimal(each))], "either")]
        for loss in losses:
            assert isinstance(loss, Both)
            assert loss.epsilon == Decimal(each)
            assert sum(granted("either", "1", "1e-6", [loss] * 40)) >= 1 / float(each)


def test_noise_that_costs_more_than_was_promised_is_not_taken_at_its_word() -> None:
    document: Any = SimpleNamespace(epsilon=0.2, delta=0, phases=1)
    loss = cost(document, LaplaceEvent(4.0), "either").whole
    assert isinstance(loss, Both)
    assert loss.epsilon == Decimal("0.25")
    document = SimpleNamespace(epsilon=0.2, delta=1e-6, phases=3)
    assert cost(document, GaussianEvent(5.0), "either").whole == Both(FOREVER, "0.06")


# --- losses of both kinds -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Both("0.2", "0.02"), Both(FOREVER, "0.001"), Both("1e-12", "1e-25")])
def test_a_loss_of_both_kinds_is_written_down_exactly(loss: Both) -> None:
    assert loss_of_text(text_of(loss)) == loss
    assert compose([loss, loss]) == loss * 2


def test_what_events_cost_is_both_where_it_can_be() -> None:
    assert EITHER.of_event(LaplaceEvent(4.0), adjacency=ADDED) == Both("0.25", pure_to_concentrated(Pure("0.25")).rho)
    assert EITHER.of_event(GaussianEvent(4.0), adjacency=ADDED) == Both(FOREVER, "0.03125")
    assert EITHER.pure_within(Both(FOREVER, "0.02"), Decimal(1)) == CONCENTRATED.pure_within(
        Concentrated("0.02"), Decimal(1)
    )
    assert EITHER.pure_within(Both("0.1", "0.02"), Decimal(1)) == Decimal("0.1")


def test_several_attempts_are_told_by_the_smaller_of_their_sums() -> None:
    few = together([Both("0.2", pure_to_concentrated(Pure("0.2")).rho)] * 5, Decimal("1e-6"))
    assert few == (Decimal(1), Decimal(0))
    epsilon, delta = together([Both("0.01", pure_to_concentrated(Pure("0.01")).rho)] * 487, Decimal("1e-6"))
    assert (epsilon <= 1, delta) == (True, Decimal("1e-6"))
    assert together([Both(FOREVER, "0.001")], Decimal("1e-6"))[0] < 1


def test_what_holds_for_every_block_holds_its_epsilon_and_its_delta() -> None:
    """One block paid more epsilon without a delta, and another less with one."""
    one = [Both(Decimal(2) ** n / 100, pure_to_concentrated(Pure(Decimal(2) ** n / 100)).rho) for n in range(1, 6)]
    other = [Both("0.02", pure_to_concentrated(Pure("0.02")).rho)] * 45
    delta = Decimal("1e-6")
    epsilon, beside = dearest({"a": one, "b": other}, delta)
    for losses in (one, other):
        own = together(losses, delta)
        assert epsilon >= own[0]
        assert beside >= own[1]
    assert (epsilon, beside) == (Decimal("0.62"), delta)


def test_nothing_pure_is_promised_of_what_is_not() -> None:
    told = EITHER.loss([GaussianEvent(1.0, 1e-9)], Decimal(1), Decimal(0), adjacency=ADDED)
    assert isinstance(told, Both)
    assert told.epsilon.is_infinite()


@pytest.mark.parametrize("name", ["either", "renyi"])  # of the others the stores hold every balance themselves
def test_a_journal_that_charged_more_than_a_block_holds_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(MemoryStore(), keeper=NoKeeper())
    ledger.open_block("b", epsilon=1, delta=1e-6, filter=name)
    ask: dict[str, Any] = {"loss": Concentrated("0.01"), "purpose": "p", "spender": "s"}
    ledger.reserve(["b"], **ask).consume()
    assert ledger.verify()
    monkeypatch.setattr(type(FILTERS[name]), "fits", lambda *told: True)  # a filter that grants everything
    for _ in range(20):
        ledger.reserve(["b"], **ask).consume()
    with pytest.raises(Tampered):
        ledger.verify()


@pytest.mark.parametrize("address", ["memory", "sqlite"])
def test_no_number_of_open_claims_passes_what_a_database_holds(tmp_path: Path, address: str) -> None:
    store: Any = MemoryStore() if address == "memory" else open_store(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger = Ledger(store, keeper=NoKeeper())
    ledger.open_block("b", epsilon=10**6, delta=1e-6, filter="either")
    for _ in range(4):
        ledger.reserve(["b"], loss=Concentrated("0.01"), purpose="p", spender="s")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(["b"], loss=Concentrated("0.01"), purpose="p", spender="s")
    assert ledger.verify()


# --- crashes --------------------------------------------------------------------------------------------


class Power(BaseException):
    """It fails between two writes."""


def stores(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> tuple[Any, Callable[[int], None]]:
    """A store, and what lets its power fail before the write of that number from now."""
    left = [-1]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*told: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Power
            return real(*told)

        return write

    if kind == "memory":
        monkeypatch.setattr(MemoryTransaction, "_put", counted(MemoryTransaction._put))
        store: Any = MemoryStore()
    else:
        store = open_store(f"sqlite:///{folder / 'budget.db'}")
        assert isinstance(store, SqliteStore)
        from thebes.ledger.sql import SqlTransaction

        for name in ("move", "add_charges", "set_charges", "append", "set_claim", "add_claim"):
            monkeypatch.setattr(SqlTransaction, name, counted(getattr(SqlTransaction, name)))

    def fail(number: int) -> None:
        left[0] = number

    return store, fail


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_crash_between_two_writes_leaves_both_sums_charged_or_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    store, fail = stores(tmp_path, monkeypatch, kind)
    ledger = Ledger(store, keeper=NoKeeper())
    ledger.open_block("e", epsilon=1, delta=1e-6, filter="either")
    ask = {"purpose": "p", "spender": "s"}
    steps: list[Callable[[], object]] = [
        lambda: ledger.reserve(["e"], epsilon="0.3", key="a", **ask),  # type: ignore[arg-type]
        lambda: ledger.claim(key="a").consume(epsilon="0.1", part="one"),
        lambda: ledger.claim(key="a").release(),
    ]
    for step in steps:
        before = ledger._store.read(lambda t: t.books())
        crashes = 0
        while True:
            crashes += 1
            fail(crashes)
            try:
                step()
            except Power:
                fail(-1)
                assert ledger._store.read(lambda t: t.books()) == before
                assert ledger.verify()
                continue
            fail(-1)
            break
        assert crashes > 3
        assert ledger.verify()
    meters = ledger.block("e").meters
    assert (meters["pure"].spent, meters["pure"].reserved) == (10**11, 0)
    assert (meters["rho"].spent, meters["rho"].reserved) == (EITHER.price(Pure("0.1"), ("rho",))["rho"], 0)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(["e"], epsilon="0.91", purpose="p", spender="s")
