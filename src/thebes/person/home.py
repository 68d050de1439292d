"""A person's home in use: its store, its ledger and its coordinator's tasks behind the few things a person does.

What must stay true: every way in (REST, Python, standing rules) passes the same `accept`.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from thebes.data import keys
from thebes.data.store import Store
from thebes.ledger import Ledger
from thebes.machine import NotOnThisSystem
from thebes.person import coordinator_identity
from thebes.person.autostart import autostart
from thebes.person.budget import spending_report
from thebes.person.budget.budget import PersonBudget
from thebes.person.budget.home_budget import HomeBudget
from thebes.person.coordinator_tasks import CoordinatorTasks
from thebes.person.folder import DAEMON, Hold, prepared
from thebes.person.home_store import HomeStore
from thebes.person.participation import known_helpers
from thebes.person.participation.background_thread import BackgroundThread
from thebes.person.participation.participation import Participation, come_to, still
from thebes.person.participation.report import ParticipationReport
from thebes.person.participation.seal import Seal
from thebes.person.settings import PersonSettings
from thebes.person.tasks.own_data import OwnData
from thebes.person.tasks.rules import in_force, read_rules
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Mistake
from thebes.tasks.document import PeopleDocument
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotFound

TASK_STORE, LEDGER = "person.db", "ledger.db"
POLL_SECONDS = 20.0  #: between looks for results and for tasks that rules cover
LOOK_SECONDS = 0.5  #: the same while somebody waits


class Person(HomeStore, HomeBudget):
    """One person's machine. `delay` draws a random wait before every contribution; `clock` is seconds since 1970.
    `proxy` is the SOCKS5 proxy that everything goes through, remembered like `coordinator`; `none` ends that.
    `client` replaces the one that would be made for the coordinator's address."""

    def __init__(
        self,
        folder: str | Path,
        *,
        coordinator: str | None = None,
        proxy: str | None = None,
        delay: bool = True,
        passphrase: str | None = None,
        client: CoordinatorClient | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = prepared(folder)
        self._hold = Hold(self.home)
        (self.home / DAEMON).unlink(missing_ok=True)  # left by a process that was killed; its port may be anybody's now
        self._clock, self._delay = clock, delay
        try:
            self._open(coordinator, proxy, passphrase, client)
        except BaseException:
            self._hold.close()
            raise

    def _open(
        self, coordinator: str | None, proxy: str | None, passphrase: str | None, client: CoordinatorClient | None
    ) -> None:
        before = PersonSettings.read(self.home)
        given = {"coordinator": coordinator, "proxy": proxy}
        settings = before.changed({name: value for name, value in given.items() if value is not None})
        if client is None and settings.coordinator is not None:
            client = CoordinatorClient(settings.coordinator, retries=1, proxy=settings.proxy)
        if settings != before:
            settings.write(self.home)
        self._client = client
        key = keys.key_of(self.home, passphrase=passphrase)
        self._seal = Seal(key)
        self._store = Store.open(self.home, key=key)
        self._own_data = OwnData(self._store)
        self._ledger = Ledger(f"sqlite:///{self.home / LEDGER}")
        (self.home / LEDGER).chmod(0o600)
        self._task_store = TaskStore(self.home / TASK_STORE, self._seal)
        self._budget = PersonBudget(self._ledger, self.settings, lambda: datetime.fromtimestamp(self._clock(), UTC))
        self._report = ParticipationReport(self._task_store, self._budget, spending_report.LastCharged(self._ledger))
        self._closing = threading.Lock()
        self._running = BackgroundThread(self.turn, self.poll)
        self._closed = False
        self._at: CoordinatorTasks | None = None
        if self._client is not None:
            self._at = CoordinatorTasks(
                self._client,
                home=self.home,
                task_store=self._task_store,
                budget=self._budget,
                seal=self._seal,
                store=self._store,
                own_data=self._own_data,
                report=self._report,
                settings=self.settings,
                clock=self._clock,
                delay=self._delay,
                hidden=settings.proxy is not None,
            )

    # --- tasks ----------------------------------------------------------------------------------------

    def tasks(self) -> list[dict[str, Any]]:
        """The open tasks that stand in the coordinator's signed list, each with explanation, price and state."""
        at = self._with_coordinator()
        offers = at.feed.offers()
        at.notices.saw(offer.task_id for offer in offers)
        mine: dict[str, list[Participation]] = {}
        for participation in self._task_store.participations():
            mine.setdefault(participation.task_id, []).append(participation)
        return [
            {**offer.as_json(), **self._report.standing(offer.document, mine.get(offer.task_id, []))}
            for offer in offers
        ]

    def unread(self) -> list[dict[str, str]]:
        """The tasks for people that are not offered because they cannot be read or verified here, each with why, as the
        coordinator's list was read last."""
        return [{"task_id": task_id, "why": why} for task_id, why in self._with_coordinator().feed.unread.items()]

    def task(self, task_id: str, *, anew: bool = True) -> dict[str, Any]:
        """One task, with every participation in it so far. Not `anew`: as it was verified last, so that looking at a
        page for long asks the coordinator nothing."""
        feed = self._with_coordinator().feed
        offer = feed.offer(task_id) if anew else feed.known(task_id)
        mine = self._task_store.participations(task_id=task_id)
        standing = self._report.standing(offer.document, mine)
        return {**offer.as_json(), **standing, "participations": [p.as_json() for p in mine]}

    def participations(self) -> list[dict[str, Any]]:
        """Every participation, oldest first, with the task's result where there is one."""
        return [self._report.told(p) for p in self._task_store.participations()]

    def participation(self, task_id: str, number: int) -> dict[str, Any]:
        """One participation as it stands now."""
        found = next((p for p in self._task_store.participations(task_id=task_id) if p.number == number), None)
        if found is None:
            raise NotFound("you take no part in this task")
        return self._report.told(found)

    def document(self, task_id: str) -> PeopleDocument:
        """Return the document of a task that this person takes or took part in."""
        mine = self._task_store.participations(task_id=task_id)
        if not mine:
            raise NotFound("you take no part in this task")
        return mine[-1].document

    def preview(self, task_id: str) -> dict[str, Any]:
        """Exactly the rows the task would read, and which values of them do not count as they are, for the owner's eyes
        only."""
        document = self._with_coordinator().feed.offer(task_id).document
        return {"task_id": task_id, **self._own_data.preview(document)}

    def able(self, task_id: str) -> bool:
        """Tell whether a yes would be taken, as far as the store goes: it has a value that fits, or the task takes that
        there is none. The coordinator is not asked about a task that was shown."""
        return self._own_data.able(self._with_coordinator().feed.known(task_id).document)

    def place(self, task_id: str) -> str:
        """Say where this person's own value, as it lies here now, is in the answer of a task; empty where nothing can
        be said. Computed here from what lies here; nobody is asked, and nobody is told."""
        answered = [p for p in self._task_store.participations(task_id=task_id) if p.result is not None]
        if not answered:
            return ""
        return self._own_data.place(answered[-1].document, answered[-1].result or {})

    def example(self, task_id: str) -> dict[str, Any]:
        """One example of what noise does to the rows of a task: a fresh draw, never the one that is sent."""
        document = self._with_coordinator().feed.offer(task_id).document
        return {"task_id": task_id, **self._own_data.example(document)}

    def accept(self, task_id: str) -> dict[str, Any]:
        """Agree to one participation: sets the price aside, then asks, computes and sends in the background."""
        accepted = self._with_coordinator().decisions.accept(task_id)
        self._running.wake()
        return accepted.as_json()

    def decline(self, task_id: str) -> dict[str, Any]:
        """Say no; the task is not offered by rules again. One may still change one's mind."""
        return self._with_coordinator().decisions.decline(task_id).as_json()

    def withdraw(self, task_id: str, *, seen: str | None = None, packets_sent: int | None = None) -> dict[str, Any]:
        """Take the latest contribution back before its phase closes. What was sent stays charged. Several packets go
        back at once, which shows that they belong together. `seen` is the state that the person had before their eyes,
        `packets_sent` how many of its packets had left then: where more has left since, nothing is done."""
        return self._with_coordinator().decisions.withdraw(task_id, seen=seen, packets_sent=packets_sent).as_json()

    def wait(self, task_id: str, *, timeout: float = 60.0, state: str = "sent") -> dict[str, Any]:
        """Work until the latest participation in a task has reached `state` or an end; a Refusal when time runs out."""
        self._with_coordinator()
        end, looked = time.monotonic() + timeout, 0.0
        while True:
            mine = [each.as_json() for each in self._task_store.participations(task_id=task_id)]
            if come_to(mine, state):
                return mine[-1]
            if time.monotonic() >= end:
                raise still(mine, timeout)
            if not self._running.started:
                self.turn()
                after = [each.as_json()["state"] for each in self._task_store.participations(task_id=task_id)]
                if after != [each["state"] for each in mine]:
                    continue  # it got on: whether that will do comes before asking the coordinator again
            if time.monotonic() >= looked + LOOK_SECONDS:
                self.poll()
                looked = time.monotonic()
            time.sleep(0.05)

    # --- where it went ----------------------------------------------------------------------------------

    def lineage(self) -> list[dict[str, Any]]:
        """Tell where what left went, newest first: tables, task, release, what became of the receipts in it, and models
        begun from it. The coordinator is not asked."""
        return self._with_coordinator().lineage()

    def look_for_receipts(self, task_id: str) -> list[dict[str, Any]]:
        """Look anew whether the release of a task holds the receipts of this home, also where its list is long. The
        whole list is fetched, as anybody may: what is looked for is not told."""
        return self._with_coordinator().look_for_receipts(task_id)

    # --- groups -----------------------------------------------------------------------------------------

    def groups(self) -> list[dict[str, Any]]:
        """The groups this home belongs to: name, epoch, size, minimum, and in plain words what anonymity they offer."""
        return self._with_coordinator().memberships.all()

    def enrol(
        self, name: str, code: str, pin: str | None = None, *, epoch: str | None = None, names: str = "private"
    ) -> dict[str, Any]:
        """Join a group with the one-time code that its authority gave. `pin` is the group's digest as it was found
        elsewhere; without it the digest in the coordinator's signed list is pinned. Again changes nothing.
        `names="public"` agrees that yours is published, where the group was made to publish its members' names."""
        return self._with_coordinator().memberships.enrol(name, code, pin, epoch=epoch, names=names)

    # --- budget, rules, settings ------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The moment by the clock of this machine, in UTC."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def requestors(self) -> set[str]:
        """Name the requestors of all tasks that were looked at since this was opened, or were decided about."""
        asked = set() if self._at is None else self._at.feed.requestors()
        return asked | {participation.requestor for participation in self._task_store.participations()}

    def confirm_helper(self, task_id: str, fingerprint: str) -> None:
        """Confirm a task's helper by the fingerprint that its institution publishes, which the person found there.
        Refused where another was confirmed under this name: that one is to be forgotten first, on purpose."""
        document = self.task(task_id, anew=False)["document"]
        now = self.settings()
        self._set(replace(now, helpers=known_helpers.confirmed(now.helpers, document, fingerprint)))

    def rules(self) -> list[dict[str, Any]]:
        """The standing rules in force."""
        return [body for _, body in self._followed()]

    def rulebook(self) -> list[dict[str, Any]]:
        """The standing rules in force, each with what it has agreed to, newest first."""
        mine = self.participations()
        return [
            {"rule": body, "agreed": [p for p in reversed(mine) if p["rule"] == number]}
            for number, body in self._followed()
        ]

    def _followed(self) -> list[tuple[int, dict[str, Any]]]:
        kept = self._task_store.rules()
        followed = in_force(kept)
        return [(number, body) for number, body in kept if number in followed]

    def set_rules(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Replace the standing rules; they see fields of documents, never data."""
        read_rules(rules)
        self._task_store.set_rules(rules)
        self._running.wake()
        return self.rules()

    def apply_rules(self) -> None:
        """Agree to what the standing rules cover."""
        self._with_coordinator().decisions.apply_rules()
        self._running.wake()

    # --- all of it ------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """Everything this home knows, as JSON: for the owner only."""
        return {
            "store": self._store.export(),
            "participations": self.participations(),
            "ledger": self.ledger(),
            "journal": [asdict(entry) for entry in self._ledger.journal()],
            "settings": self.settings().as_json(),
            "rules": self.rules(),
            "groups": [
                {"name": m.name, "epoch": m.epoch, "digest": m.pin, "enrolled": m.enrolled}
                for m in self._task_store.memberships()
            ],
        }

    def destroy(self) -> None:
        """Delete everything, keys first. Contributions that have left stay where they are."""
        self._running.stop()
        keys.forget(self.home)
        self._store.destroy()
        self.close()
        for path in self.home.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        with suppress(NotOnThisSystem):
            autostart(self.home).turn_off()  # what would start this home with every session, on nothing

    # --- running --------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> str | None:
        """The address of the coordinator whose tasks are looked at."""
        return None if self._client is None else self._client.url

    def coordinator_key(self) -> dict[str, Any]:
        """By which key the coordinator's list is known here, as its fingerprint (None before first contact), and which
        ones gave way to it, with the moment at which that was noticed."""
        return coordinator_identity.key_of(self.home, self.coordinator, self._task_store.earlier_keys())

    def about_coordinator(self) -> dict[str, Any]:
        """Tell who runs the coordinator and how to reach them, in its own words; None where it does not say. It is
        asked once, so that looking at a page tells it nothing."""
        return self._with_coordinator().about()

    @property
    def closed(self) -> bool:
        """Return whether this home was closed, or destroyed: nothing of it can be asked any more."""
        return self._closed

    @property
    def moment(self) -> str:
        """A mark that is another one after anything was decided, sent, answered or spent here, or more took part."""
        counts = 0 if self._at is None else self._at.feed.counts
        return f"{self._task_store.changes}.{self._ledger.head().length}.{counts}"

    @property
    def new_questions(self) -> int:
        """The number of tasks that the last notice was about and that still wait; 0 while notices are off."""
        return 0 if self._at is None else self._at.notices.new

    def start(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Work in the background until `close`."""
        self._with_coordinator()
        self._running.start(poll_seconds)

    def turn(self) -> float:
        """Do now what can be done for the agreed participations; return in how many seconds there may be more. This is
        for a home that is not working in the background."""
        return self._with_coordinator().work.turn()

    def poll(self) -> None:
        """Look for results, for tasks that standing rules cover, and once a day for new ones."""
        self._with_coordinator().poll()
        self._running.wake()

    def close(self) -> None:
        """Stop and let go of the home. What is unfinished goes on when it is opened again."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._running.stop()
        if self._at is not None:
            self._at.work.stop()
        self._running.join()
        if self._client is not None:
            self._client.close()
        self._ledger.close()
        self._task_store.close()
        self._store.close()
        self._hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------------------

    def _with_coordinator(self) -> CoordinatorTasks:
        if self._at is None:
            raise Mistake("coordinator", "is not known yet; give its address once: open_person(DIR, coordinator=URL)")
        return self._at
