"""A site's way to its coordinator where the environment of the machine names proxies."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.link_server import Hub
from thebes.coordinator.sites.links import Links
from thebes.site.link import dialer
from thebes.site.link.proxy import proxy_of

DEAD = "http://127.0.0.1:9"  #: a proxy that nobody is
NAMES = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy", "no_grpc_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class ByConnect:
    """A proxy of HTTP that leads everybody to one port of this machine, and remembers where they wanted to go."""

    def __init__(self, to: int) -> None:
        self.asked: list[str] = []
        self._to, self._at_work = to, set[asyncio.Task[None]]()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        for task in self._at_work:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
        inner, outer = await asyncio.open_connection("127.0.0.1", self._to)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for source, sink in ((reader, outer), (inner, writer)):
            self._at_work.add(asyncio.create_task(_passed_on(source, sink)))


async def _passed_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(2**16):
        sink.write(data)
        await sink.drain()
    sink.close()


def linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, address: str | None, named: str) -> list[str]:
    """Return what a proxy that the environment names under `named` was asked for by a site until it was linked with
    `address`: of no proxy at all nothing, and of a dead one nobody hears."""

    async def scenario() -> list[str]:
        hub = Hub(CertificateAuthority(tmp_path / "home", SystemClock()), Links(), Pace())
        port = await hub.start("127.0.0.1", 0)
        hub.open = True
        proxy = ByConnect(port)
        monkeypatch.setenv(named, DEAD if address is None else f"http://127.0.0.1:{await proxy.start()}")
        CertificateAuthority(tmp_path / "home", SystemClock()).issue("north", tmp_path / "site", days=30)
        folder = os.open(tmp_path / "site" / "link", os.O_RDONLY)
        link = dialer.Link(address or f"127.0.0.1:{port}", "north", folder)
        running = asyncio.create_task(link.run())
        try:
            async with asyncio.timeout(60):
                while link.state != "connected":
                    await asyncio.sleep(0.02)
        finally:
            running.cancel()
            await hub.stop()
            if address is not None:
                await proxy.stop()
            os.close(folder)
        return proxy.asked

    return asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("named", ["https_proxy", "grpc_proxy", "http_proxy"])
def test_a_coordinator_on_this_machine_is_reached_without_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """One elsewhere would look for it on itself."""
    assert linked(tmp_path, monkeypatch, address=None, named=named) == []


@pytest.mark.slow
@pytest.mark.parametrize("named", ["https_proxy", "HTTPS_PROXY"])
def test_one_elsewhere_is_reached_by_the_proxy_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    asked = linked(tmp_path, monkeypatch, address="coordinator.invalid:8443", named=named)
    assert set(asked) == {"coordinator.invalid:8443"}


@pytest.mark.parametrize(
    ("names", "coordinator", "proxy"),
    [
        ({}, "there.example:1", None),
        ({"https_proxy": DEAD}, "there.example:1", DEAD),
        ({"https_proxy": "127.0.0.1:9"}, "there.example:1", DEAD),
        ({"http_proxy": DEAD, "all_proxy": DEAD}, "there.example:1", None),
        ({"https_proxy": "http://other.example:1", "grpc_proxy": DEAD}, "there.example:1", DEAD),
        ({"https_proxy": DEAD}, "localhost:1", None),
        ({"https_proxy": DEAD}, "[::1]:1", None),
        ({"https_proxy": DEAD, "no_proxy": "*"}, "there.example:1", None),
        ({"HTTPS_PROXY": DEAD, "NO_PROXY": "*"}, "there.example:1", None),
        ({"https_proxy": DEAD, "no_proxy": "near.example,.there.example"}, "a.there.example:1", None),
        ({"https_proxy": DEAD, "no_proxy": "near.example"}, "there.example:1", DEAD),
        ({"https_proxy": DEAD, "no_proxy": "*", "no_grpc_proxy": "near.example"}, "there.example:1", DEAD),
    ],
)
def test_which_proxy_it_is(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str], coordinator: str, proxy: str | None
) -> None:
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(coordinator) == proxy
