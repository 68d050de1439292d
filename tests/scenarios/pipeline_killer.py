"""Runs a pipeline in processes that are killed, for the test beside this file: run as a script, never imported.

FOLDER STRATEGY STRIDE   makes a stream below FOLDER; then for every STRIDE-th step of a run (each write to ledger and
                         journal, before it and after it; each step of the pipeline, as it begins and as it ends; the
                         moment a bundle takes its place) copies it, runs the pipeline until that step, is killed there
                         with SIGKILL, looks at what was left, runs it again to its end, and prints one line of JSON
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401  imported before the forks, so that a process is there in an instant
import sqlalchemy.dialects.sqlite  # noqa: F401

from tests.support.pipelines import Home, Lines
from thebes.curator.pipelines.attempt_store import Attempts
from thebes.ledger import Ledger
from thebes.privacy.randomness import seeded_for_simulation

SEED = 3


class Killed(Lines):
    name = "lines"

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy


class Steps:
    """Counts steps and dies at one of them. The step that it dies at is told before."""

    def __init__(self, last: int, tell: int) -> None:
        self.count, self.last, self.tell = 0, last, tell

    def __call__(self, what: str) -> None:
        self.count += 1
        if self.count == self.last:
            os.write(self.tell, what.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def stepped(*arguments: Any, **named: Any) -> Any:
            self(f"before {owner.__name__}.{name}")
            made = inner(*arguments, **named)
            self(f"after {owner.__name__}.{name}")
            return made

        setattr(owner, name, stepped)


def forked(work: Callable[[int], None]) -> tuple[bool, str]:
    """Return whether the work was killed, and what it told."""
    listen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(listen)
        status = 1
        try:
            work(tell)
            status = 0
        finally:
            os._exit(status)
    os.close(tell)
    with os.fdopen(listen, encoding="utf-8") as told:
        said = told.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"a process failed: {said}"
    return os.WIFSIGNALED(status), said


def opened(folder: Path) -> Home:
    # Seeded, so that a run has the same steps each time; what was drawn decides how many attempts it takes.
    home = Home(folder, randomness=seeded_for_simulation(SEED))
    last = max((block.until for block in home.stream.blocks() if block.until is not None), default=home.now)
    home.now = last
    return home


def once(folder: Path, strategy: str, last: int) -> Callable[[int], None]:
    def work(tell: int) -> None:
        steps = Steps(last, tell)
        for owner, name in ((Ledger, "_write"), (Attempts, "_write"), (Killed, "train"), (Killed, "validate")):
            steps.around(owner, name)
        steps.around(os, "replace")
        opened(folder).run(Killed(strategy))

    return work


def looked(folder: Path) -> Callable[[int], None]:
    """Check what somebody finds who comes after the kill: nothing half, and nothing spent that no attempt says."""

    def work(tell: int) -> None:
        home = opened(folder)
        home.ledger.verify()
        for name in home.workspace.bundles.names():
            for version in home.workspace.bundles.versions(name):
                assert home.workspace.bundles.get(name, version)["certificate"]["text"]
        os.write(tell, str(len(home.workspace.bundles.versions("lines"))).encode())

    return work


def finished(folder: Path, strategy: str) -> Callable[[int], None]:
    """Run to the end: the facts, once everything has been looked at."""

    def work(tell: int) -> None:
        home = opened(folder)
        run = home.run(Killed(strategy))
        journal = home.workspace.attempts
        attempts = journal.attempts(run.id)
        paid: dict[str, Decimal] = {}
        for one in (one for made in journal.runs() for one in journal.attempts(made.id)):
            for block in one.blocks if one.state.paid else ():
                paid[block] = paid.get(block, Decimal(0)) + one.epsilon
        spent = {name: amount for name, amount in home.spent().items() if amount}
        versions = home.workspace.bundles.versions("lines")
        facts = {
            "verdict": run.verdict,
            "runs": len(journal.runs()),
            "states": [str(one.state) for one in attempts],
            "open": sum(claim.state.open for claim in home.ledger.claims()),
            "exact": spent == {name: amount for name, amount in paid.items() if amount},
            "most": max(map(float, paid.values()), default=0.0),
            "versions": len(versions),
            "published": bool(versions) and home.workspace.bundles.get("lines")["lineage"]["run"] == run.id,
            "spare": [path.name for path in (folder / "models").glob("*/.new")],
        }
        home.ledger.verify()
        os.write(tell, json.dumps(facts).encode())

    return work


def main(folder: Path, strategy: str, stride: int) -> None:
    source = folder / "source"
    source.mkdir(parents=True)
    forked(lambda tell: Home(source).grow(4))
    last = 1
    while True:
        place = folder / str(last)
        shutil.copytree(source, place)
        killed, where = forked(once(place, strategy, last))
        if not killed:
            print(json.dumps({"steps": last - 1}), flush=True)
            return
        _, before = forked(looked(place))
        _, said = forked(finished(place, strategy))
        print(
            json.dumps({"step": last, "where": where, "published_before": int(before), **json.loads(said)}), flush=True
        )
        shutil.rmtree(place)
        last += stride


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
