"""A statement as a question to sites: the document that is put up, and what is made of its release."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
from sqlglot import exp

from thebes.curator.questions.groups import keys_of
from thebes.data.derived_columns import DerivedColumns
from thebes.data.schema import COLUMN_NAME, Schema
from thebes.privacy.faults import Mistake
from thebes.sql.aggregates import Aggregates
from thebes.sql.answer import SqlAnswer
from thebes.sql.arithmetic import NONE, Arithmetic, BarredValue
from thebes.sql.declaration import Declared, declaration
from thebes.sql.refusal import refusal
from thebes.sql.row_expression import RowExpressions
from thebes.sql.statement import Statement, read_statement
from thebes.tasks import registry
from thebes.tasks.release import LEVEL, LEVELS, Release
from thebes.tasks.site_document import SiteDocument


@dataclass(frozen=True)
class SqlQuestion:
    """`document` is what is asked and paid for. `columns` are the answer's, each with what makes it of the release."""

    text: str
    document: dict[str, Any]
    columns: Mapping[str, Arithmetic] = field(repr=False)
    schema: Schema = field(repr=False)
    having: Arithmetic | None = field(default=None, repr=False)
    order: tuple[tuple[Arithmetic, bool], ...] = field(default=(), repr=False)
    limit: int | None = None

    @property
    def explanation(self) -> str:
        """The question in the words that stewards are shown."""
        checked = registry.check(self.document)
        assert isinstance(checked, SiteDocument)  # noqa: S101
        return registry.site_kind(checked).explain(checked)

    def answer(self, release: Release, level: float = LEVEL) -> SqlAnswer:
        """Make the table of the answer out of what was released. Each bar holds with at least this probability, by
        itself."""
        groups = [
            (group, {name: BarredValue(value) for name, value in keys.items()})
            for group, keys in self._groups(release).items()
        ]
        places = {name: number for number, name in enumerate(release.value)}
        rows = []
        for group, keys in groups:
            plain = {**keys, **self._statistics(release, group, places, None)}
            if self.having is None or self.having.of(plain).value:
                rows.append(([_sortable(one.of(plain).value) for one, _ in self.order], group, keys))
        for number, (_, falls) in reversed(list(enumerate(self.order))):
            rows.sort(key=lambda row, number=number: row[0][number], reverse=falls)  # type: ignore[misc]
        kept = rows[: self.limit]
        # Which rows are shown follows from the noise: a bar must hold for all groups at once, whichever these are.
        picked = len(rows) < len(groups) or (len(kept) < len(rows) and bool(self.order))
        at_once = len(groups) if picked else 1
        surely = {name: _surely(at_once * len(one.uses), level) for name, one in self.columns.items()}
        found = [
            {
                name: one.of({**keys, **self._statistics(release, group, places, surely[name])})
                for name, one in self.columns.items()
            }
            for _, group, keys in kept
        ]
        return SqlAnswer.of(list(self.columns), found, release=release, level=level, picked=picked)

    def _groups(self, release: Release) -> dict[str, dict[str, Any]]:
        """Return the keys of each group, by its name in a release."""
        keys, schema, found = tuple(self.document.get("by", ())), self.schema, release.extra.get("found")
        if found is not None:
            schema = schema.declaring(found["column"], found["keys"])
        if not keys:
            return {"": {}}
        schema = DerivedColumns.of(self.document.get("features")).among(keys).schema(schema)
        groups = keys_of(schema, keys, field="by")
        values = product(*(axis.values or () for axis in groups.axes))
        return {name: dict(zip(keys, own, strict=True)) for name, own in zip(groups.names, values, strict=True)}

    def _statistics(
        self, release: Release, group: str, places: Mapping[str, int], surely: float | None
    ) -> dict[str, BarredValue]:
        """Return the statistics of one group by their names, with ends that hold so surely."""
        known = surely is not None and release.intervals and surely <= max(release.intervals)
        bar = release.interval(surely) if known and surely is not None else None
        found = {}
        for name in self.document["statistics"]:
            told = f"{group}, {name}" if group else name
            place = places[told]
            ends = NONE if bar is None else (float(np.asarray(bar.low)[place]), float(np.asarray(bar.high)[place]))
            found[name] = BarredValue(float(release.value[told]), ends)
        return found


def read(
    text: str | Statement,
    schema: Declared,
    *,
    epsilon: float | None,
    delta: float = 0.0,
    max_groups_per_person: int = 1,
    weights: Mapping[str, int] = MappingProxyType({}),
    **fields: Any,
) -> SqlQuestion:
    """Read a SELECT over a data set of this schema, or refuse it naming the clause and a way out. `fields` are further
    ones of the document: sites, noise, min_sites, patience, name, purpose. Without epsilon only `privacy="none"` goes.
    Of two data sets that are joined `schema` has each one's, by their names.

    A key in GROUP BY that is a text without declared values is looked for first, with half of epsilon and a delta: one
    person counts with at most `max_groups_per_person` of its values. `weights` gives columns of the answer, by their
    names, so many times the usual share of the price.

    Unlike in other SQL, a row without a value in a column that an aggregate names is left out of it, values are cut to
    their declared bounds, every declared group is answered, and a quantile lies on a grid."""
    statement = text if isinstance(text, Statement) else read_statement(text)
    declared, rows = _declared(schema, statement)
    keys, found, cases = _keys(statement, rows)
    if found and not delta:
        raise refusal(
            f"GROUP BY {found[0]}",
            "its values are not declared; with a delta, such as 1e-6, those that enough people have are found",
        )
    aggregates = Aggregates(rows, keys, cases)
    columns: dict[str, Arithmetic] = {}
    for name, item in statement.items:
        if isinstance(item, exp.Star):
            raise refusal("*", "rows never leave; ask COUNT(*), SUM, AVG, VARIANCE, STDDEV, MEDIAN or QUANTILE_CONT")
        for told, one in [(f"{name}_{level}", each) for level, each in aggregates.levels(item)] or [(name, item)]:
            if told in columns:
                raise refusal(told, "names two columns of the answer; give one of them another name with AS")
            columns[told] = aggregates.read(one)
            aggregates.named.setdefault(told, columns[told])
    having = None if statement.having is None else aggregates.read(statement.having)
    order = tuple((aggregates.read(by), falls) for by, falls in statement.order)
    _weigh(weights, columns, aggregates)
    if not aggregates.statistics:
        raise refusal("SELECT", "asks nothing of the rows: add COUNT(*) or another aggregate")
    document: dict[str, Any] = {
        "type": "query",
        **dict(zip(("dataset", "join"), statement.datasets, strict=False)),
        "statistics": aggregates.statistics,
        **({} if epsilon is None else {"epsilon": float(epsilon)}),
        **({"delta": float(delta)} if delta else {}),
        **({"where": rows.condition(statement.where)} if statement.where is not None else {}),
        **({"by": list(keys)} if keys else {}),
        **({"max_groups_per_person": max_groups_per_person} if found else {}),
        **({"features": aggregates.features} if aggregates.features else {}),
        **{name: value for name, value in fields.items() if value is not None},
    }
    checked = registry.check(document)
    assert isinstance(checked, SiteDocument)  # noqa: S101
    registry.site_kind(checked).fits(checked, declared)
    return SqlQuestion(statement.text, document, columns, declared, having, order, statement.limit)


def _declared(schema: Declared, statement: Statement) -> tuple[Schema, RowExpressions]:
    """Return the schema of the rows that a statement is about, and how it names their columns."""
    found = declaration(schema, statement.datasets)
    if isinstance(found, Schema):
        if len(statement.datasets) > 1:
            raise refusal(f"JOIN {statement.datasets[1]}", "needs the schema of each data set, by their names")
        return found, RowExpressions(found)
    if found.names != statement.datasets:
        raise refusal("FROM", f"must be {' JOIN '.join(found.names)} USING (person)")
    return found.schema, RowExpressions(found.schema, {c: found.named(n) for n, c in enumerate(statement.tables)})


def _weigh(weights: Mapping[str, int], columns: Mapping[str, Arithmetic], aggregates: Aggregates) -> None:
    """Give the statistics of some columns more than the usual share of the price."""
    for name, weight in weights.items():
        if name not in columns:
            raise Mistake("weights", f"names no column of the answer; there are {', '.join(columns)}")
        for used in columns[name].uses:
            known = aggregates.statistics[used]
            known["weight"] = max(weight, known.get("weight", 1))


def _keys(statement: Statement, rows: RowExpressions) -> tuple[tuple[str, ...], list[str], dict[str, exp.Case]]:
    """Return the keys, those of them whose values are to be found, and those that a CASE makes."""
    keys: list[str] = []
    found: list[str] = []
    cases: dict[str, exp.Case] = {}
    for written in statement.group:
        node = _meant(written, statement, rows)
        if isinstance(node, exp.Case):
            name = next((known for known, case in cases.items() if case == node), "")
            name = name or _called(node, statement, {*rows.taken, *cases})
            cases[name] = node
            keys.append(name)
            continue
        if not isinstance(node, exp.Column):
            raise refusal(node, "GROUP BY takes columns, and CASE WHEN condition THEN 'group' ... ELSE 'group' END")
        name = rows.name(node)
        column = rows.column(name)
        if column.values is None and column.type == "string":
            found.append(name)
        elif column.values is None and column.type != "boolean":
            why = "its groups would be people; ask QUANTILE_CONT, or AVG"
            raise refusal(node, f"{why}: GROUP BY takes columns with declared values, and texts")
        keys.append(name)
    found = list(dict.fromkeys(found))
    if len(found) > 1:
        raise refusal(
            f"GROUP BY {', '.join(found)}", "the values of one key can be found; those of the others must be declared"
        )
    return tuple(dict.fromkeys(keys)), found, cases


def _meant(node: exp.Expr, statement: Statement, rows: RowExpressions) -> exp.Expr:
    """Return what stands in GROUP BY: itself, or the CASE in SELECT whose name it is."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and not node.table and node.name.lower() not in rows.taken:
        named = next((item for name, item in statement.items if name == node.name), node)
        return named if isinstance(named, exp.Case) else node
    return node


def _called(case: exp.Case, statement: Statement, taken: set[str]) -> str:
    """Name a key that a CASE makes: as its column in SELECT, where that is free."""
    names = [name for name, item in statement.items if item == case]
    free = (name for name in names if re.fullmatch(COLUMN_NAME, name) and name.lower() not in taken)
    made = next(free, "")
    number = 1
    while not made:
        name, number = f"key{number}", number + 1
        made = "" if name in taken else name
    return made


def _surely(parts: int, level: float) -> float:
    """The level at which each of so many statistics must hold, so that all of them hold at `level`."""
    if not 0 < level < 1:
        raise Mistake("level", f"must lie between 0 and {max(LEVELS)}")
    return 1 - (1 - level) / max(1, parts)


def _sortable(value: Any) -> Any:
    """A value by which rows are sorted: what is no number comes last."""
    if isinstance(value, float) and math.isnan(value):
        return -math.inf
    return value
