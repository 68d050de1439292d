"""A home's token goes to the process that holds the home, never to whoever has got an address that was left behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from thebes.person.folder import DAEMON
from thebes.person.home import Person
from thebes.wire.access import make_token
from thebes.wire.local_server import _LOOKS, Hold, HomeInUse, Local


@pytest.fixture
def heard() -> list[str | None]:
    return []


@pytest.fixture
def home(tmp_path: Path, heard: list[str | None]) -> Iterator[Path]:
    """A home whose server was killed; its port belongs to a stranger since."""

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: object) -> None:
            pass

    folder = tmp_path / "home"
    Person(folder).close()
    make_token(folder)
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        (folder / DAEMON).write_text(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder
        server.shutdown()


def test_a_program_that_holds_a_home_without_serving_it_vouches_for_no_address(
    home: Path, heard: list[str | None]
) -> None:
    with Person(home), pytest.raises(HomeInUse):
        Local.running(home)
    assert heard == []


def test_two_programs_that_look_at_once_do_not_take_each_other_for_a_server(
    home: Path, heard: list[str | None]
) -> None:
    other = Hold(home, shared=True)  # as the other one has it while it looks
    assert Local.running(home) is None
    other.close()
    assert heard == []


def test_a_process_that_is_just_starting_is_waited_for(
    home: Path, heard: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = (home / DAEMON).read_text()
    held, looks = Hold(home), 0
    (home / DAEMON).unlink()

    def announces(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3 * _LOOKS:
            (home / DAEMON).write_text(told)

    monkeypatch.setattr("thebes.wire.local_server.time.sleep", announces)
    found = Local.running(home, patience=60.0)
    assert found is not None
    found.close()
    assert heard  # it was spoken to once it had said where
    (home / DAEMON).unlink()
    with pytest.raises(HomeInUse):
        Local.running(home)  # who does not want to wait is told at once
    held.close()
