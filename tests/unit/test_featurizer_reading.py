"""Reading a featurizer: what passes, what it touches, and what is refused before anything runs."""

from __future__ import annotations

import pytest

from thebes.data.featurizer import LARGEST, read
from thebes.privacy.faults import Mistake


@pytest.mark.parametrize(
    ("sql", "tables", "outputs", "row_by_row"),
    [
        ("SELECT age FROM p.t", {"p.t": ("age",)}, ("age",), True),
        ("SELECT a AS b, a + 1 AS c FROM p.t WHERE d > 2;", {"p.t": ("a", "d")}, ("b", "c"), True),
        ('SELECT "a" AS "b c", [d], `e` FROM "p"."t"', {"p.t": ("a", "d", "e")}, ("b c", "d", "e"), True),
        ("SELECT p.t.a FROM p.t -- why not", {"p.t": ("a",)}, ("a",), True),
        ("SELECT count(*) AS n FROM p.t", {"p.t": ()}, ("n",), False),
        ("SELECT total(a) AS n FROM p.t", {"p.t": ("a",)}, ("n",), False),
        ("SELECT max(a) AS n FROM p.t", {"p.t": ("a",)}, ("n",), False),
        ("SELECT max(a, 0) AS n FROM p.t", {"p.t": ("a",)}, ("n",), True),
        ("SELECT DISTINCT a FROM p.t", {"p.t": ("a",)}, ("a",), False),
        ("SELECT a FROM p.t ORDER BY b LIMIT 1", {"p.t": ("a", "b")}, ("a",), False),
        ("SELECT a, sum(a) OVER () AS s FROM p.t", {"p.t": ("a",)}, ("a", "s"), False),
        ("SELECT x.a, y.b FROM p.t AS x JOIN q.u AS y ON x.i = y.i", {"p.t": ("a", "i"), "q.u": ("b", "i")},
         ("a", "b"), False),
        ("SELECT a FROM p.t WHERE a IN (SELECT b FROM q.u)", {"p.t": ("a", "b"), "q.u": ("a", "b")}, ("a",), False),
        ("WITH c AS (SELECT a FROM p.t) SELECT a FROM c", {"p.t": ("a",)}, ("a",), False),
        ("SELECT a FROM p.t UNION SELECT b FROM q.u", {"p.t": ("a", "b"), "q.u": ("a", "b")}, ("a",), False),
        ("SELECT CASE WHEN a IS NULL THEN 0 ELSE 1 END AS has FROM p.t", {"p.t": ("a",)}, ("has",), True),
        ("SELECT CAST(strftime('%Y', born) AS INTEGER) AS year FROM p.t", {"p.t": ("born",)}, ("year",), True),
        ("SELECT a FROM p.t WHERE a LIKE 'x%' AND NOT b GLOB '*' OR c BETWEEN 1 AND 2", {"p.t": ("a", "b", "c")},
         ("a",), True),
        ("VALUES (1, 'a')", {}, ("column1", "column2"), False),
        ("SELECT 1 AS one", {}, ("one",), False),
        ("SELECT 'é' AS é FROM p.t", {"p.t": ()}, ("é",), True),
    ],
)  # fmt: skip
def test_a_select_over_collectors_tables_is_read(sql, tables, outputs, row_by_row) -> None:
    found = read(sql)
    assert (found.tables, found.outputs, found.row_by_row) == (tables, outputs, row_by_row)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("", "SELECT"),
        (" \n", "SELECT"),
        ("SELECT \0 FROM p.t", "SELECT"),
        ("hello", "SELECT"),
        ("SELECT FROM WHERE", "SQL"),
        ("SELECT --a FROM p.t", "column"),
        ("INSERT INTO p.t VALUES (1)", "read"),
        ("UPDATE p.t SET a = 1", "read"),
        ("DELETE FROM p.t", "read"),
        ("DROP TABLE p.t", "read"),
        ("CREATE TABLE p.u AS SELECT a FROM p.t", "read"),
        ("REPLACE INTO p.t VALUES (1)", "read"),
        ("ATTACH 'x.db' AS y", "read"),
        ("PRAGMA table_info(t)", "read"),
        ("VACUUM", "read"),
        ("BEGIN", "read"),
        ("EXPLAIN SELECT a FROM p.t", "read"),
        ("SELECT a FROM p.t; SELECT b FROM p.t", "one statement"),
        ("SELECT a FROM p.t; DROP TABLE p.t", "one statement"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n", "RECURSIVE"),
        ("SELECT * FROM p.t", "name its columns"),
        ("SELECT t.* FROM p.t", "name its columns"),
        ("SELECT a, a FROM p.t", "two columns"),
        ("SELECT a FROM t", "collector.table"),
        ("SELECT a FROM x.p.t", "collector.table"),
        ("SELECT name FROM sqlite_master", "collector.table"),
        ("SELECT name FROM main.sqlite_master", "collectors' tables"),
        ("SELECT name FROM p.sqlite_schema", "collectors' tables"),
        ("SELECT a FROM TEMP.t", "collectors' tables"),
        ("SELECT a FROM main.t", "collectors' tables"),
        ("SELECT a INTO b FROM p.t", "into"),
        ("SELECT random() AS r FROM p.t", "random"),
        ("SELECT a FROM p.t ORDER BY random()", "random"),
        ("SELECT randomblob(1000000000) AS r", "randomblob"),
        ("SELECT zeroblob(1000000000) AS r", "zeroblob"),
        ("SELECT hex(a) AS h FROM p.t", "hex"),
        ("SELECT printf('%.*c', 1000000000, 'x') AS s", "printf"),
        ("SELECT replace(a, '', 'x') AS s FROM p.t", "replace"),
        ("SELECT group_concat(a) AS s FROM p.t", "group_concat"),
        ("SELECT load_extension('x') AS s", "load_extension"),
        ("SELECT readfile('x') AS s", "readfile"),
        ("SELECT writefile('x', 'y') AS s", "writefile"),
        ("SELECT edit(a) AS s FROM p.t", "edit"),
        ("SELECT sqlite_version() AS s", "sqlite_version"),
        ("SELECT last_insert_rowid() AS s", "last_insert_rowid"),
        ("SELECT value FROM json_each('[1]')", "json_each"),
        ("SELECT value FROM generate_series(1, 1000000000)", "generate_series"),
        ("SELECT name FROM pragma_table_info('t')", "pragma_table_info"),
        ('SELECT "random"() AS r FROM p.t', "random"),
        ("SELECT greatest(a, b) AS r FROM p.t", "greatest"),
        ("SELECT a ->> 'x' AS r FROM p.t", "json"),
        ("SELECT a REGEXP 'x' AS r FROM p.t", "regexp"),
        ("SELECT a MATCH 'x' AS r FROM p.t", "match"),
        ("SELECT CURRENT_TIMESTAMP AS r FROM p.t", "current_timestamp"),
        ("SELECT a FROM p.t WHERE b = ?", "placeholder"),
        ("SELECT a FROM p.t WHERE b = :person", "placeholder"),
        ("SELECT a FROM p.t FOR UPDATE", "lock"),
        ("SELECT a FROM p.t TABLESAMPLE (10)", "tablesample"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "SQL"),
        ("SELECT " + "NOT " * 4000 + "a FROM p.t", "SQL"),
        ("SELECT '" + "x" * LARGEST + "' AS a", str(LARGEST)),
    ],
    ids=lambda v: v[:40].encode("unicode_escape").decode(),
)
def test_anything_else_is_refused_with_the_reason(sql, words) -> None:
    with pytest.raises(Mistake) as refused:
        read(sql)
    assert refused.value.argument == "featurizer"
    assert words.lower() in str(refused.value).lower()
    assert len(str(refused.value)) < 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql", ["SELECT " + "1+" * 6000 + "1 AS a", "SELECT a FROM p.t WHERE " + "a=1 OR " * 2000 + "a"]
)
def test_long_expressions_end_in_an_answer(sql: str) -> None:
    said = "a"
    try:
        said = read(sql).outputs[0]
    except Mistake as refused:
        said = refused.argument
    assert said in ("a", "featurizer")


def test_reading_touches_nothing_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for sql in ("SELECT a FROM p.t", "ATTACH 'evil.db' AS y"):
        try:
            read(sql)
        except Mistake:
            continue
    assert not list(tmp_path.iterdir())
