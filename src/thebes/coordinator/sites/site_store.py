"""The store of what a coordinator remembers of sites, and of the tasks that they answer.

What must stay true: a phase has at most one release, stored in the same moment as where the task stands afterwards;
what a process stores that no longer speaks with the sites changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from thebes.coordinator.storage.database import Database, QuickStatement
from thebes.coordinator.storage.schema import FAREWELL, RELEASE, RUN, SEAT, SITE, TASK
from thebes.coordinator.storage.task_list import publish
from thebes.coordinator.tasks.states import Status
from thebes.wire.release_record import digest_of_text

_SEAT = "sites"
#: seconds since 1970
_CLOCKS = {
    "postgresql": "extract(epoch FROM clock_timestamp())",
    "sqlite": "(julianday('now') - 2440587.5) * 86400",
}
MOST_FAREWELLS = 1000  #: that are looked at in one go
# What is said at every look and in every phase.
_GOING = QuickStatement(
    select(TASK.c.id)
    .where(TASK.c.sites.is_not(None), TASK.c.status == sa.literal_column(f"'{Status.OPEN}'"))
    .order_by(TASK.c.created)
)
_STANDS = QuickStatement(
    select(TASK.c.holder, TASK.c.status, TASK.c.phase).where(TASK.c.id == bindparam("task")).with_for_update()
)
_GOES_ON = QuickStatement(
    TASK.update()
    .where(TASK.c.id == bindparam("task"))
    .values(
        snapshot=bindparam("kept"),
        phase=bindparam("next"),
        part=bindparam("named"),
        accepted=sa.literal_column("0"),
        counts=sa.literal_column("'[0]'"),
    )
)
_TELL = QuickStatement(
    RUN.update().where(RUN.c.task == bindparam("run")).values(progress=bindparam("told")).returning(RUN.c.task)
)
_TELL_FIRST = QuickStatement(RUN.insert().values(task=bindparam("run"), progress=bindparam("told")))


class NoLongerOurs(Exception):
    """The task was cancelled, or another process speaks with the sites now: what was computed is thrown away."""


@dataclass(frozen=True, slots=True)
class KnownSite:
    """A site as it last described itself: schemas by data set, as JSON."""

    name: str
    linked: bool
    seen: float  #: seconds since 1970
    datasets: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConvenedTask:
    """A task of sites, as it is stored: who is asked, by which schemas, and where it stands."""

    id: str
    requestor: str
    digest: str
    document: Mapping[str, Any]
    schemas: Mapping[str, Any]  #: of those that are asked, by site
    left_out: Mapping[str, str]  #: sites that were not asked, and why
    quotes: Mapping[str, Any]  #: what sites said beforehand of answers that they have already
    trusted: bool
    phase: int
    snapshot: bytes | None
    following: Status | None
    release: str | None  #: the latest
    progress: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of the end of a phase. `status` OPEN: the next phase begins. `waits`: `finish` shows the end."""

    status: Status
    release: str | None  #: if there is a new one
    snapshot: bytes | None
    part: str
    answered: int
    progress: Mapping[str, Any]
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Noted:
    """The word of a site that it knows that a task is over. `charged`: whether it was charged anything there; None
    where the site does not say."""

    site: str
    task: str
    charged: bool | None = None


class FederationStore:
    """`holder` names the process."""

    def __init__(self, database: Database, holder: str) -> None:
        self.database = database
        self._holder = holder

    # --- sites ------------------------------------------------------------------------------------------

    def sites(self) -> list[KnownSite]:
        """Every site that was ever linked."""
        rows = self.database.read(lambda c: c.execute(select(SITE).order_by(SITE.c.name)).all())
        return [KnownSite(row.name, bool(row.linked), row.seen, json.loads(row.datasets)) for row in rows]

    def note(self, now: float, linked: Iterable[str]) -> None:
        """Note who is linked at this moment; everybody else is not."""
        names = sorted(set(linked))

        def work(connection: sa.Connection) -> None:
            known = set(connection.scalars(select(SITE.c.name)).all())
            connection.execute(SITE.update().where(SITE.c.name.not_in(names)).values(linked=0))
            connection.execute(SITE.update().where(SITE.c.name.in_(names)).values(linked=1, seen=now))
            for name in names:
                if name not in known:
                    connection.execute(SITE.insert().values(name=name, linked=1, seen=now, datasets="{}"))

        self.database.write(work)

    def describe(self, site: str, datasets: Mapping[str, Any], now: float) -> None:
        """Note what a linked site has."""
        told = json.dumps(datasets)

        def work(connection: sa.Connection) -> None:
            own = SITE.update().where(SITE.c.name == site)
            if connection.execute(own.values(linked=1, seen=now, datasets=told)).rowcount == 0:
                connection.execute(SITE.insert().values(name=site, linked=1, seen=now, datasets=told))

        self.database.write(work)

    # --- the seat ---------------------------------------------------------------------------------------

    def take_seat(self, seconds: float, *, open_: bool) -> bool:
        """Try to take the seat, and return whether this process speaks with the sites for so long. One with a port goes
        before one without."""

        def work(connection: sa.Connection) -> bool:
            row = connection.execute(select(SEAT).where(SEAT.c.name == _SEAT).with_for_update()).first()
            now = _moment(connection)
            mine = {"holder": self._holder, "open": int(open_), "until": now + seconds}
            if row is None:
                connection.execute(SEAT.insert().values(name=_SEAT, **mine))
                return True
            if row.holder != self._holder and row.until > now and not (open_ and not row.open):
                return False
            connection.execute(SEAT.update().where(SEAT.c.name == _SEAT).values(**mine))
            return True

        return self.database.write(work)

    def leave_seat(self) -> None:
        """Another process may take it at once."""
        own = (SEAT.c.name == _SEAT, SEAT.c.holder == self._holder)
        self.database.write(lambda c: c.execute(SEAT.delete().where(*own)))

    def seated(self) -> bool:
        """Return whether any process speaks with the sites."""

        def look(connection: sa.Connection) -> bool:
            until = connection.scalar(select(SEAT.c.until).where(SEAT.c.name == _SEAT))
            return until is not None and until > _moment(connection)

        return self.database.read(look)

    # --- tasks ------------------------------------------------------------------------------------------

    def open(self) -> list[str]:
        """The tasks of sites that go on, oldest first."""
        return [row[0] for row in self.database.quick(_GOING)]

    def hold(self, task_id: str) -> ConvenedTask | None:
        """A task that goes on, in this process's hands from now on."""

        def work(connection: sa.Connection) -> ConvenedTask | None:
            going = (TASK.c.id == task_id, TASK.c.status == Status.OPEN, TASK.c.sites.is_not(None))
            if connection.execute(TASK.update().where(*going).values(holder=self._holder)).rowcount != 1:
                return None
            row = connection.execute(select(TASK).where(TASK.c.id == task_id)).one()
            told = connection.scalar(select(RUN.c.progress).where(RUN.c.task == task_id))
            latest = select(RELEASE.c.body).where(RELEASE.c.task == task_id).order_by(RELEASE.c.phase.desc()).limit(1)
            asked = json.loads(row.sites)
            return ConvenedTask(
                id=row.id,
                requestor=row.requestor,
                digest=row.digest,
                document=json.loads(row.document),
                schemas=asked["asked"],
                left_out=asked["left_out"],
                quotes=asked.get("quotes", {}),
                trusted=bool(row.trusted),
                phase=row.phase,
                snapshot=row.snapshot,
                following=None if row.following is None else Status(row.following),
                release=connection.scalar(latest),
                progress=None if told is None else json.loads(told),
            )

        return self.database.write(work)

    def conclude(self, task: ConvenedTask, phase: int, ended: Ended) -> None:
        """Store the end of a phase."""
        digest = None if ended.release is None else digest_of_text(ended.release)

        def work(connection: sa.Connection) -> None:
            self._still_ours(connection, task.id, phase)
            if ended.release is not None and digest is not None:
                publish(connection, task.id, phase, ended.release, digest)
            if ended.status is Status.OPEN:
                stands = {"kept": ended.snapshot, "next": phase + 1, "named": ended.part}
                _GOES_ON.on(connection, {"task": task.id, **stands})
            else:
                changed: dict[str, Any] = {"snapshot": ended.snapshot, "accepted": ended.answered}
                changed |= {"following": str(ended.status)} if ended.waits else _over(ended.status)
                changed["counts"] = json.dumps([ended.answered])
                connection.execute(TASK.update().where(TASK.c.id == task.id).values(**changed))
                if not ended.waits:
                    say_farewell(connection, task.id, task.schemas)
            _note_progress(connection, task.id, ended.progress)

        self.database.write(work)

    def keep(self, task: ConvenedTask, phase: int, snapshot: bytes) -> None:
        """Store where a phase stands that goes on."""

        def work(connection: sa.Connection) -> None:
            self._still_ours(connection, task.id, phase)
            connection.execute(TASK.update().where(TASK.c.id == task.id).values(snapshot=snapshot))

        self.database.write(work)

    def finish(self, task: ConvenedTask, phase: int, status: Status, noted: Sequence[Noted] = ()) -> None:
        """Show the end of a task that was concluded, with what sites have said of it that know so already."""

        def work(connection: sa.Connection) -> None:
            self._still_ours(connection, task.id, phase)
            connection.execute(TASK.update().where(TASK.c.id == task.id).values(**_over(status)))
            say_farewell(connection, task.id, task.schemas.keys() - {each.site for each in noted})
            _note_charged(connection, noted)

        self.database.write(work)

    def fail(self, task: ConvenedTask) -> None:
        """Its end cannot be computed."""

        def work(connection: sa.Connection) -> None:
            own = (TASK.c.id == task.id, TASK.c.status == Status.OPEN, TASK.c.holder == self._holder)
            connection.execute(TASK.update().where(*own).values(**_over(Status.FAILED)))
            say_farewell(connection, task.id, task.schemas)

        self.database.write(work)

    def tell(self, task_id: str, progress: Mapping[str, Any]) -> None:
        """Note how a task goes that is not over, for readers of other processes. What is told of a phase that has ended
        meanwhile comes too late: its end is stored with more."""

        def work(connection: sa.Connection) -> None:
            own = (TASK.c.id == task_id, TASK.c.status == Status.OPEN, TASK.c.holder == self._holder)
            now = (TASK.c.phase == progress["phase"], TASK.c.following.is_(None))
            if connection.execute(select(TASK.c.id).where(*own, *now).with_for_update()).first() is not None:
                _note_progress(connection, task_id, progress)

        self.database.write(work)

    def progress(self, task_id: str) -> dict[str, Any] | None:
        told = self.database.read(lambda c: c.scalar(select(RUN.c.progress).where(RUN.c.task == task_id)))
        return None if told is None else dict(json.loads(told))

    def progresses(self, tasks: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return how these tasks go, those of which it is known."""
        query = select(RUN.c.task, RUN.c.progress).where(RUN.c.task.in_(tasks))
        return {task: dict(json.loads(told)) for task, told in self.database.read(lambda c: c.execute(query).all())}

    def asked(self, task_id: str) -> dict[str, Any]:
        """Return who is asked by which schema (`asked`), and who is not and why (`left_out`)."""
        text = self.database.read(lambda c: c.scalar(select(TASK.c.sites).where(TASK.c.id == task_id)))
        return dict(json.loads(text or '{"asked": {}, "left_out": {}}'))

    # --- the end of tasks, as sites are told ------------------------------------------------------------

    def farewells(self, sites: Sequence[str]) -> list[tuple[str, str]]:
        """(site, task) that these sites are still to be told of."""
        query = select(FAREWELL.c.site, FAREWELL.c.task).where(FAREWELL.c.site.in_(sites)).limit(MOST_FAREWELLS)
        return [(row[0], row[1]) for row in self.database.read(lambda c: c.execute(query).all())]

    def noted(self, farewells: Sequence[Noted]) -> None:
        """Note that these sites know, and what they said."""
        own = FAREWELL.delete().where(FAREWELL.c.site == sa.bindparam("s"), FAREWELL.c.task == sa.bindparam("t"))

        def work(connection: sa.Connection) -> None:
            connection.execute(own, [{"s": each.site, "t": each.task} for each in farewells])
            _note_charged(connection, farewells)

        self.database.write(work)

    def _still_ours(self, connection: sa.Connection, task_id: str, phase: int) -> None:
        stands = [(self._holder, Status.OPEN, phase)]
        if [tuple(row) for row in _STANDS.on(connection, {"task": task_id})] != stands:
            raise NoLongerOurs


def _moment(connection: sa.Connection) -> float:
    """By the database's own clock: those of the processes need not agree, nor go on as they did before a restart."""
    return float(connection.scalar(sa.text(f"SELECT {_CLOCKS[connection.dialect.name]}")) or 0.0)


def say_farewell(connection: sa.Connection, task_id: str, sites: Iterable[str]) -> None:
    """These sites are to be told that the task is over."""
    known = set(connection.scalars(select(FAREWELL.c.site).where(FAREWELL.c.task == task_id)).all())
    rows = [{"site": site, "task": task_id} for site in sorted(set(sites) - known)]
    if rows:
        connection.execute(FAREWELL.insert(), rows)


def _note_progress(connection: sa.Connection, task_id: str, progress: Mapping[str, Any]) -> None:
    values = {"run": task_id, "told": json.dumps(progress)}
    if not _TELL.on(connection, values):
        _TELL_FIRST.on(connection, values)


def _note_charged(connection: sa.Connection, noted: Iterable[Noted]) -> None:
    """Add to what is told of tasks that are over whether sites charged them anything, as far as they say so."""
    said = dict[str, dict[str, bool]]()
    for each in noted:
        if each.charged is not None:
            said.setdefault(each.task, {})[each.site] = each.charged
    for task in sorted(said):
        own = RUN.c.task == task
        told = connection.scalar(select(RUN.c.progress).where(own).with_for_update())
        if told is not None:  # else nobody ran it, or it was forgotten
            progress = json.loads(told)
            progress["charged"] = {**progress.get("charged", {}), **said[task]}
            connection.execute(RUN.update().where(own).values(progress=json.dumps(progress)))


def _over(status: Status) -> dict[str, Any]:
    return {"status": str(status), "following": None, "leftovers": 1, "holder": None, "snapshot": None}
