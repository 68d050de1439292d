"""Rows of one's own behind a ledger: private answers from a file tonight, without a network.

What must stay true: an answer's price is set aside and charged before its rows are looked at, in a ledger that
outlives this process where one is named; a question that the schema or the budget does not allow costs nothing. What
fails after that stays charged: a failure may tell of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, cast

from thebes.data.engines.source import given_table
from thebes.data.schema import Schema, schema_of
from thebes.ledger import Budget, Ledger, LedgerClaim
from thebes.ledger.filters import usual
from thebes.privacy import exact
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.sql.answer import SqlAnswer
from thebes.sql.question import read
from thebes.tasks import registry
from thebes.tasks.block_price import cost
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.query.kind import QueryDocument
from thebes.tasks.release import Release

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
        self.schema = schema if isinstance(schema, Schema) else schema_of(schema)
        self.name = name
        with ExitStack() as opened:  # what was opened is closed again where something is refused
            scratch = opened.enter_context(TemporaryDirectory(prefix="thebes-"))
            self._table = given_table(self.schema, rows, scratch=Path(scratch))
            opened.callback(self._table.close)
            self._ledger = Ledger("memory://" if ledger is None else f"sqlite:///{Path(ledger).resolve()}")
            opened.callback(self._ledger.close)
            self._block = self._ledger.open_block(
                _BLOCK,
                epsilon=epsilon,
                delta=delta,
                unit=self.schema.unit,
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
        question = read(
            text,
            self.schema,
            epsilon=epsilon,
            delta=delta,
            max_groups_per_person=max_groups_per_person,
            weights=weights or {},
            sites=[_SITE],
        )
        if question.document["dataset"] != self.name:
            raise Mistake("sql", f"asks another data set; these rows are called {self.name!r}: FROM {self.name}")
        return question.answer(self._asked(question.document))

    def query(self, statistic: str | Mapping[str, Mapping[str, Any]], *, epsilon: float, **fields: Any) -> Release:
        """Answer one statistic, or several. `fields` are those of a query: column, where, by, bins, quantile, delta."""
        asked = {"statistic": statistic} if isinstance(statistic, str) else {"statistics": dict(statistic)}
        given = {name: value for name, value in fields.items() if value is not None}
        head = {"type": "query", "dataset": self.name, "sites": [_SITE], "epsilon": epsilon}
        return self._asked({**head, **asked, **given})

    def _asked(self, body: Mapping[str, Any]) -> Release:
        document = cast("QueryDocument", registry.check(body))
        if document.noise != "site":
            raise Mistake("noise", "is added here, where the rows are; leave it out")
        kind = registry.site_kind(document)
        kind.fits(document, self.schema)
        if not document.epsilon:
            raise Mistake("epsilon", "is missing: every answer has a price")
        setting = Setting(unit=Unit(self.schema.unit), randomness=system(), sites={_SITE: self.schema})
        aggregator = registry.aggregator(document, setting)
        claim = self._ledger.reserve(
            [_BLOCK],
            loss=cost(document, kind.event(document, self.schema), self._block.filter).whole,
            purpose="query",
            spender=self.name,
        )
        try:
            paying, owner = _Paying(claim), registry.site_owner(document)
            while aggregator.state is State.OPEN:
                ask = aggregator.ask(_SITE)
                if not isinstance(ask, Ask):
                    raise Fault("the one site is not asked")
                aggregator.accept(owner.contribute(document, ask, self._table, paying, randomness=setting.randomness))
                aggregator.advance(datetime.now(UTC))
        finally:
            claim.release()  # of what was not consumed: all, where nothing was drawn
        release = aggregator.release()
        if release is None:
            raise Fault("an answer was made and not released")
        return release

    def close(self) -> None:
        self._opened.close()

    def __repr__(self) -> str:
        return f"<private rows {self.name!r}: one more answer may cost {self.left}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Paying:
    """The claim as an owner's half consumes it: all of it at the first time, before noise is drawn."""

    def __init__(self, claim: LedgerClaim) -> None:
        self._claim = claim

    def consume(self, *, epsilon: exact.Number, delta: exact.Number) -> None:
        if self._claim.state.open:
            self._claim.consume()
