"""The data that a task asks of people's stores, as it is composed: a table, SQL, what is known of each column
beforehand, and who may answer.

What must stay true: SQL that was written by hand is kept; nothing is looked up in anybody's data.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from thebes.data import featurizer as sql
from thebes.privacy.faults import Mistake
from thebes.web.coordinator.forms.bound import MOST_COLUMNS, BoundDraft, text, texts

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_ANCHORS = {"epoch": "group", "anonymity": "group"}


@dataclass(frozen=True, slots=True)
class PeopleData:
    """`made` is the SQL that the ticked columns gave last: SQL that differs from it was written by hand, and is
    kept."""

    tensors: ClassVar[tuple[str, ...]] = ()  # people's columns are single values
    asks_groups: ClassVar[bool] = True
    template: ClassVar[str] = "coordinator/people_data.html"
    labels: ClassVar[Mapping[str, str]] = {"featurizer": "SQL", "bounds": "Bounds", "group": "Who may answer"}

    table: str = ""
    ticked: tuple[str, ...] = ()
    sql: str = ""
    made: str = ""
    bounds: tuple[BoundDraft, ...] = ()
    group: str = ""

    @property
    def given(self) -> tuple[str, ...]:
        """The columns that the SQL gives, or nothing while it cannot be read."""
        try:
            return sql.read(self.sql).outputs[:MOST_COLUMNS] if self.sql.strip() else ()
        except Mistake:
            return ()

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(bound.column for bound in self.bounds if bound.kind == "range")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(bound.column for bound in self.bounds if bound.kind == "set")

    @property
    def filled(self) -> tuple[str, ...]:
        return tuple(bound.column for bound in self.bounds if bound.kind and bound.default.strip())

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> PeopleData:
        """Read what stands in the form, as a browser sent it."""
        return cls(
            table=text(body, "table"),
            ticked=texts(body.get("column")),
            sql=text(body, "featurizer"),
            made=text(body, "made"),
            bounds=tuple(BoundDraft.read(body)),
            group=text(body, "group"),
        )

    def seen(self, told: Mapping[str, Any], *, one_site: bool) -> PeopleData:
        """Return it as it stands beside what is published, nothing of it changed."""
        return self

    def settled(self, told: Mapping[str, Any], *, one_site: bool) -> PeopleData:
        """Columns of the chosen table, SQL of the ticked columns unless it was written by hand, one row of bounds for
        each column that the SQL gives."""
        tables = told["tables"]
        table = self.table or (next(iter(tables), "") if not self.sql else "")
        columns = tables.get(table, {}).get("columns", {})
        ticked = tuple(column for column in self.ticked if column in columns)
        by_hand = bool(self.sql.strip()) and self.sql.strip() != self.made.strip()
        made = _select(table, ticked)
        draft = replace(self, table=table, ticked=ticked, made=made, sql=self.sql if by_hand else made)
        known = {bound.column: bound for bound in draft.bounds}
        wanted = draft.given or tuple(known)
        return replace(draft, bounds=tuple(known.get(c) or BoundDraft.first(c, columns) for c in wanted))

    def document(self, problems: list[tuple[str, str]], *, bounded: bool) -> dict[str, Any]:
        """These parts of the document; `bounded` says that it cannot do without bounds."""
        made: dict[str, Any] = {"featurizer": self.sql.strip()} if self.sql.strip() else {}
        declared = {
            bound.column: bound.as_json(problems)
            for bound in self.bounds
            if bound.kind and (bounded or not bound.untouched) and (bound.column in self.given or not self.given)
        }
        made |= {"bounds": declared} if declared else {}
        group, _, epoch = self.group.strip().partition("/")
        return made | ({"anonymity": "token", "group": group} if group else {}) | ({"epoch": epoch} if epoch else {})

    @classmethod
    def of(cls, rest: dict[str, Any], told: Mapping[str, Any], *, one_site: bool) -> PeopleData:
        """Return what means these parts of a document; takes out of `rest` what it says."""
        group = _group(rest)
        asked = rest.pop("featurizer", "") if isinstance(rest.get("featurizer", ""), str) else ""
        try:
            read = sql.read(asked)
        except Mistake:
            read = None
        given = read.outputs if read else ()
        bounds: list[BoundDraft] = []
        declared = rest.get("bounds")
        if isinstance(declared, Mapping) and all(isinstance(bound, Mapping) for bound in declared.values()):
            bounds = [BoundDraft.of(str(column), bound) for column, bound in rest.pop("bounds").items()]
        bounds += [BoundDraft(column) for column in given if column not in {bound.column for bound in bounds}]
        table = next(iter(read.tables), "") if read and len(read.tables) == 1 else ""
        ticked = tuple(c for c in given if c in told["tables"].get(table, {}).get("columns", {}))
        made = _select(table, ticked)
        return cls(
            table=table if table in told["tables"] else "",
            ticked=ticked,
            sql=asked,
            made=made if made == asked.strip() else "",
            bounds=tuple(bounds),
            group=group,
        )

    def place(self, name: str) -> tuple[str, str] | None:
        """Return what a part of the document is called here, and where it is mended; None where that is elsewhere."""
        top, _, rest = name.partition(".")
        anchor = _ANCHORS.get(top, top)
        if anchor not in self.labels:
            return None
        rows = [row for row, bound in enumerate(self.bounds) if top == "bounds" and _within(rest, bound.column)]
        label = self.labels[anchor]
        return f"{label}: {rest}" if rest else label, f"bound-{rows[-1]}-kind" if rows else anchor


def tables_of(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Every published table by the name that SQL knows it by."""
    return {f"{app}.{name}": table for app, told in schemas.items() for name, table in told["tables"].items()}


def _within(path: str, column: str) -> bool:
    return f"{path}.".startswith(f"{column}.")


def _group(rest: dict[str, Any]) -> str:
    """Return who may answer; takes out of `rest` what it says."""
    anonymity, group, epoch = rest.get("anonymity"), rest.get("group"), rest.get("epoch", "")
    if anonymity == "none":
        del rest["anonymity"]
    if anonymity != "token" or not isinstance(group, str) or not isinstance(epoch, str) or "/" in group:
        return ""
    for name in ("anonymity", "group", "epoch"):
        rest.pop(name, None)
    return f"{group}/{epoch}" if epoch else group


def _select(table: str, columns: Sequence[str]) -> str:
    """The SQL that reads these columns; names that are words of SQL are quoted."""
    if not table or not columns:
        return ""
    names = ", ".join(_named(column) for column in columns)
    return f"SELECT {names} FROM {'.'.join(_named(part) for part in table.split('.'))}"  # noqa: S608


@lru_cache(maxsize=4096)
def _named(name: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    if not _PLAIN.fullmatch(name):
        return quoted
    with closing(sqlite3.connect(":memory:")) as engine:  # who knows its own words best
        try:
            engine.execute(f"SELECT {name} FROM (SELECT 1 AS {quoted})")  # noqa: S608
        except sqlite3.Error:
            return quoted
    return name
