"""A simulated world: who takes part when, what everybody pays, and the same answer however it is cut into batches."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.privacy import randomness
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.simulation.budgets import SimulatedBudgets
from thebes.simulation.population import population
from thebes.simulation.sweeps import plan, sweep
from thebes.simulation.turns import most_at_once, turns_of
from thebes.tasks import registry

MEDIAN = {
    "type": "basic",
    "epsilon": 1,
    "featurizer": "SELECT age FROM p.t",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0, "high": 100}},
}
AGE = np.random.default_rng(1).uniform(0, 100, 500)


class _Rounds:
    def __init__(self, phases: int, participations: int) -> None:
        self.phases, self.participations = phases, participations

    def least_in(self, phase: int) -> int:
        return 11


@pytest.mark.parametrize(("phases", "each", "people"), [(1, 1, 7), (3, 1, 10), (5, 2, 13), (4, 4, 3), (7, 3, 100)])
def test_everybody_takes_part_equally_often_and_never_twice_in_one_phase(phases, each, people) -> None:
    turns = turns_of(_Rounds(phases, each), people, randomness.seeded_for_simulation(1))  # type: ignore[arg-type]
    assert len(turns) == phases
    for turn in turns:
        assert len(set(turn.tolist())) == len(turn)
        assert abs(len(turn) - people * each / phases) < 1 + 1e-9
    assert (np.bincount(np.concatenate(turns), minlength=people) == (each if phases > 1 else 1)).all()


def test_a_phase_that_needs_fewer_has_fewer_and_every_phase_somebody() -> None:
    class Uneven(_Rounds):
        def least_in(self, phase: int) -> int:
            return (10, 10, 980)[phase]

    turns = turns_of(Uneven(3, 1), 5000, randomness.seeded_for_simulation(1))  # type: ignore[arg-type]
    assert [len(turn) for turn in turns] == pytest.approx([50, 50, 4900], abs=3)
    assert sorted(np.concatenate(turns).tolist()) == list(range(5000))
    few = turns_of(Uneven(3, 1), 4, randomness.seeded_for_simulation(1))  # type: ignore[arg-type]
    assert [len(turn) for turn in few] == [1, 1, 2]


def test_more_rounds_than_people_can_serve_are_refused() -> None:
    with pytest.raises(Mistake, match="at least 5"):
        turns_of(_Rounds(10, 2), 4, randomness.seeded_for_simulation(1))  # type: ignore[arg-type]


def test_a_budget_pays_its_price_and_an_overdraft_stops_the_world() -> None:
    budgets = SimulatedBudgets(3, Price(1.0, 1e-6, Unit.PERSON))
    first = budgets.of(np.array([0, 2]))
    first.consume(epsilon="0.4", delta="0.0000005")
    first.consume(epsilon="0.6", delta="0.0000005")
    assert budgets.left() == (0.0, 0.0)
    with pytest.raises(Fault):
        first.consume(epsilon="0.000000000001")
    with pytest.raises(Fault):
        budgets.of(np.array([1])).consume(epsilon=0.1, delta=1e-5)
    budgets.of(np.array([1])).consume(epsilon=1, delta=1e-6)


@pytest.mark.parametrize("mechanism", ["split", "privunit"])
def test_batches_change_nothing_but_memory(monkeypatch, mechanism) -> None:
    document = {
        "type": "bounded",
        "epsilon": 2.0,
        "featurizer": "SELECT age FROM p.t",
        "bounds": {"age": {"type": "range", "low": 0, "high": 100, "default": 5}},
        "mechanism": mechanism,
    }
    whole = thebes.simulate(document, {"age": AGE}, seed=1)
    monkeypatch.setattr("thebes.simulation.turns.MOST_PEOPLE", 7)
    cut = thebes.simulate(document, {"age": AGE}, seed=1)
    assert len(cut.rows) == len(whole.rows) == len(AGE)
    assert cut.certificate == whole.certificate
    assert abs(cut.mean("age")[0] - whole.mean("age")[0]) < 60


def test_wide_contributions_are_computed_for_fewer_people_at_a_time() -> None:
    from thebes.tasks.contributions import Slot

    assert most_at_once({"a": Slot("number")}) == 250_000
    assert most_at_once({"a": Slot("number", length=100_000)}) * 100_000 <= 2**25
    assert most_at_once({"a": Slot("number", length=10**9)}) == 1


def test_a_seed_repeats_everything_and_says_so() -> None:
    first, second = (thebes.simulate(MEDIAN, {"age": AGE}, seed=4).as_json() for _ in range(2))
    assert first == second
    assert first["certificate"]["simulated"] is True
    assert first["certificate"]["unit"] == "person"
    assert len({thebes.simulate(MEDIAN, {"age": AGE}).value for _ in range(6)}) > 1
    for seed in (-1, 1.5, True, "1"):
        with pytest.raises(Mistake, match="seed"):
            thebes.simulate(MEDIAN, {"age": AGE}, seed=seed)


def test_nobody_who_could_take_part_is_a_mistake_and_few_are_a_warning() -> None:
    for nobody in ([], [np.nan, np.nan], ["old", "young"]):
        with pytest.raises(Mistake, match="nobody"):
            thebes.simulate(MEDIAN, {"age": np.array(nobody, dtype=object)})
    with pytest.warns(UserWarning, match="min_count 11"):
        thebes.simulate(MEDIAN, {"age": [1.0] * 10})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thebes.simulate(MEDIAN, {"age": [1.0] * 11})


@pytest.mark.parametrize("form", ["frame", "dict", "tables", "grouped", "grouped tables"])
def test_every_form_of_a_table_gives_the_same_people(form) -> None:
    rows = {
        "frame": pd.DataFrame({"age": AGE}),
        "dict": {"age": AGE.tolist()},
        "tables": {"P.T": {"age": AGE}},
        "grouped": pd.DataFrame({"person_id": np.arange(500), "age": AGE}),
        "grouped tables": {"p.t": pd.DataFrame({"person_id": np.arange(500), "AGE": AGE})},
    }[form]
    expected = thebes.simulate(MEDIAN, {"age": AGE}, seed=1)
    assert thebes.simulate(MEDIAN, rows, seed=1).value == expected.value


def test_a_made_up_population_is_read_as_its_tables() -> None:
    people = population(200, seed=3)
    asked = thebes.task.mean("SELECT age FROM profile.demographics", epsilon=1, bounds={"age": [0, 120]})
    assert thebes.simulate(asked, people, seed=1).value == thebes.simulate(asked, people.columns, seed=1).value


def test_of_several_rows_a_person_sends_the_first() -> None:
    frame = pd.DataFrame({"person_id": [1, 0, 1, 0] * 20, "age": [10.0, 20.0, 90.0, 90.0] * 20})
    release = thebes.simulate({**MEDIAN, "aggregator": "mean", "epsilon": 1e5, "min_count": 2}, frame, seed=1)
    assert release.certificate.contributors == 2
    assert release.value == pytest.approx(15, abs=0.1)


def test_a_kind_that_is_no_question_to_people_is_refused() -> None:
    with pytest.raises(Mistake, match="type"):
        thebes.simulate({"type": "telepathy"}, {"age": AGE})


def test_a_sweep_varies_fields_and_repeats() -> None:
    table = sweep(MEDIAN, {"age": AGE}, vary={"epsilon": [0.1, 10.0], "aggregator": ["mean", "median"]}, repeats=15)
    assert list(table.columns) == ["epsilon", "aggregator", "repeats", "mean", "sd"]
    assert len(table) == 4
    noise = table.groupby("epsilon")["sd"].mean()
    assert noise[0.1] > noise[10.0]
    bars = sweep(MEDIAN, {"age": AGE}, vary={"epsilon": [1.0]}, repeats=1, score=lambda r: r.interval().high)
    assert bars["sd"].tolist() == [0.0]
    for wrong in ({}, {"epsilon": []}):
        with pytest.raises(Mistake, match="vary"):
            sweep(MEDIAN, {"age": AGE}, vary=wrong)
    with pytest.raises(Mistake, match="score"):
        sweep({**MEDIAN, "aggregator": "histogram", "bins": 3}, {"age": AGE}, vary={"epsilon": [1.0]}, repeats=1)


def test_a_sweep_without_an_answer_says_nan() -> None:
    table = sweep({**MEDIAN, "bounds": None}, {"age": AGE[:20]}, vary={"epsilon": [0.01]}, repeats=2)
    assert math.isnan(table["mean"][0])


@pytest.mark.slow
def test_a_plan_keeps_its_word_and_needs_more_for_less() -> None:
    loose = plan(MEDIAN, within=10, people=300, repeats=30)
    tight = plan(MEDIAN, within=2, people=300, repeats=30)
    assert loose.epsilon < tight.epsilon
    assert tight.reached <= 2
    crowd = plan(MEDIAN, within=2, people=3000, repeats=30)
    assert crowd.epsilon < tight.epsilon / 3
    given = plan({**MEDIAN, "bounds": None}, within=50, people=300, rows={"age": AGE}, repeats=20)  # finds its bounds
    assert given.epsilon > 0


SPECIES = {
    **MEDIAN,
    "aggregator": "histogram",
    "featurizer": "SELECT species FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog", "fish"]}},
}


def test_a_plan_of_several_numbers_keeps_its_word_for_each_of_them() -> None:
    one = plan({**SPECIES, "aggregator": "count", "missing": "count"}, within=10, people=60, repeats=20)
    each = plan(SPECIES, within=10, people=60, repeats=20)
    assert each.reached <= 10
    assert each.epsilon > one.epsilon
    ages = {**MEDIAN, "aggregator": "histogram", "bins": 3}
    assert plan(ages, within=10, people=60, repeats=5).reached <= 10


def test_what_no_distance_is_known_of_is_not_planned_and_says_what_to_do() -> None:
    model = next(iter(registry.samples("integrated")))
    with pytest.raises(Mistake, match=r"type: .*answers with no numbers.*thebes simulate.*sweep"):
        plan(model.document, within=1.0, people=60, repeats=1, rows=model.people)
    with pytest.raises(Mistake, match=r"type: .*institutions.*thebes task quote"):
        plan(next(iter(registry.samples("query"))).document, within=1.0, people=60)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"within": 0}, "within"),
        ({"within": math.nan}, "within"),
        ({"within": math.inf}, "within"),
        ({"within": 1e-30}, "within"),
        ({"share": 1.0}, "share"),
        ({"people": 0}, "people"),
        ({"people": True}, "people"),
        ({"rows": {"p.t": {"age": [1.0]}}}, "rows"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused(change, argument) -> None:
    with pytest.raises(Mistake) as refused:
        plan(MEDIAN, **{"within": 5.0, "people": 100, "repeats": 5, **change})
    assert refused.value.argument == argument
    with pytest.raises(Mistake, match="rows"):
        plan({**MEDIAN, "bounds": None}, within=5.0, people=100)
