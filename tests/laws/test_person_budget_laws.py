"""A person's limits, whatever happens: other limits and lengths of periods, days that pass, copies, kills at every
write, and two servers that get a budget of their own or lose it. What was claimed on the days of a period never adds up
to more than its limit, and nothing of it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.examples import examples
from thebes.ledger import BudgetExceeded, Frozen, Ledger
from thebes.person.budget.blocks import PersonBlocks, consumed, of_period
from thebes.person.budget.budget import PersonBudget, period
from thebes.person.settings import TRUSTS, PersonSettings
from thebes.privacy.promise import Adjacency, Unit

TENTHS = st.integers(1, 60).map(lambda tenths: Decimal(tenths) / 10)
WHO = st.sampled_from(["ana", "bert"])
TRUST = st.sampled_from(TRUSTS)
DAYS = st.sampled_from([1, 2, 3, 7, 10, 29, 30, 31, 365])
START = datetime(2026, 3, 14, 12, tzinfo=UTC)


class Killed(BaseException):
    """The process ends here."""


class LimitsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now, self.claims = START, list[tuple[str, date, str, tuple[str, ...]]]()
        self.asked = dict.fromkeys(TRUSTS, Decimal(0))
        limits = {"epsilon": 3, "year_epsilon": 6, "overall_epsilon": 10}
        self.settings = PersonSettings().changed({"local": limits, "trusted": limits})
        self.ledger, self.written = Ledger("memory://"), True
        self.left: int | None = None  # writes until this process dies
        self.write = self.ledger._write
        self.ledger._write = self.counted  # type: ignore[method-assign]
        self.begins()

    def begins(self) -> None:
        self.budget = PersonBudget(self.ledger, lambda: self.settings, lambda: self.now)

    def counted(self, work: Callable[[Any], Any]) -> Any:
        """Dies at the write that was named, before or after it is on disk."""
        if self.left is None or self.left > 0:
            self.left = None if self.left is None else self.left - 1
            return self.write(work)
        self.left = None
        if self.written:
            self.write(work)
        raise Killed

    def held(
        self, who: str | None = None, days: tuple[date, date] = (date.min, date.max), budget: str = "local"
    ) -> Decimal:
        """Return what was claimed of a budget on these days and not given back."""
        claims = [
            self.ledger.claim(key=k)
            for k, day, w, budgets in self.claims
            if days[0] <= day < days[1] and who in (None, w) and budget in budgets
        ]
        each = [c.loss.epsilon if c.state.open else consumed(c).epsilon for c in claims]  # type: ignore[union-attr]
        return sum(each, Decimal(0))

    def year(self) -> tuple[date, date]:
        """Return the first of the 365 days that end now, and the day after them."""
        return self.now.date() - timedelta(days=364), self.now.date() + timedelta(days=1)

    @rule(amount=TENTHS, who=WHO, trust=TRUST)
    def claim(self, amount: Decimal, who: str, trust: str = "local") -> None:
        key, days = f"claim {len(self.claims)} {self.now}", period(self.now, self.settings.period_days)
        try:
            self.budget.reserve(key, trust=trust, epsilon=amount, delta=Decimal(0), requestor=who, purpose="a task")
        except (BudgetExceeded, Frozen):
            return
        except Killed:
            self.begins()
            if self.ledger.claimed(key) is None:
                return
        within = trust == "split" and self.settings.split is None
        budgets = (trust, "trusted") if within else (trust,)
        self.claims.append((key, self.now.date(), who, budgets))
        caps = self.settings.caps
        cap = caps.get(who, caps.get("*"))
        for budget in budgets:
            self.asked[budget] += amount
            allowed = getattr(self.settings, budget) or self.settings.trusted
            assert self.held(days=days, budget=budget) <= allowed.epsilon
            assert self.held(days=self.year(), budget=budget) <= allowed.year[0]
            assert self.held(budget=budget) <= allowed.overall_epsilon
            assert cap is None or self.held(who, days, budget) <= cap.epsilon

    @rule(which=st.integers(0, 8), tenths=st.integers(1, 10))
    def consume(self, which: int, tenths: int) -> None:
        if which < len(self.claims) and not self.ledger.frozen:
            claim = self.ledger.claim(key=self.claims[which][0])
            if claim.state.open:
                self.dies_in(lambda: claim.consume(epsilon=claim.left.epsilon * tenths / 10))  # type: ignore[union-attr]

    @rule(which=st.integers(0, 8))
    def release(self, which: int) -> None:
        if which < len(self.claims) and not self.ledger.frozen:
            self.dies_in(self.ledger.claim(key=self.claims[which][0]).release)

    @rule(epsilon=TENTHS, year=st.none() | TENTHS, overall=TENTHS, days=DAYS)
    def set(self, epsilon: Decimal, overall: Decimal, days: int, year: Decimal | None = None) -> None:
        each = {"epsilon": epsilon, "year_epsilon": year, "overall_epsilon": 2 * overall}
        self.settings = self.settings.changed({"local": each, "trusted": each, "period_days": days})

    @rule(own=st.none() | st.tuples(TENTHS, TENTHS))
    def set_own(self, own: tuple[Decimal, Decimal] | None) -> None:
        """Give two servers a budget of their own, or take it back."""
        split = own and {"epsilon": own[0], "delta": 0, "overall_epsilon": 2 * own[1], "overall_delta": 0}
        self.settings = self.settings.changed({"split": split})

    @rule(caps=st.dictionaries(st.sampled_from(["ana", "*"]), TENTHS))
    def cap(self, caps: dict[str, Decimal]) -> None:
        self.settings = self.settings.changed({"caps": {who: {"epsilon": cap} for who, cap in caps.items()}})

    @rule(days=st.integers(1, 12) | st.integers(20, 200))
    def pass_days(self, days: int) -> None:
        self.now += timedelta(days=days)

    @rule()
    def come_back_from_a_copy(self) -> None:
        self.dies_in(self.ledger.freeze)

    @rule()
    def thaw(self) -> None:
        self.ledger.thaw()

    @rule(epsilon=TENTHS, days=DAYS, amount=TENTHS, who=WHO, writes=st.integers(0, 6), written=st.booleans())
    def die_over_other_limits(
        self, epsilon: Decimal, days: int, amount: Decimal, who: str, writes: int, written: bool
    ) -> None:
        self.set(epsilon, Decimal(30), days)
        self.left, self.written = writes, written
        self.claim(amount, who)

    @rule(writes=st.integers(0, 6), written=st.booleans())
    def die_soon(self, writes: int, written: bool) -> None:
        self.left, self.written = writes, written

    def dies_in(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except Killed:
            self.begins()

    @invariant()
    def what_is_shown_has_all_that_was_claimed(self) -> None:
        if self.left is not None:  # who is about to die is left to what comes next
            return
        shown = self.budget.view()
        if self.ledger.frozen:
            return  # what is to be carried is found once it is thawed
        days = {"overall": (date.min, date.max), "year": self.year()}
        days["period"] = period(self.now, self.settings.period_days)
        for budget in TRUSTS:
            for name, these in days.items():
                told = shown[budget][name]
                shown_here = told["spent"]["epsilon"] + told["reserved"]["epsilon"]
                held = self.held(days=these, budget=budget)
                assert float(held) - 1e-9 <= shown_here <= float(self.asked[budget]) + 1e-9

    def teardown(self) -> None:
        self.ledger.verify()


TestLimits = LimitsMachine.TestCase
TestLimits.settings = examples(15, stateful_step_count=40)


def test_what_a_frozen_ledger_holds_is_shown_under_whatever_limit_is_set_meanwhile() -> None:
    machine = LimitsMachine()
    machine.claim(Decimal("1.5"), "ana")
    machine.ledger.freeze()
    machine.set(Decimal(4), Decimal(20), 30)
    shown = machine.budget.view()["local"]["period"]
    assert (shown["reserved"]["epsilon"], shown["remaining"]["epsilon"]) == (1.5, 0.0)
    machine.ledger.thaw()
    assert machine.budget.view()["local"]["period"]["remaining"]["epsilon"] == 2.5


def test_a_year_passes_no_limit_where_two_calendar_years_would() -> None:
    machine = LimitsMachine()
    machine.set(Decimal(3), Decimal(30), 30, Decimal(6))
    for _ in range(60):
        for _ in range(2):
            machine.claim(Decimal("1.5"), "ana")
        for key, *_ in machine.claims[-2:]:
            if (claim := machine.ledger.claim(key=key)).state.open:
                claim.consume()
        machine.pass_days(17)
    held = [machine.held(days=(day, day + timedelta(days=365))) for _, day, *_ in machine.claims]
    assert max(held) == 6
    assert machine.held() >= 12, "after a year there is room again"


def test_carrying_that_dies_again_and_again_counts_nothing_twice() -> None:
    """Each change of the periods' length carries what was claimed into another block, and each dies at some write."""
    for writes in range(5):
        machine = LimitsMachine()
        machine.set(Decimal(6), Decimal(30), 365)
        machine.claim(Decimal(3), "ana")
        for days in (30, 10, 7, 3, 2, 1, 30, 10):
            machine.set(Decimal(6), Decimal(30), days)
            machine.left, machine.written = writes, True
            machine.dies_in(machine.budget.view)
        machine.left = None
        period = machine.budget.view()["local"]["period"]
        assert period["spent"]["epsilon"] + period["reserved"]["epsilon"] == 3.0, writes


def test_what_was_agreed_to_and_has_not_left_counts_in_every_year() -> None:
    """A coordinator may ask for it after a year: then it leaves beside whatever was agreed to since."""
    machine = LimitsMachine()
    machine.set(Decimal(6), Decimal(30), 30, Decimal(6))
    machine.claim(Decimal(6), "ana")
    machine.pass_days(400)
    machine.claim(Decimal(6), "ben")
    assert len(machine.claims) == 1
    machine.ledger.claim(key=machine.claims[0][0]).release()
    machine.pass_days(40)
    machine.claim(Decimal(6), "ben")
    assert len(machine.claims) == 2


def test_a_year_begins_with_what_was_claimed_before_there_were_years() -> None:
    """As a home of 0.1.0 did: each claim in its period and for ever."""
    machine, budget = LimitsMachine(), PersonBlocks(Ledger("memory://"))
    for month in range(1, 5):
        names = (of_period("local", *period(datetime(2026, month, 2, tzinfo=UTC), 30)), "local, overall")
        blocks = [budget.of(name, Decimal(30), Decimal(0)).name for name in names]
        claim = budget.ledger.reserve(
            blocks, epsilon=Decimal(1), delta=Decimal(0), purpose="a task", spender="ana", key=str(month),
            unit=Unit.DEVICE, adjacency=Adjacency.REPLACE_ONE,
        )  # fmt: skip
        claim.consume()
    machine.ledger, machine.now = budget.ledger, datetime(2026, 12, 1, tzinfo=UTC)
    machine.begins()
    assert machine.budget.view()["local"]["year"]["spent"]["epsilon"] == 4.0
    machine.begins()  # once only
    assert machine.budget.view()["local"]["year"]["remaining"]["epsilon"] == 2.0
    machine.now = datetime(2027, 3, 15, tzinfo=UTC)
    spent = machine.budget.view()["local"]["year"]["spent"]["epsilon"]
    assert 1.0 <= spent <= 2.0
    machine.ledger.verify()
