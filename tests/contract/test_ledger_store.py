"""The duties of every ledger, whatever keeps it: one suite over memory, SQLite and PostgreSQL."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.postgres import new_database
from thebes.ledger import BudgetExceeded, ClaimEnded, Frozen, Ledger, LedgerStore, NoKeeper
from thebes.ledger.address import open_store
from thebes.ledger.filters import FILTERS
from thebes.ledger.memory import MemoryStore
from thebes.ledger.store import WriteConflict
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.losses import ORDERS, Approximate, Both, Concentrated, Pure, Renyi

Reopen = Callable[[], Ledger]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the same ledger again and again, as a new process would."""
    opened: list[Ledger] = []
    memory = MemoryStore()
    where = {"sqlite": f"sqlite:///{tmp_path}/budget.db"}.get(request.param) or (
        new_database() if request.param == "postgres" else ""
    )

    def again() -> Ledger:
        store: LedgerStore = memory if request.param == "memory" else open_store(where)
        opened.append(Ledger(store, keeper=NoKeeper()))
        return opened[-1]

    yield again
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(reopen: Reopen) -> Ledger:
    ledger = reopen()
    ledger.open_block("monday", epsilon=1.0, delta=1e-6)
    ledger.open_block("tuesday", epsilon=1.0, delta=1e-6)
    return ledger


def everything(ledger: Ledger) -> object:
    """Every row of every table and the whole journal."""
    return ledger._store.read(lambda t: (t.books(), list(t.entries()), t.peek()))


def ask(ledger: Ledger, *blocks: str, spender: str = "ana", **terms: object):
    return ledger.reserve(blocks or ["monday"], spender=spender, purpose="weekly mean", **terms)


# --- spending --------------------------------------------------------------------------------------


def test_ten_tenths_fill_one_exactly(ledger: Ledger) -> None:
    for _ in range(10):
        ask(ledger, epsilon=0.1).consume()
    assert ledger.remaining("monday").epsilon == 0
    with pytest.raises(BudgetExceeded):
        ask(ledger, epsilon="0.000000000001")


def test_reserved_budget_is_gone_for_others_until_it_is_released(ledger: Ledger) -> None:
    claim = ask(ledger, epsilon=0.7)
    assert ledger.remaining("monday").epsilon == Decimal("0.3")
    with pytest.raises(BudgetExceeded):
        ask(ledger, epsilon=0.4)
    assert claim.release().state == "released"
    assert ledger.remaining("monday").epsilon == 1


def test_refusal_names_block_requested_and_remaining(ledger: Ledger) -> None:
    ask(ledger, "tuesday", epsilon=0.75, delta=4e-7).consume()
    with pytest.raises(BudgetExceeded, match=r"'tuesday'.*0\.25.*0\.5") as refused:
        ask(ledger, "monday", "tuesday", epsilon=0.5, delta=5e-7)
    assert refused.value.block == "tuesday"
    assert (refused.value.requested.epsilon, refused.value.requested.delta) == (Decimal("0.5"), Decimal("5e-7"))
    assert (refused.value.remaining.epsilon, refused.value.remaining.delta) == (Decimal("0.25"), Decimal("6e-7"))
    assert refused.value.spender is None


def test_delta_is_a_budget_of_its_own(ledger: Ledger) -> None:
    ask(ledger, epsilon=0.1, delta=1e-6).consume()
    with pytest.raises(BudgetExceeded):
        ask(ledger, epsilon=0.1, delta=1e-18)
    ask(ledger, epsilon=0.1)


def test_a_claim_over_many_blocks_is_granted_in_all_or_in_none(ledger: Ledger) -> None:
    ask(ledger, "tuesday", epsilon=0.9)
    before = everything(ledger)
    with pytest.raises(BudgetExceeded):
        ask(ledger, "monday", "tuesday", epsilon=0.2)
    assert everything(ledger) == before
    ask(ledger, "monday", "tuesday", epsilon=0.1)
    assert ledger.remaining("tuesday").epsilon == 0
    assert ledger.remaining("monday").epsilon == Decimal("0.9")


def test_every_refusal_and_mistake_leaves_every_row_untouched(ledger: Ledger) -> None:
    ledger.cap("ben", 0.2)
    ledger.open_block("people", epsilon=1, unit="person")
    ledger.open_block("rho", epsilon=1, delta=1e-6, filter="zcdp")
    ledger.retire_block(ledger.open_block("old", epsilon=1).name)
    claim = ask(ledger, epsilon=0.9, key="k")
    done = ask(ledger, "tuesday", epsilon=0.1).consume()
    named = ask(ledger, "tuesday", epsilon=0.2)
    named.consume(epsilon=0.1, part="one")
    before = everything(ledger)
    for refused in (
        lambda: ask(ledger, epsilon=0.2),
        lambda: ask(ledger, "monday", "nowhere", epsilon=0.01),
        lambda: ask(ledger, "tuesday", epsilon=0.3, spender="ben"),
        lambda: ask(ledger, "tuesday", "people", epsilon=0.01),
        lambda: ask(ledger, "tuesday", epsilon=0.01, unit="person"),
        lambda: ask(ledger, "tuesday", epsilon=0.01, adjacency="replace-one"),
        lambda: ask(ledger, "old", epsilon=0.01),
        lambda: ask(ledger, "rho", epsilon=0.01, delta=1e-9),
        lambda: ask(ledger, "tuesday", loss=Concentrated(0.01)),
        lambda: ask(ledger, "tuesday", epsilon=0.9, key="k"),
        lambda: claim.consume(epsilon=0.91),
        lambda: claim.consume(loss=Concentrated(0.01)),
        lambda: claim.consume(delta=1e-9),
        lambda: done.consume(),
        lambda: done.acquire(),
        lambda: named.consume(epsilon=0.2, part="two"),
        lambda: named.consume(epsilon=0.05, part="one"),
        lambda: ledger.open_block("monday", epsilon=2),
        lambda: ledger.cap("ben", 0.1, block="nowhere"),
        lambda: ledger.retire_block("nowhere"),
    ):
        with pytest.raises((BudgetExceeded, ClaimEnded, Mistake)):
            refused()
    assert everything(ledger) == before


@pytest.mark.slow
@pytest.mark.parametrize("capped", [False, True])
def test_check_says_beforehand_what_reserve_says_and_changes_nothing(ledger: Ledger, capped: bool) -> None:
    for name in ("zcdp", "either", "renyi"):
        ledger.open_block(name, epsilon=1, delta=1e-6, filter=name)
    ledger.open_block("people", epsilon=1, unit="person")
    ledger.retire_block(ledger.open_block("old", epsilon=1).name)
    if capped:
        ledger.cap("ana", 0.5)
    losses = [Pure(Decimal(size)) for size in ("0.1", "0.2", "0.4")] + [Approximate(Decimal("0.3"), Decimal("1e-7"))]
    blocks = [
        ("monday",),
        ("zcdp",),
        ("either",),
        ("renyi",),
        ("monday", "tuesday"),
        ("old",),
        ("monday", "people"),
        ("nowhere",),
    ]

    def said(what: Callable[[], object]) -> str:
        try:
            what()
        except (BudgetExceeded, Mistake) as no:
            return f"{type(no).__name__} {no}"
        return ""

    for frozen in (False, True):
        if frozen:
            ledger.freeze()
        heard = set()
        for names in blocks:
            for loss in losses * 3:
                before = everything(ledger)
                expected = said(lambda names=names, loss=loss: ledger.check(names, loss=loss, spender="ana"))
                assert everything(ledger) == before
                assert expected == said(lambda names=names, loss=loss: ask(ledger, *names, loss=loss))
                heard.add(bool(expected))
        assert heard == ({True} if frozen else {False, True})


def test_failure_inside_a_transaction_leaves_nothing_behind(ledger: Ledger) -> None:
    before = everything(ledger)

    def breaks(t: object) -> None:
        t.set_frozen(True)  # type: ignore[attr-defined]
        t.set_cap("ana", "monday", 1, None)  # type: ignore[attr-defined]
        raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError):
        ledger._store.write(breaks)
    assert everything(ledger) == before


def test_the_store_itself_refuses_to_pass_a_capacity(ledger: Ledger) -> None:
    before = everything(ledger)
    for reserved, spent in ((10**12 + 1, 0), (0, 10**12 + 1), (-1, 0), (0, -1)):
        with pytest.raises(Fault):
            ledger._store.write(lambda t, r=reserved, s=spent: t.move([("monday", "", "epsilon", r, s)]))
    assert everything(ledger) == before


def test_work_that_met_a_conflict_is_done_again(ledger: Ledger) -> None:
    tries = []

    def work(t: object) -> str:
        tries.append(t)
        if len(tries) < 3:
            raise WriteConflict
        return "done"

    assert ledger._store.write(work) == "done"
    assert len(tries) == 3


# --- the life of a claim ---------------------------------------------------------------------------


def test_a_claim_goes_from_reserved_through_acquired_to_closed(ledger: Ledger) -> None:
    claim = ask(ledger, epsilon=0.5)
    assert claim.state == "reserved"
    assert claim.acquire().state == "acquired"
    assert claim.acquire().state == "acquired"
    assert claim.consume(epsilon=0.2).state == "acquired"
    assert claim.remaining.epsilon == Decimal("0.3")
    assert claim.consume().state == "closed"
    assert ledger.remaining("monday").epsilon == Decimal("0.5")


def test_releasing_gives_back_only_what_was_not_consumed(ledger: Ledger) -> None:
    claim = ask(ledger, "monday", "tuesday", epsilon=0.5, delta=1e-7)
    claim.consume(epsilon=0.2)
    assert claim.release().state == "closed"
    assert claim.release().state == "closed"
    for block in ("monday", "tuesday"):
        left = ledger.remaining(block)
        assert (left.epsilon, left.delta) == (Decimal("0.8"), Decimal("1e-6"))


def test_thirds_of_a_claim_fit_although_each_is_rounded_up(ledger: Ledger) -> None:
    claim = ask(ledger, epsilon=1.0)
    for _ in range(3):
        claim.consume(epsilon=1 / 3)
    assert ledger.remaining("monday").epsilon == 0
    assert claim.remaining.epsilon == Decimal(1) - 3 * Decimal(str(1 / 3))


def test_a_closed_claim_pays_for_nothing_more(ledger: Ledger) -> None:
    claim = ask(ledger, epsilon=0.5).consume()
    with pytest.raises(ClaimEnded) as ended:
        claim.consume()
    assert ended.value.claim == claim.id


def test_a_part_named_again_is_charged_once(ledger: Ledger, reopen: Reopen) -> None:
    claim = ask(ledger, epsilon=0.5)
    claim.consume(epsilon=0.2, part="round 1")
    again = reopen().claim(claim.id).consume(epsilon=0.2, part="round 1")
    assert again.remaining.epsilon == Decimal("0.3")
    again.consume(part="round 2")
    assert again.consume(part="round 2").state == "closed"
    assert ledger.remaining("monday").epsilon == Decimal("0.5")
    with pytest.raises(Mistake, match="part"):
        again.consume(epsilon=0.3, part="round 1")


def test_a_request_repeated_under_its_key_is_the_same_claim(ledger: Ledger, reopen: Reopen) -> None:
    claim = ask(ledger, "tuesday", "monday", epsilon=0.4, key="task 1")
    again = ask(reopen(), "monday", "tuesday", epsilon=0.40, delta=0, key="task 1")
    assert again.id == claim.id
    assert ledger.remaining("monday").epsilon == Decimal("0.6")
    again.consume()
    assert ask(ledger, "monday", "tuesday", epsilon="0.4", key="task 1").state == "closed"
    with pytest.raises(Mistake, match="key"):
        ask(ledger, "monday", epsilon=0.4, key="task 1")
    assert ledger.claim(key="task 1").blocks == ("monday", "tuesday")


def test_a_ledger_opened_again_knows_everything(ledger: Ledger, reopen: Reopen) -> None:
    ledger.cap("ana", 0.8, block="monday")
    claim = ask(ledger, epsilon=0.5, key="k")
    claim.consume(epsilon=0.25)
    ledger.retire_block("tuesday")
    before = everything(ledger)
    other = reopen()
    assert everything(other) == before
    assert other.id == ledger.id
    assert other.verify() == ledger.head()
    found = other.claim(claim.id)
    assert (found.spender, found.purpose, found.state, found.blocks) == ("ana", "weekly mean", "acquired", ("monday",))
    assert (found.loss, found.left) == (Pure("0.5"), Pure("0.25"))
    assert [c.id for c in other.claims(spender="ana", block="monday", state="acquired")] == [claim.id]
    assert other.claims(spender="ben") == []


# --- blocks, units, caps ---------------------------------------------------------------------------


def test_opening_a_block_again_on_the_same_terms_changes_nothing(ledger: Ledger) -> None:
    before = everything(ledger)
    ledger.open_block("monday", epsilon="1.00", delta=0.000001, unit="event", adjacency="add-remove-one")
    assert everything(ledger) == before


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("argument", "terms"),
    [
        ("epsilon", {"epsilon": 2}),
        ("delta", {"delta": 0}),
        ("unit", {"unit": "person"}),
        ("adjacency", {"adjacency": "replace-one"}),
        ("filter", {"filter": "zcdp"}),
    ],
)
def test_opening_a_block_again_on_other_terms_is_a_mistake(ledger: Ledger, argument: str, terms: dict) -> None:
    with pytest.raises(Mistake) as mistake:
        ledger.open_block("monday", **{"epsilon": 1, "delta": 1e-6, **terms})
    assert mistake.value.argument == argument


def test_a_claim_priced_for_another_unit_or_adjacency_is_refused(ledger: Ledger) -> None:
    ledger.open_block("people", epsilon=1, unit="person", adjacency="replace-one")
    with pytest.raises(Mistake, match="unit"):
        ask(ledger, "people", epsilon=0.1, unit="event")
    with pytest.raises(Mistake, match="adjacency"):
        ask(ledger, "people", epsilon=0.1, adjacency="add-remove-one")
    with pytest.raises(Mistake, match="unit"):
        ask(ledger, "people", "monday", epsilon=0.1)
    claim = ask(ledger, "people", epsilon=0.1, unit="person", adjacency="replace-one")
    assert (claim.unit, claim.adjacency) == ("person", "replace-one")


def test_a_cap_binds_its_spender_beside_the_block(ledger: Ledger) -> None:
    ask(ledger, epsilon=0.2).consume()
    ask(ledger, epsilon=0.1)
    ledger.cap("ana", 0.5)
    assert ledger.remaining("monday", "ana").epsilon == Decimal("0.2")
    assert ledger.remaining("monday", "ben").epsilon == Decimal("0.7")
    with pytest.raises(BudgetExceeded, match="cap of 'ana'") as refused:
        ask(ledger, epsilon=0.3)
    assert (refused.value.spender, refused.value.remaining.epsilon) == ("ana", Decimal("0.2"))
    ask(ledger, epsilon=0.2).consume()
    assert ledger.remaining("monday", "ana").epsilon == 0
    ask(ledger, epsilon=0.5, spender="ben")
    assert ledger.verify()


def test_a_cap_for_one_block_stands_before_the_cap_for_all(ledger: Ledger) -> None:
    ledger.cap("ana", 0)
    ledger.cap("ana", 0.3, block="tuesday")
    with pytest.raises(BudgetExceeded):
        ask(ledger, "monday", epsilon=0.01)
    ask(ledger, "tuesday", epsilon=0.3).release()
    assert ledger.remaining("tuesday", "ana").epsilon == Decimal("0.3")
    ledger.cap("ana", 0.1, block="tuesday")
    assert ledger.remaining("tuesday", "ana").epsilon == Decimal("0.1")


def test_a_cap_below_what_is_spent_allows_nothing_more(ledger: Ledger) -> None:
    ask(ledger, epsilon=0.5).consume()
    ledger.cap("ana", 0.1)
    assert ledger.remaining("monday", "ana").epsilon == 0
    with pytest.raises(BudgetExceeded) as refused:
        ask(ledger, epsilon=0.01)
    assert refused.value.remaining.epsilon == 0


def test_a_retired_block_takes_no_new_claims_but_lets_old_ones_finish(ledger: Ledger) -> None:
    claim = ask(ledger, epsilon=0.5)
    assert ledger.retire_block("monday").state == "retired"
    assert ledger.retire_block("monday").remaining.epsilon == 0
    with pytest.raises(BudgetExceeded, match="retired"):
        ask(ledger, epsilon=0.1)
    assert claim.consume().state == "closed"
    assert ledger.verify()


# --- zcdp and renyi --------------------------------------------------------------------------------


@pytest.mark.few(1)
def test_a_zcdp_block_lets_many_small_claims_in_where_basic_would_not(ledger: Ledger) -> None:
    block = ledger.open_block("z", epsilon=1, delta=1e-6, filter="zcdp")
    fitting = block.meters["rho"].capacity // (2 * 10**8)  # 0.02^2 / 2 in steps of 1e-12
    assert fitting > 100
    for _ in range(fitting):
        ask(ledger, "z", epsilon="0.02").consume()
    with pytest.raises(BudgetExceeded) as refused:
        ask(ledger, "z", epsilon="0.02")
    assert refused.value.remaining.epsilon < Decimal("0.02")
    assert refused.value.remaining.delta == Decimal("1e-6")
    assert ledger.remaining("z") == refused.value.remaining
    assert ledger.verify()


def test_remaining_is_the_largest_pure_epsilon_that_still_fits(ledger: Ledger) -> None:
    for name in ("zcdp", "either", "renyi"):
        ledger.open_block(name, epsilon=1, delta=1e-6, filter=name)
        for _ in range(3):
            ask(ledger, name, epsilon=0.1).consume()
        left = ledger.remaining(name)
        with pytest.raises(BudgetExceeded):
            ask(ledger, name, epsilon=left.epsilon + Decimal("2e-12"))
        ask(ledger, name, epsilon=left.epsilon).consume()
        assert ledger.remaining(name).epsilon < Decimal("2e-6")


def test_parts_of_a_pure_claim_cost_less_than_the_whole_and_the_rest_goes_back(ledger: Ledger) -> None:
    ledger.open_block("z", epsilon=1, delta=1e-6, filter="zcdp")
    claim = ask(ledger, "z", epsilon=0.2)
    claim.consume(epsilon=0.1)
    claim.consume()
    meter = ledger.block("z").meters["rho"]
    assert (meter.reserved, meter.spent) == (0, 2 * 4_995_837_496)  # twice 0.1 tanh(0.05)
    assert ledger.verify()


def test_losses_are_charged_as_such(ledger: Ledger) -> None:
    ledger.open_block("z", epsilon=1, delta=1e-6, filter="zcdp")
    ledger.open_block("r", epsilon=1, delta=1e-6, filter="renyi")
    claim = ask(ledger, "z", "r", loss=Concentrated("0.01"))
    claim.consume(loss=Concentrated("0.004"))
    assert claim.left == Concentrated("0.006")
    with pytest.raises(ClaimEnded):
        claim.consume(loss=Concentrated("0.0061"))
    claim.release()
    assert ledger.block("z").meters["rho"].spent == 4 * 10**9
    assert ledger.block("r").meters["64.0"].spent == 4 * 64 * 10**9
    ask(ledger, "r", loss=Renyi([Decimal("0.001")] * len(ORDERS))).consume()
    assert ledger.block("r").meters["64.0"].spent == 257 * 10**9
    assert ledger.verify()


def test_a_renyi_block_grants_while_one_order_has_room(ledger: Ledger) -> None:
    ledger.open_block("r", epsilon=1, delta=1e-6, filter="renyi", orders=(32, 64))
    steep = Renyi([Decimal("Infinity") if order > 32 else Decimal("0.1") for order in ORDERS])
    half = Renyi([Decimal("Infinity") if order > 32 else Decimal("0.05") for order in ORDERS])
    granted = ledger.block("r").meters["32.0"].capacity // 10**11
    for _ in range(granted):
        ask(ledger, "r", loss=steep).consume(loss=half).consume()
    with pytest.raises(BudgetExceeded):
        ask(ledger, "r", loss=steep)
    meters = ledger.block("r").meters
    assert meters["32.0"].spent == granted * 10**11
    assert meters["64.0"].spent == meters["64.0"].capacity + 1  # dead, and not counted any further
    assert ledger.verify()


def test_an_order_without_promise_comes_back_when_its_claim_is_released(ledger: Ledger) -> None:
    ledger.open_block("r", epsilon=1, delta=1e-6, filter="renyi")
    before = ledger.block("r").meters
    ask(ledger, "r", loss=Renyi([Decimal("Infinity") if order > 32 else Decimal("0.1") for order in ORDERS])).release()
    assert ledger.block("r").meters == before


def test_caps_count_like_their_block(ledger: Ledger) -> None:
    for name in ("zcdp", "either", "renyi"):
        ledger.open_block(name, epsilon=1, delta=1e-6, filter=name)
        ledger.cap("ana", 0.5, block=name)
        whole = ledger.remaining(name).epsilon
        under = ledger.remaining(name, "ana").epsilon
        assert 0 < under < whole
        ask(ledger, name, epsilon=under).consume()
        with pytest.raises(BudgetExceeded):
            ask(ledger, name, epsilon=Decimal("0.01"))
        ask(ledger, name, epsilon=Decimal("0.01"), spender="ben")
        ledger.cap("ana", 0.5, 0, block=name)
        assert ledger.remaining(name, "ana").epsilon == 0


def test_a_claim_may_span_filters(ledger: Ledger) -> None:
    ledger.open_block("z", epsilon=1, delta=1e-6, filter="zcdp")
    ledger.open_block("r", epsilon=1, delta=1e-6, filter="renyi")
    ask(ledger, "monday", "z", "r", epsilon=0.2).consume(epsilon=0.1).consume()
    assert ledger.remaining("monday").epsilon == Decimal("0.8")
    assert ledger.verify()
    with pytest.raises(Mistake, match="delta"):
        ask(ledger, "monday", "z", loss=Approximate("0.1", "1e-7"))


# --- either ----------------------------------------------------------------------------------------


def test_an_either_block_takes_five_answers_of_a_fifth_and_says_both_sums(ledger: Ledger) -> None:
    ledger.open_block("e", epsilon=1, delta=1e-6, filter="either")
    for _ in range(5):
        ask(ledger, "e", epsilon=0.2).consume()
    meters = ledger.block("e").meters
    assert (meters["pure"].spent, meters["pure"].left) == (10**12, 0)
    assert meters["rho"].spent > meters["rho"].capacity  # in rho alone there was room for one
    with pytest.raises(BudgetExceeded):
        ask(ledger, "e", epsilon="0.000000000001")
    assert ledger.block("e").account.endswith("no answer can be paid for")
    assert ledger.verify()


def test_what_is_not_pure_ends_the_sum_of_epsilons_while_it_is_open_and_once_it_is_used(ledger: Ledger) -> None:
    fresh = ledger.open_block("e", epsilon=1, delta=1e-6, filter="either").meters
    smooth = ask(ledger, "e", loss=Concentrated("0.001"))
    with pytest.raises(BudgetExceeded) as refused:
        ask(ledger, "e", epsilon=0.5)
    assert refused.value.requested.epsilon == Decimal("0.5")
    assert 0.21 < refused.value.remaining.epsilon < 0.22  # the rest of rho
    assert "nothing as epsilons add up" in ledger.block("e").account
    smooth.release()
    assert ledger.block("e").meters == fresh
    pure = ask(ledger, "e", epsilon=0.5).consume()
    with pytest.raises(BudgetExceeded):
        ask(ledger, "e", loss=Concentrated("0.001"))  # the half took all of rho
    assert pure.state == "closed"
    ledger.open_block("f", epsilon=1, delta=1e-6, filter="either")
    ask(ledger, "f", loss=Concentrated("0.001")).consume(loss=Concentrated("0.0001")).release()
    meters = ledger.block("f").meters
    assert (meters["pure"].spent, meters["rho"].spent) == (10**12 + 1, 10**8)
    with pytest.raises(BudgetExceeded):
        ask(ledger, "f", epsilon=0.5)
    ask(ledger, "f", epsilon=0.2).consume()
    assert ledger.verify()


def test_of_a_claim_without_a_pure_price_only_the_pure_parts_count_that_were_taken(ledger: Ledger) -> None:
    ledger.open_block("e", epsilon=1, delta=1e-6, filter="either")
    claim = ask(ledger, "e", loss=Both(Decimal("Infinity"), "0.01"))
    claim.consume(loss=Both("0.1", "0.005"), part="a pure one")
    assert claim.left == Both(Decimal("Infinity"), "0.005")
    with pytest.raises(ClaimEnded):
        claim.consume(loss=Both("0.1", "0.0051"))
    claim.release()
    meters = ledger.block("e").meters
    assert [(m.reserved, m.spent) for m in (meters["pure"], meters["rho"])] == [(0, 10**11), (0, 5 * 10**9)]
    assert ledger.remaining("e").epsilon == Decimal("0.9")
    both = ask(ledger, "e", loss=Both("0.9", "0.5")).consume()  # by the sum of epsilons alone
    assert both.loss == Both("0.9", "0.5")
    assert ledger.remaining("e").epsilon == 0
    assert ledger.verify()


def test_a_cap_above_its_block_is_not_pure_after_an_answer_that_was_not(ledger: Ledger) -> None:
    """More than all of a place is held as a step more than all of it: to a larger cap that looked like little."""
    ledger.open_block("e", epsilon=1, delta=1e-6, filter="either")
    ledger.cap("ana", 5, 1e-15, block="e")
    ledger.cap("ben", 1.5, 1e-15, block="e")
    rho = FILTERS["zcdp"].capacity(Decimal("1.5"), Decimal("1e-15"))["rho"]
    with pytest.raises(BudgetExceeded) as refused:
        ask(ledger, "e", loss=Concentrated(Decimal(rho + 1).scaleb(-12)), spender="ben")
    assert refused.value.spender == "ben"
    ask(ledger, "e", loss=Concentrated("0.001"), spender="ana").consume()
    assert ledger.remaining("e", "ana").epsilon < Decimal("0.3")


# --- frozen ----------------------------------------------------------------------------------------


def test_a_frozen_ledger_counts_every_block_as_spent_until_it_is_thawed(ledger: Ledger, reopen: Reopen) -> None:
    used = ask(ledger, epsilon=0.25).consume()
    doubtful = ask(ledger, epsilon=0.25)
    doubtful.consume(epsilon=0.05)
    ledger.freeze()
    ledger.freeze()
    frozen = reopen()
    assert frozen.frozen
    assert frozen.remaining("monday").epsilon == 0
    frozen.open_block("wednesday", epsilon=1)
    before = everything(frozen)
    for step in (
        lambda: ask(frozen, epsilon=0.1),
        lambda: ask(frozen, "wednesday", epsilon=0.1),
        doubtful.consume,
        doubtful.release,
    ):
        with pytest.raises(Frozen) as refused:
            step()
        assert refused.value.remaining.epsilon == 0
    assert everything(frozen) == before
    assert frozen.thaw() == [doubtful.id]
    assert frozen.thaw() == []
    assert not ledger.frozen
    # What was open when the copy was made may have been consumed since: it counts as consumed whole.
    assert ledger.remaining("monday").epsilon == Decimal("0.5")
    assert ledger.claim(doubtful.id).state == "closed"
    with pytest.raises(ClaimEnded):
        doubtful.consume()
    assert used.state == "closed"
    ask(ledger, "wednesday", epsilon=0.1).consume()
    assert ledger.verify()


# --- threads ---------------------------------------------------------------------------------------


def test_threads_of_one_ledger_together_never_exceed_a_block(ledger: Ledger) -> None:
    granted, refused = [], []

    def spend(who: int) -> None:
        for i in range(8):
            try:
                ask(ledger, "tuesday", "monday", epsilon=0.05, key=f"{who} {i}").consume()
                granted.append(1)
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=spend, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(granted), len(refused)) == (20, 12)
    assert ledger.remaining("monday").epsilon == 0
    assert ledger.verify()


def test_the_same_key_from_many_threads_is_one_claim(ledger: Ledger) -> None:
    numbers = []
    threads = [
        threading.Thread(
            target=lambda n=n: numbers.append(ask(ledger, ("monday", "tuesday")[n % 2], epsilon=0.1, key="k").id)
        )
        for n in (0, 0, 0, 0)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(numbers) == 4
    assert len(set(numbers)) == 1
    assert ledger.remaining("monday").epsilon == Decimal("0.9")


def test_amounts_are_exact_whatever_the_store(ledger: Ledger) -> None:
    ledger.open_block("wide", epsilon=1e6, delta="0.999999999999999999")
    ask(ledger, "wide", epsilon=Decimal("999999.999999999999"), delta="0.999999999999999998").consume()
    left = ledger.remaining("wide")
    assert (left.epsilon, left.delta) == (Decimal("1e-12"), Decimal("1e-18"))
    assert math.isclose(left.epsilon * 0.5, 5e-13)
