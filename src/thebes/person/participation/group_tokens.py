"""The groups a home belongs to: enrolling once in an epoch, and afterwards a token for every part of a task.

What must stay true: an enrolment is written down before its request leaves, so that the same request goes again after
any crash; nothing is presented to a group that is not the pinned one, or that hides this person among too few.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from thebes.person.participation.seal import Seal
from thebes.person.tasks.task_store import Membership, TaskStore
from thebes.privacy.faults import Fault, Mistake, ThebesError
from thebes.tasks.document import PeopleDocument
from thebes.tokens import Context, Credential, Enrolment, GroupParameters, GroupTooSmall, UnpinnedGroup, codec
from thebes.tokens.parameters import PRIVATE, PUBLIC
from thebes.wire.client import CoordinatorClient
from thebes.wire.groups import GroupRecord, listed_key, listed_record, member_of, report_of
from thebes.wire.refusals import NotAllowed, NotFound


class Memberships:
    """One home's credentials. `listed` gives what the coordinator's signed list has under a name."""

    def __init__(
        self, *, task_store: TaskStore, seal: Seal, client: CoordinatorClient, listed: Callable[[str], str | None]
    ) -> None:
        self._task_store, self._seal, self._client, self._listed = task_store, seal, client, listed
        self._ready: dict[tuple[str, str], tuple[Credential, GroupParameters]] = {}
        self._joining = threading.Lock()

    # --- joining ----------------------------------------------------------------------------------------

    def enrol(
        self, name: str, code: str, pin: str | None = None, *, epoch: str | None = None, names: str = PRIVATE
    ) -> dict[str, Any]:
        """Join a group's epoch with a one-time code. Without a `pin` the digest in the coordinator's signed list is
        pinned; a difference from what others see shows only where people compare. Again changes nothing. A group that
        publishes the names of its members is joined only with `names="public"`."""
        codec.name("name", name)
        if not isinstance(code, str) or not code.strip().isalnum():
            raise Mistake("code", "must be the one-time code that the group's authority gave you")
        if not self._client.private:
            raise NotAllowed("the code would travel unencrypted, and whoever read it could join instead; use https")
        with self._joining:
            record = self._shown(name, epoch)
            before = self._task_store.membership(name, record.epoch)
            pinned = pin or (None if before is None else before.pin) or record.parameters.digest
            record.parameters.require(pinned)
            if before is not None and before.pin != pinned:
                raise UnpinnedGroup(before.pin, pinned)
            if before is None and record.parameters.names == PUBLIC != names:
                raise NotAllowed(
                    'this group publishes the names of its members; join with "public" names if yours may be among them'
                )
            if before is None or not before.enrolled:
                self._finish(record, self._begun(record, before, pinned), code.strip())
            return self._told(self._known(name, record.epoch))

    def _begun(self, record: GroupRecord, before: Membership | None, pin: str) -> Enrolment:
        if before is not None:
            return Enrolment.from_json(self._open(before))
        if record.frozen:
            raise NotAllowed("this epoch of the group is closed: its members are published; wait for the next one")
        begun = Enrolment.begin(record.parameters, pin=pin)
        leaf = member_of(record.parameters, begun.request)
        self._keep(Membership(record.name, record.epoch, pin, False, leaf, self._seal_of(record, begun.as_json())))
        return begun

    def _finish(self, record: GroupRecord, begun: Enrolment, code: str) -> None:
        response = self._client.enrol(record.name, epoch=record.epoch, code=code, request=begun.request)
        credential = begun.finish(response)
        leaf = member_of(record.parameters, begun.request)
        sealed = self._seal_of(record, credential.as_json())
        self._keep(Membership(record.name, record.epoch, begun.parameters.digest, True, leaf, sealed))

    def _shown(self, name: str, epoch: str | None) -> GroupRecord:
        """Return what the coordinator shows of a group, if its signed list says the same."""
        record = GroupRecord.from_json(self._client.group(name, epoch=epoch))
        if record.name != name or (epoch is not None and record.epoch != epoch):
            raise NotFound("the coordinator answered with another group")
        if self._listed(listed_key(name, record.epoch)) != record.parameters.digest:
            raise NotAllowed(
                "the coordinator's signed list has another digest for this group, or none; nothing is sent"
            )
        return record

    # --- what one belongs to ----------------------------------------------------------------------------

    def all(self) -> list[dict[str, Any]]:
        """Every membership, with the anonymity it offers in plain words."""
        return [self._told(membership) for membership in self._task_store.memberships()]

    def _told(self, membership: Membership) -> dict[str, Any]:
        size, minimum, names, frozen = None, None, None, False
        try:
            record = self._record(membership) or self._shown(membership.name, membership.epoch)
            size, minimum, frozen = record.size, record.parameters.minimum, record.frozen
            names = record.parameters.names
        except ThebesError:  # the coordinator is away, or says something else now: accepting a task says which
            pass
        return {
            "name": membership.name,
            "epoch": membership.epoch,
            "digest": membership.pin,
            "enrolled": membership.enrolled,
            "published": frozen,
            "size": size,
            "minimum": minimum,
            "names": names,
            "anonymity": _in_words(membership, size, minimum, frozen=frozen) + _of_names(names, frozen=frozen),
        }

    # --- answering --------------------------------------------------------------------------------------

    def require(self, document: PeopleDocument) -> None:
        """Passes only where this home may answer a task with tokens."""
        self._credential(document)

    def pseudonym(self, task_id: str, document: PeopleDocument, part: str) -> str:
        """Return what this home is called in one part, and in no other."""
        return self._credential(document)[0].pseudonym(Context(task_id, document.digest, part))

    def token(self, task_id: str, document: PeopleDocument, part: str, ask_id: str, payload: dict[str, Any]) -> str:
        """A token for exactly this answer to this part. Fresh each time: keep it with what it goes with."""
        credential, published = self._credential(document)
        context = Context(task_id, document.digest, part)
        return credential.present(context, context.report_digest(report_of(ask_id, payload)), published)

    def _credential(self, document: PeopleDocument) -> tuple[Credential, GroupParameters]:
        name, epoch = document.group, document.epoch
        if name is None or epoch is None:
            raise NotAllowed("this task takes tokens and does not say of which group and epoch; it cannot be answered")
        if (name, epoch) not in self._ready:
            membership = self._task_store.membership(name, epoch)
            if membership is None or not membership.enrolled:
                raise NotAllowed(
                    f"this task takes anonymous tokens of the group {name} (epoch {epoch}), and this home is not a "
                    "member; join with a code from whoever runs the group, while people still enrol"
                )
            record = self._record(membership) or self._frozen(membership)
            self._ready[name, epoch] = (Credential.from_json(self._open(membership)), record.parameters)
        return self._ready[name, epoch]

    def _frozen(self, membership: Membership) -> GroupRecord:
        """The published record, checked once against all that this home knows of the group, then kept."""
        record = self._shown(membership.name, membership.epoch)
        parameters = record.parameters
        if parameters.digest != membership.pin:
            raise UnpinnedGroup(membership.pin, parameters.digest)
        if not record.frozen:
            raise NotAllowed(
                "this epoch of the group is not published yet, so its tokens hide nobody; wait until it is"
            )
        if record.size < parameters.minimum:
            raise GroupTooSmall(record.name, record.size, parameters.minimum)
        if membership.leaf not in record.members:
            raise NotAllowed("the group was published without this home's credential; ask whoever runs the group")
        if self._listed(listed_record(record.name, record.epoch)) != record.digest:
            raise NotAllowed("the coordinator's signed list has another record of this group, or none; it is not used")
        self._task_store.keep_record(membership, json.dumps(record.as_json()))
        return record

    # --- inside -----------------------------------------------------------------------------------------

    def _known(self, name: str, epoch: str) -> Membership:
        found = self._task_store.membership(name, epoch)
        if found is None:
            raise Fault("the task store has lost a membership")
        return found

    def _record(self, membership: Membership) -> GroupRecord | None:
        return None if membership.record is None else GroupRecord.from_json(json.loads(membership.record))

    def _keep(self, membership: Membership) -> None:
        self._task_store.keep_membership(membership)

    def _seal_of(self, record: GroupRecord, value: dict[str, Any]) -> bytes:
        return self._seal.close(json.dumps(value).encode(), _place(record.name, record.epoch))

    def _open(self, membership: Membership) -> Any:
        return json.loads(self._seal.open(membership.sealed, _place(membership.name, membership.epoch)))


def _place(name: str, epoch: str) -> bytes:
    return f"membership\0{name}\0{epoch}".encode()


def _of_names(names: str | None, *, frozen: bool) -> str:
    if names is None:
        return ""
    if names == PRIVATE:
        return " Who its members are is known only to whoever runs it."
    return " Everybody can read who its members are." if frozen else " Everybody will read who joined it."


def _in_words(membership: Membership, size: int | None, minimum: int | None, *, frozen: bool) -> str:
    if not membership.enrolled:
        return "The enrolment is not finished: join again with the same code."
    if size is None or minimum is None:
        return "The coordinator does not show this group just now, so what it offers cannot be told."
    if not frozen:
        return (
            f"The group is not published yet, so nobody answers with its tokens. {size} people have enrolled; it "
            f"promises at least {minimum}."
        )
    return (
        f"An answer with a token of this group shows that one of its {size} members gave it, and that nobody gave two, "
        "but not who: the token tells it neither to the coordinator, to who asks, to whoever runs the group, nor to "
        "all other members together. It hides you among those who keep to themselves which answers are theirs: if "
        "every other member who answered says so, the one that is left is yours. How many members there are, and that "
        "they are people, is the word of whoever runs the group. A token does not hide where your message comes from, "
        "nor what it says."
    )
