"""Made-up rows as a synopsis: what moves them, what they cost, what they promise, and what a restart finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.curator.cache.answer import Answered, AnswerSource
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.smart import guesses
from thebes.curator.cache.smart.guesses import Smart
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.synopsis import SynopsisPart, View
from thebes.curator.cache.synopsis_kinds import synopsis_of
from thebes.curator.cache.synthesis.recipe import SpanningTree
from thebes.curator.questions.plans import Integers, Plan, QuestionPlan
from thebes.curator.questions.question import Question
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.data.table import Table
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.randomness import Randomness, Words, seeded_for_simulation

SCHEMA = schema_of(
    {
        "unit": "event",
        "columns": {
            "sex": {"type": "string", "values": ["f", "m"]},
            "job": {"type": "string", "values": ["a", "b", "c", "d"]},
            "age": {"type": "integer", "low": 0, "high": 99},
        },
    }
)
SMALL: dict[str, Any] = {"rows": 512, "parts": 4}
#: any guess is checked, whatever came before
EAGER = {**SMALL, "trust": 0.0, "agreement": 1e6}
JOINT = Question("count", where="sex = 'f' AND job = 'a'").plan(SCHEMA)


def people(rows: int = 2000, *, seed: int = 1, together: bool = True) -> pd.DataFrame:
    """Of whom, where `together`, all women and nobody else have the first two jobs."""
    draw = np.random.default_rng(seed)
    sex, job = draw.integers(2, size=rows), draw.integers(4, size=rows)
    if together:
        job = job % 2 + 2 * sex
    return pd.DataFrame(
        {"sex": np.array(["f", "m"])[sex], "job": np.array(list("abcd"))[job], "age": draw.integers(100, size=rows)}
    )


@dataclass
class Held:
    """Rows of a view; those of blocks by their names."""

    frames: dict[str, pd.DataFrame]
    view: View = ()
    looked: int = 0

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Held:
        return cls({"": frame})

    def table(self, blocks: View | None = None) -> Table:
        self.looked += 1
        chosen = [self.frames[name] for name in (blocks or self.view or ("",))]
        return frame_table(SCHEMA, pd.concat(chosen, ignore_index=True))

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        return plan.totals(self.table(blocks))


@dataclass
class Taped(Randomness):
    """Draws that are the same again, whatever values the noise is added to: what is released is then the same."""

    source: Randomness
    tape: list[np.ndarray] = field(default_factory=list)
    again: bool = False
    place: int = 0
    simulated = True

    def _told(self, drawn: np.ndarray) -> np.ndarray:
        if not self.again:
            self.tape.append(drawn)
            return drawn
        self.place += 1
        return self.tape[self.place - 1]

    def words(self, count: int) -> Words:
        return self._told(self.source.words(count))

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return self._told(self.source.laplace(values, scale=scale))

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return self._told(self.source.gaussian(values, scale=scale))


def asked(count: int = 20) -> list[Plan]:
    draw = np.random.default_rng(5)
    made = []
    for _ in range(count):
        low, high = sorted(int(age) for age in draw.integers(100, size=2))
        where = f"age BETWEEN {low} AND {high} AND job = '{'abcd'[draw.integers(4)]}'"
        made.append(Question("count", where=where).plan(SCHEMA))
        made.append(Question("histogram", ("job",), where=f"age < {high}").plan(SCHEMA))
    return made


def through(smart: Smart, plans: Sequence[Plan], wanted: Wanted, rows: Held, randomness: Randomness) -> list[Any]:
    """Ask as the planner does: what was charged before the answer, and the answer."""
    told: list[Any] = []
    paid: list[Purchase] = []
    if smart.preparation(rows.view):
        smart.prepare(rows, paid.append, randomness)
        told.append(tuple(paid))
    for plan in plans:
        paid = []
        most = smart.most(plan, wanted, rows.view)
        if most is None:
            noise, purchase = wanted.calibrated(plan, SCHEMA)
            paid.append(purchase)
            made = purchase.epsilon, purchase.delta
            answered = Answered(noise.add(rows.totals(plan), randomness), made, None, AnswerSource.MECHANISM)
            smart.heard(plan, answered, rows.view)
        else:
            answered = smart.answer(plan, wanted, rows, paid.append, randomness)
            assert all(paid.count(each) <= list(most).count(each) for each in paid)
        told.append((tuple(paid), answered.source, answered.bound, answered.totals.tolist()))
    return told


def public(smart: Smart) -> dict[str, Any]:
    pieces = Smart.changed(smart) or {}
    told = {name: (piece.public, {n: a.tolist() for n, a in piece.arrays.items()}) for name, piece in pieces.items()}
    smart._written = {}
    return told


@pytest.mark.slow
@pytest.mark.parametrize(("check", "source"), [("sparse", "mst"), ("threshold", "independent")])
def test_the_same_releases_from_other_rows_leave_the_same_public_state(check, source, monkeypatch):
    monkeypatch.setattr(SpanningTree, "_chosen", lambda *_: [(0, 1), (1, 2)])  # which pairs were chosen is released too
    wanted = Wanted(20, 0, 60.0, 0.05) if check == "sparse" else Wanted(0.5)
    parameters = SmartParameters(**EAGER, check=check, source=source)
    first, second = Smart(SCHEMA, parameters), Smart(SCHEMA, parameters)
    tape = Taped(seeded_for_simulation(2))
    told = through(first, asked(), wanted, Held.of(people()), tape)
    replayed = Taped(tape.source, tape.tape, again=True)
    assert told == through(second, asked(), wanted, Held.of(people(900, seed=9, together=False)), replayed)
    assert {one[1] for one in told[1:]} == {AnswerSource.MECHANISM, AnswerSource.SYNOPSIS}  # it went both ways
    assert public(first) == public(second)
    assert all(first.most(plan, wanted, ()) == second.most(plan, wanted, ()) for plan in asked(25))


def test_what_is_paid_is_the_marginals_once_an_opening_for_each_failure_and_an_answer_for_each_failure():
    wanted = Wanted(20, 0, 60.0, 0.05)
    smart, rows = Smart(SCHEMA, SmartParameters(**EAGER)), Held.of(people())
    told = through(smart, asked(), wanted, rows, seeded_for_simulation(3))
    assert [float(one.epsilon) for one in told[0]] == [0.1]
    assert smart.preparation(()) == []
    closed = True
    for paid, source, bound, _ in told[1:]:
        assert len(paid) == closed + (source is AnswerSource.MECHANISM)
        assert (bound == (60.0, 0.025)) is (source is AnswerSource.SYNOPSIS)
        closed = source is AnswerSource.MECHANISM
    standing = smart.standing()
    assert standing["failed"] > 0
    assert standing["passed"] > standing["failed"]
    assert standing["openings"] == standing["failed"] + (not closed)


def test_a_threshold_is_paid_for_every_time_and_leaves_the_rest_for_the_answer():
    wanted = Wanted(0.5)
    smart = Smart(SCHEMA, SmartParameters(**EAGER, check="threshold"))
    told = through(smart, asked(), wanted, Held.of(people()), seeded_for_simulation(3))
    for paid, source, _, _ in told[1:]:
        assert float(paid[0].epsilon) == 0.125
        assert sum(float(one.epsilon) for one in paid) == (0.5 if source is AnswerSource.MECHANISM else 0.125)


def test_nothing_is_looked_at_to_say_what_an_answer_costs():
    smart, rows = Smart(SCHEMA, SmartParameters(**EAGER)), Held.of(people())
    assert smart.most(JOINT, Wanted(20, 0, 60.0, 0.05), ()) is None  # nothing is made up yet
    smart.prepare(rows, lambda _: None, seeded_for_simulation(1))
    looked = rows.looked
    assert smart.most(JOINT, Wanted(20, 0, 60.0, 0.05), ()) is not None
    assert smart.most(JOINT, Wanted(20, 0, 1e-3, 0.05), ()) is None  # nothing guarantees this for so little
    assert smart.most(JOINT, Wanted(0.2, 0, 60.0, 0.05), ()) is None  # an opening costs more
    assert rows.looked == looked


def test_charges_come_before_rows_are_looked_at():
    smart, rows = Smart(SCHEMA, SmartParameters(**EAGER)), Held.of(people())

    def refused(purchase: Purchase) -> None:
        raise Refusal("nothing is left")

    with pytest.raises(Refusal):
        smart.prepare(rows, refused, seeded_for_simulation(1))
    assert rows.looked == 0
    assert smart.preparation(())
    smart.prepare(rows, lambda _: None, seeded_for_simulation(1))
    assert smart.most(JOINT, Wanted(20, 0, 60.0, 0.05), ()) is not None
    looked, before = rows.looked, public(smart)
    with pytest.raises(Refusal):
        smart.answer(JOINT, Wanted(20, 0, 60.0, 0.05), rows, refused, seeded_for_simulation(1))
    assert rows.looked == looked
    assert public(smart) == before


def test_rows_learn_how_columns_hang_together_and_keep_what_they_were_bought_with():
    smart, rows = Smart(SCHEMA, SmartParameters(**SMALL)), Held.of(people(4000))
    chance = seeded_for_simulation(4)
    smart.prepare(rows, lambda _: None, chance)
    women = Question("count", where="sex = 'f'").plan(SCHEMA)
    guess, spread = smart.guess(women) or (np.zeros(1), 0.0)
    assert abs(guess[0] - rows.totals(women)[0]) < 150
    assert spread < 10  # of what was bought all sets are sure
    exact = rows.totals(JOINT)[0]
    guess, spread = smart.guess(JOINT) or (np.zeros(1), 0.0)
    assert abs(guess[0] - exact) > 250  # 4000 / 8 instead of 4000 / 4, give or take
    assert spread > 20  # and of how columns hang together none is
    wanted = Wanted(1)
    for _ in range(10):
        noise, _ = wanted.calibrated(JOINT, SCHEMA)
        told = Answered(
            noise.add(rows.totals(JOINT), chance), (wanted.epsilon, wanted.delta), None, AnswerSource.MECHANISM
        )
        smart.heard(JOINT, told, ())
    guess, spread = smart.guess(JOINT) or (np.zeros(1), 0.0)
    assert abs(guess[0] - exact) < 60
    assert spread < 40
    women_now, _ = smart.guess(women) or (np.zeros(1), 0.0)
    assert abs(women_now[0] - rows.totals(women)[0]) < 250


def test_rows_made_of_pairs_know_them_at_once_and_keep_them():
    smart, rows = Smart(SCHEMA, SmartParameters(**SMALL, source="mst", epsilon=5)), Held.of(people(4000))
    chance, exact = seeded_for_simulation(4), rows.totals(JOINT)[0]
    smart.prepare(rows, lambda _: None, chance)
    guess, spread = smart.guess(JOINT) or (np.zeros(1), 0.0)
    assert spread < 20  # of what was bought all sets are sure
    for _ in range(3):
        guess, _ = smart.guess(JOINT) or (np.zeros(1), 0.0)
        assert abs(guess[0] - exact) < 150
        old = Question("count", where="age > 50 AND sex = 'f'").plan(SCHEMA)
        told = Answered(np.array([1500.0]), (Decimal(1), Decimal(0)), None, AnswerSource.MECHANISM)
        smart.heard(old, told, ())  # which is not so


def test_every_kind_of_question_is_guessed_from_what_its_rows_say():
    frame = people(3000)
    rows, smart = Held.of(frame), Smart(SCHEMA, SmartParameters(rows=4096, parts=4, bins={"age": 50}, epsilon=50))
    smart.prepare(rows, lambda _: None, seeded_for_simulation(1))
    questions = [
        Question("count"),
        Question("sum", ("age",)),
        Question("mean", ("age",)),
        Question("variance", ("age",)),
        Question("histogram", ("age",), bins=5),
        Question("count", by=("job",)),
    ]
    for question in questions:
        plan = question.plan(SCHEMA, epsilon=1)
        found = smart.guess(plan)
        assert found is not None
        scale = np.abs(rows.totals(plan)).max()
        assert np.abs(found[0] - rows.totals(plan)).max() <= 0.03 * scale, question


def test_an_honest_nothing_is_an_answer():
    frame = people(1000)
    frame = frame[frame["job"] != "d"]
    rows, smart = Held.of(frame), Smart(SCHEMA, SmartParameters(**EAGER, epsilon=50))
    smart.prepare(rows, lambda _: None, seeded_for_simulation(1))
    none = Question("count", where="job = 'd'").plan(SCHEMA)
    wanted = Wanted(20, 0, 60.0, 0.05)
    answered = smart.answer(none, wanted, rows, lambda _: None, seeded_for_simulation(2))
    assert answered.source is AnswerSource.SYNOPSIS
    assert answered.totals.tolist() == [0.0]
    assert smart.standing()["passed"] == 1


def restarted(smart: Smart, pieces: dict[str, SynopsisPart], parameters: SmartParameters) -> Smart:
    made = Smart(SCHEMA, parameters)
    made.restore(pieces)
    return made


def test_a_restart_goes_on_where_it_was_and_a_lost_secret_is_paid_anew():
    wanted, parameters = Wanted(20, 0, 60.0, 0.05), SmartParameters(**EAGER)
    smart, rows, chance = Smart(SCHEMA, parameters), Held.of(people()), seeded_for_simulation(3)
    kept: dict[str, SynopsisPart] = {}
    through(smart, asked(4), wanted, rows, chance)
    assert smart.standing()["openings"] > smart.standing()["failed"]  # one is there
    kept |= smart.changed()
    assert not smart.changed()
    plan = JOINT
    other = restarted(smart, kept, parameters)
    assert other.most(plan, wanted, ()) == smart.most(plan, wanted, ())
    assert not other.changed()
    same = [one.answer(plan, wanted, rows, lambda _: None, seeded_for_simulation(8)) for one in (smart, other)]
    assert same[0].totals.tolist() == same[1].totals.tolist()
    assert public(smart) == public(other)
    lost = {name: SynopsisPart(piece.public, piece.arrays) for name, piece in kept.items()}
    assert len(restarted(smart, lost, parameters).most(plan, wanted, ()) or ()) == 2
    assert restarted(smart, lost, parameters).preparation(()) == []


def test_under_other_cells_marginals_are_bought_anew_and_under_other_numbers_of_rows_openings_still_count():
    wanted, smart, rows = Wanted(20, 0, 60.0, 0.05), Smart(SCHEMA, SmartParameters(**EAGER)), Held.of(people())
    through(smart, asked(4), wanted, rows, seeded_for_simulation(3))
    kept = dict(smart.changed())
    fewer = Smart(SCHEMA, SmartParameters(**{**EAGER, "rows": 64}))
    fewer.restore(kept)
    assert fewer.preparation(()) == []
    assert fewer.standing()["openings"] == smart.standing()["openings"] > 0
    assert fewer.standing()["learned"] == 0
    finer = Smart(SCHEMA, SmartParameters(**EAGER, bins={"age": (18.0, *range(20, 92, 9))}))
    assert [cut.count for cut in finer.cuts] == [cut.count for cut in smart.cuts]  # so many, but others
    finer.restore(kept)
    assert len(finer.preparation(())) == 1
    assert finer.most(JOINT, wanted, ()) is None


def test_views_that_are_put_away_come_back_as_they_were(monkeypatch):
    monkeypatch.setattr(guesses, "_VIEWS", 1)
    frames = {"mon": people(500), "tue": people(500, seed=2)}
    smart, chance, wanted = Smart(SCHEMA, SmartParameters(**EAGER)), seeded_for_simulation(1), Wanted(20, 0, 60.0, 0.05)
    for view in (("mon",), ("tue",)):
        through(smart, asked(3), wanted, Held(frames, view), chance)
        smart.changed()
    before = {view: smart.standing(view) for view in (("mon",), ("tue",))}
    assert before["mon",]["openings"] > 0
    assert len(smart._views) == 1
    other = Smart(SCHEMA, SmartParameters(**EAGER))
    other.restore(smart._written)
    assert {view: other.standing(view) for view in before} == before
    guess, _ = other.guess(JOINT, ("mon", "tue")) or (np.zeros(1), 0.0)  # begins with what one of them knows
    assert other.standing(("mon", "tue"))["learned"] == before["tue",]["learned"]
    assert guess[0] > 0


def test_a_view_that_grows_keeps_what_was_learned_and_buys_the_new_block_only():
    frames = {"mon": people(1000), "tue": people(3000, seed=2)}
    smart, chance = Smart(SCHEMA, SmartParameters(**SMALL)), seeded_for_simulation(1)
    monday, both = Held(frames, ("mon",)), Held(frames, ("mon", "tue"))
    smart.prepare(monday, lambda _: None, chance)
    wanted = Wanted(1)
    for _ in range(10):
        told = Answered(
            monday.totals(JOINT).astype(float), (wanted.epsilon, wanted.delta), None, AnswerSource.MECHANISM
        )
        smart.heard(JOINT, told, monday.view)
    assert len(smart.preparation(both.view)) == 1
    looked = both.looked
    smart.prepare(both, lambda _: None, chance)
    assert both.looked == looked + 1  # one block
    guess, _ = smart.guess(JOINT, both.view) or (np.zeros(1), 0.0)
    assert abs(guess[0] - both.totals(JOINT)[0]) < 250  # of a thousand; without what was learned it is 500 off
    assert smart.preparation(("tue",)) == []


@pytest.mark.slow
def test_all_that_is_paid_never_exceeds_answers_alone_by_more_than_the_risk():
    wanted = Wanted(20, 0, 30.0, 0.05)
    smart = Smart(SCHEMA, SmartParameters(rows=1024, parts=4, epochs=4, risk=0.3, bins={"age": 50}, epsilon=1))
    rows, chance = Held.of(people(together=False)), seeded_for_simulation(3)
    alone, paid, sources, bought = 0.0, list[Purchase](), list[AnswerSource](), []
    for low in range(0, 90, 6):
        for high in range(low + 6, 100, 6):
            plan = Question("count", where=f"age >= {low} AND age < {high}").plan(SCHEMA)
            if smart.preparation(()):
                smart.prepare(rows, paid.append, chance)
                bought.append(len(sources))
            if smart.most(plan, wanted, ()) is None:
                noise, purchase = wanted.calibrated(plan, SCHEMA)
                paid.append(purchase)
                made = purchase.epsilon, purchase.delta
                answered = Answered(noise.add(rows.totals(plan), chance), made, None, AnswerSource.MECHANISM)
                smart.heard(plan, answered, ())
            else:
                answered = smart.answer(plan, wanted, rows, paid.append, chance)
            sources.append(answered.source)
            alone += float(wanted.calibrated(plan, SCHEMA)[1].epsilon)
            assert sum(float(one.epsilon) for one in paid) <= 1.3 * alone + 1e-9
            assert smart.account.paid == pytest.approx(sum(float(one.epsilon) for one in paid))
            assert smart.account.alone == pytest.approx(alone)
    assert len(bought) == 1
    assert bought[0] * alone / len(sources) > 0.9 * 1 / 0.3  # not before that may be risked
    assert sources.count(AnswerSource.SYNOPSIS) > 5


def test_the_planner_charges_what_the_rows_cost_and_tells_it(tmp_path):
    told: list[tuple[str, float]] = []

    @dataclass
    class Payments:
        def pay(self, purchase: Purchase, number: int) -> None:
            told.append(("pay", float(purchase.epsilon)))

        def settle(self, paid: Sequence[Purchase]) -> None:
            told.append(("settled", sum(float(one.epsilon) for one in paid)))

    store = CacheStore(tmp_path / "cache" / "people.db")
    smart, rows = Smart(SCHEMA, SmartParameters(**EAGER)), Held.of(people())
    planner = Planner(SCHEMA, store, synopsis=smart)
    wanted, chance = Wanted(20, 0, 60.0, 0.05), seeded_for_simulation(3)
    for plan in asked(10):
        told.clear()
        answered = planner.answer(
            plan, wanted, rows, reserve=lambda _: Payments(), buy=lambda _, __: Payments(), randomness=chance
        )
        settled = [amount for what, amount in told if what == "settled"] or [0.0]
        assert settled[-1] == pytest.approx(float(answered.cost[0]), abs=1e-9)
        assert sum(amount for what, amount in told if what == "pay") == pytest.approx(sum(settled), abs=1e-9)
    # Another process goes on from what this one wrote.
    other = Smart(SCHEMA, SmartParameters(**EAGER))
    Planner(SCHEMA, CacheStore(tmp_path / "cache" / "people.db"), synopsis=other).quote(JOINT, wanted, ())
    assert other.standing() == smart.standing()
    store.close()


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        ({"parts": 1}, "cache.parts"),
        ({"rows": 1.5}, "cache.rows"),
        ({"threshold": 1.0}, "cache.threshold"),
        ({"check": "none"}, "cache.check"),
        ({"epsilon": 0}, "cache.epsilon"),
        ({"source": "aim"}, "cache.source"),
        ({"colums": []}, "cache.colums"),
        ({"columns": "age"}, "cache.columns"),
        ({"trust": "much"}, "cache.trust"),
    ],
)
def test_parameters_that_cannot_be_are_refused_by_name(declared, field):
    with pytest.raises(Mistake) as refused:
        SmartParameters.of(declared)
    assert refused.value.argument == field


def test_columns_that_are_not_there_are_refused_by_name():
    with pytest.raises(Mistake, match="names 'size'"):
        Smart(SCHEMA, SmartParameters.of({"columns": ["size"]}))
    with pytest.raises(Mistake, match="not one of the columns"):
        Smart(SCHEMA, SmartParameters.of({"columns": ["sex"], "bins": {"age": 4}}))
    few = Smart(SCHEMA, SmartParameters.of({"columns": ["sex", "job"]}))
    assert few.covers(JOINT)
    assert not few.covers(Question("sum", ("age",)).plan(SCHEMA))


def test_a_declaration_makes_one():
    made = synopsis_of("smart", SCHEMA, {"parts": 3, "bins": {"age": [18, 65]}}, filter="zcdp")
    assert isinstance(made, Smart)
    assert made.parameters.parts == 3
    assert [cut.count for cut in made.cuts] == [3, 5, 4]
