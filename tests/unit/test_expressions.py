"""Features made of declared columns: bounded whatever rows hold, the same in any company, and counted like columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.data.derived_columns import DerivedTable, derived_schema
from thebes.data.engines.source import frame_table
from thebes.data.expressions import check_expression, columns_in, read_expression
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake

SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": 3,
        "columns": {
            "who": {"type": "integer", "key": True},
            "a": {"type": "float", "low": -2, "high": 3},
            "b": {"type": "float", "low": 0.5, "high": 4},
            "n": {"type": "integer", "low": 0, "high": 9},
            "kind": {"type": "string", "values": ["x", "y", "z"]},
            "name": {"type": "string"},
        },
    }
)


def frame(size: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": draw.integers(0, size // 2, size),
            "a": draw.uniform(-3, 4, size),
            "b": np.where(draw.random(size) < 0.1, np.nan, draw.uniform(0, 5, size)),
            "n": draw.integers(-2, 12, size),
            "kind": draw.choice(["x", "y", "z", "?"], size),
            "name": "somebody",
        }
    )


LEAVES = st.one_of(
    st.sampled_from(["a", "b", "n"]),
    st.floats(-50, 50).map(lambda value: round(value, 3)),
    st.just({"is": ["kind", "y"]}),
)


def _nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    two = st.tuples(inner, inner).map(list)
    choices = st.sampled_from(["a >= 1", "kind IN ('x', 'z') AND n < 4", "NOT (b > 2 OR kind = 'y')"])
    return st.one_of(
        st.tuples(choices, inner, inner).map(lambda parts: {"if": list(parts)}),
        *(
            two.map(lambda parts, name=name: {name: parts})
            for name in ("add", "subtract", "multiply", "least", "greatest")
        ),
        *(inner.map(lambda part, name=name: {name: part}) for name in ("square", "abs")),
        inner.map(lambda part: {"clamp": [part, -7, 11.5]}),
        inner.map(lambda part: {"log": {"clamp": [part, 0.25, 90]}}),
        inner.map(lambda part: {"exp": {"clamp": [part, -5, 5]}}),
        inner.map(lambda part: {"sqrt": {"abs": part}}),
        st.tuples(inner, inner).map(lambda ab: {"divide": [ab[0], {"clamp": [ab[1], 1, 20]}]}),
    )


@pytest.mark.slow
@given(st.recursive(LEAVES, _nested, max_leaves=8))
@examples(40)
def test_an_expression_lies_within_its_bounds_and_is_the_same_in_any_company(body) -> None:
    check_expression(body, "f")
    try:
        made = read_expression(body, SCHEMA, "f")
    except Mistake:
        return
    assert set(made.columns) == set(columns_in(body))
    draw = np.random.default_rng(1)
    ends = {"a": (-2, 3), "b": (0.5, 4), "n": (0, 9), "kind": (0, 2)}
    rows = {name: np.append(draw.uniform(*ends[name], 100), ends[name]) for name in made.columns}
    rows = {name: np.rint(v) if name in ("n", "kind") else v for name, v in rows.items()}
    found = made.of(rows)
    assert ((made.low <= found) & (found <= made.high)).all()
    for some in (slice(1, None), slice(7, 8), slice(3, 90, 2)):
        assert np.array_equal(made.of({name: v[some] for name, v in rows.items()}), found[some])


def test_an_expression_says_what_it_says() -> None:
    rows = {"a": np.array([-2.0, 0.5, 3.0]), "b": np.array([1.0, 2.0, 4.0]), "kind": np.array([0.0, 1.0, 2.0])}
    for body, expected in (
        ({"divide": ["a", {"square": "b"}]}, [-2.0, 0.125, 3 / 16]),
        ({"add": ["a", "b", 1]}, [0.0, 3.5, 8.0]),
        ({"subtract": ["b", "a"]}, [3.0, 1.5, 1.0]),
        ({"multiply": [{"is": ["kind", "y"]}, "b"]}, [0.0, 2.0, 0.0]),
        ({"log": "b"}, np.log([1.0, 2.0, 4.0])),
        ({"least": [{"abs": "a"}, 1]}, [1.0, 0.5, 1.0]),
        ({"clamp": ["a", -1, 1]}, [-1.0, 0.5, 1.0]),
        ({"if": ["a > 0 AND kind <> 'z'", "b", -1]}, [-1.0, 2.0, -1.0]),
        ({"if": ["kind IN ('x', 'z')", {"if": ["a BETWEEN 0 AND 9", 7, "a"]}, 0]}, [-2.0, 0.0, 7.0]),
    ):
        np.testing.assert_allclose(read_expression(body, SCHEMA, "f").of(rows), expected)


def test_a_choice_of_words_takes_the_first_condition_that_holds_and_declares_its_values() -> None:
    rows = {"a": np.array([-2.0, 0.5, 3.0]), "b": np.array([1.0, 2.0, 4.0]), "kind": np.array([0.0, 1.0, 2.0])}
    for body, kind, values, expected in (
        ([["a < 0", "low"], ["a < 1 OR b > 3", "some"], "high"], "string", ("low", "some", "high"), [0.0, 1.0, 1.0]),
        ([["a > 0", 7], ["kind = 'x'", 9], 7], "integer", (7, 9), [1.0, 0.0, 0.0]),
        ([["kind IN ('x', 'z')", True], False], "boolean", (True, False), [0.0, 1.0, 0.0]),
    ):
        made = read_expression({"choose": body}, SCHEMA, "f")
        assert (made.column.type, made.column.values) == (kind, values)
        np.testing.assert_array_equal(made.of(rows), expected)


@pytest.mark.parametrize(
    "body",
    [
        None, True, [], {}, {"a": 1, "b": 2}, {"run": "a"}, {"add": ["a"]}, {"divide": ["a", "a"]}, {"log": "a"},
        {"sqrt": "a"}, {"exp": {"multiply": ["n", 1000]}}, "name", "who", "nobody", 3, {"add": [1, 2]}, "kind",
        {"if": ["a > 0", 1]}, {"if": [1, "a", "b"]}, {"if": ["name = 'x'", "a", 1]}, {"if": ["a >", "a", 1]},
        {"if": ["nobody = 1", "a", 1]}, {"if": ["who = 3", "a", 1]}, {"if": ["a > b", "a", 1]},
        {"choose": "x"}, {"choose": ["x"]}, {"choose": [["a > 0", "x"], "x"]}, {"choose": [["a > 0", "x"], 1]},
        {"choose": [["a > 0", 1.5], 2.5]}, {"choose": [["name = 'x'", "b"], "c"]}, {"choose": [[3, "b"], "c"]},
        {"choose": [["a > b", "b"], "c"]}, {"choose": [["a > 0"], "c"]}, {"choose": [["who = 3", "b"], "c"]},
        {"add": [{"choose": [["a > 0", "x"], "y"]}, 1]},
        {"is": ["kind", "w"]}, {"is": ["a", 1]}, {"is": "kind"}, {"is": ["name", "x"]}, {"clamp": ["a", 2, 1]},
        {"clamp": ["a", "b", 4]}, {"multiply": ["a", 1e99, 1e99]}, {"add": ["a", float("nan")]},
        {"add": ["a", 10**400]},        {"clamp": ["a", 5, 6]}, {"subtract": [{"clamp": ["a", 0, 1]}, 1e308]},
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused_by_the_name_of_its_field(body) -> None:
    with pytest.raises(Mistake) as refused:
        read_expression(body, SCHEMA, "features.f")
    assert refused.value.argument == "features.f"


def test_deep_or_long_expressions_are_refused_before_they_are_walked() -> None:
    deep: object = "a"
    for _ in range(5000):
        deep = {"abs": deep}
    wide = {"add": [{"add": ["a"] * 150}] * 2}
    for body in (deep, wide):
        for check in (lambda b: check_expression(b, "f"), lambda b: read_expression(b, SCHEMA, "f")):
            with pytest.raises(Mistake, match="nested deeper"):
                check(body)


# --- counted like columns --------------------------------------------------------------------------------------


FEATURES = {
    "ratio": {"divide": ["a", "b"]},
    "bold": {"multiply": ["n", {"is": ["kind", "x"]}]},
    "side": {"choose": [["a < 0", "left"], ["a < 1", "mid"], "right"]},
}


@pytest.mark.slow
def test_sums_of_features_are_those_of_the_same_columns_written_down() -> None:
    rows = frame(400).drop_duplicates("who").dropna()
    rows = rows.loc[rows["kind"] != "?"]
    own = derived_schema(FEATURES, SCHEMA)
    a, b, n = (rows[c].clip(SCHEMA.columns[c].low, SCHEMA.columns[c].high) for c in ("a", "b", "n"))
    written = rows.assign(ratio=a / b, bold=n * (rows["kind"] == "x"))
    written["side"] = np.select([a < 0, a < 1], ["left", "mid"], "right")
    derived, plain = DerivedTable(table := frame_table(SCHEMA, rows), FEATURES), frame_table(own, written)
    edges = tuple(np.linspace(own.columns["ratio"].low, own.columns["ratio"].high, 6))
    where = "kind <> 'z'"
    for wanted in (
        Sums((Term(), Term((Factor("ratio", 1, 0),)), Term((Factor("ratio", 1, 1),))), bits=20),
        Sums((Term((Factor("ratio", 2, 2), Factor("bold", 2, 1))), Term((Factor("bold", 2, 0),))), bits=16),
        Sums((Term((Factor("bold", 1, 1),)),), bits=22, axes=(Axis("kind", values=("y", "x")),)),
        Sums(
            (Term(),),
            axes=(Axis("ratio", edges=edges), Axis("kind", values=("x", "y", "z")), Axis("bold", edges=(0, 3, 9))),
        ),
        Sums((Term(), Term((Factor("ratio", 1, 1),))), axes=(Axis("side", values=("left", "mid", "right")),)),
    ):
        for asked in (None, where):
            one = Sums(wanted.terms, wanted.bits, wanted.axes, asked and read_filter(asked, SCHEMA))
            other = Sums(wanted.terms, wanted.bits, wanted.axes, asked and read_filter(asked, own))
            assert np.array_equal(derived.sums(one), plain.sums(other))
            assert derived.sums(one).sum() > 0
    assert table.schema is SCHEMA


def test_a_row_without_what_a_feature_needs_does_not_count() -> None:
    rows = frame(300).drop_duplicates("who")
    table = frame_table(SCHEMA, rows)
    (found,) = DerivedTable(table, FEATURES).sums(Sums((Term(), Term((Factor("ratio", 1, 1),)))))
    assert found[0] == rows["b"].notna().sum() < len(rows)
    (found,) = DerivedTable(table, FEATURES).sums(Sums((Term(), Term((Factor("bold", 1, 1),)))))
    assert found[0] == (rows["kind"] != "?").sum()


def test_of_a_person_no_more_rows_count_than_the_schema_says() -> None:
    rows = frame(300)
    rows["b"], rows["kind"] = 1.0, "x"
    table = frame_table(SCHEMA, rows)
    (found,) = DerivedTable(table, FEATURES).sums(Sums((Term(), Term((Factor("ratio", 1, 1),)))))
    assert found[0] == rows.groupby("who").size().clip(upper=3).sum()


def test_a_feature_cannot_take_a_columns_name_or_a_missing_column() -> None:
    with pytest.raises(Mistake, match="'A'"):
        derived_schema({"A": {"abs": "a"}}, SCHEMA)
    with pytest.raises(Mistake, match="gone"):
        derived_schema({"f": {"abs": "gone"}}, SCHEMA)
    assert derived_schema({}, SCHEMA) is SCHEMA
