"""A statement as a question to sites: the document that is put up, and what is made of its release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from sqlglot import exp

from thebes.curator.questions.groups import keys_of
from thebes.data.schema import Schema, schema_of
from thebes.privacy.faults import Mistake
from thebes.sql.aggregates import Aggregates
from thebes.sql.answer import SqlAnswer
from thebes.sql.arithmetic import NONE, Arithmetic, BarredValue
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
    groups: tuple[dict[str, Any], ...] = field(repr=False)  #: the values of the keys, group by group
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
        surely = {name: _surely(len(one.uses), level) for name, one in self.columns.items()}
        rows = []
        for place, keys in enumerate(self.groups):
            told = {name: BarredValue(value) for name, value in keys.items()}
            found: dict[str, BarredValue] = {}
            for name, one in self.columns.items():
                found[name] = one.of({**told, **self._statistics(release, place, surely[name])})
            plain = {**told, **self._statistics(release, place, None)}
            if self.having is not None and not self.having.of(plain).value:
                continue
            rows.append(([_sortable(one.of(plain).value) for one, _ in self.order], found))
        for number, (_, falls) in reversed(list(enumerate(self.order))):
            rows.sort(key=lambda row, number=number: row[0][number], reverse=falls)  # type: ignore[misc]
        kept = [found for _, found in rows[: self.limit]]
        picked = self.limit is not None and len(rows) > self.limit and bool(self.order)
        return SqlAnswer.of(list(self.columns), kept, release=release, level=level, picked=picked)

    def _statistics(self, release: Release, group: int, surely: float | None) -> dict[str, BarredValue]:
        names = list(self.document["statistics"])
        values = list(release.value.values())
        bar = (
            None
            if surely is None or not release.intervals or surely > max(release.intervals)
            else release.interval(surely)
        )
        found = {}
        for number, name in enumerate(names):
            place = group * len(names) + number
            ends = NONE if bar is None else (float(np.asarray(bar.low)[place]), float(np.asarray(bar.high)[place]))
            found[name] = BarredValue(float(values[place]), ends)
        return found


def read(
    text: str, schema: Schema | Mapping[str, Any], *, epsilon: float | None, delta: float = 0.0, **fields: Any
) -> SqlQuestion:
    """Read a SELECT over a data set of this schema, or refuse it naming the clause and a way out. `fields` are further
    ones of the document: sites, noise, min_sites, patience, name, purpose. Without epsilon only `privacy="none"` goes.

    Unlike in other SQL, a row without a value in a column that an aggregate names is left out of it, values are cut to
    their declared bounds, every declared group is answered, and a quantile lies on a grid."""
    declared = schema if isinstance(schema, Schema) else schema_of(schema)
    statement = read_statement(text)
    rows = RowExpressions(declared)
    keys = _keys(statement, rows)
    aggregates = Aggregates(rows, keys)
    columns: dict[str, Arithmetic] = {}
    for name, item in statement.items:
        if isinstance(item, exp.Star):
            raise refusal("*", "rows never leave; ask COUNT(*), SUM, AVG, VARIANCE, STDDEV, MEDIAN or QUANTILE_CONT")
        made = aggregates.read(item)
        if name in columns:
            raise refusal(name, "names two columns of the answer; give one of them another name with AS")
        columns[name] = made
        aggregates.named.setdefault(name, made)
    having = None if statement.having is None else aggregates.read(statement.having)
    order = tuple((aggregates.read(by), falls) for by, falls in statement.order)
    if not aggregates.statistics:
        raise refusal("SELECT", "asks nothing of the rows: add COUNT(*) or another aggregate")
    document: dict[str, Any] = {
        "type": "query",
        "dataset": statement.dataset,
        "statistics": aggregates.statistics,
        **({} if epsilon is None else {"epsilon": float(epsilon)}),
        **({"delta": float(delta)} if delta else {}),
        **({"where": rows.condition(statement.where)} if statement.where is not None else {}),
        **({"by": list(keys)} if keys else {}),
        **({"features": aggregates.features} if aggregates.features else {}),
        **{name: value for name, value in fields.items() if value is not None},
    }
    checked = registry.check(document)
    assert isinstance(checked, SiteDocument)  # noqa: S101
    registry.site_kind(checked).fits(checked, declared)
    return SqlQuestion(text, document, columns, _groups(declared, keys), having, order, statement.limit)


def _keys(statement: Statement, rows: RowExpressions) -> tuple[str, ...]:
    found = []
    for node in statement.group:
        if not isinstance(node, exp.Column):
            raise refusal(node, "GROUP BY takes columns with declared values")
        name = rows.name(node)
        column = rows.column(name)
        if column.values is None and column.type != "boolean":
            why = (
                "its groups would be people; ask QUANTILE_CONT, or AVG"
                if column.ranged
                else "its values are not declared"
            )
            raise refusal(node, f"{why}: GROUP BY takes columns with declared values")
        found.append(name)
    return tuple(dict.fromkeys(found))


def _groups(schema: Schema, keys: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    """The keys of each group, in the order in which an answer has them."""
    if not keys:
        return ({},)
    axes = keys_of(schema, keys, field="by").axes
    return tuple(dict(zip(keys, values, strict=True)) for values in product(*(axis.values or () for axis in axes)))


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
