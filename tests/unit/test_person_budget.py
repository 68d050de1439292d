"""Budget periods, limits that change, caps, settings and standing rules."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.examples import examples
from thebes.data.store import Store
from thebes.ledger import BudgetExceeded, Ledger
from thebes.person.budget.blocks import PersonBlocks, consumed
from thebes.person.budget.budget import PersonBudget, period
from thebes.person.home import TASK_STORE, Person
from thebes.person.settings import PersonSettings, RequestorCap
from thebes.person.tasks.rules import AgreementRule, read_rules
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Mistake
from thebes.simulation import example
from thebes.web.person import words

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "delta": 1e-5,
    "min_count": 20,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0}},
}


class Wallet:
    """A budget whose settings and clock are in the test's hand."""

    def __init__(self, **body: Any) -> None:
        self.settings = PersonSettings().changed(body)
        self.now = START
        self.ledger = Ledger("memory://")
        self.budget = PersonBudget(self.ledger, lambda: self.settings, lambda: self.now)
        self.claims = 0

    def reserve(self, epsilon: str, *, trust: str = "local", requestor: str = "ana", delta: str = "0") -> Any:
        self.claims += 1
        return self.budget.reserve(
            f"claim {self.claims}",
            trust=trust,
            epsilon=Decimal(epsilon),
            delta=Decimal(delta),
            requestor=requestor,
            purpose="a task",
        )

    def left(self, trust: str = "local", block: str = "period") -> float:
        return float(self.budget.view()[trust][block]["remaining"]["epsilon"])


def test_a_claim_counts_in_its_period_and_overall() -> None:
    wallet = Wallet(local={"epsilon": 2, "overall_epsilon": 3})
    wallet.reserve("1.5").consume()
    assert (wallet.left(), wallet.left(block="overall")) == (0.5, 1.5)
    with pytest.raises(BudgetExceeded):
        wallet.reserve("1")
    wallet.now += timedelta(days=30)
    assert (wallet.left(), wallet.left(block="overall")) == (2.0, 1.5)
    wallet.reserve("1")
    with pytest.raises(BudgetExceeded) as refused:
        wallet.reserve("0.75")
    assert "overall" in refused.value.block


def test_a_refusal_names_the_period_and_not_how_often_limits_were_changed() -> None:
    wallet = Wallet(local={"epsilon": 2})
    wallet.reserve("1").consume()
    for epsilon in (3, 4, 5):
        wallet.settings = wallet.settings.changed({"local": {"epsilon": epsilon}})
        wallet.left()
    with pytest.raises(BudgetExceeded, match=r"block 'local, \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d' has") as refused:
        wallet.reserve("9")
    assert refused.value.block.endswith(" #4")  # by which a program finds it


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"epsilon": 400}, "epsilon in one period (400) is above epsilon for ever (300)"),
        ({"epsilon": 20, "year_epsilon": 10}, "epsilon in one period (20) is above epsilon in a year (10)"),
        ({"year_delta": 0.5}, "delta in a year (0.5) is above delta for ever (0.01)"),
        ({"epsilon": 300, "year_epsilon": 300}, None),
    ],
)
def test_a_limit_above_one_for_a_longer_time_is_told_never_to_count(limits: dict[str, float], told: str | None) -> None:
    settings = PersonSettings().changed({"trusted": limits})
    assert [told in each for each in settings.unreached()] == ([] if told is None else [True])


def test_trusted_and_local_spending_never_meet() -> None:
    wallet = Wallet(local={"epsilon": 1}, trusted={"epsilon": 1})
    wallet.reserve("1", trust="trusted").consume()
    wallet.reserve("1", trust="local").consume()
    view = wallet.budget.view()
    assert view["trusted"]["promise"] == "if the server keeps its promise"
    assert "promise" not in view["local"]
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.1", trust="local")


OWN = {"epsilon": 3, "delta": 0, "overall_epsilon": 5, "overall_delta": 0}


def test_what_two_servers_are_trusted_with_is_part_of_what_one_is_until_it_has_a_budget_of_its_own() -> None:
    wallet = Wallet(trusted={"epsilon": 2, "overall_epsilon": 9})
    wallet.reserve("0.5", trust="split").consume()
    wallet.reserve("1", trust="trusted").consume()
    view = wallet.budget.view()
    assert view["split"]["within"] == "trusted"
    assert [view[trust]["period"]["spent"]["epsilon"] for trust in ("local", "trusted", "split")] == [0, 1.5, 0.5]
    assert (wallet.left("trusted"), wallet.left("split")) == (0.5, 0.5), "of the two the less"
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.75", trust="split")


def test_a_budget_that_is_taken_back_while_a_task_asks_bounds_it_before_or_after() -> None:
    own = {"epsilon": 1, "delta": 0, "overall_epsilon": 1, "overall_delta": 0}
    wallet = Wallet(trusted={"epsilon": 30, "overall_epsilon": 30}, split=own)
    with_own, without = wallet.settings, wallet.settings.changed({"split": None})
    wallet.settings = without
    wallet.reserve("30", trust="trusted").consume()
    for before, after in ((with_own, without), (without, with_own)):
        for reads in range(1, 6):
            left = iter([before] * reads)
            budget = PersonBudget(wallet.ledger, lambda left=left, after=after: next(left, after), lambda: START)
            with pytest.raises(BudgetExceeded):
                budget.reserve(
                    f"{reads}", trust="split", epsilon=Decimal(20), delta=Decimal(0), requestor="ana", purpose="a task"
                )


def test_what_two_servers_had_of_their_own_budget_is_said_to_be_part_of_no_other() -> None:
    own = {"epsilon": 8, "delta": 0, "overall_epsilon": 8, "overall_delta": 0}
    wallet = Wallet(trusted={"epsilon": 10, "overall_epsilon": 10}, split=own)
    wallet.reserve("8", trust="split")
    wallet.settings = wallet.settings.changed({"split": None})
    assert words.within(wallet.budget.view(), "trusted") == ""
    wallet.reserve("1.5", trust="trusted")
    assert words.within(wallet.budget.view(), "trusted") == ""
    wallet.settings = wallet.settings.changed({"trusted": {"epsilon": 20, "overall_epsilon": 20}})
    wallet.reserve("0.5", trust="split")
    assert words.within(wallet.budget.view(), "trusted").startswith("0.5 of that is for two servers")


def test_a_budget_of_their_own_forgets_nothing_that_two_servers_had_before() -> None:
    wallet = Wallet(trusted={"epsilon": 2, "overall_epsilon": 9})
    wallet.reserve("1.5", trust="split").consume()
    wallet.settings = wallet.settings.changed({"split": OWN})
    view = wallet.budget.view()
    assert "within" not in view["split"]
    assert view["split"]["promise"] == "if one of the two servers keeps its promise"
    assert (wallet.left("split"), wallet.left("split", "overall")) == (1.5, 3.5)
    assert wallet.left("trusted") == 0.5, "it stays counted where it was, too"
    wallet.reserve("1.5", trust="split").consume()
    assert wallet.left("trusted") == 0.5
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.1", trust="split")
    wallet.settings = wallet.settings.changed({"split": None})
    assert (wallet.left("trusted"), wallet.left("split")) == (0.5, 0.0), "nor does it when that is taken back"
    wallet.settings = wallet.settings.changed({"split": {**OWN, "epsilon": 4}})
    assert wallet.left("split") == 1.0
    wallet.ledger.verify()


def test_a_cap_holds_a_requestor_in_the_budget_of_two_servers_and_in_the_one_that_it_is_part_of() -> None:
    wallet = Wallet(trusted={"epsilon": 9}, caps={"ana": {"epsilon": 1}})
    wallet.reserve("0.75", trust="trusted")
    told = wallet.budget.under_cap("ana", "split")
    assert told is not None
    assert told["remaining"]["epsilon"] == 0.25
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.5", trust="split")
    wallet.settings = wallet.settings.changed({"split": OWN})
    wallet.reserve("1", trust="split")
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.1", trust="split")


@pytest.mark.parametrize("days", [1, 7, 30, 365])
def test_periods_follow_each_other_without_gap(days: int) -> None:
    start, end = period(START, days)
    assert start <= START.date() < end
    assert (end - start).days == days
    assert period(datetime.combine(end, datetime.min.time(), UTC), days)[0] == end


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(1, 40), st.sampled_from(["ana", "bert"])),
        st.tuples(st.just("consume"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("release"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("limit"), st.integers(1, 60), st.just("")),
    ),
    max_size=25,
)


@examples(20)
@given(STEPS)
def test_whatever_limits_follow_each_other_what_is_claimed_stays_within_the_limit_of_its_moment(steps: Any) -> None:
    wallet, claims = Wallet(local={"epsilon": 3, "overall_epsilon": 100}), []
    limit = Decimal(3)
    for what, number, who in steps:
        held = sum((c.loss.epsilon for c in claims if c.state.open), Decimal(0))
        held += sum((consumed(c).epsilon for c in claims if not c.state.open), Decimal(0))
        if what == "reserve":
            amount = Decimal(number) / 10
            try:
                claims.append(wallet.reserve(str(amount), requestor=who))
            except BudgetExceeded:
                continue
            assert held + amount <= limit
        elif what == "limit":
            limit = Decimal(number) / 10
            wallet.settings = wallet.settings.changed({"local": {"epsilon": limit}})
        elif number < len(claims):
            claim = claims[number]
            if what == "release":
                claim.release()
            elif claim.state.open:
                claim.consume()
    spent = sum((consumed(c).epsilon for c in claims), Decimal(0))
    assert Decimal(str(wallet.budget.view()["local"]["period"]["spent"]["epsilon"])) >= spent
    assert Decimal(str(wallet.budget.view()["local"]["overall"]["spent"]["epsilon"])) == spent
    wallet.ledger.verify()


def test_another_length_of_periods_forgets_nothing_of_the_days_that_they_share() -> None:
    wallet = Wallet(local={"epsilon": 2, "overall_epsilon": 100}, caps={"ana": {"epsilon": 1}})
    wallet.reserve("1").consume()
    held = wallet.reserve("0.5", requestor="bert")
    for days in (29, 7, 30, 1, 365, 30):
        wallet.settings = wallet.settings.changed({"period_days": days})
        assert wallet.left() == 0.5
        with pytest.raises(BudgetExceeded):
            wallet.reserve("0.1")  # of ana's cap nothing is left either
        with pytest.raises(BudgetExceeded):
            wallet.reserve("0.6", requestor="cleo")
    held.consume()
    wallet.reserve("0.25", requestor="cleo").consume()
    wallet.settings = wallet.settings.changed({"period_days": 7, "local": {"epsilon": 3}})
    assert wallet.left() == 1.25
    wallet.now += timedelta(days=7)
    assert wallet.left() == 3.0, "the next period begins anew"
    wallet.reserve("2", requestor="cleo").consume()
    wallet.settings = wallet.settings.changed({"period_days": 30})
    assert wallet.left() == 0.0, "both weeks lie in it, which had 1.75 and 2 of its 3"
    assert wallet.left(block="overall") == 100 - 3.75
    wallet.ledger.verify()


def test_what_a_crash_left_to_be_carried_into_a_period_of_another_length_is_carried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wallet = Wallet(local={"epsilon": 2, "overall_epsilon": 100})
    wallet.reserve("1.5").consume()
    wallet.settings = wallet.settings.changed({"period_days": 7})
    with monkeypatch.context() as killed:
        killed.setattr(PersonBlocks, "_carry", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            wallet.reserve("1")
    with pytest.raises(BudgetExceeded):
        wallet.reserve("1")
    assert wallet.left() == 0.5
    wallet.ledger.freeze()
    wallet.settings = wallet.settings.changed({"period_days": 29})
    assert wallet.left() == 0.0
    wallet.ledger.thaw()
    assert wallet.left() == 0.5


def test_a_lower_limit_holds_at_once_and_a_higher_one_forgets_nothing() -> None:
    wallet = Wallet(local={"epsilon": 10})
    wallet.reserve("4", requestor="ana").consume()
    wallet.settings = wallet.settings.changed({"local": {"epsilon": 2}})
    assert wallet.left() == 0
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.1")
    wallet.settings = wallet.settings.changed({"local": {"epsilon": 5}})
    assert wallet.left() == 1
    wallet.reserve("1")
    with pytest.raises(BudgetExceeded):
        wallet.reserve("0.1")


def test_what_a_thawed_ledger_settled_is_not_forgotten_when_a_limit_changes() -> None:
    """A claim that was open in a copy counts as consumed whole, in every block there will be."""
    wallet = Wallet(local={"epsilon": 3, "overall_epsilon": 9})
    partly = wallet.reserve("1", delta="1e-6")
    partly.consume(epsilon=Decimal("0.25"))
    wallet.reserve("2")
    wallet.ledger.freeze("restored from a copy")
    assert len(wallet.ledger.thaw()) == 2
    wallet.settings = wallet.settings.changed({"local": {"epsilon": 3.5, "overall_epsilon": 9}})
    assert (wallet.left(), wallet.left(block="overall")) == (0.5, 6.0)
    wallet.ledger.verify()


def test_what_is_shown_around_midnight_is_of_the_period_that_it_names() -> None:
    wallet = Wallet(local={"epsilon": 2}, period_days=1)
    wallet.reserve("1.5").consume()
    told = iter([START, *[START + timedelta(days=1)] * 99])
    shown = PersonBudget(wallet.ledger, lambda: wallet.settings, lambda: next(told)).view()["local"]["period"]
    assert (shown["start"], shown["spent"]["epsilon"]) == (START.date().isoformat(), 1.5)


def test_a_cap_holds_a_name_however_it_is_capitalised_and_each_name_by_itself() -> None:
    wallet = Wallet(local={"epsilon": 10}, caps={"Ana": {"epsilon": 2}, "ana": {"epsilon": 1}, "*": {"epsilon": 3}})
    with pytest.raises(BudgetExceeded) as refused:
        wallet.reserve("1.5", requestor="ANA")  # the tightest of those that are alike, and not what everyone else has
    assert refused.value.spender == "ANA"
    for other in ("bert", "cleo"):  # whoever asks under two names has a cap for each: the limit is what holds them
        wallet.reserve("3", requestor=other)
        with pytest.raises(BudgetExceeded):
            wallet.reserve("0.5", requestor=other)
    wallet.reserve("3", requestor="dora")
    with pytest.raises(BudgetExceeded) as refused:
        wallet.reserve("1.5", requestor="emil")
    assert refused.value.spender is None, "that was the limit"


def test_a_cap_survives_a_change_of_the_limit() -> None:
    wallet = Wallet(local={"epsilon": 10}, caps={"ana": {"epsilon": 3}})
    wallet.reserve("2").consume()
    wallet.settings = wallet.settings.changed({"local": {"epsilon": 20}})
    with pytest.raises(BudgetExceeded) as refused:
        wallet.reserve("1.5")
    assert refused.value.spender == "ana"
    wallet.reserve("1")
    wallet.reserve("5", requestor="bert")


def test_a_crash_while_a_limit_changes_carries_everything_over_in_the_end() -> None:
    wallet = Wallet(local={"epsilon": 10})
    wallet.reserve("2", requestor="ana").consume()
    wallet.reserve("3", requestor="bert").consume()
    old = wallet.budget.blocks("local")[0]
    terms = {"unit": old.unit, "adjacency": old.adjacency}
    wallet.ledger.open_block(f"{old.name} #2", epsilon=12, delta="0.001", **terms)  # and here the process ends
    wallet.settings = wallet.settings.changed({"local": {"epsilon": 12}})
    assert wallet.left() == 7
    assert wallet.ledger.block(old.name).state == "retired"


def test_the_same_key_is_the_same_claim() -> None:
    wallet = Wallet()
    first = wallet.reserve("1")
    wallet.claims -= 1
    assert wallet.reserve("1").id == first.id
    assert wallet.left() == 29


# --- settings -------------------------------------------------------------------------------------


def test_settings_are_written_and_read_exactly(tmp_path: Path) -> None:
    made = PersonSettings().changed(
        {
            "coordinator": "http://127.0.0.1:8000",
            "delay_seconds": 3,
            "period_days": 7,
            "local": {"epsilon": 0.1, "delta": 1e-7},
            "trusted": {"overall_epsilon": 12},
            "split": {"epsilon": 2, "delta": 0, "overall_epsilon": 7, "overall_delta": 1e-9, "year_epsilon": 5},
            "caps": {'a "strange" name': {"epsilon": 0.3, "delta": 1e-9}, "*": {"epsilon": 0}},
        }
    )
    made.write(tmp_path)
    again = PersonSettings.read(tmp_path)
    assert again == made
    assert again.local.epsilon == Decimal("0.1")
    assert again.caps['a "strange" name'] == RequestorCap(Decimal("0.3"), Decimal("1e-9"))
    assert (tmp_path / "person.toml").stat().st_mode & 0o077 == 0


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ({"epsilon": 1}, "epsilon"),
        ({"local": {"epsilon": 0}}, "local.epsilon"),
        ({"local": {"epsilon": -1}}, "local.epsilon"),
        ({"local": {"epsilon": float("nan")}}, "local.epsilon"),
        ({"local": {"delta": 1}}, "local.delta"),
        ({"local": {"more": 1}}, "local.more"),
        ({"local": 3}, "local"),
        ({"split": {"epsilon": 3}}, "split"),
        ({"split": {**OWN, "epsilon": 0}}, "split.epsilon"),
        ({"period_days": 0}, "period_days"),
        ({"period_days": True}, "period_days"),
        ({"period_days": 1.5}, "period_days"),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"delay_seconds": float("inf")}, "delay_seconds"),
        ({"caps": {"ana": {}}}, "caps"),
        ({"caps": {"ana": {"epsilon": -1}}}, "caps.epsilon"),
        ({"caps": {"a\nb": {"epsilon": 1}}}, "caps"),
        ({"caps": []}, "caps"),
        ({"coordinator": 5}, "coordinator"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(body: dict[str, Any], argument: str) -> None:
    with pytest.raises(Mistake) as refused:
        PersonSettings().changed(body)
    assert refused.value.argument == argument


def test_a_broken_file_stops_everything_instead_of_allowing_more(tmp_path: Path) -> None:
    (tmp_path / "person.toml").write_text("[local\nepsilon = 1")
    with pytest.raises(Mistake, match="not TOML"):
        PersonSettings.read(tmp_path)


# --- standing rules -------------------------------------------------------------------------------


#: agrees to whatever a store of these tests can be asked
ANY = {"type": "basic", "epsilon_at_most": 100}


@pytest.fixture
def server() -> CoordinatorInMemory:
    return CoordinatorInMemory()


def person(tmp_path: Path, server: CoordinatorInMemory, **more: Any) -> Person:
    made = Person(tmp_path / "home", client=server, delay=False, **more)  # type: ignore[arg-type]
    example.fill(made, seed=4)
    return made


def test_a_rule_agrees_up_to_its_week(tmp_path: Path, server: CoordinatorInMemory) -> None:
    now = [START.timestamp()]
    with person(tmp_path, server, clock=lambda: now[0]) as me:
        me.set_rules([{**ANY, "requestor": "ana", "epsilon_per_week": 0.25}])
        tasks = [server.post({**MEDIAN, "epsilon": 0.1, "name": str(i)}) for i in range(4)]
        server.post({**MEDIAN, "epsilon": 0.01, "name": "of another"}, requestor="bert")
        me.apply_rules()
        me.turn()
        assert [p["task_id"] for p in me.participations()] == tasks[:2]
        assert {p["rule"] for p in me.participations()} == {1}
        me.apply_rules()
        assert len(me.participations()) == 2
        now[0] += 7 * 86_400 + 1
        me.apply_rules()
        assert [p["task_id"] for p in me.participations()] == tasks


def test_a_rule_from_before_without_a_limit_agrees_to_nothing(tmp_path: Path, server: CoordinatorInMemory) -> None:
    with person(tmp_path, server) as me:
        me.set_rules([ANY, {**ANY, "requestor": "bert"}])
        with closing(sqlite3.connect(me.home / TASK_STORE)) as file, file:
            file.execute("UPDATE rule SET body = ? WHERE id = 1", [json.dumps({"type": "basic"})])
        server.post(MEDIAN, requestor="ana")
        theirs = server.post({**MEDIAN, "name": "another"}, requestor="bert")
        me.apply_rules()
        assert [p["task_id"] for p in me.participations()] == [theirs]
        assert me.rules() == [{**ANY, "requestor": "bert"}]


def test_a_rules_coin_is_tossed_once_for_each_task(tmp_path: Path, server: CoordinatorInMemory) -> None:
    with person(tmp_path, server) as me:
        me.set_rules([{**ANY, "probability": 0.5}])
        tasks = [server.post({**MEDIAN, "epsilon": 0.01, "name": str(i)}) for i in range(40)]
        for _ in range(5):
            me.apply_rules()
        agreed = [p["task_id"] for p in me.participations()]
        assert 4 <= len(agreed) <= 36  # each outside with probability 1e-8
        assert set(agreed) < set(tasks)


@pytest.mark.parametrize("step", ["agree", "move"])
def test_a_rule_that_was_interrupted_while_it_agreed_agrees_again_and_pays_once(
    tmp_path: Path, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed, or without room on the disk, between two steps of an agreement; also without a restart in between."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    with person(tmp_path, server) as me:
        me.set_rules([{**ANY, "epsilon_per_week": 1.0}])
        task = server.post(MEDIAN)
        with monkeypatch.context() as patched:
            patched.setattr(TaskStore, step, full)
            with pytest.raises(OSError, match="no space"):
                me.apply_rules()
        assert [p["state"] for p in me.participations()] == ["seen"]
        me.apply_rules()
        assert [(p["task_id"], p["state"]) for p in me.participations()] == [(task, "reserved")]
        assert me.ledger()["trusted"]["overall"]["reserved"]["epsilon"] == 1.0


def test_a_rule_never_looks_at_data(tmp_path: Path, server: CoordinatorInMemory, monkeypatch: Any) -> None:
    """Having the value must not show in whether one takes part."""
    with Person(tmp_path / "empty", client=server, delay=False) as nobody:  # type: ignore[arg-type]
        nobody.set_rules([ANY])
        task = server.post(MEDIAN)
        monkeypatch.setattr(Store, "featurize", lambda *a, **k: pytest.fail("looked at data"))
        nobody.apply_rules()
        assert nobody.participations()[0]["task_id"] == task
        monkeypatch.undo()
        nobody.turn()
        assert nobody.participations()[0]["state"] == "sent"


def test_who_agreed_by_a_rule_and_has_no_row_is_not_counted_as_having_one(
    tmp_path: Path, server: CoordinatorInMemory
) -> None:
    task = server.post({**MEDIAN, "aggregator": "count", "missing": "count", "epsilon": 20.0, "min_count": 2})
    with Person(tmp_path / "empty", client=server, delay=False) as nobody, person(tmp_path, server) as me:  # type: ignore[arg-type]
        for each in (nobody, me):
            each.set_rules([ANY])
            each.apply_rules()
            each.turn()
    assert [json.loads(body)["payload"]["age"] is None for body in server.bodies] == [True, False]
    release = server.aggregators[task].release()
    assert release is not None
    assert release.certificate.contributors == 2
    assert release.value == pytest.approx(1, abs=0.99)  # noise of scale 1/19 rounded: 2 is there once in 10^8


def test_a_rule_respects_the_budget_and_what_was_declined(tmp_path: Path, server: CoordinatorInMemory) -> None:
    with person(tmp_path, server) as me:
        me.set_settings({"trusted": {"epsilon": 1.5}})
        declined = server.post({**MEDIAN, "name": "declined"})
        me.decline(declined)
        for name in ("first", "second"):
            server.post({**MEDIAN, "name": name})
        me.set_rules([ANY])
        me.apply_rules()
        assert [p["state"] for p in me.participations()] == ["declined", "reserved"]


@pytest.mark.parametrize(
    ("rule", "covers"),
    [
        ({}, True),
        ({"type": "bounded"}, False),
        ({"requestor": "ana"}, True),
        ({"requestor": "bert"}, False),
        ({"server": "untrusted"}, False),
        ({"server": "trusted"}, True),
        ({"tables": ["profile.demographics", "profile.pets"]}, True),
        ({"tables": ["profile.pets"]}, False),
        ({"epsilon_at_most": 1}, True),
        ({"epsilon_at_most": 0.99}, False),
        ({"delta_at_most": 0}, False),
        ({"min_count": 20}, True),
        ({"min_count": 21}, False),
        ({"probability": 1e-9}, False),
    ],
)
def test_every_field_of_a_rule_counts(
    tmp_path: Path, server: CoordinatorInMemory, rule: dict[str, Any], covers: bool
) -> None:
    with person(tmp_path, server) as me:
        server.post(MEDIAN)
        me.set_rules([{**ANY, **rule}])
        me.apply_rules()
        assert bool(me.participations()) is covers


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ({}, "rules"),
        ([5], "rules.0"),
        ([{}], "rules.0.type"),
        ([ANY, {"type": "unknown"}], "rules.1.type"),
        ([{"type": "basic"}], "rules.0.epsilon_at_most"),
        ([{"type": "basic", "epsilon_per_week": 1}], "rules.0.epsilon_at_most"),
        ([{**ANY, "probability": 0}], "rules.0.probability"),
        ([{"type": "basic", "age": 5}], "rules.0.age"),
        ([{**ANY, "probability": 1.1}], "rules.0.probability"),
        ([{**ANY, "probability": float("nan")}], "rules.0.probability"),
        ([{**ANY, "epsilon_per_week": 0}], "rules.0.epsilon_per_week"),
        ([{**ANY, "delta_at_most": 1}], "rules.0.delta_at_most"),
        ([{**ANY, "tables": "profile"}], "rules.0.tables"),
        ([{**ANY, "server": "maybe"}], "rules.0.server"),
        ([{**ANY, "requestor": 5}], "rules.0.requestor"),
        ([{**ANY, "requestor": "x" * 201}], "rules.0.requestor"),
        ([{**ANY, "min_count": 0}], "rules.0.min_count"),
        ([{"type": ["basic"]}], "rules.0.type"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(body: Any, argument: str) -> None:
    with pytest.raises(Mistake) as refused:
        read_rules(body)
    assert refused.value.argument == argument


def test_a_rule_that_stays_keeps_what_it_has_spent(tmp_path: Path, server: CoordinatorInMemory) -> None:
    with person(tmp_path, server) as me:
        rule = {**ANY, "epsilon_per_week": 1.0}
        other = {**ANY, "type": "bounded"}
        me.set_rules([rule])
        server.post(MEDIAN)
        me.apply_rules()
        me.set_rules([])
        me.set_rules([rule, other])
        server.post({**MEDIAN, "name": "second"})
        me.apply_rules()
        assert len(me.participations()) == 1
        assert me.rules() == [rule, other]
        assert AgreementRule.read(rule).probability == 1
