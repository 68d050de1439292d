"""Conditions: what is read, and what is refused by the name of what it may not contain."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from thebes.data.filter import Among, Compared, Either, Every, Present, read_filter
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake

SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": 3,
        "columns": {
            "who": {"type": "string", "key": True},
            "age": {"type": "integer", "low": 0, "high": 120},
            "weight": {"type": "float", "low": 0, "high": 300},
            "sex": {"type": "string", "values": ["female", "male"]},
            "smoker": {"type": "boolean"},
            "seen": {"type": "timestamp"},
            "name": {"type": "string"},
            "floor": {"type": "integer", "values": [-2, 0, 7]},
        },
    }
)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("age >= 18", Compared("age", ">=", 18)),
        ("18 <= AGE", Compared("age", ">=", 18)),
        ("age != 3", Compared("age", "<>", 3)),
        ("age > -5", Compared("age", ">", -5)),
        ("age < 17.5", Compared("age", "<", 18)),
        ("age >= 17.5", Compared("age", ">=", 18)),
        ("age = 17.5", Either(())),
        ("age <> 17.5", Present("age")),
        ("age < 1e30", Present("age")),
        ("age >= 99999999999999999999", Either(())),
        ("age IN (1, 2.0, 2.5, 1)", Among("age", (1, 2))),
        ("age NOT IN (2.5)", Present("age")),
        ("weight > 3", Compared("weight", ">", 3.0)),
        ("smoker", Compared("smoker", "=", True)),
        ("NOT smoker", Compared("smoker", "=", False)),
        ("smoker <> TRUE", Compared("smoker", "<>", True)),
        ("sex IS NULL", Present("sex", there=False)),
        ("sex IS NOT NULL", Present("sex")),
        ("NOT sex IS NOT NULL", Present("sex", there=False)),
        ("name = 'it''s'", Compared("name", "=", "it's")),
        ("sex <> 'male'", Compared("sex", "<>", "male")),
        ("floor IN (7, -2.0)", Among("floor", (7, -2))),
        ("floor < 5", Compared("floor", "<", 5)),
        ("seen < '2026-01-31T01:00:00+02:00'", Compared("seen", "<", datetime(2026, 1, 30, 23))),
        (
            "NOT (age BETWEEN 3 AND 5 OR smoker)",
            Every((Either((Compared("age", "<", 3), Compared("age", ">", 5))), Compared("smoker", "=", False))),
        ),
        ('"age" < 3 AND (((smoker)))', Every((Compared("age", "<", 3), Compared("smoker", "=", True)))),
    ],
)
def test_a_condition_is_read_into_a_form_without_not(text: str, condition: object) -> None:
    read = read_filter(text, SCHEMA)
    assert read.text == text
    assert read.condition == condition


def test_a_filter_knows_which_columns_it_asks() -> None:
    assert read_filter("age > 3 AND (sex = 'male' OR age < 1)", SCHEMA).columns == ("age", "sex")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be a condition"),
        ("age > ", "is not a condition in SQL"),
        ("age > 1; age < 3", "exactly one condition"),
        ("age > 1; DROP TABLE rows", "exactly one condition"),
        ("DROP TABLE rows", "drop"),
        ("SELECT 1", "select"),
        ("EXISTS (SELECT 1)", "exists"),
        ("age IN (SELECT age FROM rows)", "query after IN"),
        ("(SELECT 1) > 3", "subquery"),
        ("lower(sex) = 'male'", "lower"),
        ("random() > 0.5", "rand"),
        ("read_text(sex) = 'male'", "anonymous"),
        ("CASE WHEN smoker THEN smoker END", "case"),
        ("CAST(age AS TEXT) = '3'", "cast"),
        ("age::text = '3'", "cast"),
        ("age + 1 > 3", "add"),
        ("sex LIKE 'm%'", "like"),
        ("sex || 'x' = 'malex'", "pipe"),
        ("age > weight", "another column"),
        ("age > ?", "placeholder"),
        ("age = NULL", "IS NULL"),
        ("age IN (1, NULL)", "IS NULL"),
        ("TRUE", "value where a condition"),
        ("1 = 1", "compares no column"),
        ("age", "compare it with a value"),
        ("smoker > FALSE", "orders"),
        ("who = 'x'", "does not offer"),
        ("height > 3", "does not offer"),
        ("rows.age > 3", "may not name a table"),
        ("age = 'three'", "not of its type, integer"),
        ("sex = 3", "not of its type, string"),
        ("smoker = 1", "not of its type, boolean"),
        ("sex = 'Klingon'", "not among its declared ones, 'female', 'male'$"),
        ("NOT 'Female' = sex", "not among its declared ones"),
        ("sex IN ('male', 'Klingon')", "not among its declared ones"),
        ("sex NOT IN ('Klingon')", "not among its declared ones"),
        ("floor = 3", "not among its declared ones, -2, 0, 7$"),
        ("floor IN (7, 3.5)", "not among its declared ones"),
        ("seen > 'yesterday'", "not a point in time"),
        ("weight > 1e999", "too large"),
        ("weight > 9007199254740993", "more digits"),
        ("age > 3 -- and so on", "comments"),
        ("age > /* 2 */ 3", "comments"),
        ("age BETWEEN SYMMETRIC 3 AND 1", "SYMMETRIC"),
        ("sex = 'male' COLLATE nocase", "collate"),
        ("(" * 30 + "smoker" + ")" * 30, "nested deeper"),
        ("(" * 1900 + "smoker" + ")" * 1900, "condition in SQL"),
        ("NOT " * 900 + "smoker", "condition in SQL"),
        ("age IN (" + ", ".join(map(str, range(1001))) + ")", "longer than|more than 1000"),
        ("smoker" + " " * 4000, "longer than"),
        ("sex = '\0'", "must be a condition"),
        ("sex = '\ud800'", "is not a condition"),
    ],
)
def test_everything_else_is_refused_by_its_name(text: str, says: str) -> None:
    with pytest.raises(Mistake) as refused:
        read_filter(text, SCHEMA)
    assert refused.value.argument == "where"
    assert re.search(says, refused.value.message), refused.value.message
    assert len(refused.value.message) < 200
    assert "three" not in refused.value.message


def test_a_long_chain_is_read_without_nesting() -> None:
    condition = read_filter(" AND ".join(["smoker"] * 350), SCHEMA).condition
    assert isinstance(condition, Every)
    assert len(condition.parts) == 350


def test_a_text_in_a_condition_is_never_repeated_in_a_refusal() -> None:
    for text in (
        "age = 'jane roe'",
        "sex LIKE 'jane roe'",
        "sex = 'jane roe'",
        "seen = 'jane roe'",
        "f('jane roe') = 1",
    ):
        with pytest.raises(Mistake) as refused:
            read_filter(text, SCHEMA)
        assert "jane" not in str(refused.value)
