"""Synthetic rows: a distribution is learned from noisy histograms within a budget; rows have declared values only."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.synthesis.aim import Adaptive, MissingExtra
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.base_histograms import Groundwork, added
from thebes.curator.cache.synthesis.domain import Domain, Measured
from thebes.curator.cache.synthesis.recipe import Independent, Recipe, SpanningTree
from thebes.curator.cache.synthesis.tree import Tree, nearest
from thebes.curator.questions.plans import QuestionPlan
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.privacy.accounting import concentrated, pure
from thebes.privacy.accounting.calibration import rho_for
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system

ADD = Adjacency.ADD_REMOVE_ONE
SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": 2,
        "columns": {
            "who": {"type": "integer", "key": True},
            "sex": {"type": "string", "values": ["f", "m"]},
            "age": {"type": "integer", "low": 0, "high": 99},
            "dose": {"type": "float", "low": -1.0, "high": 1.0},
            "sick": {"type": "boolean"},
            "note": {"type": "string"},
        },
    }
)
BUDGETS = [(1, 0), (1, 1e-6), (Fraction(1, 10), 0)]


def people(count: int = 4000, seed: int = 0) -> pd.DataFrame:
    """Make people of whom the old are sick; the dose goes with being sick; the sex has to do with nothing."""
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 100, count)
    sick = draw.random(count) < np.where(age < 50, 0.1, 0.8)
    dose = np.where(sick, draw.uniform(0, 1, count), draw.uniform(-1, 0.2, count))
    frame = {"who": np.arange(count), "sex": draw.choice(["f", "m"], count), "age": age, "dose": dose, "sick": sick}
    return pd.DataFrame(frame | {"note": ["secret"] * count})


def domain(**more: Any) -> Domain:
    return Domain.of(SCHEMA, None, {"age": 5, "dose": 4}, **more)


def learned(recipe: Recipe, seed: int = 0) -> Any:
    return recipe.learned(frame_table(SCHEMA, people()), lambda: None, seeded_for_simulation(seed))


def shares_of(rows: Any, shape: tuple[int, ...]) -> Any:
    found = np.zeros(shape)
    np.add.at(found, tuple(rows.T), 1 / len(rows))
    return found


# --- a tree ---------------------------------------------------------------------------------------------------


def test_a_tree_that_was_measured_without_error_is_that_distribution() -> None:
    draw = np.random.default_rng(1)
    shape = (3, 4, 2, 5)
    first, middle, last = draw.dirichlet(np.ones(3)), draw.dirichlet(np.ones(4), 3), draw.dirichlet(np.ones(2), 4)
    joint = np.einsum("a,ab,bc,d->abcd", first, middle, last, np.full(5, 0.2))
    histograms = [
        Measured(places, 1e6 * joint.sum(axis=tuple(set(range(4)) - set(places))), 1e-6)
        for places in [(0,), (1,), (2,), (3,), (0, 1), (1, 2)]
    ]
    tree = Tree.fit(shape, histograms)
    assert tree.dense().reshape(shape) == pytest.approx(joint, abs=1e-5)
    rows = tree.rows(20_000, seeded_for_simulation(0))
    assert shares_of(rows, shape) == pytest.approx(joint, abs=0.01)


def test_what_several_histograms_say_of_a_column_agrees_in_the_end() -> None:
    draw = np.random.default_rng(2)
    noisy = [Measured(p, draw.normal(20, 40, [(3, 4)[i] for i in p]), 40.0) for p in [(0,), (1,), (0, 1)]]
    tree = Tree.fit((3, 4), noisy)
    table = tree.dense().reshape(3, 4)
    assert table.min() >= 0
    assert table.sum() == pytest.approx(1)
    assert table.sum(axis=1) == pytest.approx(tree.shares[0], abs=1e-9)
    assert table.sum(axis=0) == pytest.approx(tree.shares[1], abs=1e-9)


def test_the_nearest_shares_are_none_below_nothing_and_nothing_is_nearer() -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        counts = draw.normal(0, 50, 6)
        found = nearest(counts, 100)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        others = draw.dirichlet(np.ones(6), 300)
        assert ((found - counts / 100) ** 2).sum() <= ((others - counts / 100) ** 2).sum(axis=1).min() + 1e-12


def test_rows_are_dealt_out_by_shares_and_every_count_of_them_can_be_had() -> None:
    tree = Tree((np.array([0.5, 0.3, 0.2]),), (), ())
    assert np.bincount(tree.rows(10, seeded_for_simulation(0))[:, 0]).tolist() == [5, 3, 2]
    assert tree.rows(0, seeded_for_simulation(0)).shape == (0, 1)
    assert np.bincount(tree.rows(7, seeded_for_simulation(0))[:, 0], minlength=3).sum() == 7


# --- what is learned ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_tree_learns_what_belongs_together_and_single_columns_do_not(delta: float) -> None:
    truth = {p: domain().counts(frame_table(SCHEMA, people()), p) / 4000 for p in combinations(range(4), 2)}
    errors = {}
    for recipe in (Independent, SpanningTree):
        found = learned(recipe(domain(), SynthesisAllowance(2, delta)))
        assert found.size == pytest.approx(4000, rel=0.05)
        rows = found.distribution.rows(4000, seeded_for_simulation(1))
        tables = [np.abs(shares_of(rows[:, list(p)], t.shape) - t).sum() / 2 for p, t in truth.items()]
        errors[recipe.name] = max(tables)
    assert errors["mst"] < 0.08 < 0.2 < errors["independent"]


def test_rows_have_declared_values_only_and_nothing_of_a_key_or_of_free_text() -> None:
    rows = learned(SpanningTree(domain(), SynthesisAllowance(1))).drawn(500, seeded_for_simulation(2))
    assert set(rows) == {"sex", "age", "dose", "sick"}
    assert set(rows["sex"].tolist()) <= {"f", "m", None}
    assert all(age is None or (isinstance(age, int) and 0 <= age <= 99) for age in rows["age"])
    assert all(dose is None or -1 <= dose <= 1 for dose in rows["dose"])
    assert len({age for age in rows["age"] if age is not None}) > 50  # uniform within a bin


@pytest.mark.slow
def test_missing_values_come_back_as_often_as_they_were_there() -> None:
    frame = people().assign(sex=lambda f: f["sex"].where(f["who"] % 4 != 0, None))
    found = SpanningTree(domain(), SynthesisAllowance(5)).learned(
        frame_table(SCHEMA, frame), lambda: None, seeded_for_simulation(0)
    )
    rows = found.drawn(2000, seeded_for_simulation(0))
    assert sum(value is None for value in rows["sex"]) / 2000 == pytest.approx(0.25, abs=0.03)
    none = learned(SpanningTree(domain(missing=False), SynthesisAllowance(5))).drawn(2000, seeded_for_simulation(0))
    assert all(value is not None for values in none.values() for value in values)


def test_one_column_needs_no_tree_and_pairs_that_are_too_large_are_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = SpanningTree(Domain.of(SCHEMA, ["sex"]), SynthesisAllowance(1))
    assert one.event == Independent(Domain.of(SCHEMA, ["sex"]), SynthesisAllowance(1)).event
    assert set(learned(one).drawn(10, system())) == {"sex"}
    monkeypatch.setattr("thebes.curator.cache.synthesis.domain.MOST_PAIR", 16)
    small = SpanningTree(domain(), SynthesisAllowance(1))
    assert (1, 2) not in small.domain.pairs
    assert small.edges == 2  # the age is left to itself
    assert set(learned(small).drawn(10, system())) == {"sex", "age", "dose", "sick"}


def wide(columns: int, most: int = 2) -> Any:
    """Make a schema of so many columns, half of them with values."""
    kinds = [{"type": "float", "low": 0.0, "high": 1.0}, {"type": "string", "values": ["a", "b", "c"]}]
    named = {f"c{n}": kinds[n % 2] for n in range(columns)}
    return schema_of(
        {"unit": "person", "max_rows_per_unit": most, "columns": {"who": {"type": "integer", "key": True}, **named}}
    )


def wide_rows(columns: int, count: int, each: int) -> pd.DataFrame:
    draw = np.random.default_rng(7)
    kinds = [lambda: draw.choice([0.1, 0.35, 0.8, None], count), lambda: draw.choice(["a", "b", "other", None], count)]
    return pd.DataFrame({"who": np.arange(count) // each, **{f"c{n}": kinds[n % 2]() for n in range(columns)}})


class CountedLooks:
    """A table that counts how often its rows are looked at."""

    def __init__(self, schema: Any, frame: pd.DataFrame) -> None:
        self.schema, self.table, self.looks = schema, frame_table(schema, frame), 0
        self.batches = self.table.batches

    def sums(self, wanted: Any) -> Any:
        self.looks += 1
        return self.table.sums(wanted)

    def cells(self, axes: Any, *, rows: int = 16_384) -> Any:
        self.looks += 1
        return self.table.cells(axes, rows=rows)


@pytest.mark.parametrize("missing", [True, False])
def test_histograms_of_one_look_are_those_that_single_questions_give(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = CountedLooks(wide(12), wide_rows(12, 60, each=2))
    asked = Domain.of(table.schema, missing=missing)
    chosen = [*asked.singles, *asked.pairs]
    expected = {places: asked.counts(table.table, places).tolist() for places in chosen}
    assert {places: counts.tolist() for places, counts in asked.histograms(table, chosen)} == expected
    assert table.looks == 1
    monkeypatch.setattr("thebes.curator.cache.synthesis.domain._HELD", 2000)  # of cells at once: some looks more
    assert {places: counts.tolist() for places, counts in asked.histograms(table, chosen)} == expected
    assert 2 < table.looks < 10


def test_of_a_person_with_too_many_rows_no_more_count_in_any_histogram_than_may() -> None:
    table = CountedLooks(wide(4, most=3), wide_rows(4, 40, each=20))
    asked = Domain.of(table.schema)
    totals = [int(counts.sum()) for _, counts in asked.histograms(table, [*asked.singles, *asked.pairs])]
    assert totals == [6] * len(totals)


@pytest.mark.parametrize("method", [Independent, SpanningTree])
def test_rows_are_looked_at_as_often_for_many_columns_as_for_few(method: Any) -> None:
    looks = []
    for columns in (4, 40):
        table, doing = CountedLooks(wide(columns), wide_rows(columns, 50, each=1)), list[str]()
        recipe = method(Domain.of(table.schema), SynthesisAllowance(50), told=doing.append)
        recipe.learned(table, lambda: None, seeded_for_simulation(0))
        looks.append(table.looks)
        assert doing[0] == f"counting {columns} histograms"
        assert method is Independent or f"choosing pair {columns - 1} of {columns - 1}" in doing
    assert looks[0] == looks[1] <= 3


# --- what it costs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("recipe", [Independent, SpanningTree])
def test_it_costs_what_was_allowed_and_nearly_all_of_it(recipe: Any, epsilon: Any, delta: float) -> None:
    made = recipe(domain(), SynthesisAllowance(str(float(epsilon)), delta))
    if delta:
        spent, allowed = concentrated.price(made.event, adjacency=ADD).rho, rho_for(epsilon, delta)
    else:
        spent, allowed = pure.price(made.event, adjacency=ADD).epsilon, SynthesisAllowance(str(float(epsilon))).epsilon
    assert 0.999 * float(allowed) < spent <= allowed


def test_what_would_cost_more_than_allowed_is_our_fault() -> None:
    with pytest.raises(Fault, match="larger than the budget"):
        SynthesisAllowance("0.5").within(Independent(domain(), SynthesisAllowance(1)).event)


@pytest.mark.parametrize("recipe", [Independent, SpanningTree])
def test_nothing_is_drawn_and_no_row_is_read_before_it_is_paid(recipe: Any) -> None:
    happened: list[str] = []

    class Noted(Randomness):
        def words(self, count: int) -> Any:
            happened.append("drawn")
            return system().words(count)

        def laplace(self, values: Any, *, scale: float) -> Any:
            happened.append("drawn")
            return system().laplace(values, scale=scale)

        gaussian = laplace

    class Watched:
        schema = SCHEMA
        table = frame_table(SCHEMA, people())

        def sums(self, wanted: Any) -> Any:
            happened.append("read")
            return self.table.sums(wanted)

        batches: Any = None

    recipe(domain(), SynthesisAllowance(1)).learned(Watched(), lambda: happened.append("paid"), Noted())
    assert happened[0] == "paid"
    assert {"read", "drawn"} <= set(happened[1:])


@pytest.mark.slow
def test_a_person_moves_no_utility_of_a_pair_by_more_than_their_rows() -> None:
    recipe, shape = SpanningTree(domain(), SynthesisAllowance(1)), domain().shape
    alone = Tree.fit(shape, [Measured((i,), np.arange(1.0, n + 1), 1.0) for i, n in enumerate(shape)])
    rows, others = people(60), people(2, seed=9).assign(who=1000)
    most = 0
    for mine in (others, others.iloc[:1]):
        seen = []
        for frame in (rows, pd.concat([rows, mine], ignore_index=True)):
            table = frame_table(SCHEMA, frame)
            exact = recipe.domain.histograms(table, recipe.domain.pairs)
            seen.append(recipe.utilities(exact, alone, 60.0, 3.0))
        most = max([most, *(abs(seen[0][pair] - seen[1][pair]) for pair in seen[0])])
    assert 0 < most <= SCHEMA.change.rows


# --- what cannot be -------------------------------------------------------------------------------------------


def test_aim_says_what_it_needs_before_anything_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Mistake, match="delta"):
        _ = Adaptive(domain(), SynthesisAllowance(1)).event
    assert concentrated.price(Adaptive(domain(), SynthesisAllowance(1, 1e-6)).event, adjacency=ADD).rho <= rho_for(
        1, 1e-6
    )
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(MissingExtra, match=r"pip install 'thebes\[synth\]'") as missing:
        Adaptive(domain(), SynthesisAllowance(1, 1e-6)).learned(
            frame_table(SCHEMA, people()), lambda: pytest.fail("it was paid"), system()
        )
    assert missing.value.extra == "synth"


def test_columns_without_a_domain_are_refused() -> None:
    with pytest.raises(Mistake, match="'note'"):
        Domain.of(SCHEMA, ["note"])
    with pytest.raises(Mistake, match="not one of the columns"):
        Domain.of(SCHEMA, ["sex"], {"age": 3})
    with pytest.raises(Mistake, match="none twice"):
        Domain.of(SCHEMA, ["sex", "sex"])
    with pytest.raises(Mistake, match="too small"):
        SynthesisAllowance("1e-9").choosing(Fraction(1, 3), 1000)


@pytest.mark.slow
def test_aim_is_closer_than_a_tree_where_columns_go_in_a_ring() -> None:
    pytest.importorskip("mbi")
    found = learned(Adaptive(domain(), SynthesisAllowance(2, 1e-6)))
    truth = {p: domain().counts(frame_table(SCHEMA, people()), p) / 4000 for p in combinations(range(4), 2)}
    rows = found.distribution.rows(4000, seeded_for_simulation(1))
    assert max(np.abs(shares_of(rows[:, list(p)], t.shape) - t).sum() / 2 for p, t in truth.items()) < 0.06


# --- what a synopsis begins with ------------------------------------------------------------------------------


def test_shares_of_some_columns_are_what_the_whole_says_of_them() -> None:
    draw = np.random.default_rng(4)
    shape = (2, 3, 4, 2, 3)
    tables = {
        (0, 1): draw.dirichlet(np.ones(6)),
        (1, 2): draw.dirichlet(np.ones(12)),
        (1, 3): draw.dirichlet(np.ones(6)),
    }
    noisy = [Measured((place,), 1e4 * np.full(shape[place], 1 / shape[place]), 30.0) for place in range(5)]
    noisy += [Measured(at, 1e4 * table.reshape([shape[place] for place in at]), 30.0) for at, table in tables.items()]
    tree = Tree.fit(shape, noisy)
    whole = tree.dense().reshape(shape)
    assert whole.sum() == pytest.approx(1)
    for places in [(0, 2), (2, 0), (3,), (0, 2, 3), (4, 1), (2, 4, 0), (0, 1, 2, 3, 4)]:
        others = tuple(set(range(5)) - set(places))
        expected = whole.sum(axis=others).transpose(np.argsort(np.argsort(places)))
        assert tree.dense(places).reshape([shape[place] for place in places]) == pytest.approx(expected)


def test_histograms_of_several_blocks_are_as_those_of_one_with_all_rows() -> None:
    few, many = np.array([[10.0, 20.0], [30.0, 40.0]]), np.array([[100.0, 50.0], [0.0, 150.0]])
    first = [Measured((0,), few.sum(axis=1), 3.0), Measured((1,), few.sum(axis=0), 3.0), Measured((0, 1), few, 3.0)]
    second = [Measured((0,), many.sum(axis=1), 4.0), Measured((1,), many.sum(axis=0), 4.0)]
    assert added(2, [first]) == first
    row, _, pair = added(2, [first, second])
    assert row.counts.tolist() == [180.0, 220.0]
    assert row.deviation == pytest.approx(5.0)
    assert pair.counts == pytest.approx(4 * few)  # of a hundred rows, for four hundred
    assert pair.deviation == pytest.approx(12.0)
    ring = [[*second, Measured((2,), np.ones(2), 1.0), Measured(at, many, 4.0)] for at in [(0, 1), (1, 2), (0, 2)]]
    ring[2][-1] = Measured((0, 2), many, 1.0)
    assert [each.places for each in added(3, ring)][3:] != [(0, 1), (0, 2), (1, 2)]  # what hangs together is no ring
    assert len(added(3, ring)) == 5


@dataclass
class Blocks:
    """Rows of blocks by name."""

    frames: dict[str, pd.DataFrame]
    view: View = ()

    def table(self, blocks: View | None = None) -> Any:
        chosen = [self.frames[name] for name in (blocks or self.view or ("",))]
        return frame_table(SCHEMA, pd.concat(chosen, ignore_index=True))

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Any:
        raise AssertionError("nothing is asked")


@pytest.mark.slow
@pytest.mark.parametrize(("source", "delta"), [("independent", "0"), ("mst", "0"), ("mst", "1e-6")])
def test_groundwork_is_bought_once_for_each_block_and_found_again(source: str, delta: str) -> None:
    def made() -> Groundwork:
        return Groundwork(domain(), source=source, epsilon=Decimal(2), delta=Decimal(delta))

    frames = {"mon": people(1000), "tue": people(3000, seed=1)}
    paid: list[Purchase] = []
    bought, chance = made(), seeded_for_simulation(1)
    bought.buy(Blocks(frames, ("mon",)), paid.append, chance)
    bought.buy(Blocks(frames, ("mon", "tue")), paid.append, chance)
    bought.buy(Blocks(frames, ("tue",)), paid.append, chance)
    assert paid == [bought.purchase] * 2
    assert (paid[0].epsilon, paid[0].delta) == (Decimal(2), Decimal(delta))
    assert bought.size(("mon", "tue")) == pytest.approx(4000, rel=0.05)
    kept, other = bought.changed(), made()
    assert not bought.changed()
    other.restore(kept)
    assert not other.lacking(("mon", "tue"))
    both = [each.tree(("mon", "tue")).dense() for each in (bought, other)]
    assert np.array_equal(both[0], both[1])
    truth = bought.domain.counts(Blocks(frames, ("mon", "tue")).table(), (1, 3)) / 4000
    off = np.abs(other.tree(("mon", "tue")).dense((1, 3)).reshape(truth.shape) - truth).sum() / 2
    assert off < 0.06 if source == "mst" else off > 0.15
    finer = Groundwork(Domain.of(SCHEMA, None, {"age": 4}), source=source, epsilon=Decimal(2), delta=Decimal(delta))
    finer.restore(kept)
    assert finer.lacking(("mon",)) == ("mon",)


def test_groundwork_that_cannot_be_paid_reads_and_keeps_nothing() -> None:
    def refused(purchase: Purchase) -> None:
        raise Mistake("epsilon", "is too much")

    bought = Groundwork(domain(), source="mst", epsilon=Decimal(1), delta=Decimal(0))
    with pytest.raises(Mistake):
        bought.buy(Blocks({}), refused, system())  # which has no rows to be read
    assert bought.lacking(())
    with pytest.raises(Fault, match="less than it costs"):
        Purchase(bought.recipe.event, Decimal("0.9"))
    gaussian = SpanningTree(domain(), SynthesisAllowance(1, 1e-6)).event
    assert Purchase(gaussian, Decimal(1), Decimal("1e-6")).epsilon == 1
    with pytest.raises(Fault, match="less than it costs"):
        Purchase(gaussian, Decimal("0.9"), Decimal("1e-6"))
