"""`thebes group show` and `join` at a person's home: which way they ask, and where the code comes from."""

from __future__ import annotations

import getpass
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import exit_status
from tests.support.coordinator import Front
from tests.support.socks import SocksServer
from thebes.person.home import Person
from thebes.person.settings import PersonSettings

URL = "http://coordinator.example"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def thebes(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run one command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    return run


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address where a coordinator with the group `city` listens."""
    with Front(tmp_path / "coordinator") as front:
        front.service.register.create("city", minimum=3, epoch="one")
        shown = front.client.get("/api/group/city").content

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(shown)))
                self.end_headers()
                self.wfile.write(shown)

            def log_message(self, format: str, *args: Any) -> None:
                return None

        door = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=door.serve_forever, args=(0.01,), daemon=True).start()
        yield "127.0.0.1", door.server_port
        door.shutdown()
        door.server_close()


@pytest.fixture
def proxy(address: tuple[str, int]) -> Iterator[SocksServer]:
    """The only way on which `coordinator.example` is found."""
    with SocksServer({"coordinator.example": address}) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path, proxy: SocksServer) -> Path:
    folder = tmp_path / "me"
    Person(folder, coordinator=URL, proxy=proxy.address).close()
    return folder


# --- show ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_persons_home_is_asked_from_through_its_proxy(thebes: Run, home: Path, proxy: SocksServer) -> None:
    for more in ((), ("--coordinator", URL)):
        proxy.asked.clear()
        status, said, trouble = thebes("group", "show", "city", "--home", home, *more)
        assert (status, trouble) == (0, "")
        assert "Group city, epoch one" in said
        assert [asked.host for asked in proxy.asked] == ["coordinator.example"]


def test_without_a_home_the_proxy_is_the_one_that_is_given(thebes: Run, proxy: SocksServer) -> None:
    status, said, _ = thebes("group", "show", "city", "--coordinator", URL, "--proxy", proxy.address, "--json")
    assert status == 0
    assert json.loads(said)["epoch"] == "one"
    assert len(proxy.asked) == 1


@pytest.mark.slow
def test_a_homes_proxy_that_is_down_is_not_gone_around(
    thebes: Run, home: Path, proxy: SocksServer, address: tuple[str, int]
) -> None:
    remembered = proxy.address
    proxy.close()
    directly = f"http://{address[0]}:{address[1]}"
    status, said, trouble = thebes("group", "show", "city", "--home", home, "--coordinator", directly)
    assert (status, said) == (1, "")
    assert "proxy" in trouble
    status, said, _ = thebes("group", "show", "city", "--home", home, "--coordinator", directly, "--proxy", "none")
    assert "Group city" in said
    assert PersonSettings.read(home).proxy == remembered  # for this once only


def test_a_home_that_knows_no_coordinator_says_so(thebes: Run, tmp_path: Path) -> None:
    Person(tmp_path / "new").close()
    status, _, trouble = thebes("group", "show", "city", "--home", tmp_path / "new")
    assert status != 0
    assert "--coordinator" in trouble


# --- join ----------------------------------------------------------------------------------------------------


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The codes that reached a home."""
    seen: list[str] = []

    def enrol(self: Person, name: str, code: str, *rest: Any, **more: Any) -> dict[str, Any]:
        seen.append(code)
        return {"epoch": "one", "digest": "d", "anonymity": "a"}

    monkeypatch.setattr(Person, "enrol", enrol)
    return seen


def test_the_code_is_asked_for_unseen(
    thebes: Run, home: Path, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: f" {'5f' * 16} " if "code" in prompt else "")
    status, said, _ = thebes("group", "join", "city", "--home", home)
    assert (status, codes) == (0, ["5f" * 16])
    assert "5f5f" not in said


def test_the_code_is_read_from_standard_input(
    thebes: Run, home: Path, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("0a1b\n"))
    assert thebes("group", "join", "city", "--home", home, "--code-stdin")[0] == 0
    assert codes == ["0a1b"]


def test_without_a_terminal_and_a_code_it_is_said_what_to_do(
    thebes: Run, home: Path, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("0a1b\n"))
    status, _, trouble = thebes("group", "join", "city", "--home", home)
    assert status != 0
    assert "--code-stdin" in trouble
    assert thebes("group", "join", "city", "--home", home, "--code", "1", "--code-stdin")[0] != 0
    assert codes == []


def test_a_code_on_the_command_line_is_taken_and_help_says_who_reads_it(
    thebes: Run, home: Path, codes: list[str]
) -> None:
    assert thebes("group", "join", "city", "--home", home, "--code", "0a1b")[0] == 0
    assert codes == ["0a1b"]
    said = " ".join(thebes("group", "join", "--help")[1].split())
    assert "everybody on this machine can read it" in said


def test_who_is_admitted_twice_has_another_code_and_it_is_said_that_the_first_ended(
    thebes: Run, tmp_path: Path
) -> None:
    with Front(tmp_path / "coordinator") as front:
        front.service.register.create("city", minimum=3, epoch="one")
        more = ("--home", front.home.folder, "--json")
        status, first, trouble = thebes("group", "enrol", "city", "ana", *more)
        assert (status, trouble) == (0, "")
        _, second, trouble = thebes("group", "enrol", "city", "ana", "bob", *more)
        assert trouble == "thebes: ana: the code given before no longer works\n"
        assert json.loads(first)["ana"] != json.loads(second)["ana"]
