"""Somebody signs in at their institution's identity provider, a process of its own, in a real browser, and leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import Process

from tests.support.browser import Visitor
from tests.support.coordinator import Server
from tests.support.ports import free_ports
from tests.support.site_home import site_home
from tests.support.user_units import until
from thebes.testing.command import typed

pytest.importorskip("oidc_provider_mock")
pytestmark = pytest.mark.slow
HERE = Path(__file__).parents[2]
USERS = {"ana": ["analysts"], "bob": ["admins"], "eve": ["guests"], "kim": ["stewards"]}
KNOWN = [json.dumps({"sub": name, "groups": groups}) for name, groups in USERS.items()]


@pytest.fixture
def provider() -> Iterator[str]:
    given = [word for user in KNOWN for word in ("--user-claims", user)]
    with started("oidc_provider_mock", lambda port: ["--port", port, *given]) as address:
        yield address


@pytest.fixture
def public_provider() -> Iterator[str]:
    """A provider to clients without a secret, which it holds to PKCE."""
    with started("tests.support.public_provider", lambda port: [port, *KNOWN]) as address:
        yield address


@contextmanager
def started(program: str, given: Callable[[str], list[str]]) -> Iterator[str]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", program, *given(str(port))]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE)
    address = f"http://localhost:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{address}/.well-known/openid-configuration").is_success
        except httpx.TransportError:
            return False

    try:
        until(answers)
        yield address
    finally:
        running.kill()
        running.wait(timeout=60)


@pytest.fixture
def server(provider: str, tmp_path: Path) -> Iterator[Server]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    told = {"issuer": provider, "client_id": "thebes", "client_secret_file": "oidc.secret", "scopes": ["groups"]}
    lines = [f"{name} = {json.dumps(value)}" for name, value in told.items()]
    roles = 'roles = { analysts = "requestor", admins = "operator" }'
    (home / "coordinator.toml").write_text("\n".join(["[oidc]", *lines, roles]) + "\n")
    (home / "oidc.secret").write_text("secret\n")
    (home / "oidc.secret").chmod(0o600)
    with Server(home) as running:
        yield running


def come(
    visit: Callable[..., Visitor], origin: str, provider: str, who: str, first: str = "/sign-in", inside: bool = True
) -> Visitor:
    """Leave for the provider, say there who one is, and come back: to the front page, or to words why not."""
    visitor = visit(origin)
    visitor.beside, visitor.expected = provider, {401}
    empty: dict[str, Any] = {"status": 200, "body": "", "content_type": "text/css"}  # the provider's looks are not here
    visitor.page.context.route("https://cdn.jsdelivr.net/**", lambda route: route.fulfill(**empty))
    visitor.open(first)
    visitor.page.get_by_role("link", name="Sign in at your institution").click()
    visitor.page.get_by_role("button", name=who, exact=True).click()
    if inside:  # over a page that says so already and goes on by itself
        expect(visitor.page).to_have_url(f"{visitor.origin}/")
    return visitor


def test_somebody_comes_in_by_their_institution_and_an_operator_ends_their_session(
    server: Server, provider: str, visit: Callable[..., Visitor]
) -> None:
    ana = come(visit, server.ready["url"], provider, "ana")
    expect(ana.page.locator(".who")).to_contain_text("ana@localhost requestor")
    ana.open("/sessions")
    expect(ana.page.get_by_role("button", name="End")).to_have_count(1)
    ana.pictures("sign-in-institution-sessions")
    bob = come(visit, server.ready["url"], provider, "bob")
    expect(bob.page.locator(".who")).to_contain_text("bob@localhost operator")
    bob.open("/sessions")
    row = bob.page.get_by_role("row").filter(has_text="ana@localhost")
    row.get_by_role("button", name="End").click()
    expect(row).to_have_count(0)
    ana.open("/")
    expect(ana.page.locator(".who")).to_have_count(0)


def test_who_has_no_group_of_this_coordinator_reads_why_nobody_comes_in(
    server: Server, provider: str, visit: Callable[..., Visitor]
) -> None:
    eve = come(visit, server.ready["url"], provider, "eve", inside=False)
    expect(eve.page.locator("main")).to_contain_text("none of your groups may ask here")
    eve.pictures("sign-in-institution-refused")


def test_a_steward_signs_in_at_a_site_is_shown_by_name_and_leaves(
    public_provider: str, tmp_path: Path, visit: Callable[..., Visitor]
) -> None:
    home = site_home(tmp_path / "site", policy=None)
    told = {"issuer": public_provider, "client_id": "north", "scopes": ["groups"]}
    lines = [*(f"{name} = {json.dumps(value)}" for name, value in told.items()), 'roles = { stewards = "steward" }']
    (home.folder / "oidc.toml").write_text("\n".join(lines))
    (tmp_path / "c").mkdir(mode=0o700)
    assert typed("ca", "issue", "north", "--home", str(tmp_path / "c"), "--out", str(home.folder)).returncode == 0
    running = Process("site", "--home", str(home.folder), "--coordinator", "127.0.0.1:9", "--port", "0")
    try:
        origin = running.ready()["address"]
        eve = come(visit, origin, public_provider, "eve", "/", inside=False)
        expect(eve.page.locator("main")).to_contain_text("None of your groups is a steward's here", ignore_case=True)
        eve.pictures("site-sign-in-refused")
        kim = come(visit, origin, public_provider, "kim", "/")
        expect(kim.page.get_by_role("heading", name="The site north")).to_be_visible()
        expect(kim.page.locator("#browsers")).to_contain_text("kim@localhost")
        kim.pictures("site-sign-in")
        kim.page.get_by_role("button", name="End the session of kim@localhost").click()
        expect(kim.page.locator("#browsers")).not_to_contain_text("kim@localhost")
        kim.open("/")
        expect(kim.page.get_by_role("link", name="Sign in at your institution")).to_be_visible()
    finally:
        assert running.stop() == 0
