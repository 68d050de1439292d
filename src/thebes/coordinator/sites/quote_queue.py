"""The queue of questions about what sites say of costs, for a process that does not speak with them: its question lies
in the database until the one that does has answered it.

What must stay true: whichever process is asked says what the sites said; a question goes once its answer was heard, and
one whose asker died goes with the next that is put.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.sites.quotes import Quoted, read, unheard, written
from thebes.coordinator.storage.database import Database, StoreUnavailable
from thebes.coordinator.storage.schema import QUESTION
from thebes.wire.refused_sites import LATE

T = TypeVar("T")
PATIENCE_SECONDS = 10.0  #: twice what a site has for its answer
_ABANDONED_SECONDS = 600.0
_MOST = 100  #: that are put to the sites at the same time
_SILENT = "is spoken with by another process of this coordinator, which did not say in time"
log = logging.getLogger("thebes.coordinator")


@dataclass(frozen=True, slots=True)
class QuoteQuestion:
    """The question that sites are asked, and which ones they are."""

    id: str
    sites: tuple[str, ...]
    body: Mapping[str, Any]


class Beside(Protocol):
    """Runs what waits for the database, beside the event loop."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


class Asking(Protocol):
    """Puts a question to sites that are linked here."""

    async def __call__(self, sites: Sequence[str], body: Mapping[str, Any]) -> dict[str, Quoted]: ...


class Questions:
    """Both ends: `put` in the process that would know, `answer` in the one that speaks with the sites."""

    def __init__(self, database: Database, beside: Beside, ask: Asking, *, look_seconds: float) -> None:
        self._table = _Table(database)
        self._beside, self._ask, self._look = beside, ask, look_seconds
        self._answering: dict[str, asyncio.Task[None]] = {}

    async def put(self, sites: Sequence[str], body: Mapping[str, Any], now: float) -> dict[str, Quoted]:
        """Return what each of these says, or why it does not."""
        question = QuoteQuestion(secrets.token_hex(16), tuple(sites), body)
        await self._beside(lambda: self._table.put(question, now))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (said := await self._beside(lambda: self._table.answer(question.id))) is None:
                    await asyncio.sleep(self._look)
        except TimeoutError:
            return dict.fromkeys(sites, unheard(_SILENT, LATE))
        finally:
            with suppress(StoreUnavailable):
                await self._beside(lambda: self._table.remove(question.id))
        return said

    async def answer(self) -> None:
        """Begin to answer what was put since the last time."""
        for question in await self._beside(lambda: self._table.open(self._answering)):
            self._answering[question.id] = asyncio.create_task(self._answered(question))

    async def leave(self) -> None:
        """Answer nothing more: another process does."""
        answering = [*self._answering.values()]
        self._answering.clear()
        for each in answering:
            each.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _answered(self, question: QuoteQuestion) -> None:
        try:
            said = await self._ask(question.sites, question.body)
            await self._beside(lambda: self._table.note(question.id, said))
        except StoreUnavailable as error:
            log.error("%s; trying again", error, extra={"event": "store.away"})
        finally:
            self._answering.pop(question.id, None)


class _Table:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, question: QuoteQuestion, now: float) -> None:
        row = {"id": question.id, "asked": now, "sites": json.dumps(question.sites), "body": json.dumps(question.body)}

        def work(connection: sa.Connection) -> None:
            connection.execute(QUESTION.delete().where(QUESTION.c.asked < now - _ABANDONED_SECONDS))
            connection.execute(QUESTION.insert().values(**row))

        self._database.write(work)

    def open(self, known: Iterable[str]) -> list[QuoteQuestion]:
        """Those without an answer, oldest first, besides what is known."""
        due = (QUESTION.c.answer.is_(None), QUESTION.c.id.not_in([*known]))
        query = select(QUESTION).where(*due).order_by(QUESTION.c.asked).limit(_MOST)
        rows = self._database.read(lambda c: c.execute(query).all())
        return [QuoteQuestion(row.id, tuple(json.loads(row.sites)), json.loads(row.body)) for row in rows]

    def note(self, number: str, said: Mapping[str, Quoted]) -> None:
        """The answer, unless another process gave one before."""
        own = (QUESTION.c.id == number, QUESTION.c.answer.is_(None))
        told = json.dumps({site: written(each) for site, each in said.items()})
        self._database.write(lambda c: c.execute(QUESTION.update().where(*own).values(answer=told)))

    def answer(self, number: str) -> dict[str, Quoted] | None:
        told = self._database.read(lambda c: c.scalar(select(QUESTION.c.answer).where(QUESTION.c.id == number)))
        return None if told is None else {site: read(each) for site, each in json.loads(told).items()}

    def remove(self, number: str) -> None:
        self._database.write(lambda c: c.execute(QUESTION.delete().where(QUESTION.c.id == number)))
