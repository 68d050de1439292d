"""A site and a coordinator that do not take each other's certificates: the site is told why."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.coordinator import HandClock
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.link_server import Hub
from thebes.coordinator.sites.links import Links
from thebes.site.link import certificate, dialer
from thebes.site.link.probe import trouble


def _issued(folder: Path, at: Path, *, ago: int = 0) -> Path:
    """The folder `link` of the site north, from the authority in `folder`."""
    CertificateAuthority(folder, HandClock(datetime.now(UTC) - timedelta(days=ago))).issue("north", at, days=30)
    return at / "link"


def _told(home: Path, link: Path) -> str | None:
    """Return what a site with this link is told by a coordinator with this home."""

    async def scenario() -> str | None:
        hub = Hub(CertificateAuthority(home, SystemClock()), Links(), Pace())
        port = await hub.start("127.0.0.1", 0)
        folder = os.open(link, os.O_RDONLY | os.O_DIRECTORY)
        try:
            identity = certificate.read(folder, now=datetime.min.replace(tzinfo=UTC))
            return await asyncio.to_thread(trouble, f"127.0.0.1:{port}", identity, folder)
        finally:
            os.close(folder)
            await hub.stop()

    return asyncio.run(asyncio.wait_for(scenario(), 240))


def test_nothing_is_said_of_a_certificate_that_counts(tmp_path: Path) -> None:
    assert _told(tmp_path / "home", _issued(tmp_path / "home", tmp_path / "site")) is None


def test_a_certificate_that_has_ended_by_the_coordinators_clock_is_told_to_have(tmp_path: Path) -> None:
    told = _told(tmp_path / "home", _issued(tmp_path / "home", tmp_path / "site", ago=40))
    assert told is not None
    assert "does not take the certificate of the site north, which ends on" in told
    assert "thebes ca invite north" in told


def test_a_certificate_of_another_authority_is_told_to_be(tmp_path: Path) -> None:
    link = _issued(tmp_path / "elsewhere", tmp_path / "site")
    told = _told(tmp_path / "home", link)
    assert told is not None
    assert "not certified by the authority in link/ca.pem" in told
    (link / "ca.pem").write_bytes((tmp_path / "home" / "ca" / "authority.pem").read_bytes())
    told = _told(tmp_path / "home", link)
    assert told is not None
    assert "does not take the certificate of the site north, which is not from the authority in link/ca.pem" in told


def test_nobody_there_is_not_a_matter_of_certificates(tmp_path: Path) -> None:
    folder = os.open(_issued(tmp_path / "home", tmp_path / "site"), os.O_RDONLY | os.O_DIRECTORY)
    assert trouble("127.0.0.1:1", certificate.read(folder), folder) is None
    os.close(folder)


@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False])
def test_a_link_says_why_it_is_refused_before_anything_was_said(tmp_path: Path, ours: bool) -> None:
    async def scenario() -> tuple[str, str]:
        hub = Hub(CertificateAuthority(tmp_path / "home", SystemClock()), Links(), Pace())
        port = await hub.start("127.0.0.1", 0)
        folder = os.open(_issued(tmp_path / ("home" if ours else "other"), tmp_path / "site"), os.O_RDONLY)
        hub.open = True
        link = dialer.Link(f"127.0.0.1:{port}", "north", folder)
        running = asyncio.create_task(link.run())
        while link.state not in ("connected", "refused"):
            await asyncio.sleep(0.05)
        found = link.state, link.reason
        running.cancel()
        await hub.stop()
        os.close(folder)
        return found

    state, reason = asyncio.run(asyncio.wait_for(scenario(), 240))
    assert state == ("connected" if ours else "refused")
    assert ("not certified by the authority" in reason) is not ours


def test_a_site_that_was_saying_something_as_it_was_refused_knows_it_by_the_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gRPC library then tells of its own failed write instead of the coordinator's status."""
    home, listen = tmp_path / "home", dialer.Link._listen

    async def hidden(link: dialer.Link, call: Any) -> None:
        try:
            await listen(link, call)
        except grpc.aio.AioRpcError as ended:
            told = ended.initial_metadata(), ended.trailing_metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, *told) from None

    monkeypatch.setattr(dialer.Link, "_listen", hidden)

    async def scenario() -> str:
        hub = Hub(CertificateAuthority(home, SystemClock()), Links(), Pace())
        port = await hub.start("127.0.0.1", 0)
        folder = os.open(_issued(home, tmp_path / "site"), os.O_RDONLY)
        hub.open = True
        link = dialer.Link(f"127.0.0.1:{port}", "north", folder)
        CertificateAuthority(home, SystemClock()).revoke("north")
        running = asyncio.create_task(link.run())
        try:
            async with asyncio.timeout(120):
                while link.state != "refused":
                    await asyncio.sleep(0.05)
            return link.reason
        finally:
            running.cancel()
            await hub.stop()
            os.close(folder)

    assert "was revoked" in asyncio.run(scenario())
