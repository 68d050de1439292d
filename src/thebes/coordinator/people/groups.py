"""Groups whose members answer with tokens: who may enrol, the one request of each, the record once it is frozen.

What must stay true: an identity gets one credential in an epoch, and only while the group is not frozen; what is
published stands in the signed list; an authority's key is a file of its own that only this home's owner reads.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import GROUP, MEMBER
from thebes.coordinator.storage.task_list import append
from thebes.privacy.faults import Fault, Mistake
from thebes.tokens import Authority, GroupParameters
from thebes.tokens.parameters import PRIVATE, PUBLIC
from thebes.wire.groups import GroupRecord, listed_key, listed_record, member_of
from thebes.wire.refusals import Conflict, NotAllowed, NotFound

LONGEST_IDENTITY = 200
MOST_AT_ONCE = 100_000
_KEPT = 256  #: frozen records that are kept ready


@dataclass(frozen=True, slots=True)
class Admitted:
    """An identity that may enrol, or has. Only for operators."""

    identity: str
    enrolled: bool


class ContributorGroups:
    """Every group of one deployment. The record of a frozen epoch never changes, so it is read once."""

    def __init__(self, database: Database, home: CoordinatorHome, clock: Clock) -> None:
        self._database = database
        self._home = home
        self._clock = clock
        self._frozen: dict[tuple[str, str], GroupRecord] = {}

    # --- what an authority does -------------------------------------------------------------------------

    def create(self, name: str, *, minimum: int, epoch: str | None = None, names: str = PRIVATE) -> GroupRecord:
        """A new group, or a new epoch of one; by default the epoch is named after today. Its key is made now, and its
        digest stands in the signed list before anybody can enrol. Whether the names of its members become public when
        it is published is in that digest too."""
        now = self._clock.now()
        epoch = f"{now:%Y-%m-%d}" if epoch is None else epoch
        # refuses what cannot work before anything is written
        Authority.create(name, epoch, minimum=minimum).parameters(size=0, names=names)

        def fresh() -> bytes:
            return json.dumps(Authority.create(name, epoch, minimum=minimum).as_json()).encode()

        def work(connection: sa.Connection) -> GroupParameters:
            known = select(sa.exists().where(GROUP.c.name == name, GROUP.c.epoch == epoch))
            if connection.scalar(known):
                raise Conflict(f"there is a group {name!r} with the epoch {epoch!r} already; name another epoch")
            kept = self._home.authority(name, epoch, fresh)  # a key that a process left behind that died here is used
            parameters = replace(_authority(kept), minimum=minimum).parameters(size=0, names=names)
            row = {"name": name, "epoch": epoch, "parameters": json.dumps(parameters.as_json())}
            connection.execute(GROUP.insert().values(**row, created=now.timestamp()))
            append(connection, listed_key(name, epoch), parameters.digest)
            return parameters

        return GroupRecord(self._database.write(work), False, ())

    def admit(self, name: str, identities: Sequence[str], *, epoch: str | None = None) -> dict[str, str]:
        """A one-time code for each of these people, to be handed to them and to nobody else. Again for somebody who
        has not enrolled yet: the earlier code ends."""
        if not identities or len(identities) > MOST_AT_ONCE:
            raise Mistake("identity", f"must be 1 to {MOST_AT_ONCE} of them")
        for identity in identities:
            if not 0 < len(identity) <= LONGEST_IDENTITY or not identity.isprintable() or identity != identity.strip():
                raise Mistake("identity", f"must be 1 to {LONGEST_IDENTITY} printable characters, as people know it")
        if len(set(identities)) != len(identities):
            raise Mistake("identity", "must be different ones: each gets one code")
        epoch = self._epoch(name, epoch)
        codes = {identity: secrets.token_hex(16) for identity in identities}

        def work(connection: sa.Connection) -> None:
            _not_frozen(connection, name, epoch)
            own = (MEMBER.c.name == name, MEMBER.c.epoch == epoch)
            query = select(MEMBER.c.identity, MEMBER.c.request).where(*own)
            known = {row.identity: row.request for row in connection.execute(query)}
            enrolled = [identity for identity in identities if known.get(identity) is not None]
            if enrolled:
                raise Conflict(f"{len(enrolled)} of them enrolled already; a lost credential waits for the next epoch")
            for identity, code in codes.items():
                if identity in known:
                    change = MEMBER.update().where(*own, MEMBER.c.identity == identity)
                    connection.execute(change.values(code=_told_apart(code)))
            new = [identity for identity in identities if identity not in known]
            rows = [{"identity": identity, "code": _told_apart(codes[identity])} for identity in new]
            if rows:
                connection.execute(MEMBER.insert().values(name=name, epoch=epoch, request=None), rows)

        self._database.write(work)
        return codes

    def publish(self, name: str, *, epoch: str | None = None) -> GroupRecord:
        """Freeze the list of an epoch: nobody enrols any more, who did not is not in it. Where the group was created
        with public names it says who is; else members can tell that they are in it, and everybody how many."""
        epoch = self._epoch(name, epoch)

        def work(connection: sa.Connection) -> GroupRecord:
            row = _locked(connection, name, epoch)
            if row.size is not None:
                raise Conflict("this epoch was published already; it stays as it is")
            enrolled = _enrolled(connection, name, epoch)
            record = _frozen(row, enrolled)
            if record.size < record.parameters.minimum:
                raise Conflict(
                    f"{record.size} people have enrolled, and its members were promised at least "
                    f"{record.parameters.minimum}; wait until more have"
                )
            own = (GROUP.c.name == name, GROUP.c.epoch == epoch)
            connection.execute(GROUP.update().where(*own).values(size=record.size))
            append(connection, listed_record(name, epoch), record.digest)
            return record

        return self._database.write(work)

    def admitted(self, name: str, epoch: str | None = None) -> list[Admitted]:
        """List who may enrol, and who has, by name, for operators."""
        epoch = self._epoch(name, epoch)
        own = (MEMBER.c.name == name, MEMBER.c.epoch == epoch)
        query = select(MEMBER.c.identity, MEMBER.c.request).where(*own).order_by(MEMBER.c.identity)
        return [Admitted(row[0], row[1] is not None) for row in self._database.read(lambda c: c.execute(query).all())]

    # --- what a member does -----------------------------------------------------------------------------

    def enrol(self, name: str, code: str, request: str, *, epoch: str | None = None) -> tuple[str, str]:
        """(epoch, response) for the holder of a code. The same request again gets the same answer, also after the
        group was frozen; another one under the same code is refused."""
        epoch = self._epoch(name, epoch)
        own = (MEMBER.c.name == name, MEMBER.c.epoch == epoch, MEMBER.c.code == _told_apart(code))
        known = self._database.read(lambda c: c.execute(select(MEMBER.c.request).where(*own)).first())
        if known is None:
            raise NotAllowed("this invitation code is not valid for this group and epoch; ask for another")
        if known[0] not in (None, request):
            raise _another()
        kept = self._home.authority(name, epoch)
        response = _authority(kept).enrol(request)  # refuses a bad request; told to nobody before it is written down

        def work(connection: sa.Connection) -> None:
            group = _locked(connection, name, epoch)
            row = connection.execute(select(MEMBER.c.request).where(*own).with_for_update()).first()
            if row is None:
                raise NotAllowed("this invitation code is not valid for this group and epoch; ask for another")
            if row[0] == request:
                return
            if row[0] is not None:
                raise _another()
            if group.size is not None:
                raise Conflict("this epoch of the group is frozen, so nobody enrols in it; wait for the next one")
            same = (MEMBER.c.name == name, MEMBER.c.epoch == epoch, MEMBER.c.request == request)
            if connection.scalar(select(sa.exists().where(*same))):
                raise Conflict("this request was made for somebody else; begin an enrolment of your own")
            connection.execute(MEMBER.update().where(*own).values(request=request))

        self._database.write(work)
        return epoch, response

    # --- what everybody sees ----------------------------------------------------------------------------

    def all(self) -> list[GroupRecord]:
        """Every epoch of every group, the newest epoch of each first."""
        query = select(GROUP.c.name, GROUP.c.epoch).order_by(GROUP.c.name, GROUP.c.created.desc(), GROUP.c.epoch)
        return [self.record(name, epoch) for name, epoch in self._database.read(lambda c: c.execute(query).all())]

    def epochs(self, name: str) -> list[str]:
        """The epochs of a group, the newest first."""
        query = select(GROUP.c.epoch).where(GROUP.c.name == name).order_by(GROUP.c.created.desc(), GROUP.c.epoch)
        return list(self._database.read(lambda c: c.scalars(query).all()))

    def record(self, name: str, epoch: str | None = None) -> GroupRecord:
        """Return what is public of a group's epoch, by default its newest."""
        epoch = epoch or self._epoch(name, epoch)
        known = self._frozen.get((name, epoch))
        if known is not None:
            return known

        def read(connection: sa.Connection) -> GroupRecord:
            row = connection.execute(select(GROUP).where(GROUP.c.name == name, GROUP.c.epoch == epoch)).first()
            if row is None:
                raise NotFound("there is no such epoch of this group")
            if row.size is not None:
                return _frozen(row, _enrolled(connection, name, epoch))
            own = (MEMBER.c.name == name, MEMBER.c.epoch == epoch, MEMBER.c.request.is_not(None))
            count = connection.scalar(select(sa.func.count()).select_from(MEMBER).where(*own))
            return GroupRecord(_parameters(row, count or 0), False, ())

        record = self._database.read(read)
        if record.frozen:
            if len(self._frozen) >= _KEPT:
                self._frozen.pop(next(iter(self._frozen)))
            self._frozen[name, epoch] = record
        return record

    def published(self, name: str, epoch: str | None = None) -> GroupRecord | None:
        """The frozen record of this epoch, or of the newest that is frozen; None where there is none."""
        frozen = [GROUP.c.name == name, GROUP.c.size.is_not(None)]
        if epoch is not None:
            frozen.append(GROUP.c.epoch == epoch)
        query = select(GROUP.c.epoch).where(*frozen).order_by(GROUP.c.created.desc(), GROUP.c.epoch).limit(1)
        found = self._database.read(lambda c: c.scalar(query))
        return None if found is None else self.record(name, found)

    def _epoch(self, name: str, epoch: str | None) -> str:
        found = self.epochs(name)
        if not found:
            raise NotFound("there is no group of this name")
        if epoch is None:
            return found[0]
        if epoch not in found:
            raise NotFound("there is no such epoch of this group")
        return epoch


def _authority(kept: bytes | None) -> Authority:
    if kept is None:
        raise Fault("the key of a group's authority is gone from the home")
    return Authority.from_json(json.loads(kept))


def _told_apart(code: str) -> str:
    """A code as it is kept: it has 128 random bits, so its digest tells nobody what it was."""
    return hashlib.sha256(b"thebes enrolment code 1\0" + code.strip().encode()).hexdigest()


def _another() -> Conflict:
    return Conflict(
        "this code was used for another request already; if that was yours, send the same one again, "
        "else tell the group's authority"
    )


def _locked(connection: sa.Connection, name: str, epoch: str) -> Any:
    """The group's row, held until the transaction ends: enrolling and freezing wait for each other."""
    query = select(GROUP).where(GROUP.c.name == name, GROUP.c.epoch == epoch).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        raise NotFound("there is no such epoch of this group")
    return row


def _not_frozen(connection: sa.Connection, name: str, epoch: str) -> None:
    if _locked(connection, name, epoch).size is not None:
        raise Conflict("this epoch of the group is frozen, so nobody is admitted to it; create the next epoch")


def _enrolled(connection: sa.Connection, name: str, epoch: str) -> list[tuple[str, str]]:
    """(identity, request) of everybody who has a credential."""
    own = (MEMBER.c.name == name, MEMBER.c.epoch == epoch, MEMBER.c.request.is_not(None))
    return [(row[0], row[1]) for row in connection.execute(select(MEMBER.c.identity, MEMBER.c.request).where(*own))]


def _frozen(row: Any, enrolled: Sequence[tuple[str, str]]) -> GroupRecord:
    parameters = _parameters(row, len(enrolled))
    members = tuple(sorted(member_of(parameters, request) for _, request in enrolled))
    named = tuple(sorted(identity for identity, _ in enrolled)) if parameters.names == PUBLIC else None
    return GroupRecord(parameters, True, members, named)


def _parameters(row: Any, size: int) -> GroupParameters:
    return replace(GroupParameters.from_json(json.loads(row.parameters)), size=size)
