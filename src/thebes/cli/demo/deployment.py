"""A whole deployment on one machine: a coordinator's process, one person's, a crowd of people, some hospitals, and a
requestor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from thebes.cli.demo.crowd import ALLOWANCE, Crowd
from thebes.cli.demo.hospitals import Hospitals
from thebes.cli.processes import Process
from thebes.confinement import answers
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.groups import ContributorGroups
from thebes.coordinator.storage.database import Database
from thebes.data.rows import Rows
from thebes.privacy.faults import Fault, ThebesError
from thebes.requestor.handle import Handle
from thebes.requestor.institutions import round_of
from thebes.requestor.known_keys import KnownKeys
from thebes.requestor.server import connect
from thebes.requestor.verification import verify
from thebes.simulation import population
from thebes.simulation.example import give
from thebes.simulation.featurizer import featurize
from thebes.simulation.population import DECLARATIONS
from thebes.simulation.tables import people_of
from thebes.tasks.release import Release
from thebes.wire.problems import from_problem
from thebes.wire.release_record import ReleaseRecord

RELEASE_SECONDS = 60.0
OWN_SECONDS = 60.0  #: for the one person's machine to compute and send
LOOK_SECONDS = 1.0
MEMBERS = 25  #: of a group: the one person and some of the crowd
OTHERS = 2000  #: made-up people whom nobody asks, over whom models are judged
LEAST_MEMBERS = 20  #: as its members are promised

Told = Callable[[int], None]


class Stage:
    """Everything runs while the `with` block lasts. The last of `people` has a process of their own. `heed` is called
    over and over while it is waited for something, and may end that by raising."""

    def __init__(
        self,
        folder: Path,
        *,
        people: int,
        sites: int = 0,
        seed: int,
        told: Told,
        heed: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._people, self._seed, self._told, self._heed = folder, people, seed, told, heed
        self._everybody = population(people, seed)
        self._tables = people_of(self._everybody.columns)
        self._others = people_of(population(OTHERS, seed + 1).columns)
        self.hospitals = Hospitals(folder, sites, seed) if sites else None
        self._processes: list[Process] = []
        self._stack = ExitStack()
        self._keys = KnownKeys(folder / "requestor")
        self.urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._stack.callback(self._stop)
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def token_file(self) -> Path:
        """The file where the requestor's token lies."""
        return self._folder / "coordinator" / "admin.token"

    def rows(self, document: Mapping[str, Any], contributors: list[int]) -> Rows:
        """Return what the featurizer gives for those people: known here, because they are made up."""
        rows = featurize(str(document["featurizer"]), self._tables)
        return rows.select(np.array(sorted(contributors), dtype=np.int64))

    def others(self, document: Mapping[str, Any]) -> Rows:
        """Return what the featurizer gives for people of the same sort who are asked nothing: a model is judged over
        them."""
        return featurize(str(document["featurizer"]), self._others)

    def run(self, document: Mapping[str, Any], told: Told) -> tuple[Release, list[int]]:
        """Submit a document, let people answer, and wait; the release, and who contributed. A group that it names is
        made first."""
        group = document.get("group")
        if group is not None:
            self._gather(str(group))
        handle = self._requestor.submit(document)
        self._known.add(handle.task_id)
        asked = int(document["min_count"])
        accepted = self._one.accept(handle.task_id)
        contributors = self._answered(handle.task_id, asked - accepted, told, group)
        if accepted:
            if self._one.sent(handle.task_id):
                contributors.append(self._people - 1)
            else:
                contributors += self._answered(handle.task_id, 1, told, group)
        release = handle.wait(timeout=RELEASE_SECONDS, progress=lambda body: self._heed())
        self._verify(handle)
        return release, contributors

    def ask_sites(self, document: Mapping[str, Any], told: Told) -> Release:
        """Submit a document that sites answer, and wait; `told` hears of the phases that are over."""
        handle = self._requestor.submit(document)
        self._known.add(handle.task_id)

        def look(body: Mapping[str, Any]) -> None:
            self.check()
            told(round_of(handle.client.training(handle.task_id)).number)

        release = handle.wait(timeout=RELEASE_SECONDS, progress=look)
        self._verify(handle)
        return release

    def _verify(self, handle: Handle) -> None:
        """Check the release against the signed list, as anybody can; of what is trained without end the last one."""
        end = time.monotonic() + RELEASE_SECONDS
        while handle.status != "done" and time.monotonic() < end:
            self._heed()
            time.sleep(0.05)
        record = ReleaseRecord.read(handle.client.record(handle.task_id))
        verify(record, client=handle.client, known=self._keys)

    def put_up(self, document: Mapping[str, Any], answers: int, told: Told) -> None:
        """Submit a document and let so many people answer, who are too few to close it; the crowd leaves it so."""
        handle = self._requestor.submit(document)
        self._known.add(handle.task_id)
        self._answered(handle.task_id, answers, told)
        self._left.append(handle.task_id)

    def live(self) -> None:
        """Let the crowd answer whatever task is put up, for ever, or until a process of the stage has ended."""
        while True:
            self.check()
            for task in self._tasks():
                task_id, wanted = str(task["task_id"]), task.get("min_count")
                if task_id not in self._known and "dataset" not in task["document"]:  # else sites answer it
                    self._known.add(task_id)
                    count, group = int(wanted or self._people), task["document"].get("group")
                    self._crowd.answer(task_id, count, lambda done: None, group=group, leave=self._left)
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Heed a request to end; a Fault that names a process which has ended, where one has."""
        self._heed()
        for process in self._processes:
            if process.ended:
                raise process.lost()

    def _tasks(self) -> list[dict[str, Any]]:
        try:
            return self._requestor.tasks()
        except ThebesError:
            self.check()  # says more than that nobody answers
            raise

    def _gather(self, group: str) -> None:
        """Do what `thebes group create`, its members with their codes and `thebes group publish` do."""
        home = CoordinatorHome(self._folder / "coordinator")
        database = Database(home.store)
        try:
            groups = ContributorGroups(database, home, SystemClock())
            groups.create(group, minimum=LEAST_MEMBERS)
            crowd = self._people - 1
            members = [*(crowd * place // (MEMBERS - 1) for place in range(MEMBERS - 1)), crowd]
            codes = groups.admit(group, [f"person {number}" for number in members])
            self._one.join(group, codes[f"person {crowd}"])
            self._crowd.join(group, {number: codes[f"person {number}"] for number in members[:-1]})
            groups.publish(group)
        finally:
            database.close()

    def _answered(self, task_id: str, most: int, told: Told, group: str | None = None) -> list[int]:
        found: list[int] = []
        while len(found) < most:
            before = len(found)

            def so_far(done: int, before: int = before) -> None:
                told(before + done)

            found += self._crowd.answer(task_id, most - before, so_far, group=group, leave=self._left)
            if len(found) == before:
                raise Fault(f"only {before} of {most} people could answer; the logs in {self._folder} say why")
        return found

    def _open(self) -> None:
        home = self._folder / "coordinator"
        linked = () if self.hospitals is None else ("--site-port", "0")
        coordinator = self._start("coordinator", "--home", str(home), "--port", "0", *linked)
        facts = coordinator.ready()
        self.urls["coordinator"] = str(facts["url"])
        own = self._folder / "person"
        address = ("--home", str(own), "--coordinator", self.urls["coordinator"], "--port", "0", "--no-delay")
        one = self._start("person", *address)
        helpers = {} if self.hospitals is None else {self.hospitals.helper: self.hospitals.helper_key()}
        settings = {**ALLOWANCE, "helpers": helpers}  # everybody looked its key up where the hospital publishes it
        crowd: dict[str, Any] = {
            "people": self._people - 1,
            "size": self._people,
            "seed": self._seed,
            "settings": settings,
        }
        self._crowd = Crowd(
            self.urls["coordinator"], self._folder, started=self._processes.append, heed=self._heed, **crowd
        )
        self._requestor = connect(self.urls["coordinator"], token=self.token_file.read_text().strip())
        self._stack.callback(self._requestor.close)
        if self.hospitals is not None:
            self.hospitals.start(home, str(facts["site_url"]), self._start)
        for app, tables in DECLARATIONS.items():
            self._requestor.client.publish_schema(app, tables)
        ready = one.ready()
        self.urls["person"] = str(ready["url"])
        self._one = OnePerson(str(ready["address"]), (own / "token").read_text().strip(), self._heed)
        give(self._one, self._everybody[-1])
        self._one.allow(settings)
        self._crowd.open(self._told)
        if self.hospitals is not None:
            self.urls |= self.hospitals.ready(self._requestor, self._heed)
        self._known: set[str] = set()
        self._left: list[str] = []

    def _start(self, command: str, *arguments: str, called: str | None = None) -> Process:
        name = called or command
        process = Process(
            name, "thebes.cli.main", command, *arguments, log=self._folder / f"{name}.log", heed=self._heed
        )
        self._processes.append(process)
        return process

    def _stop(self) -> None:
        for process in self._processes:
            process.ask_to_stop()
        for process in reversed(self._processes):
            process.stop()


class OnePerson:
    """The person who has a process: what a collector and a browser do there, over its REST interface."""

    def __init__(self, address: str, token: str, heed: Callable[[], None]) -> None:
        self._heed = heed
        headers = {"Authorization": f"Bearer {token}"}
        self._http = answers.client(base_url=address, headers=headers, timeout=OWN_SECONDS, seconds=OWN_SECONDS)

    def register(self, app: str, tables: Any, /) -> None:
        self._ask("POST", f"/app/{app}/register", tables)

    def insert(self, app: str, table: str, rows: Any, /) -> None:
        self._ask("POST", f"/app/{app}/insert", {"table": table, "rows": rows})

    def allow(self, settings: Mapping[str, Any]) -> None:
        """Change what may be spent, and who may help."""
        self._ask("PUT", "/api/settings", dict(settings))

    def join(self, group: str, code: str) -> None:
        """Become a member, with the code of this person."""
        self._ask("POST", f"/api/groups/{group}/enrol", {"code": code})

    def accept(self, task_id: str) -> bool:
        """Accept a task and return whether the machine set the price aside and will answer."""
        try:
            self._ask("POST", f"/api/tasks/{task_id}/accept", {})
        except ThebesError:
            return False
        return True

    def sent(self, task_id: str) -> bool:
        """Wait until the contribution has arrived, or will not."""
        end = time.monotonic() + OWN_SECONDS
        while time.monotonic() < end:
            self._heed()
            mine = [p for p in self._ask("GET", "/api/participations") if p["task_id"] == task_id]
            if mine and mine[-1]["state"] in ("sent", "done"):
                return True
            if mine and mine[-1]["state"] in ("closed", "refused", "failed", "withdrawn"):
                return False
            time.sleep(0.1)
        return False

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        told = answer.json()
        if answer.is_error:
            raise from_problem(answer.status_code, told)
        return told
