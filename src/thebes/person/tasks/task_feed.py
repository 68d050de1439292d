"""The tasks a coordinator offers, each verified before anything of it is shown.

What must stay true: what a person reads is rendered here from the document whose digest stands in the coordinator's
signed list, under the key seen at first contact; never from words the coordinator sends beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thebes.database import private_files
from thebes.person.participation.participation import is_trusted, share, trust_of
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.guarantees import Price
from thebes.privacy.plain_text import plain_text
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.wire import list_pin, task_log
from thebes.wire.client import CoordinatorClient
from thebes.wire.problems import printable
from thebes.wire.refusals import NotAllowed, NotFound

KEY_FILE = "coordinator.key"  #: the key that was pinned; or its fingerprint, where somebody pinned that beforehand
UNKNOWN = "unnamed requestor"
MOST_OFFERS = 10_000  #: that are looked at


class NotListed(NotAllowed):
    """A task that is not in the coordinator's signed list with this document; it is not shown and not answered."""


class NotForPeople(NotListed):
    """A task that institutions answer: no person misses anything by not being shown it."""


@dataclass(frozen=True, slots=True)
class OfferedTask:
    """An open task whose document was verified, with what its kind says of it. `requestor`, `contributions` and
    `status` are the server's word."""

    task_id: str
    document: PeopleDocument
    explanation: str
    price: Price
    digest: str
    requestor: str
    status: str
    contributions: int | None

    @property
    def trusted(self) -> bool:
        return is_trusted(self.document)

    def as_json(self) -> dict[str, Any]:
        epsilon, delta = share(self.document)
        return {
            "task_id": self.task_id,
            "type": self.document.type,
            "name": None if self.document.name is None else plain_text(self.document.name),
            "status": self.status,
            "digest": self.digest,
            "document": self.document.as_json(),
            "explanation": self.explanation,
            "price": self.price.as_json(),
            "each": {"epsilon": float(epsilon), "delta": float(delta)},  # what one participation sets aside
            "trust": trust_of(self.document),
            "anonymity": self.document.anonymity,
            "requestor": self.requestor,
            "contributions": self.contributions,
            "min_count": self.document.min_count,
        }


class TaskFeed:
    """Reads the coordinator's tasks and its signed list. Safe to share between threads."""

    def __init__(
        self, client: CoordinatorClient, task_store: TaskStore, home: Path, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._task_store = task_store
        self._home = home
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, OfferedTask] = {}  #: as they were verified last
        self.counts = 0  #: how often another number of contributors was told
        self.unread: dict[str, str] = {}  #: task id -> why it is not shown, as of the latest reading

    def offers(self) -> list[OfferedTask]:
        """The open tasks that can be verified; `unread` says which cannot, and why."""
        told = self._client.tasks()
        listed = self._listed({str(item.get("task_id")) for item in told})
        offers, unread = [], {}
        for item in told[:MOST_OFFERS]:
            try:
                offers.append(self._verified(item, listed))
            except NotForPeople:
                continue
            except (Mistake, Refusal) as error:
                why = f"its document cannot be read ({error})" if isinstance(error, Mistake) else str(error)
                unread[printable(str(item.get("task_id")), 200)] = plain_text(printable(why))
        self.unread = unread
        return offers

    def offer(self, task_id: str) -> OfferedTask:
        """One task, open or not; `NotFound`, or `NotListed` where it cannot be verified."""
        told = self._client.task(task_id)
        if told.get("task_id") != task_id:
            raise NotFound("the coordinator answered with another task")
        return self._verified(told, self._listed({task_id}))

    def known(self, task_id: str) -> OfferedTask:
        """One task as it was verified last in this process; the coordinator is asked only where it never was."""
        return self._known.get(task_id) or self.offer(task_id)

    def documents(self) -> dict[str, PeopleDocument]:
        """Return the documents of the tasks that were verified in this process; the coordinator is not asked."""
        return {task_id: offer.document for task_id, offer in list(self._known.items())}

    def count(self, task_id: str, contributions: object) -> None:
        """Take note of how many have contributed to a task, as the coordinator told whoever waits for its answer."""
        known = self._known.get(task_id)
        if known is not None and isinstance(contributions, int) and contributions != known.contributions:
            self._known[task_id] = replace(known, contributions=contributions)
            self.counts += 1

    def requestors(self) -> set[str]:
        """Return who asked the tasks that were verified in this process; the coordinator is not asked."""
        return {offer.requestor for offer in list(self._known.values())}

    def listed(self, name: str) -> str | None:
        """Return what the signed list has under a name: a task's id, or a group's place."""
        return self._listed({name}).get(name)

    def _verified(self, told: Mapping[str, Any], listed: Mapping[str, str]) -> OfferedTask:
        task_id = told.get("task_id")
        if not isinstance(task_id, str) or task_id not in listed:
            raise NotListed("this task is not in the coordinator's signed list, so it is not shown")
        body = told.get("document")
        if not isinstance(body, Mapping):
            raise NotListed("this task has no document")
        if (type_ := body.get("type")) not in registry.written_types():
            raise NotListed(f"this machine knows no kind of task called {plain_text(printable(type_, 60))!r}")
        document = registry.posted(body)
        if not isinstance(document, PeopleDocument):
            raise NotForPeople("this task is for institutions, not for people")
        if document.digest != listed[task_id]:
            raise NotListed("this task's document is not the one in the coordinator's signed list")
        if document.only_simulated is not None:  # whatever its price says
            why = f"its {document.only_simulated} {document.only_simulated_because}"
            raise NotListed(f"this task is for simulations only, so it is not shown: {why}")
        count, kind = told.get("contributions"), registry.drawn(document.type)
        offered = OfferedTask(
            task_id=task_id,
            document=document,
            explanation=plain_text(kind.explain(document)),  # what cannot be told is not offered, to rules neither
            price=kind.price(document, unit=document.unit),
            digest=document.digest,
            requestor=plain_text(printable(told.get("requestor"), 100)) or UNKNOWN,
            status=printable(told.get("status"), 20) or "open",
            contributions=count if isinstance(count, int) else None,
        )
        if len(self._known) >= MOST_OFFERS:
            self._known.clear()
        self._known[task_id] = offered
        return offered

    def _listed(self, wanted: set[str]) -> dict[str, str]:
        """The signed list as far as it is known; read on where something is not in it yet."""
        with self._lock:
            known = self._task_store.listed()
            if wanted <= set(known) and self._pinned() is not None:
                return known
            self._read_on()
            return self._task_store.listed()

    def _read_on(self) -> None:
        seen, pinned = self._task_store.seen(), self._pinned()
        body = self._client.log(after=seen.length)
        if pinned is not None and body.get("key") != pinned:
            body = self._client.log()  # whole: what made another key the right one may have been read long ago
            pinned = list_pin.meant(pinned, body)
        verified = task_log.verify(body, key=pinned, seen=seen)
        if verified.earlier:
            self._task_store.note_keys(verified.earlier, self._clock())
        if verified.key != self._pinned():
            pin(self._home, verified.key)
        self._task_store.read_on(verified.entries, verified.seen)

    def _pinned(self) -> str | None:
        return pinned_in(self._home)


def pinned_in(home: Path) -> str | None:
    """The key that signs the list of a home's coordinator, or its fingerprint; None before first contact."""
    try:
        return (home / KEY_FILE).read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def pin(home: Path, key: str) -> None:
    """Believe this key from now on, or the one with this fingerprint. On the disk when this returns."""
    private_files.put(home / KEY_FILE, f"{key}\n")
