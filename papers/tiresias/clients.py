"""A coordinator as a process of its own, and people who answer its tasks over HTTP, each over a connection of theirs.

Most have no homes (store, ledger, book): what they send comes from the owner's half that real people run. A few are
whole, processes of their own by the command that people type.
"""

from __future__ import annotations

import http.client
import json
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import numpy as np

from papers.processes import Processes, client, ready, told
from thebes.data.rows import Rows
from thebes.privacy.faults import Fault
from thebes.privacy.randomness import system
from thebes.simulation.budgets import SimulatedBudgets
from thebes.simulation.featurizer import featurize
from thebes.simulation.population import People
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.protocols import Ask

AT_ONCE = 16  #: people who talk to the coordinator at the same time
_LOOK_SECONDS, _DONE_SECONDS, _ANSWER_SECONDS = 0.002, 300.0, 60.0
_MOST_BYTES = 2**26  #: of an answer


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one task: until it was up, until the last person had a receipt, until whoever asked had the answer;
    and what a contribution takes (fetching what is asked, and sending) beside two empty requests."""

    publishing: float
    contributions: float
    answer: float
    release: Mapping[str, Any]
    beside_empty: float | None = None

    @property
    def whole(self) -> float:
        return self.publishing + self.contributions + self.answer


class Coordinator:
    """Use in a `with` block."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / "coordinator"
        self._processes = Processes(folder)

    def __enter__(self) -> Self:
        try:
            url = str(self._processes.start("coordinator", "--home", str(self._home), "--port", "0")["url"])
            self.url, self._address = url, urlsplit(url).netloc
            self._web = client(url, self._home / "admin.token")
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._web.close()
        self._processes.close()

    def ask(self, document: Mapping[str, Any], people: People) -> Timed:
        """Put a task up, let everybody answer it, and wait for the answer."""
        asked = {**document, "min_count": len(people)}
        crowd = Crowd(asked, people, self._address)
        before = crowd.look_in()
        timed = self._timed(asked, crowd.answer)
        empty = (before + crowd.look_in()) / 2  # on both sides, since a machine has other work too
        return replace(timed, beside_empty=timed.contributions / len(people) / empty)

    def ask_homes(self, document: Mapping[str, Any], homes: Homes) -> Timed:
        """The same of people with homes; their contributions are counted until all have agreed."""
        return self._timed({**document, "min_count": len(homes)}, homes.agree)

    def _timed(self, asked: Mapping[str, Any], answer: Callable[[str], None]) -> Timed:
        began = time.perf_counter()
        task = told(self._web.post("/api/task", json=asked))["task_id"]
        up = time.perf_counter()
        answer(str(task))
        heard = time.perf_counter()
        while (standing := told(self._web.get(f"/api/task/{task}")))["status"] in ("open", "running"):
            if time.perf_counter() - heard > _DONE_SECONDS:
                raise Fault("a task of an experiment did not end")
            time.sleep(_LOOK_SECONDS)
        end = time.perf_counter()
        if standing["status"] != "done" or standing["result"]["certificate"]["contributors"] != asked["min_count"]:
            raise Fault(f"a task of an experiment ended as {standing['status']}")
        return Timed(up - began, heard - up, end - heard, standing["result"])


class Crowd:
    """People and what each of them would answer to `document`."""

    def __init__(self, document: Mapping[str, Any], people: People, address: str) -> None:
        checked: Any = registry.check(document)
        self._document, self._address = checked, address
        self._rows: Rows = featurize(checked.featurizer, people_of(people.columns))
        self._budgets = SimulatedBudgets(len(people), registry.kind(checked.type).price(checked))
        self._owner = registry.owner(checked)

    def look_in(self, times: int = 64) -> float:
        """Seconds for which somebody occupies the coordinator who asks nothing of it, twice over one connection; as
        many at once as answer a task."""
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for each in [pool.submit(self._empty) for _ in range(times)]:
                each.result()
        return (time.perf_counter() - began) / times

    def answer(self, task: str) -> None:
        """Everybody answers, in any order."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for each in [pool.submit(self._contribute, task, number) for number in range(self._rows.people)]:
                each.result()

    def _empty(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=_ANSWER_SECONDS)
        try:
            for _ in range(2):
                _said(connection, "GET", "/api/health", 200)
        finally:
            connection.close()

    def _contribute(self, task: str, number: int) -> None:
        who, mine = secrets.token_hex(16), np.array([number])
        connection = http.client.HTTPConnection(self._address, timeout=_ANSWER_SECONDS)
        try:
            told = _said(connection, "GET", f"/api/task/{task}/ask?slot={who}", 200)
            ask = Ask(told["ask_id"], told["part"], told["phase"], told.get("payload") or {})
            made = self._owner.contribute(
                self._document, ask, self._rows.select(mine), self._budgets.of(mine), randomness=system()
            )
            payload = next(iter(made.payloads(self._owner.layout(self._document, ask))))
            body = {"ask_id": ask.ask_id, "part": ask.part, "contributor": who, "payload": payload}
            _said(connection, "POST", f"/api/task/{task}/submit", 202, json.dumps(body))
        finally:
            connection.close()


class Homes:
    """So many people as processes, whose stores hold what somebody is made up of. Use in a `with` block."""

    def __init__(self, folder: Path, people: int, coordinator: str) -> None:
        self._homes = [folder / f"person-{number}" for number in range(people)]
        self._processes, self._coordinator = Processes(folder), coordinator
        self._people: list[httpx.Client] = []

    def __len__(self) -> int:
        return len(self._homes)

    def __enter__(self) -> Self:
        try:
            begun = [self._processes.begin("person", "--home", str(home), *self._asked()) for home in self._homes]
            for home, process in zip(self._homes, begun, strict=True):
                self._people.append(client(str(ready(process, "person")["address"]), home / "token"))
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for person in self._people:
            person.close()
        self._processes.close()

    def agree(self, task: str) -> None:
        """Everybody says yes; their homes do the rest."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for answer in pool.map(lambda person: person.post(f"/api/tasks/{task}/accept"), self._people):
                if answer.is_error:
                    raise Fault(f"a person of an experiment cannot agree: {answer.text[:300]}")

    def _asked(self) -> tuple[str, ...]:
        return ("--coordinator", self._coordinator, "--port", "0", "--example", "--no-delay")


def _said(connection: http.client.HTTPConnection, method: str, path: str, wanted: int, body: str | None = None) -> Any:
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read(_MOST_BYTES)
    if answer.status != wanted:
        raise Fault(f"the coordinator of an experiment refused: {text[:300].decode(errors='replace')}")
    return json.loads(text)
