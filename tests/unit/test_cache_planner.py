"""The planner: reuse of released answers, what is charged and when, crashes, and two who ask at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from thebes.curator.cache import store
from thebes.curator.cache.answer import Answered, AnswerSource
from thebes.curator.cache.forecast import forecast
from thebes.curator.cache.look_alike_rows import Likeness
from thebes.curator.cache.planner import FRESH_SECONDS, Planner
from thebes.curator.cache.purchase import Purchase, loss_of
from thebes.curator.cache.released_answers import key_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.smart import synopsis
from thebes.curator.cache.store import PAID_SECONDS, CacheStore
from thebes.curator.cache.synopsis import Pay, SynopsisPart, View, ViewRows
from thebes.curator.questions.noise import noise_made
from thebes.curator.questions.plans import Integers, Plan, QuestionPlan
from thebes.curator.questions.question import Question, question_of
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.data.table import Table
from thebes.privacy.faults import Fault, Refusal
from thebes.privacy.losses import Approximate, Concentrated, Pure
from thebes.privacy.randomness import Randomness, seeded_for_simulation

SCHEMA = schema_of(
    {
        "unit": "event",
        "columns": {
            "age": {"type": "integer", "low": 0, "high": 100},
            "sex": {"type": "string", "values": ["f", "m"]},
        },
    }
)
COUNT = Question("count").plan(SCHEMA)


def counted(where: str) -> Plan:
    return Question("count", where=where).plan(SCHEMA)


@dataclass
class Held:
    """Rows of a view, and how often they were looked at."""

    ages: Sequence[int] = (10, 20, 30)
    view: View = ()
    looked: int = 0

    def table(self, blocks: View | None = None) -> Table:
        import pandas as pd

        self.looked += 1
        return frame_table(SCHEMA, pd.DataFrame({"age": list(self.ages), "sex": ["f"] * len(self.ages)}))

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        return plan.totals(self.table(blocks))


@dataclass
class Payments:
    """List what was set aside, paid and given back, in order."""

    most: float = 100.0
    said: list[tuple[str, float]] = field(default_factory=list)
    dies: bool = False

    def __call__(self, purchases: Sequence[Purchase], name: str = "") -> Payments:
        asked = float(sum(p.epsilon for p in purchases))
        if asked > self.most:
            raise Refusal("too much")
        self.said.append(("reserve", asked))
        return self

    def pay(self, purchase: Purchase, number: int) -> None:
        self.said.append(("pay", float(purchase.epsilon)))
        if self.dies:
            raise KeyboardInterrupt

    def settle(self, paid: Sequence[Purchase]) -> None:
        self.said.append(("settle", float(sum(p.epsilon for p in paid))))

    @property
    def paid(self) -> float:
        return sum(amount for what, amount in self.said if what == "pay")


def amounts(epsilon: float | str, delta: float | str = 0) -> tuple[Decimal, Decimal]:
    return Decimal(epsilon), Decimal(delta)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """A planner with all that it needs."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    rows: Held = field(default_factory=Held)
    payments: Payments = field(default_factory=Payments)
    more: dict[str, Any] = field(default_factory=dict)
    seed: int = 1

    def __post_init__(self) -> None:
        self.store = CacheStore(self.folder / "cache" / "people.db", clock=self.clock)
        self.planner = Planner(SCHEMA, self.store, **self.more)

    def ask(self, plan: Plan, wanted: Wanted, **more: Any) -> Answered:
        self.seed += 1
        randomness = seeded_for_simulation(self.seed)
        return self.planner.answer(
            plan, wanted, self.rows, reserve=self.payments, buy=self.payments, randomness=randomness, **more
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- exact reuse ------------------------------------------------------------------------------------------


def test_the_same_question_again_is_answered_alike_and_for_nothing(desk: Desk) -> None:
    first = desk.ask(COUNT, Wanted(1))
    again = desk.ask(COUNT, Wanted(1))
    assert (first.source, first.cost, first.made) == (AnswerSource.MECHANISM, amounts(1), amounts(1))
    assert (again.source, again.cost, again.made) == (AnswerSource.CACHE, amounts(0), amounts(1))
    assert np.array_equal(first.totals, again.totals)
    assert desk.payments.said == [("reserve", 1.0), ("pay", 1.0), ("settle", 1.0)]
    assert desk.rows.looked == 1


def test_an_honest_zero_is_a_value(desk: Desk) -> None:
    none = counted("age > 99")
    wanted = Wanted(50)  # noise of scale 1/50: 0 but for odds of e^-50
    assert desk.ask(none, wanted).totals.tolist() == [0.0]
    assert desk.ask(none, wanted).source is AnswerSource.CACHE
    assert desk.payments.paid == 50


def test_less_noise_serves_who_wants_more_and_not_the_other_way_round(desk: Desk) -> None:
    desk.ask(COUNT, Wanted("0.5"))
    assert desk.ask(COUNT, Wanted("0.25")).made == amounts("0.5")
    better = desk.ask(COUNT, Wanted(2))
    assert (better.source, better.made) == (AnswerSource.MECHANISM, amounts(2))
    assert desk.ask(COUNT, Wanted("0.5")).made == amounts(2)  # of several the best


def test_of_many_answers_alike_the_best_alone_is_looked_at(desk: Desk) -> None:
    bins = Question("histogram", ("age",), bins=64).plan(SCHEMA)
    for delta, epsilons in (("1e-9", ("0.1", "0.2", "0.3")), ("1e-6", ("8", "9", "10"))):  # as text 10 comes first
        for epsilon in epsilons:
            made = desk.ask(bins, Wanted(epsilon, delta, smooth=True)).made
            assert made == amounts(epsilon, delta), "each has less noise than what was released before"
    kept = desk.store.answers(key_of(bins, SCHEMA), desk.planner._place((), ""))
    assert {each.answered.made for each in kept} == {amounts("0.3", "1e-9"), amounts("10", "1e-6")}
    assert desk.ask(bins, Wanted("0.1", "1e-9", smooth=True)).made == amounts("10", "1e-6"), "it deviates least"


def test_gaussian_noise_and_laplace_noise_are_compared_by_deviation(desk: Desk) -> None:
    bins = Question("histogram", ("age",), bins=64).plan(SCHEMA)
    smooth = desk.ask(bins, Wanted(1, "1e-6"))
    noise, made = noise_made(bins, SCHEMA, epsilon=1, delta=0), smooth.made
    assert made is not None
    again = desk.ask(bins, Wanted(1))
    own = noise_made(bins, SCHEMA, epsilon=made[0], delta=made[1])
    assert (again.source is AnswerSource.CACHE) == (own.deviation <= noise.deviation)


def test_by_accuracy_what_was_released_serves_where_it_is_narrow_enough(desk: Desk) -> None:
    first = desk.ask(COUNT, Wanted(10, width=20.0, beta=0.01))
    assert first.source is AnswerSource.MECHANISM
    assert first.made is not None
    assert first.made[0] < 1  # the least that gives it, not all that is allowed
    assert noise_made(COUNT, SCHEMA, epsilon=first.made[0], delta=0).width(0.99) <= 20
    assert desk.ask(COUNT, Wanted(10, width=25.0, beta=0.01)).source is AnswerSource.CACHE
    assert desk.ask(COUNT, Wanted(10, width=20.0, beta=0.1)).source is AnswerSource.CACHE
    assert desk.ask(COUNT, Wanted(10, width=20.0, beta=0.001)).source is AnswerSource.MECHANISM


def test_accuracy_that_costs_more_than_is_allowed_is_refused_and_charges_nothing(desk: Desk) -> None:
    with pytest.raises(Refusal, match="costs more than the most"):
        desk.ask(COUNT, Wanted("0.01", width=20.0, beta=0.01))
    assert desk.payments.said == []


def test_what_was_released_serves_also_who_could_not_pay_for_it(desk: Desk) -> None:
    desk.ask(COUNT, Wanted(10, width=20.0, beta=0.01))
    again = desk.ask(COUNT, Wanted("0.01", width=20.0, beta=0.01))
    assert (again.source, again.cost) == (AnswerSource.CACHE, amounts(0))
    assert desk.store.days()[0].worth == 0.01


def test_where_blocks_count_rho_accuracy_is_bought_with_gaussian_noise(tmp_path: Path) -> None:
    wanted = Wanted(10, "1e-6", width=20.0, beta=0.001)
    basic = Desk(tmp_path / "basic").ask(COUNT, wanted)
    zcdp = Desk(tmp_path / "zcdp", more={"filter": "zcdp"}).ask(COUNT, wanted)
    assert basic.made is not None
    assert zcdp.made is not None
    assert basic.made[1] == 0
    assert zcdp.made[1] == Decimal("1e-6")


def test_a_condition_is_the_same_whichever_way_round_it_is_written() -> None:
    one = counted("age > 18 AND sex IN ('f', 'm')")
    assert key_of(one, SCHEMA) == key_of(counted("sex in ('m','f') and not age <= 18"), SCHEMA)
    assert key_of(one, SCHEMA) != key_of(counted("age > 19 AND sex IN ('f', 'm')"), SCHEMA)
    assert key_of(one, SCHEMA) != key_of(counted("age > 18 OR sex IN ('f', 'm')"), SCHEMA)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Question("mean", ("age",)), Question("variance", ("age",))),
        (Question("histogram", ("age",), bins=4), Question("histogram", ("age",), bins=8)),
        (Question("count", by=("sex",)), Question("count")),
        (Question("histogram", ("age",), bins=(50.0,)), Question("histogram", ("age",), bins=(51.0,))),
    ],
    ids=["statistic", "bins", "groups", "cuts"],
)
def test_other_totals_are_another_question(one: Question, other: Question) -> None:
    assert key_of(one.plan(SCHEMA), SCHEMA) != key_of(other.plan(SCHEMA), SCHEMA)


def test_a_data_set_that_is_declared_otherwise_is_asked_anew() -> None:
    body = SCHEMA.as_json()
    body["columns"]["age"]["high"] = 90.0
    other = schema_of(body)
    where = "age > 18"
    assert key_of(counted(where), SCHEMA) != key_of(Question("count", where=where).plan(other), other)


# --- which rows -------------------------------------------------------------------------------------------


def test_an_answer_about_a_set_that_does_not_grow_is_given_for_a_time(desk: Desk) -> None:
    desk.ask(COUNT, Wanted(1))
    desk.clock.now += FRESH_SECONDS - 1
    assert desk.ask(COUNT, Wanted(1)).source is AnswerSource.CACHE
    desk.clock.now += 2
    assert desk.ask(COUNT, Wanted(1)).source is AnswerSource.MECHANISM


def test_an_answer_about_blocks_never_ages_and_serves_these_blocks_only(desk: Desk) -> None:
    desk.rows.view = ("taxi/1", "taxi/2")
    desk.ask(COUNT, Wanted(1))
    desk.clock.now += 100 * FRESH_SECONDS
    assert desk.ask(COUNT, Wanted(1)).source is AnswerSource.CACHE
    desk.rows.view = ("taxi/1", "taxi/2", "taxi/3")
    assert desk.ask(COUNT, Wanted(1)).source is AnswerSource.MECHANISM


def test_rows_that_lie_elsewhere_are_asked_anew(desk: Desk) -> None:
    desk.ask(COUNT, Wanted(1))
    moved = Desk(desk.folder, clock=desk.clock, more={"rows": "another file"})
    assert moved.ask(COUNT, Wanted(1)).source is AnswerSource.MECHANISM


def test_budgets_that_are_separate_share_no_answers(desk: Desk) -> None:
    desk.ask(COUNT, Wanted(1), context="ana")
    assert desk.ask(COUNT, Wanted(1), context="ben").source is AnswerSource.MECHANISM
    assert desk.ask(COUNT, Wanted(1), context="ana").source is AnswerSource.CACHE


# --- crashes and others -----------------------------------------------------------------------------------


def test_who_was_answered_gets_the_same_answer_however_late_they_ask_again(desk: Desk) -> None:
    first = desk.ask(COUNT, Wanted(1), payer="task 1")
    desk.clock.now += 10 * FRESH_SECONDS
    again = Desk(desk.folder, clock=desk.clock).ask(COUNT, Wanted(1), payer="task 1")
    assert (again.source, again.cost) == (AnswerSource.MECHANISM, amounts(1))  # as it was told before
    assert np.array_equal(first.totals, again.totals)


def test_a_crash_between_charge_and_answer_releases_nothing(desk: Desk) -> None:
    desk.payments.dies = True
    with pytest.raises(KeyboardInterrupt):
        desk.ask(COUNT, Wanted(1), payer="task 1")
    assert desk.rows.looked == 0  # the charge comes before the rows
    desk.payments.dies = False
    assert desk.ask(COUNT, Wanted(1), payer="task 1").source is AnswerSource.MECHANISM


def test_two_who_ask_at_once_pay_once(desk: Desk) -> None:
    other = Desk(desk.folder, clock=desk.clock, payments=desk.payments)  # as another process has it
    found: list[Answered] = []
    threads = [Thread(target=lambda d=d: found.append(d.ask(COUNT, Wanted(1)))) for d in (desk, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({one.totals.tobytes() for one in found}) == 1
    assert desk.payments.paid == 1


@dataclass
class Slow(Held):
    """Rows that take long to read."""

    opened: Event = field(default_factory=Event)
    read: Event = field(default_factory=Event)

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        self.opened.set()
        assert self.read.wait(60)
        return super().totals(plan, blocks)


def test_who_is_given_what_was_released_waits_for_nobody(desk: Desk) -> None:
    desk.ask(COUNT, Wanted(1))
    rows = Slow()
    slow = Desk(desk.folder, clock=desk.clock, payments=desk.payments, rows=rows)
    slow.store, slow.planner = desk.store, desk.planner  # one process
    with ThreadPoolExecutor(3) as pool:
        reading = pool.submit(slow.ask, counted("age > 5"), Wanted(1))
        assert rows.opened.wait(60)
        try:
            again = pool.submit(desk.ask, COUNT, Wanted(1)).result(timeout=30)
            quote = pool.submit(desk.planner.quote, COUNT, Wanted(1), ()).result(timeout=30)
            same = pool.submit(desk.ask, counted("age > 5"), Wanted(1))
            assert not same.done(), "what is about to be paid for is waited for, not paid again"
        finally:
            rows.read.set()
        assert (again.source, quote.source) == (AnswerSource.CACHE, AnswerSource.CACHE)
        assert (reading.result(60).source, same.result(60).source) == (AnswerSource.MECHANISM, AnswerSource.CACHE)
    assert desk.payments.paid == 2


# --- what is forgotten ------------------------------------------------------------------------------------


def answers(desk: Desk) -> int:
    return int(desk.store._db.execute("SELECT count(*) FROM answer").fetchone()[0])


def test_answers_that_nobody_is_given_any_more_are_forgotten_but_for_the_newest_of_each(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SWEEP", 4)
    for day in range(9):
        desk.ask(COUNT, Wanted(1))
        desk.ask(counted(f"age > {day // 3}"), Wanted(1))
        desk.clock.now += FRESH_SECONDS + 1
    assert answers(desk) < 8, "the newest of four questions, and what came since it was looked"
    for where in range(3):
        assert desk.store.latest(key_of(counted(f"age > {where}"), SCHEMA)) is not None
    assert len({key for (key,) in desk.store._db.execute("SELECT key FROM answer")}) == 4


def test_what_a_task_paid_for_is_kept_for_long_and_never_drawn_again_after(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SWEEP", 4)
    first = desk.ask(COUNT, Wanted(1), payer="task 1")
    desk.clock.now += FRESH_SECONDS + 1
    desk.ask(COUNT, Wanted(1), payer="task 2")  # a newer one

    def others() -> None:
        for age in range(4):
            desk.ask(counted(f"age > {age}"), Wanted(1))

    others()
    assert desk.ask(COUNT, Wanted(1), payer="task 1").totals == first.totals
    desk.clock.now += PAID_SECONDS
    others()
    paid = desk.payments.paid
    with pytest.raises(Refusal, match="not kept any more"):
        desk.ask(COUNT, Wanted(1), payer="task 1")
    assert desk.payments.paid == paid
    assert desk.ask(COUNT, Wanted(1), payer="task 2").source is AnswerSource.MECHANISM, "the newest there is"


def test_answers_about_blocks_are_forgotten_when_these_can_be_asked_no_more(desk: Desk) -> None:
    for view in (("taxi/1",), ("taxi/1", "taxi/2"), ("taxi/2",)):
        desk.rows.view = view
        desk.ask(COUNT, Wanted(1), payer=f"for {len(view)}{view[0]}")
        desk.ask(counted("age > 5"), Wanted(1))
    looked: list[View] = []

    def over(view: View) -> bool:
        looked.append(view)
        return "taxi/1" in view

    desk.clock.now += PAID_SECONDS + 1
    desk.planner.ended(frozenset({"taxi/1"}), over)
    assert sorted(looked) == [("taxi/1",), ("taxi/1", "taxi/2"), ("taxi/2",)]
    assert answers(desk) == 2
    assert desk.ask(COUNT, Wanted(1)).source is AnswerSource.CACHE
    desk.rows.view = ("taxi/1",)
    with pytest.raises(Refusal, match="not kept any more"):
        desk.ask(COUNT, Wanted(1), payer="for 1taxi/1")
    desk.planner.ended(frozenset({"taxi/1"}), over)
    assert len(looked) == 3, "once for the same blocks"


def test_exact_totals_are_never_on_disk(desk: Desk) -> None:
    desk.rows.ages = range(71)
    desk.ask(COUNT, Wanted("0.1"))
    desk.store.close()
    exact = np.array([71.0]).tobytes()
    assert not [f for f in (desk.folder / "cache").iterdir() if exact in f.read_bytes()]


def test_savings_are_told_by_day_and_source(desk: Desk) -> None:
    for _ in range(3):
        desk.ask(COUNT, Wanted("0.5"))
    told = {day.source: day for day in desk.store.days()}
    assert (told["mechanism"].count, told["mechanism"].epsilon, told["mechanism"].worth) == (1, 0.5, 0.5)
    assert (told["cache"].count, told["cache"].epsilon, told["cache"].worth) == (2, 0.0, 1.0)


def test_a_quote_is_what_is_paid_then(desk: Desk) -> None:
    wanted = Wanted(10, width=20.0, beta=0.01)
    quoted = desk.planner.quote(COUNT, wanted, ())
    assert desk.payments.said == []
    assert desk.ask(COUNT, wanted).cost == quoted.cost
    assert desk.planner.quote(COUNT, wanted, ()).cost == amounts(0)


# --- purchases --------------------------------------------------------------------------------------------


def test_what_is_paid_is_counted_as_the_block_counts() -> None:
    noise = noise_made(COUNT, SCHEMA, epsilon=1, delta="1e-6")
    both = [Purchase.pure("0.5"), Purchase.of_noise(noise, epsilon=1, delta="1e-6")]
    assert loss_of(both, "basic") == Approximate("1.5", "1e-6")
    assert loss_of(both[:1], "basic") == Pure("0.5")
    rho = loss_of(both, "zcdp")
    assert isinstance(rho, Concentrated)
    ratio = noise.event.ratio  # type: ignore[union-attr]
    assert float(rho.rho) == pytest.approx(0.5 * math.tanh(0.25) + 1 / (2 * ratio**2))


def test_nothing_is_paid_for_below_its_cost() -> None:
    laplace = noise_made(COUNT, SCHEMA, epsilon=1, delta=0)
    smooth = noise_made(COUNT, SCHEMA, epsilon=1, delta="1e-6")
    for event, epsilon, delta in (
        (laplace.event, "0.99", 0),
        (smooth.event, "0.99", "1e-6"),
        (smooth.event, 1, "9e-7"),
    ):
        with pytest.raises(Fault):
            Purchase(event, Decimal(epsilon), Decimal(delta))


# --- a synopsis -------------------------------------------------------------------------------------------


SECRET = 271_828_182_845


class Toy:
    """A synopsis of one number: buys a count, then says it for nothing to whoever wants no better."""

    def __init__(self) -> None:
        self.known: float | None = None
        self.secret = 0
        self.dirty = False
        self.greedy = False

    def covers(self, plan: Plan) -> bool:
        return plan.size == 1

    def preparation(self, view: View) -> Sequence[Purchase]:
        return () if self.known is not None else (Purchase.pure("0.2"),)

    def prepare(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        pay(Purchase.pure("0.2"))
        noise = noise_made(COUNT, SCHEMA, epsilon="0.2", delta=0)
        self.known = float(noise.add(rows.totals(COUNT), randomness)[0])
        self.secret, self.dirty = SECRET, True

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Sequence[Purchase] | None:
        return None if wanted.width is None else (Purchase.pure("0.3"), Purchase.pure("0.1"))

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        assert self.known is not None
        pay(Purchase.pure("0.1"))
        if self.greedy:
            pay(Purchase.pure("0.1"))
        return Answered(np.array([self.known]), None, (wanted.width or 0.0, wanted.beta or 0.0), AnswerSource.SYNOPSIS)

    def heard(self, plan: Plan, answered: Answered, view: View) -> None:
        self.known, self.dirty = float(answered.totals[0]), True

    def changed(self) -> dict[str, SynopsisPart]:
        dirty, self.dirty = self.dirty, False
        return (
            {"all": SynopsisPart({"known": self.known}, {"one": np.ones(3)}, {"secret": self.secret})} if dirty else {}
        )

    def restore(self, pieces: Any) -> None:
        held = pieces.get("all")
        self.known = None if held is None else held.public["known"]
        self.secret = 0 if held is None else held.secret.get("secret", 0)


BY_ACCURACY = Wanted(10, width=50.0, beta=0.01)


@pytest.fixture
def toy(tmp_path: Path) -> tuple[Desk, Toy]:
    synopsis = Toy()
    return Desk(tmp_path, more={"synopsis": synopsis}), synopsis


def test_a_synopsis_is_prepared_once_and_gives_back_what_it_did_not_need(toy: tuple[Desk, Toy]) -> None:
    desk, _ = toy
    made = desk.ask(COUNT, BY_ACCURACY)
    assert (made.source, made.cost, made.made) == (AnswerSource.SYNOPSIS, amounts("0.1"), None)
    assert desk.payments.said == [
        ("reserve", 0.2), ("pay", 0.2), ("settle", 0.2), ("reserve", 0.4), ("pay", 0.1), ("settle", 0.1)
    ]  # fmt: skip
    desk.ask(counted("age > 5"), BY_ACCURACY)
    assert desk.payments.paid == pytest.approx(0.4)


def test_state_goes_on_in_another_process_and_a_lost_key_loses_the_secret_only(toy: tuple[Desk, Toy]) -> None:
    desk, one = toy
    desk.ask(COUNT, BY_ACCURACY)
    two = Toy()
    other = Desk(desk.folder, more={"synopsis": two}, payments=desk.payments)
    other.ask(counted("age > 5"), BY_ACCURACY)
    assert (two.known, two.secret) == (one.known, SECRET)
    files = [file.read_bytes() for file in (desk.folder / "cache").iterdir()]
    assert [b"known" in body for body in files].count(True) >= 1
    assert not any(str(SECRET).encode() in body for body in files)
    (desk.folder / "cache" / "people.key").unlink()
    three = Toy()
    Desk(desk.folder, more={"synopsis": three}).ask(counted("age > 6"), BY_ACCURACY)
    assert (three.known, three.secret) == (one.known, 0)


def test_a_synopsis_hears_what_the_mechanism_released_and_what_others_learnt(toy: tuple[Desk, Toy]) -> None:
    desk, one = toy
    two = Toy()
    other = Desk(desk.folder, more={"synopsis": two})
    desk.ask(COUNT, BY_ACCURACY)
    released = other.ask(counted("age > 5"), Wanted(1))
    assert two.known == released.totals[0]
    desk.ask(counted("age > 6"), BY_ACCURACY)
    assert one.known == released.totals[0]


def test_a_synopsis_that_costs_too_much_leaves_the_answer_to_the_mechanism(toy: tuple[Desk, Toy]) -> None:
    desk, _ = toy
    assert desk.ask(COUNT, Wanted("0.39", width=50.0, beta=0.01)).source is AnswerSource.MECHANISM
    desk.payments.most = 0.39
    assert desk.ask(counted("age > 5"), BY_ACCURACY).source is AnswerSource.MECHANISM


def test_a_synopsis_cannot_pay_for_what_it_did_not_say(toy: tuple[Desk, Toy]) -> None:
    desk, synopsis = toy
    synopsis.greedy = True
    with pytest.raises(Fault):
        desk.ask(COUNT, BY_ACCURACY)
    assert desk.store.latest(key_of(COUNT, SCHEMA)) is None


def test_what_a_synopsis_learnt_is_forgotten_with_an_answer_that_failed(toy: tuple[Desk, Toy]) -> None:
    desk, synopsis = toy
    desk.ask(COUNT, BY_ACCURACY)
    before, synopsis.greedy = synopsis.known, True
    with pytest.raises(Fault):
        desk.ask(counted("age > 5"), BY_ACCURACY)
    synopsis.known, synopsis.greedy = -1.0, False
    desk.ask(counted("age > 5"), BY_ACCURACY)
    assert synopsis.known == before


def test_an_answer_that_failed_after_it_was_paid_ends_every_opening_and_serves_nobody(toy: tuple[Desk, Toy]) -> None:
    desk, synopsis = toy
    desk.ask(COUNT, BY_ACCURACY)
    assert desk.store.pieces()["all"].secret == {"secret": SECRET}
    synopsis.greedy = True
    with pytest.raises(Fault):
        desk.ask(counted("age > 5"), BY_ACCURACY, payer="task 1")
    assert desk.store.pieces()["all"].secret == {}, "it may have said something, and is not asked on"
    synopsis.greedy = False
    with pytest.raises(Refusal, match="used up"):
        desk.ask(counted("age > 5"), BY_ACCURACY, payer="task 1")
    assert desk.ask(counted("age > 5"), BY_ACCURACY, payer="task 2").source is AnswerSource.SYNOPSIS
    assert synopsis.secret == 0


class Looking(Toy):
    """Pays for a look at rows, and then for what that gave it to do; a process is killed over the second charge."""

    dies = True

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        pay(Purchase.pure("0.1"))
        rows.totals(plan)
        pay(Purchase.pure("0.3"))
        if self.dies:
            raise KeyboardInterrupt
        return Answered(np.array([self.known]), None, (wanted.width or 0.0, wanted.beta or 0.0), AnswerSource.SYNOPSIS)


def test_who_is_killed_over_what_a_look_led_to_does_not_look_again_for_the_same_charge(tmp_path: Path) -> None:
    synopsis = Looking()
    desk = Desk(tmp_path, more={"synopsis": synopsis})
    with pytest.raises(KeyboardInterrupt):
        desk.ask(COUNT, BY_ACCURACY, payer="task 1")
    synopsis.dies, before = False, desk.rows.looked
    with pytest.raises(Refusal, match="used up"):
        desk.ask(COUNT, BY_ACCURACY, payer="task 1")
    assert desk.rows.looked == before
    answered = desk.ask(COUNT, BY_ACCURACY, payer="task 2")
    again = desk.ask(COUNT, BY_ACCURACY, payer="task 2")
    assert (again.source, again.totals, again.cost) == (AnswerSource.SYNOPSIS, answered.totals, answered.cost)


def test_what_a_task_paid_for_is_not_drawn_again_under_another_declaration(desk: Desk) -> None:
    ages = Question("sum", ("age",)).plan(SCHEMA)
    desk.ask(ages, Wanted(1), payer="task 1")
    wider = schema_of({"unit": "event", "columns": {"age": {"type": "integer", "low": 0, "high": 200}}})
    desk.planner = Planner(wider, desk.store)
    with pytest.raises(Refusal, match="used up"):
        desk.ask(Question("sum", ("age",)).plan(wider), Wanted(1), payer="task 1")
    assert desk.payments.paid == 1


# --- forecasts --------------------------------------------------------------------------------------------


class Free(Toy):
    """After it was bought it answers for a hundredth."""

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Sequence[Purchase] | None:
        return None if wanted.width is None else (Purchase.pure("0.01"),)

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        pay(Purchase.pure("0.01"))
        rows.totals(plan)
        return Answered(np.array([self.known]), None, (wanted.width or 0.0, wanted.beta or 0.0), AnswerSource.SYNOPSIS)


def asked_by_accuracy(desk: Desk, count: int) -> None:
    for number in range(count):
        question = Question("count", where=f"age > {number}")
        desk.ask(question.plan(SCHEMA), BY_ACCURACY, question=question.text)


def test_a_forecast_says_when_a_synopsis_starts_to_pay(desk: Desk) -> None:
    asked_by_accuracy(desk, 8)
    looked = desk.rows.looked
    found = forecast(desk.store, SCHEMA, Free)
    assert found is not None
    each = float(BY_ACCURACY.calibrated(COUNT, SCHEMA)[1].epsilon)
    assert found.exact == pytest.approx(8 * each)
    assert found.synopsis == pytest.approx(0.2 + 8 * 0.01)
    assert found.hits == 8
    first = next(n for n in range(1, 99) if 0.2 + n * 0.01 < n * each)
    assert (found.pays_from, found.seen) == (first, True)
    assert desk.rows.looked == looked, "no row is read for it"
    assert forecast(desk.store, SCHEMA, Free) == found


def test_a_forecast_reads_off_the_end_what_has_not_happened_yet(desk: Desk) -> None:
    asked_by_accuracy(desk, 2)
    found = forecast(desk.store, SCHEMA, Free)
    assert found is not None
    assert (found.seen, found.exact < found.synopsis) == (False, True)
    each = float(BY_ACCURACY.calibrated(COUNT, SCHEMA)[1].epsilon)
    assert found.pays_from == pytest.approx(0.2 / (each - 0.01), abs=2)


def test_a_synopsis_that_never_pays_is_said_to(desk: Desk) -> None:
    asked_by_accuracy(desk, 6)
    dear = forecast(desk.store, SCHEMA, Toy)  # a tenth each, as much as noise or more
    assert dear is not None
    assert dear.pays_from is None or dear.pays_from > 6


@pytest.mark.slow
def test_made_up_rows_are_forecast_from_rows_that_answer_as_was_released(desk: Desk) -> None:
    desk.rows.ages = [20] * 3000 + [70] * 1000
    asked_by_accuracy(desk, 12)
    looked = desk.rows.looked
    for more, hits in (({"trust": 0.0, "agreement": 10.0}, True), ({}, False)):
        told = {"rows": 64, "parts": 2, **more}
        found = forecast(desk.store, SCHEMA, lambda told=told: synopsis(SCHEMA, told, filter="basic"))  # type: ignore[misc]
        assert found is not None
        assert bool(found.hits) is hits, "sure of itself, or with nothing to be sure by"
        assert found.exact == pytest.approx(forecast(desk.store, SCHEMA, Free).exact)  # type: ignore[union-attr]
    assert desk.rows.looked == looked, "no row is read for it"


def test_rows_that_play_the_data_answer_as_was_released() -> None:
    counts = {"age > 60": 1000.0, "age > 60 AND sex = 'm'": 900.0, "sex = 'm'": 2500.0}
    by_age = Question("histogram", ("age",), bins=(50.0,)).plan(SCHEMA)
    released = [(counted(where), np.array([total])) for where, total in counts.items()]
    alike = Likeness.of(SCHEMA, [*released, (by_age, np.array([2800.0, 1200.0]))], 4000.0)
    for plan, totals in (*released, (by_age, np.array([2800.0, 1200.0]))):
        assert np.abs(plan.totals(alike) - totals).max() < 60
    nothing = Likeness.of(SCHEMA, [], 4000.0)
    assert counted("sex = 'm'").totals(nothing)[0] == pytest.approx(0.98 * 2000, abs=10)


def test_where_too_many_columns_were_asked_each_is_played_by_itself() -> None:
    names = [f"c{n}" for n in range(6)]
    wide = schema_of({"unit": "event", "columns": {n: {"type": "float", "low": 0.0, "high": 1.0} for n in names}})
    plans = [Question("count", where=f"{name} < 0.5").plan(wide) for name in names]
    together = Question("count", where="c0 < 0.5 AND c1 < 0.5").plan(wide)
    alike = Likeness.of(wide, [(plan, np.array([n * 1000.0])) for n, plan in enumerate(plans, 2)], 10_000.0)
    assert [float(plan.totals(alike)[0]) for plan in plans] == pytest.approx([2e3, 3e3, 4e3, 5e3, 6e3, 7e3], abs=150)
    assert together.totals(alike)[0] == pytest.approx(600, abs=150), "independent of each other"


def test_a_forecast_of_nothing_is_none(desk: Desk) -> None:
    desk.ask(COUNT, BY_ACCURACY)  # without saying how it can be asked again
    assert forecast(desk.store, SCHEMA, Free) is None


@pytest.mark.parametrize(
    "question",
    [
        Question("count", where="age > 3", by=("sex",)),
        Question("quantile", ("age",), quantile=0.25, bins=64),
        Question("histogram", ("age",), bins=(3.0, 50.0)),
    ],
)
def test_a_question_is_kept_as_it_was(question: Question) -> None:
    assert question_of(question.text) == question
    assert question_of(question.text).plan(SCHEMA, epsilon=1) == question.plan(SCHEMA, epsilon=1)
