"""Running a featurizer for every person of a population at once, with the meaning it has in one person's store.

A plain projection is read off the columns; a row-by-row SELECT runs once over everybody; anything that groups,
orders, joins or looks around runs as written, once for each person, over views that show this person's rows only.
Where people's cells of a column are of several types, so are their stores' columns: then each sort of people has
tables of its own, declared as their stores declare them, in the same engine.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import apsw
import numpy as np
from numpy.typing import NDArray

from thebes.data.featurizer import Featurizer, read
from thebes.data.rows import FAILURES, Indices, Rows
from thebes.privacy.faults import Fault, Mistake
from thebes.simulation.cells import DECLARATIONS, INTEGER, declared, declared_each
from thebes.simulation.tables import PersonTable, Population

MOST_ROWS = 1000  #: of one person's answer
_PERSON, _NOW, _ALL = "thebes person", "thebes now", "thebes all "
_MOST_COLLECTORS = 10  # databases that SQLite attaches
_OTHER = np.uint8(1 + FAILURES.index("other"))
_WRONG_TYPE = np.uint8(1 + FAILURES.index("wrong type"))

#: for each column of each table, as it is spelled there, how stores declare it
Declared = Mapping[tuple[str, str], str]


def featurize(sql: str, population: Population) -> Rows:
    """Return what every person's featurizer gives. A person for whom it fails has no row and a failure class."""
    featurizer = read(sql)
    _check_columns(featurizer, population)
    plain = _plain_projection(featurizer, population)
    if plain is not None:
        return plain
    _warn_of_whole(featurizer, population)
    found = [(people, _featurized(featurizer, some, types)) for people, some, types in _sorts(featurizer, population)]
    return found[0][1] if len(found) == 1 else _together(population.people, found)


def _featurized(featurizer: Featurizer, population: Population, types: Declared) -> Rows:
    """For people whose stores declare their columns alike."""
    try:
        if featurizer.row_by_row:
            return _all_at_once(featurizer, population, types)
    except apsw.Error:
        pass  # for somebody it fails; let it fail for that person only
    return _one_by_one(featurizer, population, types)


def _sorts(featurizer: Featurizer, population: Population) -> Iterator[tuple[Indices, Population, Declared]]:
    """(people, they alone, how their stores declare the columns) for every sort of people there is."""
    alike: dict[tuple[str, str], str] = {}
    apart: dict[tuple[str, str], NDArray[np.int64]] = {}
    for name, named in featurizer.tables.items():
        table = population.table(name)
        read = {column.lower() for column in named}
        for spelled, column in table.columns.items():
            kind = declared(column) if spelled.lower() in read else ""
            if kind is None:
                apart[name, spelled] = declared_each(column, table.person, population.people)
            else:
                alike[name, spelled] = kind
    if not apart:
        yield np.arange(population.people), population, alike
        return
    sorts, whose = np.unique(np.column_stack(list(apart.values())), axis=0, return_inverse=True)
    for number, sort in enumerate(sorts):
        people = np.flatnonzero(whose.ravel() == number)
        yield people, population.of(people), {**alike, **dict(zip(apart, (DECLARATIONS[i] for i in sort), strict=True))}


def _together(people: int, found: list[tuple[Indices, Rows]]) -> Rows:
    person = np.concatenate([whose[rows.person] for whose, rows in found])
    order = np.argsort(person, kind="stable")
    failures = np.zeros(people, dtype=np.uint8)
    for whose, rows in found:
        failures[whose] = rows.failures
    columns = {
        name: np.concatenate([np.asarray(rows.columns[name], dtype=object) for _, rows in found])[order]
        for name in found[0][1].columns
    }
    return Rows(columns, person[order], people, failures)


def _warn_of_whole(featurizer: Featurizer, population: Population) -> None:
    for name, columns in featurizer.tables.items():
        whole = {column.lower() for column in population.table(name).whole} & {column.lower() for column in columns}
        if whole:
            warnings.warn(
                f"pandas had made floats of the whole numbers in column {min(whole)!r}, because some are missing; they "
                "count as whole numbers here. Give the column as Int64, or as objects, to say which they are",
                stacklevel=3,
            )


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


def _all_at_once(featurizer: Featurizer, population: Population, types: Declared) -> Rows:
    name = next(iter(featurizer.tables))
    collector, short = name.split(".", 1)
    with _engine() as engine:
        engine.execute(f"ATTACH ':memory:' AS {_quoted(collector)}")
        _fill(engine, _quoted(collector), short, population.table(name), _of_table(types, name))
        # The rows come in the order they are stored in, which is that of the people.
        found = engine.execute(_with_person(featurizer.sql)).fetchall()
    return _rows(featurizer, population, found, np.zeros(population.people, dtype=np.uint8))


@contextmanager
def _engine() -> Iterator[apsw.Connection]:
    """The engine of people's stores, which takes a word in double quotes for a column and nothing else."""
    with closing(apsw.Connection(":memory:")) as engine:
        engine.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        engine.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        yield engine


def _with_person(sql: str) -> str:
    """Add the person as a last column to the statement as written. Printing a parsed statement may change it."""
    import sqlglot
    from sqlglot.tokenizer_core import TokenType

    depth = 0
    for token in sqlglot.tokenize(sql, read="sqlite"):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.FROM and depth == 0:
            return f"{sql[: token.start]}, {_quoted(_PERSON)} {sql[token.start :]}"
    raise Fault("a featurizer that reads a table has no FROM")


def _one_by_one(featurizer: Featurizer, population: Population, types: Declared) -> Rows:
    failures = np.zeros(population.people, dtype=np.uint8)
    found: list[tuple[object, ...]] = []
    with _engine() as engine:
        collectors = _attach(engine, featurizer, population, types)
        for person in range(population.people):
            for collector in collectors:
                engine.execute(f"UPDATE {collector}.{_quoted(_NOW)} SET person = ?", (person,))  # noqa: S608
            try:
                with closing(engine.cursor()) as cursor:
                    rows = cursor.execute(featurizer.sql)
                    found.extend((*row, person) for _, row in zip(range(MOST_ROWS), rows, strict=False))
            except apsw.Error:
                failures[person] = _OTHER
                while found and found[-1][-1] == person:
                    found.pop()
    return _rows(featurizer, population, found, failures)


def _attach(engine: apsw.Connection, featurizer: Featurizer, population: Population, types: Declared) -> list[str]:
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
        _fill(engine, _quoted(collector), stored, table, _of_table(types, name))
        shown = ", ".join(_quoted(column) for column in table.columns)
        engine.execute(
            f"CREATE VIEW {_quoted(collector)}.{_quoted(short)} AS SELECT {shown} FROM {_quoted(stored)} "  # noqa: S608
            f"WHERE {_quoted(_PERSON)} = (SELECT person FROM {_quoted(_NOW)})"
        )
    return collectors


def _of_table(types: Declared, table: str) -> dict[str, str]:
    return {column: kind for (name, column), kind in types.items() if name == table}


def _fill(engine: apsw.Connection, database: str, name: str, table: PersonTable, types: Mapping[str, str]) -> None:
    names = [_quoted(column) for column in [*table.columns, _PERSON]]
    kinds = [*(types[column] for column in table.columns), INTEGER]
    marks = ", ".join("?" for _ in names)
    values = [column.tolist() for column in table.columns.values()]
    try:
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
        engine.execute(f"CREATE TABLE {database}.{_quoted(name)} ({columns})")
        with engine:
            engine.executemany(
                f"INSERT INTO {database}.{_quoted(name)} VALUES ({marks})",  # noqa: S608
                zip(*values, table.person.tolist(), strict=True),
            )
    except apsw.SQLError:
        raise Mistake("rows", "two columns have names that SQL does not tell apart, or a table has too many") from None
    engine.execute(f"CREATE INDEX {database}.{_quoted(name + ' by person')} ON {_quoted(name)} ({_quoted(_PERSON)})")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rows(
    featurizer: Featurizer, population: Population, found: list[tuple[object, ...]], failures: NDArray[np.uint8]
) -> Rows:
    """Make rows of what came out, as a store's sandbox lets it out: an infinity is no measurement, and whoever's rows
    hold what is neither a number nor text has failed."""
    lines = np.fromiter((row[-1] for row in found), dtype=np.int64, count=len(found))
    columns: dict[str, NDArray[np.generic]] = {}
    failed = np.zeros(population.people, dtype=np.bool_)
    for position, output in enumerate(featurizer.outputs):
        cells = [row[position] for row in found]
        kinds = set(map(type, cells))
        if float in kinds:
            cells = [None if type(cell) is float and not math.isfinite(cell) else cell for cell in cells]
        column = np.fromiter(cells, dtype=object, count=len(cells))
        columns[output] = column
        if bytes in kinds:
            failed[[person for person, cell in zip(lines, cells, strict=True) if type(cell) is bytes]] = True
    rows = Rows(columns, lines, population.people, np.where(failed, _WRONG_TYPE, failures)).at_most(MOST_ROWS)
    if not failed.any():
        return rows
    kept = ~failed[rows.person]
    return Rows(
        {name: each[kept] for name, each in rows.columns.items()}, rows.person[kept], rows.people, rows.failures
    )
