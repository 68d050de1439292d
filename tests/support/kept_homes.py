"""Homes that a released version left behind: put back into a folder, opened by the program as it is now, and read."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.coordinator import Front, HandClock
from thebes.ledger import Head, Ledger, NoKeeper
from thebes.person.home import Person
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome
from thebes.wire import task_log
from thebes.wire.client import CoordinatorClient

KEPT = Path(__file__).parents[1] / "homes"
ROLES = ("coordinator", "person", "site")
PASSPHRASE = "made up for the tests"  #: of the person's store and of a copy; it keeps nothing secret
WHERE = "WHERE-THE-HOMES-LIE"  #: stands in texts for the folder that they are put into
NOWHERE = "http://127.0.0.1:9"  #: stands in them for the coordinator, where nobody answers
_TEXTS = (".toml", ".json")
_OF_A_PROCESS = ("lock", "daemon.json")


def pack(home: Path, into: Path) -> None:
    """Write a home as a small archive in which nothing of this machine stands."""
    with tarfile.open(into, "w:xz") as archive:
        for path in sorted(home.rglob("*")):
            if not path.is_file() or path.name in _OF_A_PROCESS or path.name.endswith("-shm"):
                continue
            if path.suffix in _TEXTS:
                path.write_bytes(path.read_bytes().replace(str(home.parent).encode(), WHERE.encode()))
            assert str(home.parent).encode() not in path.read_bytes(), path
            facts = tarfile.TarInfo(str(path.relative_to(home)))
            facts.size, facts.mode = path.stat().st_size, 0o600
            with path.open("rb") as content:
                archive.addfile(facts, content)


def unpack(version: str, folder: Path) -> Path:
    """Put the homes of a version into a new folder, as they were where they were made; the folder."""
    folder.mkdir(mode=0o700)
    for role in ROLES:
        home = folder / role
        home.mkdir(mode=0o700)
        with tarfile.open(KEPT / version / f"{role}.tar.xz") as archive:
            archive.extractall(home, filter="data")
        for path in home.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
            if path.suffix in _TEXTS:
                path.write_bytes(path.read_bytes().replace(WHERE.encode(), str(folder).encode()))
    return folder


@dataclass(frozen=True)
class Homes:
    """Three homes that are open: a coordinator, a site of it, and a person who takes part there."""

    front: Front
    office: Office
    me: Person

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        """The coordinator's tasks by name, open ones and ended ones."""
        listed = [self.front.client.get(f"/api/task{which}").json() for which in ("", "?state=ended")]
        return {each["document"]["name"]: each for some in listed for each in some}

    @property
    def names(self) -> dict[str, str]:
        """The names of tasks by their ids."""
        return {task["task_id"]: name for name, task in self.tasks.items()}


@contextmanager
def opened(folder: Path, moment: datetime) -> Iterator[Homes]:
    """Open the homes in a folder at a moment, without a network."""
    with Front(folder / "coordinator", clock=HandClock(moment)) as front:
        office = Office(SiteHome(folder / "site"), "north")
        client = CoordinatorClient("http://127.0.0.1:1", transport=front.transport, retries=0)
        clock = moment.timestamp
        try:
            with Person(folder / "person", client=client, passphrase=PASSPHRASE, clock=clock, delay=False) as me:
                yield Homes(front, office, me)
        finally:
            office.ledger.close()
            office.outbox.close()
            office.audit.close()


def heads(folder: Path) -> dict[str, str]:
    """The heads of the two ledgers, as whoever wrote them down keeps them."""
    told = {}
    for role in ("person", "site"):
        with Ledger(f"sqlite:///{folder}/{role}/ledger.db", keeper=NoKeeper()) as ledger:
            told[role] = str(ledger.head())
    return told


def verify(homes: Homes, known: dict[str, str]) -> None:
    """Check both ledgers from their first entry on, the site's audit log, and the coordinator's signed list."""
    homes.office.ledger.verify(Head.read(known["site"]))
    homes.office.audit.verify()
    assert homes.me.verify()["whole"]
    with Ledger(f"sqlite:///{homes.me.home}/ledger.db", keeper=NoKeeper()) as ledger:
        ledger.verify(Head.read(known["person"]))
    key = (homes.me.home / "coordinator.key").read_text().strip()
    listed = homes.front.client.get("/api/log").json()
    task_log.verify(listed, key=key)
    assert {entry["task_id"] for entry in listed["entries"]} >= set(homes.names)


def told(homes: Homes) -> dict[str, Any]:
    """Tell what the homes hold, in words that outlast a release: tasks, answers, budgets, rows, rules, claims."""
    office, me, names = homes.office, homes.me, homes.names
    spending = me.ledger()
    return {
        "coordinator": {
            "tasks": {name: task["status"] for name, task in sorted(homes.tasks.items())},
            "answers": {
                name: homes.front.task(task["task_id"])["result"]["value"]
                for name, task in sorted(homes.tasks.items())
                if task["status"] == "done"
            },
            "groups": [group["name"] for group in homes.front.client.get("/api/group").json()],
            "sites": [site["name"] for site in homes.front.client.get("/api/site", headers=homes.front.admin).json()],
        },
        "person": {
            "states": {names[each["task_id"]]: each["state"] for each in me.participations()},
            "spent": {trust: spending[trust]["overall"]["spent"] for trust in ("local", "trusted")},
            "left": {trust: spending[trust]["period"]["remaining"] for trust in ("local", "trusted")},
            "tables": {
                f"{app['name']}.{table['name']}": me.newest(app["name"], table["name"])
                for app in me.store()
                for table in app["tables"]
            },
            "groups": [group["name"] for group in me.groups()],
            "rules": me.rules(),
            "delay_seconds": me.settings().delay_seconds,
        },
        "site": {
            "left": {block.name: _left(office.ledger, block.name) for block in office.ledger.blocks()},
            "claims": len(office.ledger.claims()),
            "data sets": office.datasets.names(),
        },
    }


def _left(ledger: Ledger, block: str) -> list[float]:
    left = ledger.remaining(block)
    return [float(left.epsilon), float(left.delta)]
