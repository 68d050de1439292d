"""The link between a coordinator and its sites over loopback with mutual TLS: large messages, small ones, whole tasks.

The sites are all in one other process, so that both sides compute at the same time; they answer at once, with numbers
that are there already. Goals: 100 MB at 200 MB/s or more each way (everything between an array here and an array there:
frame, pieces with their SHA-256, TLS, the same backwards), a count over 15 sites within 50 ms from the document to the
release, and less than 10 ms of coordination for each round and site of a small model. `hashing` says what SHA-256 alone
takes in the same run: each side computes it once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.federation import CENSUS, Far, Gathering, Steward, contribution
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.session import Conversation
from thebes.tasks import registry
from thebes.wire.link import MOST_BYTES, Word

MEGABYTES, ROUNDS = 100, 7
SITES = (1, 5, 15)
TASK_ROUNDS = 50


def run() -> dict[str, Any]:
    """Rates, times, and what they are made of."""
    registry.packages()["census"] = "thebes.testing.census"  # half of a kind: the benchmark writes what sites send
    return asyncio.run(_measure())


async def _measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        world = await Gathering(home, pace=Pace()).open(0)
        for number in range(max(SITES)):
            CertificateAuthority(home, world.clock).issue(f"s{number:02}", Path(folder) / f"s{number:02}")
        command = [sys.executable, "-m", "evidence.bench.link", world.url, folder]
        sites = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            await world.known(*(f"s{number:02}" for number in range(max(SITES))))
            line = world.links.of("s00")
            assert line is not None
            return {
                f"{MEGABYTES} MB": await _large(line, sites.pid),
                "round trips per second": await _small(line),
                "a count, ms from the document to the release": await _counts(world),
                f"{TASK_ROUNDS} rounds, ms for each round": await _rounds(world),
            }
        finally:
            sites.kill()
            sites.wait()
            await world.close()


async def _large(line: Conversation, sites: int) -> dict[str, Any]:
    model = np.frombuffer(np.random.default_rng(1).bytes(MEGABYTES * 10**6), dtype=np.uint8)

    async def there() -> None:
        await line.ask(Word.ASK, {"payload": {"model": model}}, most=MOST_BYTES)

    async def back() -> None:
        answer = await line.ask(Word.ASK, {"back": len(model)}, most=MOST_BYTES)
        assert len(answer["payload"]["model"]) == len(model)

    def hashing() -> float:
        began = time.perf_counter()
        hashlib.sha256(model.data).digest()
        return time.perf_counter() - began

    worked = {}
    for name, way in (("there", there), ("back", back)):
        await way()
        began = _computed(sites)
        for _ in range(ROUNDS):
            await way()
        worked[f"{name}, ms of computing on both sides"] = 1000 * (_computed(sites) - began) / ROUNDS
    return {
        "there, MB/s": MEGABYTES / await _median(there),
        "back, MB/s": MEGABYTES / await _median(back),
        **worked,
        "hashing, MB/s": MEGABYTES / float(np.median([hashing() for _ in range(ROUNDS)])),
    }


def _computed(other: int) -> float:
    """Seconds of computing that this process and the other one have used."""
    fields = Path(f"/proc/{other}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _small(line: Conversation) -> dict[str, float]:
    async def one_by_one() -> None:
        for _ in range(500):
            await line.ask(Word.ASK, {"small": 1})

    async def at_once() -> None:
        for _ in range(50):
            await asyncio.gather(*(line.ask(Word.ASK, {"small": 1}) for _ in range(16)))

    return {"one after another": 500 / await _median(one_by_one), "16 at a time": 800 / await _median(at_once)}


async def _counts(world: Gathering) -> dict[str, float]:
    found = {}
    for count in SITES:
        document = {**CENSUS, "size": 1, "sites": [f"s{number:02}" for number in range(count)]}
        took = []
        for _ in range(20):
            began = time.perf_counter()
            task = await world.post(document)
            while (await world.service.task(task))[0]["status"] != "done":
                await asyncio.sleep(0.001)
            took.append(1000 * (time.perf_counter() - began))
        found[f"{count} sites, median"] = float(np.median(took))
        found[f"{count} sites, 19 of 20 within"] = sorted(took)[18]
    return found


async def _rounds(world: Gathering) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for count in SITES:
        document = {**CENSUS, "size": 100, "rounds": TASK_ROUNDS, "sites": [f"s{number:02}" for number in range(count)]}
        began = time.perf_counter()
        done = await world.asked(document)
        wall = time.perf_counter() - began
        assert done["status"] == "done"
        told = (await world.service.progress(done["task_id"]))["sites"]["seconds"]["total"]
        found[f"{count} sites"] = {
            "wall": 1000 * wall / TASK_ROUNDS,
            "wall for each site": 1000 * wall / TASK_ROUNDS / count,
            **{part: 1000 * told[part] / TASK_ROUNDS for part in ("transfer", "aggregation")},
        }
    return found


async def _median(work: Callable[[], Awaitable[None]]) -> float:
    await work()
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        took.append(time.perf_counter() - began)
    return float(np.median(took))


# --- the other process ----------------------------------------------------------------------------------


async def _sites(url: str, folder: Path) -> None:
    """Answer until killed."""
    kept: dict[int, Any] = {}

    def answer(ask: dict[str, Any]) -> dict[str, Any]:
        if "document" in ask:
            return contribution(ask, {"numbers": [1] * ask["document"]["size"]}, seconds={})
        if "back" in ask:
            size = ask["back"]
            model = kept.setdefault(size, np.frombuffer(np.random.default_rng(2).bytes(size), dtype=np.uint8))
            return {"kind": "contribution", "payload": {"model": model}}
        return {"kind": "contribution"}

    links = sorted(folder.glob("s*/link"))
    fars = [Far(url, link, Steward(answer)) for link in links]
    await asyncio.gather(*(far.run for far in fars))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(_sites(sys.argv[1], Path(sys.argv[2])))
    else:
        print(json.dumps(run(), indent=2))
