"""The curator answers without noise what numpy computes, and names what it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.curator.questions.groups import Groups
from thebes.curator.questions.noise import loosest, noise_for
from thebes.curator.questions.plans import Plan
from thebes.curator.questions.quantiles import QuantilePlan, levels_for, variances
from thebes.curator.questions.question import Question
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis
from thebes.privacy.faults import Mistake

LOW, HIGH = 18.0, 90.0
COLUMNS: dict[str, Any] = {
    "who": {"type": "string", "key": True},
    "age": {"type": "float", "low": LOW, "high": HIGH},
    "score": {"type": "integer", "low": -5, "high": 11},
    "sex": {"type": "string", "values": ["female", "male"]},
    "ward": {"type": "integer", "values": [1, 2, 3]},
    "ill": {"type": "boolean"},
    "note": {"type": "string"},
    "seen": {"type": "timestamp"},
    "far": {"type": "float", "low": 1e9, "high": 1e9 + 1},
}


def schema(rows: int = 1, **more: Any) -> Schema:
    return schema_of({"unit": "person", "max_rows_per_unit": rows, "columns": COLUMNS, **more})


numbers = st.one_of(st.floats(-200, 200), st.sampled_from([LOW, HIGH, np.nan, 17.999, 54.0]))
people = st.lists(
    st.tuples(numbers, st.integers(-9, 20), st.sampled_from(["female", "male", "other", None]), st.booleans()),
    max_size=40,
)


def frame_of(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["age", "score", "sex", "ill"])
    frame["age"] = frame["age"].astype(float)
    frame["score"] = frame["score"].astype("int64")
    frame["ill"] = frame["ill"].astype(bool)
    whole = pd.Series(np.full(len(rows), 2), dtype="int64")
    text = pd.Series([f"p{i}" for i in range(len(rows))], dtype=object)
    seen = pd.Series([pd.Timestamp("2026-01-01")] * len(rows), dtype="datetime64[ns]")
    return frame.assign(who=text, ward=whole, note=text, seen=seen, far=whole.astype(float))


def exactly(question: Question, frame: pd.DataFrame, rows: int = 1) -> Any:
    assert question.problem() is None
    plan = question.plan(schema(rows))
    totals = plan.totals(frame_table(schema(rows), frame))
    plan.examine(totals)
    return plan.finish(totals.astype(float), None, ()).value


def clamped(frame: pd.DataFrame, name: str = "age") -> np.ndarray:
    column = frame[name].to_numpy(dtype=float)
    return np.clip(column[~np.isnan(column)], *((LOW, HIGH) if name == "age" else (-5, 11)))


WIDTH = HIGH - LOW


@pytest.mark.slow
@examples(12)
@given(people)
def test_without_noise_every_statistic_is_what_numpy_computes(rows) -> None:
    frame = frame_of(rows)
    ages, scores = clamped(frame), clamped(frame, "score")
    assert exactly(Question("count"), frame) == len(frame)
    assert exactly(Question("count", where="age IS NOT NULL"), frame) == len(ages)
    assert exactly(Question("sum", ("age",)), frame) == pytest.approx(ages.sum(), abs=len(ages) * WIDTH / 2**22 + 1e-9)
    assert exactly(Question("sum", ("score",)), frame) == pytest.approx(scores.sum(), abs=1e-9)  # on the grid
    assert exactly(Question("mean", ("age",)), frame) == pytest.approx(
        ages.mean() if len(ages) else (LOW + HIGH) / 2, abs=WIDTH / 2**21 + 1e-9
    )
    assert exactly(Question("variance", ("age",)), frame) == pytest.approx(
        ages.var() if len(ages) else 0.0, abs=6 * WIDTH**2 / 2**20
    )
    counts, _ = np.histogram(ages, bins=[LOW, 30, 45.5, HIGH])
    assert list(exactly(Question("histogram", ("age",), bins=(30.0, 45.5)), frame).values()) == counts.tolist()
    assert exactly(Question("histogram", ("sex",)), frame) == {
        sex: float((frame["sex"] == sex).sum()) for sex in ("female", "male")
    }


@pytest.mark.slow
@examples(12)
@given(people)
def test_groups_are_answered_as_if_each_were_asked_alone(rows) -> None:
    frame = frame_of(rows)
    for name in ("count", "sum", "mean", "variance"):
        columns = () if name == "count" else ("age",)
        found = exactly(Question(name, columns, by=("sex", "ill")), frame)
        assert list(found) == ["female, False", "female, True", "male, False", "male, True"]
        for group, value in found.items():
            sex, ill = group.split(", ")
            alone = exactly(Question(name, columns, where=f"sex = '{sex}' AND ill = {ill}"), frame)
            assert value == alone


@pytest.mark.slow
@examples(15)
@given(people, st.sampled_from([0.1, 0.5, 0.75, 0.99]), st.sampled_from([2, 8, 64]))
def test_a_quantile_is_right_to_within_its_bins(rows, share, bins) -> None:
    frame = frame_of(rows)
    ages = clamped(frame)
    found = exactly(Question("quantile", ("age",), quantile=share, bins=bins), frame)
    assert LOW <= found <= HIGH
    if len(ages):
        width = WIDTH / bins
        assert (ages < found - width - 1e-9).mean() <= share
        assert (ages > found + width + 1e-9).mean() <= 1 - share


@pytest.mark.slow
@examples(15)
@given(st.integers(0, 2**32 - 1), st.integers(3, 200), st.floats(-1, 1))
@example(103444004, 3, 0.0)
def test_a_correlation_is_what_numpy_computes(seed, size, slope) -> None:
    rng = np.random.default_rng(seed)
    age = rng.uniform(LOW, HIGH, size)
    score = np.round(3 + slope * (age - 54) / 6 + rng.normal(0, 2, size)).astype(int)
    frame = frame_of([(a, s, "male", True) for a, s in zip(age, score, strict=True)])
    exact = np.corrcoef(age, np.clip(score, -5, 11))[0, 1]
    if not np.isnan(exact):
        # Values land on grids of 2^16 steps, which moves a correlation the more, the less the values differ.
        step = 2.0**-16
        ages, scores = np.var((age - LOW) / WIDTH), np.var((np.clip(score, -5, 11) + 5) / 16)
        off = 5 * step / np.sqrt(ages * scores) + abs(exact) * 3 * step * (1 / ages + 1 / scores)
        assert exactly(Question("correlation", ("age", "score")), frame) == pytest.approx(exact, abs=off)


def test_no_rows_and_no_spread_have_an_answer() -> None:
    nobody = frame_of([])
    assert exactly(Question("correlation", ("age", "score")), nobody) == 0.0
    alike = frame_of([(40.0, 3, "male", True)] * 5)
    assert exactly(Question("correlation", ("age", "score")), alike) == 0.0
    assert exactly(Question("quantile", ("age",), quantile=0.5, bins=8), nobody) == LOW
    assert exactly(Question("mean", ("age",), by=("sex",)), alike) == {
        "female": (LOW + HIGH) / 2,
        "male": pytest.approx(40.0, abs=1e-4),
    }


def test_of_one_person_at_most_the_declared_rows_count_whatever_is_asked() -> None:
    rows = 3
    frame = pd.concat([frame_of([(40.0, 4, "male", True)] * 10)] * 3, ignore_index=True)
    frame["who"] = ["busy"] * 20 + [f"p{i // 2}" for i in range(10)]
    counted = rows + 10
    assert exactly(Question("count"), frame, rows) == counted
    assert exactly(Question("sum", ("score",)), frame, rows) == pytest.approx(4 * counted)
    assert exactly(Question("histogram", ("age",), bins=2), frame, rows) == {"18 to 54": counted, "54 to 90": 0}
    assert exactly(Question("count", by=("sex",)), frame, rows) == {"female": 0, "male": counted}
    assert exactly(Question("count"), frame, 1) == 6  # busy, p0 to p4


@pytest.mark.slow
def test_a_person_in_several_groups_moves_all_of_them_no_further_than_the_noise_hides() -> None:
    rows = 3
    everybody = frame_of([(LOW + 2 * i, 5, "male", True) for i in range(30)])
    mine = frame_of([(HIGH, 11, "male", True), (LOW, -5, "female", False), (54.0, 3, "female", True)])
    mine["who"] = "me"
    for question in (
        Question("count", by=("sex", "ill")),
        Question("sum", ("score",), by=("sex", "ill")),
        Question("mean", ("age",), by=("sex", "ill")),
        Question("variance", ("age",), by=("sex", "ill")),
        Question("histogram", ("age",), bins=6),
        Question("quantile", ("age",), quantile=0.5, bins=64),
        Question("correlation", ("age", "score")),
    ):
        plan = question.plan(schema(rows), epsilon=0.5)
        totals = [
            plan.totals(frame_table(schema(rows), pd.concat([everybody, *more], ignore_index=True)))
            for more in ([], [mine], [mine, mine, mine])
        ]
        allowed = plan.transformation.sensitivity(schema(rows).change)
        for world in totals[1:]:
            moved = (world - totals[0]).astype(object)
            assert 0 < np.abs(moved).sum() <= allowed.l1
            assert (moved * moved).sum() <= allowed.l2_squared
        assert len(totals[0]) == plan.size == allowed.coordinates


REFUSED: list[tuple[Question, str]] = [
    (Question("mean", ("nosuch",)), "column"),
    (Question("mean", ("who",)), "column"),
    (Question("mean", ("sex",)), "column"),
    (Question("sum", ("seen",)), "column"),
    (Question("sum", ("far",)), "column"),
    (Question("histogram", ("note",)), "column"),
    (Question("histogram", ("age",)), "bins"),
    (Question("histogram", ("sex",), bins=4), "bins"),
    (Question("histogram", ("age",), bins=(10.0, 40.0)), "bins"),
    (Question("histogram", ("age",), bins=(40.0, 90.0)), "bins"),
    (Question("histogram", ("far",), bins=10_000_000), "bins"),
    (Question("count", by=("note",)), "by"),
    (Question("count", by=("who",)), "by"),
    (Question("count", by=("age",)), "by"),
    (Question("correlation", ("age", "sex")), "columns"),
    (Question("correlation", ("nosuch", "age")), "columns"),
    (Question("count", where="nosuch = 1"), "where"),
    (Question("count", where="who = 'p1'"), "where"),
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("question", "field"), REFUSED, ids=lambda v: str(v))
def test_a_schema_that_cannot_answer_is_refused_naming_the_field(question, field) -> None:
    with pytest.raises(Mistake) as refused:
        question.plan(schema(), epsilon=1)
    assert refused.value.argument == field


def test_groups_are_limited() -> None:
    many = {**COLUMNS, **{f"c{i}": {"type": "integer", "values": list(range(40))} for i in range(3)}}
    wide = schema_of({"unit": "person", "columns": many})
    for question in (Question("mean", ("age",), by=("c0", "c1")), Question("count", by=("c0", "c1", "c2"))):
        with pytest.raises(Mistake, match="groups"):
            question.plan(wide)
    assert Question("count", by=("c0", "c1")).plan(wide).groups.count == 1600


def test_groups_that_would_sound_alike_are_told_apart() -> None:
    alike = Groups((Axis("a", values=("x", "x, y")), Axis("b", values=("y, z", "z"))))
    assert len(set(alike.names)) == 4
    assert alike.names[0] == '["x", "y, z"]'
    assert Groups((Axis("a", values=(True, False)),)).names == ["True", "False"]


def test_an_answer_by_one_declared_value_still_names_it() -> None:
    one = schema_of({"unit": "event", "columns": {"only": {"type": "string", "values": ["this"]}}})
    plan = Question("histogram", ("only",)).plan(one)
    assert plan.finish(np.array([3.0]), noise_for(plan, one, epsilon=1, delta=0), (0.5,)).value == {"this": 3.0}


def test_totals_that_no_rows_have_are_refused() -> None:
    for question in (
        Question("count", by=("sex",)),
        Question("mean", ("age",)),
        Question("variance", ("age",)),
        Question("quantile", ("age",), quantile=0.5),
        Question("correlation", ("age", "score")),
    ):
        plan = question.plan(schema(), epsilon=0.2)
        honest = plan.totals(frame_table(schema(), frame_of([(30.0, 3, "male", True), (80.0, 9, "female", True)])))
        plan.examine(honest)
        bent = honest.copy()
        bent[0] -= bent[0] + 1
        broken = [bent]
        if question.statistic != "count":  # a count may be any
            broken.append(honest + np.eye(len(honest), dtype=np.int64)[0])
        for totals in broken:
            with pytest.raises(Mistake) as refused:
                plan.examine(totals)
            assert refused.value.argument == "payload.totals"


def test_the_plan_is_the_same_however_many_rows_a_person_may_have() -> None:
    for question in (Question("sum", ("age",)), Question("quantile", ("age",), quantile=0.5), REFUSED[0][0]):
        if question.columns == ("nosuch",):
            continue
        one, many = (question.plan(schema(rows), epsilon=0.01, delta=1e-6) for rows in (1, 10_000))
        assert (one.sums, one.size, one.parameters) == (many.sums, many.size, many.parameters)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 1e4])
def test_noise_fits_at_any_budget_and_for_any_number_of_rows(epsilon) -> None:
    for rows in (1, 10_000):
        for question in (
            Question("count"),
            Question("sum", ("age",)),
            Question("sum", ("score",)),
            Question("mean", ("age",)),
            Question("variance", ("age",)),
            Question("quantile", ("age",), quantile=0.9),
            Question("correlation", ("age", "score")),
        ):
            plan: Plan = question.plan(schema(rows), epsilon=epsilon)
            noise = noise_for(plan, schema(rows), epsilon=epsilon, delta=0)
            assert noise.scale >= plan.row.reach.l1 * rows / epsilon * (1 - 1e-12)


def test_the_loosest_schema_is_that_of_the_most_rows() -> None:
    assert loosest([schema(1), schema(7), schema(3)]).max_rows_per_unit == 7


def brute(levels: tuple[int, ...], share: float, seed: int) -> float:
    """The variance of T at its middle edge, from draws."""
    rng = np.random.default_rng(seed)
    axis = Axis("age", edges=tuple(np.linspace(LOW, HIGH, levels[-1] + 1).tolist()))
    from thebes.privacy.transformations.counts import LevelCounts

    plan = QuantilePlan(Groups(), None, axis, share, LevelCounts(levels))
    drawn = [plan._steps(rng.normal(size=sum(levels)))[levels[-1] // 2 - 3] for _ in range(4000)]
    return float(np.var(drawn))


@pytest.mark.few(1)
@pytest.mark.parametrize("levels", [(16,), (4, 16), (2, 4, 8, 16), (8, 32)])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_variance_of_a_quantiles_counts_is_what_draws_say(levels, share) -> None:
    assert brute(levels, share, 1) == pytest.approx(variances(levels, share)[levels[-1] // 2 - 3], rel=0.15)


def test_levels_are_those_with_the_least_expected_error() -> None:
    assert levels_for(64, 0.5, epsilon=1, delta=0) == (64,)  # few bins: a histogram
    assert levels_for(4096, 0.5, epsilon=1, delta=0)[-1] == 4096
    assert 1 < len(levels_for(4096, 0.5, epsilon=1, delta=0)) < 5
    many = levels_for(4096, 0.5, epsilon=0.1, delta=0.1)  # Gaussian noise grows with the root of the levels only
    assert len(many) > len(levels_for(4096, 0.5, epsilon=0.1, delta=0))
    assert all(fine % coarse == 0 for coarse, fine in pairwise(many))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"statistic": "count", "columns": ("age",)}, "column"),
    ({"statistic": "mean"}, "column"),
    ({"statistic": "mean", "columns": ("age",), "quantile": 0.5}, "quantile"),
    ({"statistic": "mean", "columns": ("age",), "bins": 3}, "bins"),
    ({"statistic": "quantile", "columns": ("age",)}, "quantile"),
    ({"statistic": "quantile", "columns": ("age",), "quantile": 0.5, "bins": 100}, "bins"),
    ({"statistic": "quantile", "columns": ("age",), "quantile": 0.5, "bins": (3.0,)}, "bins"),
    ({"statistic": "histogram", "columns": ("age",), "bins": 4, "by": ("sex",)}, "by"),
    ({"statistic": "histogram", "columns": ("age",), "bins": 1}, "bins"),
    ({"statistic": "histogram", "columns": ("age",), "bins": (3.0, 3.0)}, "bins"),
    ({"statistic": "histogram", "columns": ("age",), "bins": ()}, "bins"),
    ({"statistic": "count", "by": ("sex", "sex")}, "by"),
    ({"statistic": "correlation", "columns": ("age",)}, "columns"),
    ({"statistic": "correlation", "columns": ("age", "age")}, "columns"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG, ids=lambda v: str(v))
def test_fields_that_do_not_go_together_are_named(fields, field) -> None:
    wrong = Question(**fields).problem()
    assert wrong is not None
    assert wrong[0] == field
