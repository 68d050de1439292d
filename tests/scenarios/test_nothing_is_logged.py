"""A coordinator writes down nothing of those who ask and submit but the contribution itself."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import httpx
import pytest

from tests.support.coordinator import AGES, Server

FROM = "127.0.0.77"
SLOT, OTHER = "5107f00d" * 4, "0dd0f00d" * 4
TELLING = {"User-Agent": "telltale/7", "X-Forwarded-For": "203.0.113.77", "Cookie": "who=telltale", "Via": "telltale"}

pytestmark = pytest.mark.slow


def statuses(server: Server, task_id: str) -> list[int]:
    """One contributor who does everything right and everything wrong, and tells all there is to tell."""
    through = httpx.HTTPTransport(local_address=FROM)
    with httpx.Client(base_url=server.ready["url"], headers=TELLING, transport=through, timeout=120) as me:
        asked = me.get(f"/api/task/{task_id}/ask", params={"slot": SLOT})
        submit, ask = f"/api/task/{task_id}/submit", asked.json()
        body = {"ask_id": ask["ask_id"], "part": ask["part"], "contributor": SLOT, "payload": {"age": 41}}
        sent = me.post(submit, json=body)
        answers = [
            asked,
            sent,
            me.post(submit, json=body),
            me.post(submit, json={**body, "payload": {"age": 43}}),
            me.post(submit, json={**body, "contributor": OTHER, "payload": {"age": SLOT}}),
            me.post(submit, json={**body, "contributor": OTHER, "payload": {"telltale": 1}}),
            me.post(submit, content=b"\xff" + SLOT.encode(), headers={"Content-Type": "application/json"}),
            me.post(submit, content=SLOT.encode(), headers={"Content-Type": "text/telltale"}),
            me.get(f"/api/task/{SLOT}/ask", params={"slot": SLOT}),
            me.get(f"/api/task/{task_id}/ask", params={"slot": "telltale\x00"}),
            me.delete(submit, params={"receipt": sent.json()["receipt"]}),
            me.post(submit, json=body),
        ]
    return [answer.status_code for answer in answers]


def rubbish(server: Server) -> None:
    """Send what is no HTTP, and a request that breaks off."""
    where = ("127.0.0.1", int(server.ready["url"].rpartition(":")[2]))
    half = f"POST /api/task/{SLOT}/submit HTTP/1.1\r\nHost: telltale\r\nContent-Length: 999\r\n\r\n{SLOT}".encode()
    for words in (b"\x16\x03\x01telltale\r\n\r\n", half):
        with socket.create_connection(where, source_address=(FROM, 0)) as raw:
            raw.sendall(words)


@pytest.mark.parametrize("form", ["text", "json"])
def test_neither_log_nor_disk_holds_who_asked_or_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("THEBES_LOG", form)
    home, written = tmp_path / "home", tmp_path / "log"
    server = Server(home, log=written)
    task_id = server.post(AGES)
    assert statuses(server, task_id) == [200, 202, 202, 409, 422, 422, 400, 415, 404, 422, 204, 410]
    rubbish(server)
    end = time.monotonic() + 120
    while not written.read_text():  # it has been heard
        assert time.monotonic() < end
        time.sleep(0.05)
    assert server.client.get("/api/health").status_code == 200
    metrics = server.client.get("/metrics").text
    assert server.stop() == 0
    log = written.read_text()
    said = log.splitlines() if form == "text" else [json.loads(line)["message"] for line in log.splitlines()]
    assert {line.removeprefix("WARNING:  ") for line in said} == {"Invalid HTTP request received."}
    for text in (log, metrics):
        assert not [word for word in (SLOT, OTHER, "telltale", FROM, "203.0.113.77", task_id) if word in text]
    for path in [path for path in home.rglob("*") if path.is_file()]:
        kept = path.read_bytes()
        assert not [word for word in ("telltale", FROM, "203.0.113.77") if word.encode() in kept], path.name
