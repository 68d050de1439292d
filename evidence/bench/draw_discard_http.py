"""Training over HTTP: draw + submit cycles per second from client processes of their own, over kept connections.

Beside them, in turns within the same run, stands the empty endpoint of the same server, asked by the same clients over
the same connections. A cycle is two requests; goal: at least 0.25 cycles for each empty request, and 2,000 cycles a
second with 387 weights on two cores. Every cycle is a different contributor's: it fetches a model as JSON (50,000
weights as a frame) and sends it back; what an owner computes in between is not the coordinator's. `p99` is of a cycle.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from evidence.bench.coordinator import _post, _server
from thebes.wire import frames

CLIENTS, CONNECTIONS = 2, 8  #: processes, and connections of each
ROUNDS, SECONDS = 5, 1.0
WEIGHTS = (33, 387, 50_000)


def run() -> dict[str, Any]:
    """Cycles per second by the number of weights."""
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as home, _server(Path(home)) as url:
        for weights in WEIGHTS:
            task_id = _post(url, home, document(weights))
            measured[f"{weights} weights"] = _measured(url, task_id, framed=weights >= frames.WORTH_FRAMING)
    return measured


def document(weights: int) -> dict[str, Any]:
    """A task whose model has so many weights: an intercept, and one for each value of a set but the last."""
    classes = 5 if weights % 5 == 0 else 1
    values = list(range(weights // classes))
    output = {"type": "set", "values": ["yes", "no"] if classes == 1 else list(range(classes))}
    return {
        "type": "draw-discard",
        "epsilon": 8.0,
        "delta": 1e-6,
        "min_count": 11,
        "featurizer": "SELECT c, o FROM app.event",
        "family": "logistic" if classes == 1 else "multinomial",
        "inputs": ["c"],
        "output": "o",
        "bounds": {"c": {"type": "set", "values": values}, "o": output},
        "mechanism": "gaussian",
        "learning_rate": 0.001,
        "stale_after": 10**6,
    }


def _measured(url: str, task_id: str, *, framed: bool) -> dict[str, Any]:
    context = get_context("spawn")
    clients = []
    for _ in range(CLIENTS):
        here, there = context.Pipe()
        process = context.Process(target=_client, args=(there, url, task_id, framed), daemon=True)
        process.start()
        clients.append((process, here))
    for _, line in clients:
        assert line.recv() == "ready"
    rates: dict[str, list[float]] = {"empty": [], "cycles": []}
    times: list[float] = []
    for _ in range(ROUNDS):  # in turns, so that both meet the same neighbours on the machine
        for what in rates:
            for _, line in clients:
                line.send(what)
            told = [line.recv() for _, line in clients]
            rates[what].append(sum(count for count, _ in told) / SECONDS)
            if what == "cycles":
                times += [seconds for _, took in told for seconds in took]
    for process, line in clients:
        line.send("end")
        process.join()
    cycles, empty = float(np.median(rates["cycles"])), float(np.median(rates["empty"]))
    return {
        "cycles to the empty endpoint": round(cycles / empty, 3),
        "cycles/s": round(cycles),
        "empty requests/s": round(empty),
        "p50 ms": round(float(np.percentile(times, 50)) * 1000, 2),
        "p99 ms": round(float(np.percentile(times, 99)) * 1000, 2),
    }


# --- a client process -----------------------------------------------------------------------------------


def _client(line: Connection, url: str, task_id: str, framed: bool) -> None:
    asyncio.run(_talk(line, url, task_id, framed))


async def _talk(line: Connection, url: str, task_id: str, framed: bool) -> None:
    address = urlsplit(url)
    assert address.hostname is not None
    wires = [await asyncio.open_connection(address.hostname, address.port) for _ in range(CONNECTIONS)]
    line.send("ready")
    while (what := await asyncio.to_thread(line.recv)) != "end":
        end = time.perf_counter() + SECONDS
        one = _empty if what == "empty" else _cycle
        took = await asyncio.gather(*(_until(end, one, wire, task_id, framed) for wire in wires))
        line.send((sum(map(len, took)), [seconds for each in took for seconds in each]))
    for _, writer in wires:
        writer.close()


async def _until(end: float, one: Any, wire: Any, task_id: str, framed: bool) -> list[float]:
    took = []
    while (start := time.perf_counter()) < end:
        await one(*wire, task_id, framed)
        took.append(time.perf_counter() - start)
    return took


async def _empty(reader: Any, writer: Any, *_: Any) -> None:
    writer.write(b"GET /api/health HTTP/1.1\r\nHost: bench\r\n\r\n")
    await _answer(reader, b"200")


async def _cycle(reader: Any, writer: Any, task_id: str, framed: bool) -> None:
    who = secrets.token_hex(16)
    accept = f"Accept: {frames.MEDIA_TYPE}\r\n" if framed else ""
    writer.write(f"GET /api/task/{task_id}/ask?slot={who} HTTP/1.1\r\nHost: bench\r\n{accept}\r\n".encode())
    asked = await _answer(reader, b"200")
    body, kind = (_framed if framed else _text)(asked, who)
    head = f"POST /api/task/{task_id}/submit HTTP/1.1\r\nHost: bench\r\nContent-Type: {kind}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await _answer(reader, b"202")


def _text(asked: bytes, who: str) -> tuple[bytes, str]:
    """The model as it came, without reading its numbers: that is the owner's work."""
    head, mark, payload = asked.partition(b'"payload"')
    told = json.loads(head.rstrip(b", ") + b"}")
    body = json.dumps({"ask_id": told["ask_id"], "part": told["part"], "contributor": who}).encode()
    return body[:-1] + b"," + mark + payload, frames.JSON


def _framed(asked: bytes, who: str) -> tuple[bytes, str]:
    read = frames.read(asked)
    body = {"ask_id": read.body["ask_id"], "part": read.body["part"], "contributor": who}
    return frames.write(frames.Frame({**body, "payload": read.body["payload"]}, read.arrays)), frames.MEDIA_TYPE


async def _answer(reader: Any, wanted: bytes) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body: bytes = await reader.readexactly(length)
    assert head.split(b" ", 2)[1] == wanted, body
    return body


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(), indent=2) + "\n")
