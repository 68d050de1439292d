"""Running a featurizer for every person of a population at once, with the meaning it has in one person's store.

A plain projection is read off the columns; a row-by-row SELECT runs once over everybody; anything that groups,
orders, joins or looks around runs as written, once for each person, over views that show this person's rows only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from thebes.data.featurizer import Featurizer, read
from thebes.data.rows import FAILURES, Rows
from thebes.privacy.faults import Fault, Mistake
from thebes.simulation.tables import Population, Table

MOST_ROWS = 1000  #: of one person's answer
_PERSON, _NOW, _ALL = "thebes person", "thebes now", "thebes all "
_MOST_COLLECTORS = 10  # databases that SQLite attaches
_OTHER = np.uint8(1 + FAILURES.index("other"))


def featurize(sql: str, population: Population) -> Rows:
    """What every person's featurizer gives. A person for whom it fails has no row and a failure class."""
    featurizer = read(sql)
    _check_columns(featurizer, population)
    plain = _plain_projection(featurizer, population)
    if plain is not None:
        return plain
    try:
        if featurizer.row_by_row:
            return _all_at_once(featurizer, population)
    except sqlite3.Error:
        pass  # for somebody it fails; let it fail for that person only
    return _one_by_one(featurizer, population)


def _check_columns(featurizer: Featurizer, population: Population) -> None:
    every = {name: population.table(name) for name in featurizer.tables}
    renamed = _renamed(featurizer)
    for name, columns in featurizer.tables.items():
        for column in columns:
            if all(table.column(column) is None for table in every.values()) and column.lower() not in renamed:
                raise Mistake("rows", f"has no column {column!r}, which the featurizer reads from {name}")


def _renamed(featurizer: Featurizer) -> set[str]:
    """Names that the SQL itself gives to something."""
    from sqlglot import exp, parse_one

    tree = parse_one(featurizer.sql, read="sqlite")
    of_tables = (column.name for alias in tree.find_all(exp.TableAlias) for column in alias.columns)
    return {name.lower() for name in (*(a.alias for a in tree.find_all(exp.Alias)), *of_tables)}


def _plain_projection(featurizer: Featurizer, population: Population) -> Rows | None:
    from sqlglot import exp, parse_one

    tree = parse_one(featurizer.sql, read="sqlite")
    if not featurizer.row_by_row or not isinstance(tree, exp.Select) or tree.args.get("where"):
        return None
    table = population.table(next(iter(featurizer.tables)))
    columns: dict[str, NDArray[np.generic]] = {}
    for output, expression in zip(featurizer.outputs, tree.expressions, strict=True):
        inner = expression.this if isinstance(expression, exp.Alias) else expression
        column = table.column(inner.name) if isinstance(inner, exp.Column) else None
        if column is None:
            return None
        columns[output] = column
    rows = Rows(columns, table.person, population.people, np.zeros(population.people, dtype=np.uint8))
    return rows if len(table.person) == population.people else rows.at_most(MOST_ROWS)


def _all_at_once(featurizer: Featurizer, population: Population) -> Rows:
    name = next(iter(featurizer.tables))
    collector, short = name.split(".", 1)
    with sqlite3.connect(":memory:") as engine:
        engine.execute(f"ATTACH ':memory:' AS {_quoted(collector)}")
        _fill(engine, _quoted(collector), short, population.table(name))
        # The rows come in the order they are stored in, which is that of the people.
        found = engine.execute(_with_person(featurizer.sql)).fetchall()
    rows = _rows(featurizer, population, found, np.zeros(population.people, dtype=np.uint8))
    return rows.at_most(MOST_ROWS)


def _with_person(sql: str) -> str:
    """The statement as written, giving the person as a last column. (Printing a parsed statement may change it.)"""
    import sqlglot
    from sqlglot.tokenizer_core import TokenType

    depth = 0
    for token in sqlglot.tokenize(sql, read="sqlite"):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.FROM and depth == 0:
            return f"{sql[: token.start]}, {_quoted(_PERSON)} {sql[token.start :]}"
    raise Fault("a featurizer that reads a table has no FROM")


def _one_by_one(featurizer: Featurizer, population: Population) -> Rows:
    failures = np.zeros(population.people, dtype=np.uint8)
    found: list[tuple[object, ...]] = []
    with sqlite3.connect(":memory:") as engine:
        collectors = _attach(engine, featurizer, population)
        for person in range(population.people):
            for collector in collectors:
                engine.execute(f"UPDATE {collector}.{_quoted(_NOW)} SET person = ?", (person,))  # noqa: S608
            try:
                found.extend((*row, person) for row in engine.execute(featurizer.sql).fetchmany(MOST_ROWS))
            except sqlite3.Error:
                failures[person] = _OTHER
    return _rows(featurizer, population, found, failures)


def _attach(engine: sqlite3.Connection, featurizer: Featurizer, population: Population) -> list[str]:
    """One database for each collector, in which each table is a view of one person's rows."""
    spelled = {name.lower(): name for name in featurizer.tables}  # SQL does not mind upper and lower case
    collectors = sorted({_quoted(name.split(".")[0]) for name in spelled})
    if len(collectors) > _MOST_COLLECTORS:
        raise Mistake("featurizer", f"reads from more than {_MOST_COLLECTORS} collectors")
    for collector in collectors:
        engine.execute(f"ATTACH ':memory:' AS {collector}")
        engine.execute(f"CREATE TABLE {collector}.{_quoted(_NOW)} AS SELECT -1 AS person")
    for lowered, name in spelled.items():
        collector, short = lowered.split(".", 1)
        table, stored = population.table(name), _ALL + short
        _fill(engine, _quoted(collector), stored, table)
        shown = ", ".join(_quoted(column) for column in table.columns)
        engine.execute(
            f"CREATE VIEW {_quoted(collector)}.{_quoted(short)} AS SELECT {shown} FROM {_quoted(stored)} "  # noqa: S608
            f"WHERE {_quoted(_PERSON)} = (SELECT person FROM {_quoted(_NOW)})"
        )
    return collectors


def _fill(engine: sqlite3.Connection, database: str, name: str, table: Table) -> None:
    names = ", ".join(_quoted(column) for column in [*table.columns, _PERSON])
    marks = ", ".join("?" for _ in [*table.columns, _PERSON])
    values: list[Iterable[object]] = [_cells(column) for column in table.columns.values()]
    try:
        engine.execute(f"CREATE TABLE {database}.{_quoted(name)} ({names})")
        engine.executemany(
            f"INSERT INTO {database}.{_quoted(name)} VALUES ({marks})",  # noqa: S608
            zip(*values, table.person.tolist(), strict=True),
        )
    except sqlite3.OperationalError:
        raise Mistake("rows", "two columns have names that SQL does not tell apart, or a table has too many") from None
    except (OverflowError, UnicodeEncodeError):
        raise Mistake("rows", "hold a whole number beyond 64 bits, or text that is not Unicode") from None
    engine.execute(f"CREATE INDEX {database}.{_quoted(name + ' by person')} ON {_quoted(name)} ({_quoted(_PERSON)})")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cells(column: NDArray[np.generic]) -> list[object]:
    cells: list[object] = column.tolist()
    if column.dtype.kind == "O":
        return [c if c is None or isinstance(c, (int, float, str, bytes)) else str(c) for c in cells]
    return cells


def _rows(
    featurizer: Featurizer, population: Population, found: list[tuple[object, ...]], failures: NDArray[np.uint8]
) -> Rows:
    person = np.fromiter((row[-1] for row in found), dtype=np.int64, count=len(found))
    columns: dict[str, NDArray[np.generic]] = {}
    for position, output in enumerate(featurizer.outputs):
        column = np.empty(len(found), dtype=object)
        column[:] = [row[position] for row in found]
        columns[output] = column
    return Rows(columns, person, population.people, failures)
