"""The cost of one request to a coordinator, in microseconds of computing, beside an empty endpoint of a bare uvicorn.

Both are processes of their own in the same run, asked in turns by the same client over 16 kept connections; their
computing is counted, which neighbours on the machine change less than rates. A ratio is the bare endpoint's to ours.
Goals: a submission .2, an ask .4; and a cycle of Draw and Discard (387 weights), which is two requests, .12. Of a
submission everything counts until it is on the disk. There are two tasks, both of people; `poll` is of one.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from evidence.bench import draw_discard_http
from evidence.bench.coordinator import CONNECTIONS, MEDIAN, SERVING, _post, started

ROUNDS, SECONDS, WEIGHTS = 5, 1.0, 387
_BARE = """
import json, socket
import uvicorn
async def empty(scope, receive, send):
    head = [(b"content-type", b"application/json"), (b"content-length", b"15")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b'{"status":"ok"}'})
listening = socket.create_server(("127.0.0.1", 0))
print(json.dumps({"url": "http://127.0.0.1:%d" % listening.getsockname()[1]}), flush=True)
config = uvicorn.Config(empty, lifespan="off", access_log=False, log_level="warning", loop="uvloop", http="httptools")
uvicorn.Server(config).run(sockets=[listening])
"""


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    """Microseconds of each request, and the bare endpoint's for one of it."""
    with tempfile.TemporaryDirectory() as home, started(_BARE) as bare, started(SERVING, home) as ours:
        sides = {"bare": (*bare, _empty), **{name: (*ours, one) for name, one in _requests(ours[0], home)}}
        spent = asyncio.run(_turns(sides, rounds))
    least = float(np.median(spent.pop("bare")))
    told: dict[str, Any] = {"bare": {"us": round(least)}}
    for name, each in spent.items():
        took = float(np.median(each))
        told[name] = {"us": round(took), "ratio to the bare endpoint": round(least / took, 3)}
    return told


def _requests(url: str, home: str) -> list[tuple[str, Any]]:
    task = _post(url, home, {**MEDIAN, "min_count": 10_000_000})
    trained = _post(url, home, draw_discard_http.document(WEIGHTS))
    ask = httpx.get(f"{url}/api/task/{task}/ask", params={"slot": "bench"}).json()

    def submission() -> bytes:
        who, payload = secrets.token_hex(16), {"age": 20 + secrets.randbelow(60)}
        body = json.dumps({"ask_id": ask["ask_id"], "part": ask["part"], "contributor": who, "payload": payload})
        head = f"POST /api/task/{task}/submit HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    async def cycle(reader: Any, writer: Any) -> None:
        await draw_discard_http._cycle(reader, writer, trained, framed=False)

    return [
        ("empty", _empty),
        ("list", _got("/api/task")),
        ("poll", _got(f"/api/task/{task}")),
        ("ask", _got(f"/api/task/{task}/ask?slot=0123456789abcdef0123456789abcdef")),
        ("submit", _sent(submission, b"202")),
        ("cycle of 387 weights", cycle),
    ]


async def _turns(sides: dict[str, tuple[str, int, Any]], rounds: int) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):  # in turns, so that all meet the same neighbours; the first one warms up
        for name, (url, pid, one) in sides.items():
            at = urlsplit(url)
            lines = [await asyncio.open_connection(at.hostname, at.port) for _ in range(CONNECTIONS)]
            before, end = _computed(pid), time.perf_counter() + SECONDS
            asked = sum(await asyncio.gather(*(_until(end, one, line) for line in lines)))
            if number:
                spent[name].append((_computed(pid) - before) / asked * 1e6)
            for _, writer in lines:
                writer.close()
    return spent


async def _until(end: float, one: Any, line: Any) -> int:
    count = 0
    while time.perf_counter() < end:
        await one(*line)
        count += 1
    return count


def _got(path: str) -> Any:
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    return _sent(lambda: request, b"200")


def _sent(request: Callable[[], bytes], wanted: bytes) -> Any:
    async def one(reader: Any, writer: Any) -> None:
        writer.write(request())
        await draw_discard_http._answer(reader, wanted)

    return one


_empty = _got("/api/health")


def _computed(pid: int) -> float:
    """Seconds for which all threads of a process have computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
