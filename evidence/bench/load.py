"""Many people within a minute while requestors look; then ordinary people while somebody attacks.

What must hold is asserted: every receipt that somebody was given is in the database, and the release counts as many.
Reported are how long people waited, what went wrong by kind, and what the coordinator holds in memory. Everybody comes
at a moment that was drawn before, however many are still waiting, over a connection of their own; whoever is given no
receipt comes again with the same bytes. An attack comes from a process of its own, which shares this machine's cores
with the coordinator and with everybody else; its `ratio` is the ordinary 99th percentile with it to that without it.

`--people N` changes how many come. With `--sites N --pipelines N` sites train meanwhile and pipelines wait for their
turn, with `--kills N` so many processes are killed; then nobody attacks. `--store postgresql`, or the address of an
empty database, has a server keep what is known, and `--processes N` so many coordinators behind one port. `--postgres
URL` (an empty database) has two coordinators at two ports, and half of the people at each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select

from evidence.bench._hostile import ATTACKS, connected
from evidence.bench._institutions import Institutions
from evidence.bench.coordinator import MEDIAN
from tests.support.coordinator import Server
from tests.support.postgres import Cluster, server_programs
from thebes.coordinator.api.middleware import STRANGERS
from thebes.coordinator.auth.accounts import Accounts, Role
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import CONTRIBUTION, RELEASE

PEOPLE, WITHIN = 10_000, 60.0
REQUESTORS, EVERY = 100, 1.0  #: how many look, and after how many seconds each looks again
RATE, ATTACKED = 100, 8.0  #: ordinary people in a second, and for how many seconds each attack is looked at
PATIENCE, ATTEMPTS, PAUSE = 20.0, 6, 1.0
HUGE = 64 * 2**20 - 2**10
LOGIN = {"username": "somebody", "password": secrets.token_hex(16)}


def run(
    people: int = PEOPLE,
    *,
    sites: int = 0,
    pipelines: int = 0,
    store: str | None = None,
    processes: int = 1,
    kills: int = 0,
    postgres: str | None = None,
) -> dict[str, Any]:
    """Times, memory and errors."""
    with tempfile.TemporaryDirectory() as folder, _stored(postgres or store) as address:
        several = 1 if postgres is None else 2
        there = Institutions(Path(folder), Path(folder) / "home", sites, pipelines)
        load = [round(each, 1) for each in os.getloadavg()]
        with opened(Path(folder) / "home", address, servers=several, processes=processes, institutions=there) as world:
            measured: dict[str, Any] = {"people": people, "coordinators": several, "processes of each": processes}
            measured |= together(world, people, WITHIN, kills=kills)
            if not (sites or pipelines or kills):
                measured["attacks"] = {name: attacked(world, name, ATTACKED) for name in ATTACKS}
                measured["peak MiB after the attacks"] = world.peaks()
            return {**measured, "load before and after": [load, [round(each, 1) for each in os.getloadavg()]]}


@contextmanager
def _stored(store: str | None) -> Iterator[str | None]:
    """The address of the database; None for a file in the home. A server of one's own waits for its disk."""
    if store != "postgresql":
        yield None if store == "sqlite" else store
        return
    programs = server_programs()
    if programs is None:
        raise SystemExit("bench: PostgreSQL's server programs are not installed")
    cluster = Cluster(programs, durable=True)
    try:
        yield cluster.new_database()
    finally:
        cluster.stop()


@dataclass
class Heard:
    """The answers that a crowd heard."""

    times: dict[str, list[float]] = field(default_factory=dict)
    receipts: set[str] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)

    async def timed(self, what: str, answer: Awaitable[tuple[int, bytes]]) -> tuple[int, bytes]:
        began = time.perf_counter()
        told = await answer
        self.times.setdefault(what, []).append(time.perf_counter() - began)
        return told

    def percentile(self, what: str, percent: float) -> float:
        """In milliseconds."""
        return round(float(np.percentile(self.times[what], percent)) * 1000, 2)

    def told(self) -> dict[str, Any]:
        shown = {f"{what} p{n}, ms": self.percentile(what, n) for what in sorted(self.times) for n in (50, 99)}
        return {**shown, "errors": dict(self.errors) or "none"}


@dataclass
class World:
    """Coordinators with one database."""

    home: Path
    store: str
    servers: list[Server]
    institutions: Institutions | None = None
    token: str = ""

    @property
    def urls(self) -> list[str]:
        return [server.ready["url"] for server in self.servers]

    def let_in(self) -> None:
        """Somebody who may put tasks up and is no operator."""
        home, database, clock = CoordinatorHome(self.home), Database(self.store), SystemClock()
        accounts = Accounts(
            database, admin_token=lambda: home.admin_token, session_key=lambda: home.session_key, clock=clock
        )
        accounts.add(LOGIN["username"], LOGIN["password"], Role.REQUESTOR)
        database.close()
        self.token = self.rested()

    def rested(self) -> str:
        """Once whatever still waits for its turn to log in has had it, and somebody is let in; their token."""
        while (answer := self.servers[0].client.post("/api/login", json=LOGIN)).status_code == 429:
            time.sleep(PAUSE)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    def proved(self, task: str, people: int, heard: Heard) -> dict[str, Any]:
        """Nobody who was given a receipt is missing from the database or from the release."""
        database = Database(self.store)
        those = select(CONTRIBUTION.c.receipt).where(CONTRIBUTION.c.task == task)
        kept = database.read(lambda c: list(c.scalars(those)))
        lost = heard.receipts - {*kept}
        assert not lost, f"{len(lost)} receipts of {len(heard.receipts)} are not in the database"
        assert len(kept) <= people, f"{people} people came, and the database has {len(kept)}"
        if len(heard.receipts) < people:  # the task waits for those who gave up
            database.close()
            return {"receipts": len(heard.receipts), "lost": 0, "in the release": "there is none"}
        done = self.servers[0].wait_for(task, "done", seconds=60)
        counted = done["result"]["certificate"]["contributors"]
        assert counted == people, f"{people} receipts, and the release counts {counted}"
        releases = select(func.count()).select_from(RELEASE).where(RELEASE.c.task == task)
        closed = database.read(lambda c: c.scalar(releases))
        database.close()
        assert closed == 1, f"the phase was closed {closed} times"
        return {"receipts": people, "lost": 0, "in the release": counted}

    def computed(self) -> float:
        """Milliseconds of computing that those who answer have used, which a busy machine does not change much."""
        fields = [_stat(pid) for server in self.servers for pid in server.fronts()]
        ticks = sum(int(each[11]) + int(each[12]) for each in fields)
        return 1000 * ticks / os.sysconf("SC_CLK_TCK")

    def peaks(self) -> dict[str, list[int]]:
        """The most memory that each had at any time, in MiB."""
        fronts = [pid for server in self.servers for pid in server.fronts()]
        beside = [pid for server in self.servers for pid in server.workers()]
        workers = [pid for pid in beside if b"thebes.coordinator.process.worker" in _command(pid)]
        found = {"coordinator": fronts, "worker": workers, "local": [pid for pid in beside if pid not in workers]}
        peaks = {name: [_peak(pid) for pid in pids] for name, pids in found.items() if pids}
        return peaks | ({"site": self.institutions.peak(_peak)} if self.institutions else {})


@contextmanager
def opened(
    home: Path,
    store: str | None = None,
    *,
    servers: int = 1,
    processes: int = 1,
    institutions: Institutions | None = None,
) -> Iterator[World]:
    """So many coordinators with one database, each of so many processes behind one port; institutions at the first."""
    there = institutions if institutions is not None and (institutions.sites or institutions.pipelines) else None
    more = ["--processes", str(processes)] if processes > 1 else []
    if there is not None:
        there.prepare()
        more += ["--site-port", "0"]
    with ExitStack() as stack:
        started = [stack.enter_context(Server(home, store=store, more=more)) for _ in range(servers)]
        world = World(home, store or CoordinatorHome(home).store, started, there)
        world.let_in()
        if there is not None:
            stack.enter_context(there.linked(started[0]))
        yield world


def together(
    world: World, people: int, within: float, *, kills: int = 0, requestors: int = REQUESTORS
) -> dict[str, Any]:
    """So many people within so many seconds, while institutions are busy and processes are killed."""
    there = world.institutions
    task, before = world.servers[0].post({**MEDIAN, "min_count": people}), world.computed()
    with contextlib.nullcontext() if there is None else there.busy(world.servers[0]):
        with _killing(world.servers[0], kills, within):
            heard = asyncio.run(_crowd(world.urls, task, people, within, requestors=requestors))
        computed = (
            {} if kills else {"coordinator, ms of computing for each person": (world.computed() - before) / people}
        )
        crowd = {**heard.told(), **computed, **world.proved(task, people, heard), "killed": kills}
    return {**crowd, **({} if there is None else there.told), "peak MiB": world.peaks()}


@contextmanager
def _killing(server: Server, kills: int, within: float) -> Iterator[None]:
    """Processes behind a port are killed, the longest there first, spread over the time in which people come."""
    over = threading.Event()

    def kill() -> None:
        for _ in range(kills):
            over.wait(within / (kills + 1))
            os.kill(server.fronts()[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def attacked(world: World, name: str, seconds: float) -> dict[str, Any]:
    """Ordinary people without an attack, then as many with it."""
    people, crowds = max(12, int(RATE * seconds)), {}
    told: dict[str, Any] = {}
    for with_it in (False, True):
        task = world.servers[0].post({**MEDIAN, "min_count": people})
        with _attack(name, world, task, told) if with_it else contextlib.nullcontext():
            going = _crowd(world.urls, task, people, seconds, requestors=10, logs_in=name == "logins")
            crowds[with_it] = asyncio.run(going)
        world.proved(task, people, crowds[with_it])
    began = time.perf_counter()
    world.rested()
    afterwards = round(time.perf_counter() - began, 1)
    calm, hit = crowds[False], crowds[True]
    return {
        **{
            f"{what}: ratio": round(hit.percentile(what, 99) / calm.percentile(what, 99), 2)
            for what in calm.times.keys() & hit.times.keys()
        },
        "without it": calm.told(),
        "with it": hit.told(),
        "without a receipt": people - len(hit.receipts),
        "the attacker": told,
        "seconds until somebody could log in afterwards": afterwards,
    }


# --- ordinary people ------------------------------------------------------------------------------------


async def _crowd(
    urls: list[str], task: str, people: int, within: float, *, requestors: int, logs_in: bool = False
) -> Heard:
    """So many people, spread over so many seconds; requestors look until the last has been answered."""
    heard, chance = Heard(), random.Random(people)
    moments = sorted(chance.uniform(0, within) for _ in range(people))
    looking = [asyncio.create_task(_look(urls[n % len(urls)], task, heard)) for n in range(requestors)]
    if logs_in:
        looking.append(asyncio.create_task(_log_in(urls[0], heard)))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, moment in enumerate(moments):
            await asyncio.sleep(max(0.0, began + moment - time.perf_counter()))
            age = 20 + chance.randrange(60)
            group.create_task(_contribute(urls[number % len(urls)], task, age, heard))
    for each in looking:
        each.cancel()
    await asyncio.gather(*looking, return_exceptions=True)
    return heard


async def _contribute(url: str, task: str, age: int, heard: Heard) -> None:
    """Look what there is, ask, and send until there is a receipt."""
    who, body = secrets.token_hex(16), b""
    for _ in range(ATTEMPTS):
        with _errors(heard):
            async with asyncio.timeout(PATIENCE), connected(url) as line:
                if not body:
                    await heard.timed("list", line.ask("GET", "/api/task"))
                    status, said = await heard.timed("ask", line.ask("GET", f"/api/task/{task}/ask?slot={who}"))
                    if status == 200:
                        asked = json.loads(said)
                        sent = {"ask_id": asked["ask_id"], "part": asked["part"], "contributor": who}
                        body = json.dumps({**sent, "payload": {"age": age}}).encode()
                if body:
                    status, said = await heard.timed("submit", line.ask("POST", f"/api/task/{task}/submit", body))
                    if status == 202:
                        heard.receipts.add(json.loads(said)["receipt"])
                        return
                heard.errors[f"status {status}"] += 1
        await asyncio.sleep(PAUSE)
    heard.errors["gave up"] += 1


async def _look(url: str, task: str, heard: Heard) -> None:
    """A requestor on a kept connection, asking again and again how far the task is."""
    await asyncio.sleep(random.random() * EVERY)
    while True:
        with _errors(heard):
            async with connected(url) as line:
                while True:
                    async with asyncio.timeout(PATIENCE):
                        status, _ = await heard.timed("poll", line.ask("GET", f"/api/task/{task}"))
                    if status != 200:
                        heard.errors[f"status {status}"] += 1
                    await asyncio.sleep(EVERY)
        await asyncio.sleep(PAUSE)


async def _log_in(url: str, heard: Heard) -> None:
    """Somebody with the right password, who tries again when told to; the time is until they are let in."""
    body = json.dumps(LOGIN).encode()

    async def until_let_in() -> tuple[int, bytes]:
        while True:
            with _errors(heard):
                async with asyncio.timeout(PATIENCE), connected(url) as line:
                    status, said = await line.ask("POST", "/api/login", body)
                    if status == 200:
                        return status, said
                    heard.errors[f"login: status {status}"] += 1
            await asyncio.sleep(PAUSE)

    while True:
        await heard.timed("login", until_let_in())
        await asyncio.sleep(EVERY)


@contextmanager
def _errors(heard: Heard) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError) as error:  # a timeout is an OSError, a line that ends too soon an EOFError
        heard.errors[type(error).__name__] += 1


# --- attackers ------------------------------------------------------------------------------------------


@contextmanager
def _attack(name: str, world: World, task: str, told: dict[str, Any]) -> Iterator[None]:
    """The attack goes on while the block does; afterwards it says what it was told."""
    known = {
        "url": world.urls[0],
        "task": task,
        "token": world.token,
        "login": {**LOGIN, "password": "wrong"},
        "document": {**MEDIAN, "min_count": 1_000_000},
        "sizes": [STRANGERS, HUGE],
    }
    command = [sys.executable, "-m", "evidence.bench._hostile", name, json.dumps(known)]
    house = Path(__file__).parents[2]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=house)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        told |= json.loads(process.communicate("", timeout=30)[0])
    finally:
        process.kill()
        process.wait()


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # it was killed, and ended just now
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0) // 1024


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
