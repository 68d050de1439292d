"""Reports in shares that each server verifies in a second on one core, beside adding the bare numbers up, and beside an
endpoint that does nothing with them; and the bytes that one contribution takes.

Time is that of this process alone, so that a busy machine does not count. Opening the sealed share is part of the
helper's work. The endpoint is FastAPI's in process, without a socket: what any server spends on a request at least.

Beside them stands what others published, on machines of theirs: such a ratio is of two machines, and rough. Janus, the
DAP server, verifies with libprio-rs; a figure of that is the time of the same step as the leader's here, without a
share to open and without a database.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI, Request

from thebes.privacy.randomness import system
from thebes.sharing import LEADER, Prio3, SealingKey, context_of, opened, seal
from thebes.sharing.field import Bytes

ROUNDS, REQUESTS = 3, 200
CONTEXT = context_of(bytes(32), "bench")
#: seconds that libprio-rs takes to prepare one report at one server: github.com/divviup/libprio-rs, pull request 1290
#: (July 2025), prio3sum_prepare_init/8; its machine is not named
LIBPRIO_SUM_SECONDS = 18.56e-6
#: uploads a second of Janus' standard load test, which is how fast it was fed, and not its limit: github.com/divviup/
#: janus, pull request 2513 (January 2024), Prio3Count, an AMD Ryzen 9 7950X with 16 cores and 64 GB, all of it together
JANUS_UPLOADS = 100.0
#: reports of each kind, how many, and the largest of their numbers
KINDS: dict[str, tuple[Prio3, int, int]] = {
    "count": (Prio3.count(CONTEXT), 4000, 1),
    "sum to 255": (Prio3.sum(255, CONTEXT), 4000, 255),
    "sum to 2^20": (Prio3.sum(2**20, CONTEXT), 2000, 2**20),
    "histogram of 16": (Prio3.histogram(16, CONTEXT), 2000, 0),
    "histogram of 256": (Prio3.histogram(256, CONTEXT), 200, 0),
    "64 numbers of 8 bits": (Prio3.vector([255] * 64, CONTEXT), 200, 255),
}


def run() -> dict[str, Any]:
    """Reports a second of each kind and server, as ratios too, the time to make one, and bytes."""
    endpoint = _endpoint()
    found = {name: _kind(*KINDS[name], endpoint) for name in KINDS}
    leader = "leader (reports/s)"
    published = {
        "libprio-rs, sum to 255, one server (reports/s)": 1 / LIBPRIO_SUM_SECONDS,
        "leader, sum to 255, ratio to libprio-rs": found["sum to 255"][leader] * LIBPRIO_SUM_SECONDS,
        "Janus' load test, as it was fed (uploads/s)": JANUS_UPLOADS,
    }
    return {"empty endpoint (requests/s)": endpoint, **found, "beside published figures": published}


def _kind(prio: Prio3, count: int, largest: int, endpoint: float) -> dict[str, Any]:
    width = prio.circuit.outputs
    chosen = system().below(max(largest, 1) + 1, count * width).reshape(count, width)
    numbers = chosen if largest else np.eye(width, dtype=np.int64)[system().below(width, count)]
    nonces, drawn = _bytes(count, 16), _bytes(count, prio.randomness_bytes)
    made = prio.shard(numbers, nonces, drawn)
    key, server = bytes(_bytes(1, 32)[0]), SealingKey.generate()
    reports = [
        {"context": CONTEXT, "nonce": n.tobytes(), "public_share": p.tobytes()}
        for n, p in zip(nonces, made.public, strict=True)
    ]
    sealed = [seal(s.tobytes(), server.public, **r) for s, r in zip(made.shares[1], reports, strict=True)]

    def helper() -> Any:
        shares = b"".join(server.open(one, **report) for one, report in zip(sealed, reports, strict=True))
        raw = np.frombuffer(shares, dtype=np.uint8).reshape(count, -1)
        return prio.prepare(1, key, nonces, made.public, raw)

    def leader() -> Any:
        return prio.prepare(LEADER, key, nonces, made.public, made.shares[0])

    ours, theirs = leader(), helper()
    held, seed = prio.decide([ours.verifier, theirs.verifier])
    both = [prio.aggregate(one, prio.confirmed(one, held, seed)) for one in (ours, theirs)]
    if opened(both).tolist() != numbers.sum(0).tolist():
        raise SystemExit("bench: the opened sum is not that of the numbers")
    bare = count / _seconds(lambda: [numbers.sum(0) for _ in range(100)]) * 100
    rates = {"leader": count / _seconds(leader), "helper, with opening": count / _seconds(helper)}
    alone = _seconds(lambda: prio.shard(numbers[:1], nonces[:1], drawn[:1]))
    return {
        **{f"{name} (reports/s)": rate for name, rate in rates.items()},
        **{f"{name}, ratio to an empty endpoint": rate / endpoint for name, rate in rates.items()},
        **{f"{name}, ratio to the bare sum": rate / bare for name, rate in rates.items()},
        "make one (ms)": 1000 * alone,
        "bytes, contribution": 16 + made.public.shape[1] + prio.leader_bytes + len(sealed[0]),
        "bytes, between the servers": 2 * prio.verifier_bytes,
    }


def _bytes(count: int, length: int) -> Bytes:
    words = system().words(-(-count * length // 8))
    return words.view(np.uint8)[: count * length].reshape(count, length)


def _endpoint() -> float:
    application = FastAPI()

    @application.post("/")
    async def nothing(request: Request) -> None:
        await request.body()

    async def ask() -> None:
        there = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=there, base_url="http://bench") as client:
            for _ in range(REQUESTS):
                await client.post("/", content=b"x" * 1000)

    return REQUESTS / _seconds(lambda: asyncio.run(ask()))


def _seconds(work: Callable[[], Any]) -> float:
    best = math.inf
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return max(best, 1e-9)


if __name__ == "__main__":
    for kind, found in run().items():
        print(kind, found)
