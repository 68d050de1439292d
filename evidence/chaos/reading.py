"""The databases of a world, read without the programs that wrote them: nothing here changes anything."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from thebes.data.keys import key_of
from thebes.ledger.losses import loss_of_text
from thebes.person.participation.seal import Seal
from thebes.privacy.exact import EPSILON_STEP
from thebes.privacy.losses import Loss
from thebes.tokens import Context, Credential

Row = dict[str, Any]
#: in these states what has no receipt was not sent; in all others it may have been
_NOTHING_LEFT = ("reserved", "asked", "computed", "failed")


def rows(path: Path, sql: str, *values: Any) -> list[Row]:
    """Everything a question finds, by the names of the columns."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, values)]


def stored(store: str, sql: str) -> list[Row]:
    """The same of a coordinator's store: a file, or a database of PostgreSQL's."""
    if not store.startswith("postgresql:"):
        return rows(Path(store), sql)
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(store, row_factory=dict_row) as connection:
        connection.read_only = True
        return [dict(row) for row in connection.execute(sql.encode())]


class Books:
    """An owner's ledger: what was claimed for which task, and what of it is gone for good."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def claims(self) -> dict[str, Row]:
        """By key."""
        return {row["key"]: row for row in rows(self.path, "SELECT * FROM ledger_claim WHERE key IS NOT NULL")}

    @cached_property
    def parts(self) -> dict[str, dict[str, Loss]]:
        """The losses that were consumed, by the key of the claim and the part."""
        found: dict[str, dict[str, Loss]] = {}
        sql = "SELECT key, part, p.loss FROM ledger_part p JOIN ledger_claim c ON c.id = p.claim WHERE key IS NOT NULL"
        for row in rows(self.path, sql):
            found.setdefault(row["key"], {})[row["part"]] = loss_of_text(row["loss"])
        return found

    def attempted(self, task: str) -> Decimal:
        """The most epsilon that the attempts of a pipeline's task took from any one block."""
        sql = (
            "SELECT sum(spent) AS spent FROM ledger_charge x JOIN ledger_claim c ON c.id = x.claim "
            "WHERE place = 'epsilon' AND key LIKE ? GROUP BY block"
        )
        spent = [row["spent"] for row in rows(self.path, sql, f"pipeline task-{task} %")]
        return Decimal(max(spent, default=0)) * EPSILON_STEP

    @property
    def overdrawn(self) -> Iterator[str]:
        """Blocks that hold more than they may."""
        sql = "SELECT block, spender FROM ledger_meter WHERE firm = 1 AND capacity < reserved + spent"
        yield from (row["block"] for row in rows(self.path, sql))


@dataclass(frozen=True)
class Sent:
    """One part that a person answered, or is about to: `left` is whether a byte of it may have left."""

    task: str
    number: int
    slot: str
    part: str
    epsilon: Decimal
    delta: Decimal
    receipt: str | None
    state: str
    consent: str
    accepted_at: float | None

    @property
    def left(self) -> bool:
        return self.receipt is not None or self.state not in _NOTHING_LEFT

    @property
    def key(self) -> str:
        """Of its claim."""
        return f"task {self.task} participation {self.number}"


class Diary:
    """A person's home."""

    def __init__(self, home: Path) -> None:
        self.name, self.home, self.books = home.name, home, Books(home / "ledger.db")
        self._file = home / "person.db"

    @cached_property
    def sent(self) -> list[Sent]:
        sql = (
            "SELECT p.task_id, p.number, s.name AS slot, g.part, g.epsilon, g.delta, g.receipt, p.state, p.consent, "
            "p.accepted_at FROM sending g JOIN participation p ON p.id = g.participation "
            "JOIN slot s ON s.task_id = p.task_id"
        )
        found = []
        for row in rows(self._file, sql):
            task, epsilon, delta = row.pop("task_id"), Decimal(row.pop("epsilon")), Decimal(row.pop("delta"))
            found.append(Sent(task=task, epsilon=epsilon, delta=delta, **row))
        return found

    @cached_property
    def documents(self) -> dict[str, tuple[str, Row]]:
        """By task: the digest under which it was agreed to, and the document."""
        sql = "SELECT DISTINCT p.task_id, p.digest, d.body FROM participation p JOIN document d ON d.digest = p.digest"
        return {row["task_id"]: (row["digest"], json.loads(row["body"])) for row in rows(self._file, sql)}

    def pseudonyms(self, task: str) -> set[str]:
        """Return what this person is called in the parts of a task with tokens to which they answered; else nothing."""
        digest, document = self.documents.get(task, ("", {}))
        credential = self._credentials.get((document.get("group"), document.get("epoch")))
        if credential is None:
            return set()
        parts = {sent.part for sent in self.sent if sent.task == task}
        return {credential.pseudonym(Context(task, digest, part)) for part in parts}

    @cached_property
    def _credentials(self) -> dict[tuple[str | None, str | None], Credential]:
        """By group and epoch."""
        found = rows(self._file, "SELECT name, epoch, sealed FROM membership WHERE enrolled = 1")
        seal = Seal(key_of(self.home)) if found else None
        opened = {}
        for row in found:
            assert seal is not None
            place = f"membership\0{row['name']}\0{row['epoch']}".encode()
            opened[row["name"], row["epoch"]] = Credential.from_json(json.loads(seal.open(row["sealed"], place)))
        return opened

    @cached_property
    def results(self) -> dict[str, Row]:
        """The results that were kept of tasks that are done."""
        sql = "SELECT task_id, result FROM participation WHERE state = 'done' AND result IS NOT NULL"
        return {row["task_id"]: json.loads(row["result"]) for row in rows(self._file, sql)}

    @cached_property
    def unfinished(self) -> list[str]:
        """Tasks for which something is still on its way."""
        sql = "SELECT task_id FROM participation WHERE state IN ('reserved', 'asked', 'computed', 'sending')"
        return [row["task_id"] for row in rows(self._file, sql)]


class Cabinet:
    """A site's home."""

    def __init__(self, home: Path) -> None:
        self.name, self.home, self.books = home.name, home, Books(home / "ledger.db")

    @cached_property
    def requests(self) -> dict[str, Row]:
        """By task."""
        found = rows(self.home / "outbox.db", "SELECT * FROM request")
        return {row["task"]: {**row, "document": json.loads(row["document"])} for row in found}

    @cached_property
    def answers(self) -> list[Row]:
        return rows(self.home / "outbox.db", "SELECT task, part, epsilon, delta FROM answer")

    @cached_property
    def audited(self) -> list[tuple[str, Row]]:
        """(event, facts), oldest first."""
        found = rows(self.home / "audit.db", "SELECT body FROM entry ORDER BY number")
        return [(told["event"], told["facts"]) for told in (json.loads(row["body"]) for row in found)]


class Registry:
    """A coordinator's home, and its store where that is not in it."""

    def __init__(self, home: Path, store: str | None = None) -> None:
        self.home, self._store = home, store or str(home / "coordinator.db")

    @cached_property
    def tasks(self) -> dict[str, Row]:
        """By id."""
        found = stored(self._store, "SELECT * FROM coordinator_task")
        return {row["id"]: {**row, "document": json.loads(row["document"])} for row in found}

    @cached_property
    def contributions(self) -> list[Row]:
        """Those that were not taken back."""
        sql = "SELECT task, part, contributor, receipt FROM coordinator_contribution WHERE withdrawn = 0"
        return stored(self._store, sql)

    @cached_property
    def releases(self) -> dict[tuple[str, int], Row]:
        """By task and phase."""
        found = stored(self._store, "SELECT task, phase, body FROM coordinator_release ORDER BY phase")
        return {(row["task"], row["phase"]): json.loads(row["body"]) for row in found}

    @cached_property
    def latest(self) -> dict[str, Row]:
        """The release that is served, by task."""
        return {task: body for (task, _), body in self.releases.items()}

    @cached_property
    def listed(self) -> list[Row]:
        return stored(self._store, 'SELECT * FROM coordinator_entry ORDER BY "index"')

    @cached_property
    def answered(self) -> dict[str, list[str]]:
        """The sites whose answers were counted in the last phase, by task."""
        found = stored(self._store, "SELECT task, progress FROM coordinator_run")
        return {row["task"]: json.loads(row["progress"]).get("answered", []) for row in found}

    @property
    def keys(self) -> set[str]:
        """Tasks that still have a key."""
        folder = self.home / "keys"
        return {file.name for file in folder.iterdir()} if folder.is_dir() else set()
