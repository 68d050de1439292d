"""A person's home in use: the store, the ledger, the book and the board behind the few things a person does.

What must stay true: every way in (REST, Python, standing rules) passes the same `accept`.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from thebes.data import keys
from thebes.data.store import Store
from thebes.data.store.delivery import Overtaken
from thebes.ledger import Ledger
from thebes.machine import NotOnThisSystem
from thebes.person.autostart import autostart
from thebes.person.budget import spending_report
from thebes.person.budget.blocks import added, consumed
from thebes.person.budget.budget import PersonBudget
from thebes.person.folder import DAEMON, Hold, prepared
from thebes.person.notices import QuestionNotices
from thebes.person.participation import lineage_report
from thebes.person.participation.background_thread import BackgroundThread
from thebes.person.participation.group_tokens import Memberships
from thebes.person.participation.participation import Participation, ParticipationState, come_to, still
from thebes.person.participation.schedule import Pacing
from thebes.person.participation.seal import Seal
from thebes.person.participation.worker import Work
from thebes.person.settings import PersonSettings
from thebes.person.tasks.decisions import Decisions
from thebes.person.tasks.noise_example import example
from thebes.person.tasks.rules import in_force, read_rules
from thebes.person.tasks.task_feed import Board, pinned_in
from thebes.person.tasks.task_store import Book
from thebes.privacy.faults import Mistake, ThebesError
from thebes.privacy.plain_text import plain_text
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.tasks.release_reader import release_from_json
from thebes.wire.client import CoordinatorClient
from thebes.wire.list_pin import is_fingerprint
from thebes.wire.problems import printable
from thebes.wire.refusals import Conflict, NotFound
from thebes.wire.task_log import fingerprint

BOOK, LEDGER = "person.db", "ledger.db"
POLL_SECONDS = 20.0  #: between looks for results and for tasks that rules cover
LOOK_SECONDS = 0.5  #: the same while somebody waits

log = logging.getLogger(__name__)


class Person:
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
        self._client, self._proxy = client, settings.proxy
        self._about: dict[str, Any] | None = None  #: what the coordinator says of itself, once it was asked
        pacing = Pacing(lambda: self.settings().delay_seconds, self._clock, waits=self._delay)
        key = keys.key_of(self.home, passphrase=passphrase)
        self._seal = Seal(key)
        self._store = Store.open(self.home, key=key)
        self._ledger = Ledger(f"sqlite:///{self.home / LEDGER}")
        (self.home / LEDGER).chmod(0o600)
        self._book = Book(self.home / BOOK, self._seal)
        self._purse = PersonBudget(self._ledger, self.settings, lambda: datetime.fromtimestamp(self._clock(), UTC))
        self._charged = spending_report.LastCharged(self._ledger)
        self._closing = threading.Lock()
        self._running = BackgroundThread(self.turn, self.poll)
        self._closed = False
        if self._client is not None:
            self._board = Board(self._client, self._book, self.home, clock=self._clock)
            self._memberships = Memberships(
                book=self._book, seal=self._seal, client=self._client, listed=self._board.listed
            )
            self._work = Work(
                book=self._book,
                purse=self._purse,
                seal=self._seal,
                client=self._client,
                memberships=self._memberships,
                store=self._store,
                listed=self._board.listed,
                helpers=lambda: self.settings().helpers,
                counted=self._board.count,
                clock=self._clock,
                pacing=pacing,
                hidden=self._proxy is not None,
                steady=self._delay,
            )
            self._decisions = Decisions(
                board=self._board,
                book=self._book,
                purse=self._purse,
                work=self._work,
                store=self._store,
                client=self._client,
                memberships=self._memberships,
                settings=self.settings,
                clock=self._clock,
                delay=self._delay,
            )
            self._notices = QuestionNotices(
                self._book, self._board, on=lambda: self.settings().notices, clock=self._clock
            )
            self._work.recover()

    # --- tasks ----------------------------------------------------------------------------------------

    def tasks(self) -> list[dict[str, Any]]:
        """The open tasks that stand in the coordinator's signed list, each with explanation, price and state."""
        offers = self._with_coordinator().offers()
        self._notices.saw(offer.task_id for offer in offers)
        mine: dict[str, list[Participation]] = {}
        for participation in self._book.participations():
            mine.setdefault(participation.task_id, []).append(participation)
        return [{**offer.as_json(), **self._standing(offer.document, mine.get(offer.task_id, []))} for offer in offers]

    def unread(self) -> list[dict[str, str]]:
        """The tasks for people that are not offered because they cannot be read or verified here, each with why, as the
        coordinator's list was read last."""
        return [{"task_id": task_id, "why": why} for task_id, why in self._with_coordinator().unread.items()]

    def task(self, task_id: str, *, anew: bool = True) -> dict[str, Any]:
        """One task, with every participation in it so far. Not `anew`: as it was verified last, so that looking at a
        page for long asks the coordinator nothing."""
        board = self._with_coordinator()
        offer = board.offer(task_id) if anew else board.known(task_id)
        mine = self._book.participations(task_id=task_id)
        standing = self._standing(offer.document, mine)
        return {**offer.as_json(), **standing, "participations": [p.as_json() for p in mine]}

    def _standing(self, document: PeopleDocument, mine: list[Participation]) -> dict[str, Any]:
        """Tell where this person stands with a task: the latest participation, whether it can be taken back, how often
        one may still agree, and what all of them together cost so far."""
        latest = mine[-1] if mine else None
        claims = [claim for p in mine if (claim := self._purse.claim(p.claim_key)) is not None]
        return {
            "paid": added(consumed(claim) for claim in claims).as_json(),
            "set_aside": added(claim.remaining for claim in claims if claim.state.open).as_json(),
            "state": str(ParticipationState.SEEN if latest is None else latest.state),
            "note": "" if latest is None else latest.note,
            "due_at": None if latest is None else latest.due_at,
            "packets_sent": 0 if latest is None else len(self._book.receipts(latest)),
            "returnable": latest is None or latest.returnable,
            "turns_left": self._decisions.turns_left(document, mine),
        }

    def participations(self) -> list[dict[str, Any]]:
        """Every participation, oldest first, with the task's result where there is one."""
        return [self._told(p) for p in self._book.participations()]

    def participation(self, task_id: str, number: int) -> dict[str, Any]:
        """One participation as it stands now."""
        found = next((p for p in self._book.participations(task_id=task_id) if p.number == number), None)
        if found is None:
            raise NotFound("you take no part in this task")
        return self._told(found)

    def _told(self, participation: Participation) -> dict[str, Any]:
        """Tell a participation with its receipts, what it has cost so far (`spent`) and since when (`sent`)."""
        claim = self._purse.claim(participation.claim_key)
        return {
            **participation.as_json(),
            "receipts": self._book.receipts(participation),
            "spent": None if claim is None else consumed(claim).as_json(),
            "sent": None if claim is None else self._charged.of(claim),
        }

    def document(self, task_id: str) -> PeopleDocument:
        """Return the document of a task that this person takes or took part in."""
        mine = self._book.participations(task_id=task_id)
        if not mine:
            raise NotFound("you take no part in this task")
        return mine[-1].document

    def preview(self, task_id: str) -> dict[str, Any]:
        """Exactly the rows the task would read, and which values of them do not count as they are, for the owner's eyes
        only."""
        document = self._with_coordinator().offer(task_id).document
        rows = self._store.preview(document.featurizer, most_rows=document.most_rows)
        able, misfits = self._decisions.looked_at(document)
        return {
            "task_id": task_id,
            "columns": list(document.gives),
            "rows": rows,
            "able": able,
            "misfits": misfits,
        }

    def able(self, task_id: str) -> bool:
        """Tell whether a yes would be taken, as far as the store goes: it has a value that fits, or the task takes that
        there is none. The coordinator is not asked about a task that was shown."""
        return self._decisions.able(self._with_coordinator().known(task_id).document)

    def place(self, task_id: str) -> str:
        """Say where this person's own value, as it lies here now, is in the answer of a task; empty where nothing can
        be said. Computed here from what lies here; nobody is asked, and nobody is told."""
        answered = [p for p in self._book.participations(task_id=task_id) if p.result is not None]
        if not answered:
            return ""
        document, result = answered[-1].document, answered[-1].result
        try:
            rows = self._store.preview(document.featurizer, most_rows=document.most_rows)
            return registry.place(document, release_from_json(result or {}), rows)
        except ThebesError:  # no table any more, or an answer that cannot be read: that is said elsewhere
            return ""

    def example(self, task_id: str) -> dict[str, Any]:
        """One example of what noise does to the rows of a task: a fresh draw, never the one that is sent."""
        document = self._with_coordinator().offer(task_id).document
        rows = self._store.featurize(document.featurizer, most_rows=document.most_rows)
        return {"task_id": task_id, **example(document, rows)}

    def accept(self, task_id: str) -> dict[str, Any]:
        """Agree to one participation: sets the price aside, then asks, computes and sends in the background."""
        self._with_coordinator()
        accepted = self._decisions.accept(task_id)
        self._running.wake()
        return accepted.as_json()

    def decline(self, task_id: str) -> dict[str, Any]:
        """Say no; the task is not offered by rules again. One may still change one's mind."""
        self._with_coordinator()
        return self._decisions.decline(task_id).as_json()

    def withdraw(self, task_id: str, *, seen: str | None = None, packets_sent: int | None = None) -> dict[str, Any]:
        """Take the latest contribution back before its phase closes. What was sent stays charged. Several packets go
        back at once, which shows that they belong together. `seen` is the state that the person had before their eyes,
        `packets_sent` how many of its packets had left then: where more has left since, nothing is done."""
        self._with_coordinator()
        return self._decisions.withdraw(task_id, seen=seen, packets_sent=packets_sent).as_json()

    def wait(self, task_id: str, *, timeout: float = 60.0, state: str = "sent") -> dict[str, Any]:
        """Work until the latest participation in a task has reached `state` or an end; a Refusal when time runs out."""
        self._with_coordinator()
        end, looked = time.monotonic() + timeout, 0.0
        while True:
            mine = [each.as_json() for each in self._book.participations(task_id=task_id)]
            if come_to(mine, state):
                return mine[-1]
            if time.monotonic() >= end:
                raise still(mine, timeout)
            if not self._running.started:
                self.turn()
            if time.monotonic() >= looked + LOOK_SECONDS:
                self.poll()
                looked = time.monotonic()
            time.sleep(0.05)

    # --- where it went ----------------------------------------------------------------------------------

    def lineage(self) -> list[dict[str, Any]]:
        """Tell where what left went, newest first: tables, task, release, what became of the receipts in it, and models
        begun from it. The coordinator is not asked."""
        board = self._with_coordinator()
        return lineage_report.lineage(self._book, self._work.lineage, board.documents())

    def look_for_receipts(self, task_id: str) -> list[dict[str, Any]]:
        """Look anew whether the release of a task holds the receipts of this home, also where its list is long. The
        whole list is fetched, as anybody may: what is looked for is not told."""
        self._with_coordinator()
        mine = [p for p in self._book.participations(task_id=task_id) if self._book.receipts(p)]
        if not mine:
            raise NotFound("nothing of yours left for this task")
        for participation in mine:
            self._work.lineage.look(participation, asked=True)
        return [each for each in self.lineage() if each["task_id"] == task_id]

    # --- groups -----------------------------------------------------------------------------------------

    def groups(self) -> list[dict[str, Any]]:
        """The groups this home belongs to: name, epoch, size, minimum, and in plain words what anonymity they offer."""
        self._with_coordinator()
        return self._memberships.all()

    def enrol(
        self, name: str, code: str, pin: str | None = None, *, epoch: str | None = None, names: str = "private"
    ) -> dict[str, Any]:
        """Join a group with the one-time code that its authority gave. `pin` is the group's digest as it was found
        elsewhere; without it the digest in the coordinator's signed list is pinned. Again changes nothing.
        `names="public"` agrees that yours is published, where the group was made to publish its members' names."""
        self._with_coordinator()
        return self._memberships.enrol(name, code, pin, epoch=epoch, names=names)

    # --- budget, rules, settings ------------------------------------------------------------------------

    def ledger(self) -> dict[str, Any]:
        """Tell what was spent, on which task, for whom, and what is left; what a server only promises stands apart."""
        return spending_report.ledger(self._purse, self._book)

    def balance(self) -> dict[str, Any]:
        """Tell what is left, and whether the ledger is frozen: the part of `ledger` that costs next to nothing to
        tell."""
        return spending_report.balance(self._purse)

    @property
    def now(self) -> datetime:
        """The moment by the clock of this machine, in UTC."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def requestors(self) -> set[str]:
        """Name the requestors of all tasks that were looked at since this was opened, or were decided about."""
        asked = set() if self._client is None else self._board.requestors()
        return asked | {participation.requestor for participation in self._book.participations()}

    def under_cap(self, requestor: str, trust: str) -> dict[str, Any] | None:
        """Tell what this person's cap for a requestor leaves in this period; None without one."""
        return self._purse.under_cap(requestor, trust)

    def remembers(self) -> dict[str, Any]:
        """Tell since when this home counts what is spent, and when it was brought back from a copy or moved."""
        entries = list(self._ledger.journal())
        return {"since": entries[0].at if entries else None, "restored": [e.at for e in entries if e.event == "thaw"]}

    def verify(self) -> dict[str, Any]:
        """Tell whether the ledger's journal is whole and every balance is what it says."""
        return spending_report.verified(self._ledger)

    def settings(self) -> PersonSettings:
        return PersonSettings.read(self.home)

    def confirm_helper(self, task_id: str, fingerprint: str) -> None:
        """Confirm a task's helper by the fingerprint that its institution publishes, which the person found there.
        Refused where another was confirmed under this name: that one is to be forgotten first, on purpose."""
        document = self.task(task_id, anew=False)["document"]
        found = "".join(fingerprint.split()).lower()
        if not is_fingerprint(found):
            raise Mistake("fingerprint", "must be the 64 hexadecimal digits that the institution publishes")
        if found != document.get("helper_key"):
            raise Mistake("fingerprint", "is not that of this task's helper: do not agree, and tell the institution")
        helpers, name = self.settings().helpers, document["helper"]
        if helpers.get(name, found) != found:
            raise Conflict(
                f"you confirmed another key for {name}; ask that institution whether it has a new one, and only then "
                "forget the key that you confirmed"
            )
        self._set(replace(self.settings(), helpers={**helpers, name: found}))

    def forget_helper(self, name: str) -> None:
        """Take back that a helper's key was confirmed: no task of this helper is answered until one is again."""
        helpers = {each: key for each, key in self.settings().helpers.items() if each != name}
        if len(helpers) == len(self.settings().helpers):
            raise NotFound("you confirmed no key for a helper of this name")
        self._set(replace(self.settings(), helpers=helpers))

    def set_settings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change limits, caps and delay; what was spent is carried over. Coordinator and proxy are set when
        starting, and no helper's key that was confirmed is replaced."""
        if not isinstance(body, Mapping):
            raise Mistake("settings", "must be an object")
        for name in ("coordinator", "proxy"):
            if name in body:
                raise Mistake(name, f"is set when starting: --{name}")
        now = self.settings()
        changed = now.changed(body)
        for name, key in now.helpers.items():
            if changed.helpers.get(name) != key:
                raise Conflict(
                    f"you confirmed another key for the helper {name}, which only the page of a task of this helper "
                    "lets go; leave it as it is in helpers"
                )
        return self._set(changed)

    def _set(self, changed: PersonSettings) -> dict[str, Any]:
        changed.write(self.home)
        self._purse.view()
        return changed.as_json()

    def rules(self) -> list[dict[str, Any]]:
        """The standing rules in force."""
        kept = self._book.rules()
        followed = in_force(kept)
        return [body for number, body in kept if number in followed]

    def rulebook(self) -> list[dict[str, Any]]:
        """The standing rules in force, each with what it has agreed to, newest first."""
        kept, mine = self._book.rules(), self.participations()
        followed = in_force(kept)
        return [
            {"rule": body, "agreed": [p for p in reversed(mine) if p["rule"] == number]}
            for number, body in kept
            if number in followed
        ]

    def set_rules(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Replace the standing rules; they see fields of documents, never data."""
        read_rules(rules)
        self._book.set_rules(rules)
        self._running.wake()
        return self.rules()

    def apply_rules(self) -> None:
        """Agree to what the standing rules cover."""
        self._with_coordinator()
        self._decisions.apply_rules()
        self._running.wake()

    # --- the store ----------------------------------------------------------------------------------------

    def store(self) -> list[dict[str, Any]]:
        """Collectors, tables, columns, row counts."""
        return self._store.describe()

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        """Declare the tables a collector fills; the version of its schema."""
        return self._store.register(app, tables)

    def insert(self, app: str, table: str, rows: list[dict[str, Any]]) -> int:
        """Add rows; nothing is stored where one of them does not fit."""
        return self._store.insert(app, table, rows)

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        """Take one part of what a run of a collector delivers; rows and state are stored as one with the last."""
        try:
            return self._store.deliver(app, delivery)
        except Overtaken as error:
            raise Conflict(str(error)) from None

    def progress(self, app: str) -> dict[str, Any]:
        """Tell how far a collector has come: its own state, and the number of its last delivery."""
        return self._store.progress(app)

    def newest(self, app: str, table: str, count: int = 20) -> list[dict[str, Any]]:
        """The latest rows of a table."""
        return self._store.newest(app, table, count)

    def glance(self, app: str, table: str) -> list[dict[str, Any]]:
        """Each column of a table at a glance: how many values, and a few bars that show their shape."""
        return self._store.glance(app, table)

    def remove(self, app: str, *, keep_data: bool) -> None:
        """Take a collector away; `keep_data` says whether its rows stay."""
        self._store.remove(app, keep_data=keep_data)

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
                for m in self._book.memberships()
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
        key = pinned_in(self.home)
        told = [
            {"fingerprint": fingerprint(each), "until": datetime.fromtimestamp(moment, UTC).isoformat()}
            for each, moment in self._book.earlier_keys()
        ]
        known = key if key is None or is_fingerprint(key) else fingerprint(key)
        return {"url": self.coordinator, "fingerprint": known, "earlier": told}

    def about_coordinator(self) -> dict[str, Any]:
        """Tell who runs the coordinator and how to reach them, in its own words; None where it does not say. It is
        asked once, so that looking at a page tells it nothing."""
        self._with_coordinator()
        if self._about is None:
            try:
                told = self._client.about()  # type: ignore[union-attr]
            except NotFound:  # an earlier version, which tells nothing
                told = {}
            said = {name: told.get(name) for name in ("operator", "contact")}
            self._about = {n: plain_text(printable(v, 200)) if isinstance(v, str) else None for n, v in said.items()}
        return dict(self._about)

    @property
    def closed(self) -> bool:
        """Return whether this home was closed, or destroyed: nothing of it can be asked any more."""
        return self._closed

    @property
    def moment(self) -> str:
        """A mark that is another one after anything was decided, sent, answered or spent here, or more took part."""
        counts = 0 if self._client is None else self._board.counts
        return f"{self._book.changes}.{self._ledger.head().length}.{counts}"

    @property
    def new_questions(self) -> int:
        """The number of tasks that the last notice was about and that still wait; 0 while notices are off."""
        return 0 if self._client is None else self._notices.new

    def start(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Work in the background until `close`."""
        self._with_coordinator()
        self._running.start(poll_seconds)

    def turn(self) -> float:
        """Do now what can be done for the agreed participations; return in how many seconds there may be more. This is
        for a home that is not working in the background."""
        self._with_coordinator()
        return self._work.turn()

    def poll(self) -> None:
        """Look for results, for tasks that standing rules cover, and once a day for new ones."""
        for look in (self._work.watch, self.apply_rules, self._notices.look):
            try:
                look()
            except ThebesError as error:
                log.info("the coordinator could not be asked: %s", error, extra={"event": "coordinator.away"})

    def close(self) -> None:
        """Stop and let go of the home. What is unfinished goes on when it is opened again."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._running.stop()
        if self._client is not None:
            self._work.stop()
        self._running.join()
        if self._client is not None:
            self._client.close()
        self._ledger.close()
        self._book.close()
        self._store.close()
        self._hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------------------

    def _with_coordinator(self) -> Board:
        if self._client is None:
            raise Mistake("coordinator", "is not known yet; give its address once: open_person(DIR, coordinator=URL)")
        return self._board
