"""A statement that is accepted early is not too large for any owner's sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import apsw
import pytest

from thebes.data import extent
from thebes.data.featurizer import LARGEST, read
from thebes.data.sandbox import walls
from thebes.data.store import Store
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.posting_rules import check_postable

T = "profile.demographics"

#: statements that grow with a number
GROWING: dict[str, Callable[[int], str]] = {
    "or": lambda n: f"SELECT age AS x FROM {T} WHERE " + " OR ".join(["age = 1"] * n),
    "plus": lambda n: "SELECT " + "+".join(["1"] * n) + f" AS x FROM {T}",
    "minus": lambda n: "SELECT " + "- " * n + f"age AS x FROM {T}",
    "not": lambda n: "SELECT " + "NOT " * n + f"age AS x FROM {T}",
    "calls": lambda n: "SELECT " + "abs(" * n + "age" + ")" * n + f" AS x FROM {T}",
    "joined text": lambda n: "SELECT " + "||".join(["name"] * n) + f" AS x FROM {T}",
    "cases": lambda n: "SELECT CASE " + "WHEN age > 1 THEN 1 " * n + f"ELSE 2 END AS x FROM {T}",
    "list": lambda n: f"SELECT age AS x FROM {T} WHERE id IN (" + ",".join(["id"] * n) + ")",
    "scalar subqueries": lambda n: "SELECT " + "(SELECT 1 + max(age) + " * n + "1" + f" FROM {T})" * n + " AS x",
    "exists": lambda n: f"SELECT age AS x FROM {T} WHERE " + f"EXISTS (SELECT 1 FROM {T} WHERE " * n + "1" + ")" * n,
    "in subqueries": lambda n: (
        f"SELECT age AS x FROM {T} WHERE " + f"id IN (SELECT id FROM {T} WHERE " * n + "1" + ")" * n
    ),
    "tables in tables": lambda n: "SELECT x FROM " + "(SELECT max(x) x FROM " * n + f"(SELECT 1 x FROM {T})" + ")" * n,
    "union": lambda n: " UNION ".join([f"SELECT age AS x FROM {T}"] * n),
    "columns": lambda n: "SELECT 1 AS x FROM (SELECT " + ",".join(f"age AS c{i}" for i in range(n)) + f" FROM {T})",
    "group": lambda n: f"SELECT 1 AS x FROM {T} GROUP BY " + ",".join(f"age+{i}" for i in range(n)),
    "order": lambda n: f"SELECT 1 AS x FROM {T} ORDER BY " + ",".join(f"age+{i}" for i in range(n)),
    "arguments": lambda n: "SELECT max(" + ",".join(["age"] * n) + f") AS x FROM {T}",
    "more arguments": lambda n: "SELECT strftime('%Y', '2020-01-01'" + ", '+1 day'" * n + f") AS x FROM {T}",
    "pattern": lambda n: f"SELECT name LIKE '{'é' * n}' AS x FROM {T}",
    "another pattern": lambda n: f"SELECT name GLOB '{'a' * n}' AS x FROM {T}",
    "a called pattern": lambda n: f"SELECT like('{'a' * n}', name) AS x FROM {T}",
    "join": lambda n: "SELECT a0.age AS x FROM " + ", ".join(f"{T} AS a{i}" for i in range(n)) + " WHERE 0",
    "values": lambda n: "VALUES " + ",".join(["(1)"] * n),
    "one row of values": lambda n: "VALUES (" + ",".join(["1"] * n) + ")",
    "windows": lambda n: "SELECT " + ",".join(f"sum(age) OVER (ORDER BY id+{i}) c{i}" for i in range(n)) + f" FROM {T}",
    "counts": lambda n: (
        "SELECT 1 AS x FROM (SELECT " + ",".join(f"count(DISTINCT age+{i}) AS c{i}" for i in range(n)) + f" FROM {T})"
    ),
    "doubling with": lambda n: (
        f"WITH a0 AS (SELECT age AS x FROM {T})"
        + "".join(f", a{i} AS (SELECT p.x FROM a{i - 1} AS p JOIN a{i - 1} AS q)" for i in range(1, n))
        + f" SELECT x FROM a{n - 1}"
    ),
    "doubling union": lambda n: (
        f"WITH a0 AS (SELECT age AS x FROM {T})"
        + "".join(f", a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})" for i in range(1, n))
        + f" SELECT x FROM a{n - 1}"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("home"), key=b"k" * 32) as made:
        columns = {"id": {"type": "integer"}, "age": {"type": "float"}, "name": {"type": "string"}}
        made.register("profile", {"demographics": {"columns": columns}})
        made.insert("profile", "demographics", [{"id": n, "age": n / 2, "name": f"n{n}"} for n in range(3)])
        yield made


def refusal(sql: str) -> str | None:
    try:
        read(sql)
    except Mistake as refused:
        return str(refused)
    return None


@pytest.mark.few(1)
@pytest.mark.parametrize("name", GROWING)
def test_the_largest_that_is_accepted_runs_and_the_next_one_is_refused_with_a_reason(store: Store, name: str) -> None:
    written = GROWING[name]
    good, bad = 1, 2
    while refusal(written(bad)) is None:
        good, bad = bad, 2 * bad
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if refusal(written(middle)) is None else (good, middle)
    assert good >= 6
    assert len(written(bad)) < LARGEST
    assert store.preview(written(good), most_rows=3) is not None
    reason = refusal(written(bad))
    assert reason is not None
    assert "owners' sandboxes take nothing larger" in reason or "not SQL that SQLite understands" in reason


def test_what_is_counted_lies_within_the_sandboxs_own_limits() -> None:
    assert walls._LIMITS[apsw.SQLITE_LIMIT_EXPR_DEPTH] >= extent.DEEPEST
    assert walls._LIMITS[apsw.SQLITE_LIMIT_COMPOUND_SELECT] >= extent.MOST_SELECTS
    assert walls._LIMITS[apsw.SQLITE_LIMIT_COLUMN] >= extent.MOST_COLUMNS
    assert walls._LIMITS[apsw.SQLITE_LIMIT_FUNCTION_ARG] >= extent.MOST_ARGUMENTS
    assert walls._LIMITS[apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH] >= extent.LONGEST_PATTERN
    assert walls._LIMITS[apsw.SQLITE_LIMIT_SQL_LENGTH] >= 4 * LARGEST
    assert apsw.Connection(":memory:").limit(apsw.SQLITE_LIMIT_ATTACHED) >= extent.MOST_TABLES


def test_a_document_is_refused_before_it_reaches_anybody() -> None:
    import thebes

    bounds = {"x": {"type": "range", "low": 0, "high": 1}}
    document = {"type": "basic", "epsilon": 1, "min_count": 11, "aggregator": "median", "bounds": bounds}
    with pytest.raises(Mistake, match=r"^featurizer: joins more than 10 SELECTs"):
        thebes.simulate({**document, "featurizer": GROWING["union"](11)}, {"age": [1.0]})


def test_what_gives_more_columns_than_a_store_can_be_simulated_and_not_put_up() -> None:
    wide = {f"c{n}": {"type": "range", "low": 0, "high": 1} for n in range(extent.MOST_COLUMNS + 1)}
    document = {"type": "bounded", "epsilon": 500, "min_count": 11, "bounds": wide}
    document = {**document, "featurizer": f"SELECT {', '.join(wide)} FROM profile.demographics"}
    with pytest.raises(InvalidDocument, match=r"^featurizer: gives more than 250 columns"):
        check_postable(registry.check(document), datetime.now(UTC))
