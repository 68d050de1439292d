"""A store as it was at one moment, read by featurizers. Nothing can be changed through it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thebes.data.featurizer import Featurizer, read
from thebes.data.rows import FAILURES, Rows
from thebes.data.sandbox.process import Failed, Sandbox, Value
from thebes.data.store.declaration import Declaration
from thebes.privacy.faults import Mistake

MOST_ROWS = 1000  #: that a featurizer may give; what would come after is not read

_MISSING_TABLE = FAILURES.index("missing table")


class StoreView:
    """One snapshot over several collectors; what is inserted, declared or removed meanwhile does not show.

    A featurizer that had to be killed takes its view with it: all later ones of the same view fail like it.
    """

    def __init__(self, sandbox: Sandbox, declared: Mapping[str, Declaration]) -> None:
        self.sandbox = sandbox  #: the child that reads, for whoever watches its resources
        self._declared = {name.lower(): declaration for name, declaration in declared.items()}

    def featurize(self, sql: str, *, most_rows: int = MOST_ROWS) -> Rows:
        """Return what the featurizer gives for this one person; if it fails, no row and the class of failure.

        Raises only for what is wrong with the SQL as read or with `most_rows`, never for anything in the data.
        """
        featurizer = read(sql)
        found = self._run(featurizer, most_rows)
        failures = np.zeros(1, dtype=np.uint8)
        if isinstance(found, Failed):
            failures[0] = 1 + found.failure
            found = []
        columns: dict[str, NDArray[np.generic]] = {}
        for position, output in enumerate(featurizer.outputs):
            column = np.empty(len(found), dtype=object)
            column[:] = [row[position] for row in found]
            columns[output] = column
        return Rows(columns, np.zeros(len(found), dtype=np.int64), 1, failures)

    def preview(self, sql: str, *, most_rows: int = MOST_ROWS) -> list[dict[str, Value]]:
        """Exactly the rows that `featurize` would read, or a Mistake with the reason. For the owner's eyes only."""
        featurizer = read(sql)
        found = self._run(featurizer, most_rows)
        if isinstance(found, Failed):
            raise Mistake("featurizer", f"{found.reason} ({FAILURES[found.failure]})")
        return [dict(zip(featurizer.outputs, row, strict=True)) for row in found]

    def _run(self, featurizer: Featurizer, most_rows: int) -> list[list[Value]] | Failed:
        if isinstance(most_rows, bool) or not isinstance(most_rows, int) or not 1 <= most_rows <= MOST_ROWS:
            raise Mistake("most_rows", f"must be between 1 and {MOST_ROWS}")
        tables: dict[str, list[str]] = {}
        for full in featurizer.tables:
            collector, _, name = full.partition(".")
            declaration = self._declared.get(collector.lower())
            table = declaration.table(name) if declaration is not None else None
            if table is None:
                return Failed(_MISSING_TABLE, f"reads {full}, which this store does not have")
            tables[full] = [column.name for column in table.columns]
        return self.sandbox.run(featurizer, tables, most_rows=most_rows)
