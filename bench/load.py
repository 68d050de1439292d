"""Many people within a minute while requestors look; then ordinary people while somebody attacks.

What must hold is asserted: every receipt that somebody was given is in the database, and the release counts as many.
Reported are how long people waited, what went wrong by kind, and what the coordinator holds in memory. Everybody comes
at a moment that was drawn before, however many are still waiting, over a connection of their own; whoever is given no
receipt comes again with the same bytes. An attack comes from a process of its own, which shares this machine's cores
with the coordinator and with everybody else; its `ratio` is the ordinary 99th percentile with it to that without it.

`--people N` changes how many come, `--postgres URL` (an empty database) has two coordinators and half of them at each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import select

from bench._hostile import ATTACKS, connected
from bench.coordinator import MEDIAN
from thebes.coordinator.accounts import Accounts, Role
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.database import Database
from thebes.coordinator.guard import STRANGERS
from thebes.coordinator.home import Home
from thebes.coordinator.schema import CONTRIBUTION
from thebes.testing.coordinator import Server

PEOPLE, WITHIN = 10_000, 60.0
REQUESTORS, EVERY = 100, 1.0  #: how many look, and after how many seconds each looks again
RATE, ATTACKED = 100, 8.0  #: ordinary people in a second, and for how many seconds each attack is looked at
PATIENCE, ATTEMPTS, PAUSE = 20.0, 6, 1.0
HUGE = 64 * 2**20 - 2**10
LOGIN = {"username": "somebody", "password": secrets.token_hex(16)}


def run(people: int = PEOPLE, postgres: str | None = None) -> dict[str, Any]:
    """Times, memory and errors."""
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "home", postgres) as world:
        measured: dict[str, Any] = {"people": people, "coordinators": len(world.servers)}
        measured |= together(world, people, WITHIN)
        measured["attacks"] = {name: attacked(world, name, ATTACKED) for name in ATTACKS}
        measured["peak MiB after the attacks"] = world.peaks()
        return measured


@dataclass
class Heard:
    """What a crowd was told."""

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
    token: str = ""

    @property
    def urls(self) -> list[str]:
        return [server.ready["url"] for server in self.servers]

    def let_in(self) -> None:
        """Somebody who may put tasks up and is no operator."""
        home, database, clock = Home(self.home), Database(self.store), SystemClock()
        accounts = Accounts(database, admin_token=home.admin_token, session_key=home.session_key, clock=clock)
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
        kept = set(
            database.read(lambda c: c.scalars(select(CONTRIBUTION.c.receipt).where(CONTRIBUTION.c.task == task)))
        )
        database.close()
        lost = heard.receipts - kept
        assert not lost, f"{len(lost)} receipts of {len(heard.receipts)} are not in the database"
        if len(heard.receipts) < people:  # the task waits for those who gave up
            return {"receipts": len(heard.receipts), "lost": 0, "in the release": "there is none"}
        done = self.servers[0].wait_for(task, "done", seconds=60)
        counted = done["result"]["certificate"]["contributors"]
        assert counted == people, f"{people} receipts, and the release counts {counted}"
        return {"receipts": people, "lost": 0, "in the release": counted}

    def peaks(self) -> dict[str, list[int]]:
        """The most memory that each had at any time, in MiB."""
        workers = [pid for server in self.servers for pid in server.workers()]
        of_servers = [server.process.pid for server in self.servers]
        return {"coordinator": [_peak(pid) for pid in of_servers], "worker": [_peak(pid) for pid in workers]}


@contextmanager
def opened(home: Path, postgres: str | None = None) -> Iterator[World]:
    """A coordinator, or two where a server keeps their database."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(home, store=postgres)) for _ in range(1 if postgres is None else 2)]
        world = World(home, postgres or Home(home).store, servers)
        world.let_in()
        yield world


def together(world: World, people: int, within: float) -> dict[str, Any]:
    """So many people within so many seconds."""
    task = world.servers[0].post({**MEDIAN, "min_count": people})
    heard = asyncio.run(_crowd(world.urls, task, people, within, requestors=REQUESTORS))
    return {**heard.told(), **world.proved(task, people, heard), "peak MiB": world.peaks()}


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
    command = [sys.executable, "-m", "bench._hostile", name, json.dumps(known)]
    house = Path(__file__).parents[1]
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
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
