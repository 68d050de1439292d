"""Rows of one's own behind a ledger: private answers from a file tonight, without a network.

What must stay true: an answer's price is set aside and charged before its rows are looked at, in a ledger that
outlives this process where one is named; a question that the schema or the budget does not allow costs nothing. What
fails after that stays charged: a failure may tell of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from thebes.data.engines.source import given_join, given_table
from thebes.data.join import Join
from thebes.data.schema import Schema, schema_of
from thebes.ledger import Budget, Ledger, LedgerClaim
from thebes.ledger.filters import usual
from thebes.privacy import exact
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.sql.answer import SqlAnswer
from thebes.sql.declaration import declaration
from thebes.sql.question import read
from thebes.sql.statement import read_statement
from thebes.tasks import registry
from thebes.tasks.block_price import cost
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.query.kind import QueryDocument
from thebes.tasks.release import Release

if TYPE_CHECKING:
    from thebes.data.engines.table import EngineTable

_SITE = "here"  #: what the one site is called in certificates
_BLOCK = "rows"  #: of the ledger, however the rows are called


def open_data(
    rows: Any,
    schema: Schema | Mapping[str, Any],
    *,
    epsilon: float,
    delta: float = 0.0,
    ledger: str | Path | None = None,
    name: str = "data",
    filter: str | None = None,
) -> PrivateTable:
    """Open rows of your own (a DataFrame, a dict of columns, a CSV or Parquet file) for private questions.

    `epsilon` and `delta` are for everything that is ever asked of them: keep `ledger`, the path of a file that is for
    these rows alone, and the same budget counts on tomorrow, whatever `name` they go by in questions. Without one it is
    forgotten with this process. `schema` says what is known about the
    columns without looking at a row: bounds, values, and by which column a person's rows are known. `filter` says how
    answers add up ("basic", "zcdp", "either", "renyi"); groups that nobody declared need "basic".

    Several data sets of the same people share the budget, and can be joined: `rows` and `schema` hold each one's by its
    name, and the key of each says whose a row is. What an answer costs hides all rows of a person, in all of them.

    Example: open_data("patients.csv", schema, epsilon=1, ledger="budget.db").sql("SELECT AVG(age) FROM data", 0.2)
    """
    return PrivateTable(rows, schema, epsilon=epsilon, delta=delta, ledger=ledger, name=name, filter=filter)


class PrivateTable:
    """Rows with a budget. Whoever has this object can read the rows: what is safe to hand on is its answers."""

    def __init__(
        self,
        rows: Any,
        schema: Schema | Mapping[str, Any],
        *,
        epsilon: float,
        delta: float,
        ledger: str | Path | None,
        name: str,
        filter: str | None,
    ) -> None:
        given, self.schemas = _each(rows, schema, name)
        with ExitStack() as opened:  # what was opened is closed again where something is refused
            scratch = Path(opened.enter_context(TemporaryDirectory(prefix="thebes-")))
            self._scratch, self._given = scratch, given
            self._tables: dict[tuple[str, ...], EngineTable] = {}
            opened.callback(self._close_tables)
            for each in self.schemas:
                self._table((each,))
            self._ledger = Ledger("memory://" if ledger is None else f"sqlite:///{Path(ledger).resolve()}")
            opened.callback(self._ledger.close)
            self._block = self._ledger.open_block(
                _BLOCK,
                epsilon=epsilon,
                delta=delta,
                unit=next(iter(self.schemas.values())).unit,
                adjacency="add-remove-one",
                filter=usual(exact.delta(delta)).name if filter is None else filter,
            )
            self._opened = opened.pop_all()

    @property
    def left(self) -> Budget:
        """The most that one more answer may cost."""
        return self._ledger.remaining(_BLOCK)

    def sql(
        self,
        text: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        max_groups_per_person: int = 1,
        weights: Mapping[str, int] | None = None,
    ) -> SqlAnswer:
        """Answer one SELECT over these rows. What all of its columns cost together is `epsilon` and `delta`. Groups
        that nobody declared are found with half of it, one person counting with `max_groups_per_person` of them.
        `weights` gives columns of the answer, by their names, so many times the usual share."""
        statement = read_statement(text)
        self._known(statement.datasets, "sql")
        declared = declaration({each: self.schemas[each] for each in statement.datasets}, statement.datasets)
        question = read(
            statement,
            declared,
            epsilon=epsilon,
            delta=delta,
            max_groups_per_person=max_groups_per_person,
            weights=weights or {},
            sites=[_SITE],
        )
        return question.answer(self._asked(question.document))

    def query(self, statistic: str | Mapping[str, Mapping[str, Any]], *, epsilon: float, **fields: Any) -> Release:
        """Answer one statistic, or several. `fields` are those of a query: column, where, by, bins, quantile, delta;
        of several data sets also which one (`dataset`), and which it is joined with (`join`)."""
        asked = {"statistic": statistic} if isinstance(statistic, str) else {"statistics": dict(statistic)}
        given = {name: value for name, value in fields.items() if value is not None}
        head = {"type": "query", "dataset": next(iter(self.schemas)), "sites": [_SITE], "epsilon": epsilon}
        return self._asked({**head, **asked, **given})

    def _asked(self, body: Mapping[str, Any]) -> Release:
        document = cast("QueryDocument", registry.check(body))
        if document.noise != "site":
            raise Mistake("noise", "is added here, where the rows are; leave it out")
        self._known(document.datasets, "dataset")
        kind, schema = registry.site_kind(document), document.schema_among(self.schemas)
        kind.fits(document, schema)
        if not document.epsilon:
            raise Mistake("epsilon", "is missing: every answer has a price")
        setting = Setting(unit=Unit(schema.unit), randomness=system(), sites={_SITE: schema})
        aggregator = registry.aggregator(document, setting)
        claim = self._ledger.reserve(
            [_BLOCK],
            loss=cost(document, kind.event(document, schema), self._block.filter).whole,
            purpose="query",
            spender=document.dataset,
        )
        try:
            table = self._table(document.datasets)
            paying, owner = _Paying(claim), registry.site_owner(document)
            while aggregator.state is State.OPEN:
                ask = aggregator.ask(_SITE)
                if not isinstance(ask, Ask):
                    raise Fault("the one site is not asked")
                aggregator.accept(owner.contribute(document, ask, table, paying, randomness=setting.randomness))
                aggregator.advance(datetime.now(UTC))
        finally:
            claim.release()  # of what was not consumed: all, where nothing was drawn
        release = aggregator.release()
        if release is None:
            raise Fault("an answer was made and not released")
        return release

    def _known(self, names: Sequence[str], field: str) -> None:
        absent = [name for name in names if name not in self.schemas]
        if absent:
            there = " and ".join(map(repr, self.schemas))
            raise Mistake(
                field, f"asks another data set; these rows are called {there}: FROM {next(iter(self.schemas))}"
            )

    def _table(self, names: tuple[str, ...]) -> EngineTable:
        """The rows of one data set, or of two that are joined, opened once."""
        if names not in self._tables:
            rows = [self._given[name] for name in names]
            if len(names) == 1:
                made = given_table(self.schemas[names[0]], rows[0], scratch=self._scratch)
            else:
                joined = declaration({name: self.schemas[name] for name in names}, names)
                assert isinstance(joined, Join)  # noqa: S101
                made = given_join(joined, rows, scratch=self._scratch)
            self._tables[names] = made
        return self._tables[names]

    def _close_tables(self) -> None:
        for table in self._tables.values():
            table.close()

    def close(self) -> None:
        self._opened.close()

    def __repr__(self) -> str:
        return f"<private rows {' and '.join(map(repr, self.schemas))}: one more answer may cost {self.left}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _each(rows: Any, schema: Any, name: str) -> tuple[dict[str, Any], dict[str, Schema]]:
    """Return the rows and the schema of each data set, by its name."""
    if isinstance(schema, Schema) or not isinstance(schema, Mapping) or "columns" in schema or "unit" in schema:
        return {name: rows}, {name: schema if isinstance(schema, Schema) else schema_of(schema)}
    if not isinstance(rows, Mapping) or rows.keys() != schema.keys() or not rows:
        raise Mistake("rows", "must hold the rows of every data set that has a schema, by its name")
    found = {each: own if isinstance(own, Schema) else schema_of(own) for each, own in schema.items()}
    if len(found) > 1 and any(own.key is None or own.unit != "person" for own in found.values()):
        raise Mistake(
            "schema", "of each of several data sets must have the unit person, and a key that says whose a row is"
        )
    same = {own.people for own in found.values()}
    if len(found) > 1 and len(same) > 1:
        raise Mistake("schema", "of each of several data sets must name the same people, or none")
    together = {each: own.model_copy(update={"people": own.people or "people"}) for each, own in found.items()}
    return dict(rows), together if len(found) > 1 else found


class _Paying:
    """The claim as an owner's half consumes it: all of it at the first time, before noise is drawn."""

    def __init__(self, claim: LedgerClaim) -> None:
        self._claim = claim

    def consume(self, *, epsilon: exact.Number, delta: exact.Number) -> None:
        if self._claim.state.open:
            self._claim.consume()
