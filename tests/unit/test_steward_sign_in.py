"""A steward's way into a site's page by the institution's identity provider, a server by somebody else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.support.coordinator import HandClock
from thebes.privacy.faults import Mistake
from thebes.site.steward.identity import FILE, SESSION_SECONDS, stewards_provider
from thebes.site.steward.rest import guarded, one_time
from thebes.web.site.pages import put_on
from thebes.wire.access import Access
from thebes.wire.identity_provider import BegunSignIn, BegunSignIns, IdentityProvider, secret_of

oidc_provider_mock = pytest.importorskip("oidc_provider_mock")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
GROUPS = {"ana": ["stewards"], "eve": ["guests"]}
EYES = {"accept": "text/html"}


@pytest.fixture
def provider() -> Iterator[str]:
    users = [oidc_provider_mock.User(sub=name, claims={"groups": groups}) for name, groups in GROUPS.items()]
    with oidc_provider_mock.run_server_in_thread(user_claims=users) as server:
        yield f"http://localhost:{server.server_port}"


def written(home: Path, issuer: str) -> Path:
    told = {"issuer": issuer, "client_id": "north", "client_secret_file": "oidc.secret", "scopes": ["groups"]}
    lines = [f"{name} = {json.dumps(value)}" for name, value in told.items()]
    (home / FILE).write_text("\n".join([*lines, 'roles = { stewards = "steward" }']) + "\n")
    (home / "oidc.secret").write_text("secret\n")
    (home / "oidc.secret").chmod(0o600)
    return home


class Site:
    """A site's interface with nothing behind it but what a decision is asked of."""

    name = "north"

    def __init__(self, home: Path) -> None:
        self.algorithm, self.asked, self.clock = self, list[dict[str, Any]](), HandClock()
        settings = stewards_provider(home)
        assert settings is not None
        self.access = Access(lambda: "the-token", clock=lambda: self.clock.now().timestamp())
        found = IdentityProvider(settings, secret_of(settings, home), time.time)
        api: Any = guarded(self, self.access, port=PORT, confined=True, pages=put_on, provider=found)  # type: ignore[arg-type]
        self.client = TestClient(api, base_url=ORIGIN, follow_redirects=False)

    async def ask(self, kind: str, **more: Any) -> Any:
        self.asked.append({"kind": kind, **more})
        return {"told": "", "undo": {}}

    def shown(self) -> dict[str, Any]:
        return {"state": "connected", "reason": "", "algorithm": "up", "certificate_ends": None, "since": None}

    def left(self) -> str:
        answer = self.client.get("/sign-in/begin")
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def came_back(self, who: str) -> httpx.Response:
        return self.client.get(decided(self.left(), who), headers=SENT)


SENT = {"sec-fetch-site": "cross-site", "accept": "text/html"}


def decided(place: str, who: str) -> str:
    """Say at the provider who one is; the address on the way back."""
    with httpx.Client() as client:
        client.get(place)
        back = client.post(place, data={"sub": who}).headers["location"]
    assert back.startswith(f"{ORIGIN}/sign-in/back?")
    return str(back).removeprefix(ORIGIN)


@pytest.fixture
def site(provider: str, tmp_path: Path) -> Site:
    return Site(written(tmp_path, provider))


def decide(site: Site, **more: Any) -> dict[str, Any]:
    body = {"action": "allow", "task": "a" * 32, "epsilon": 1, "shown": "x"}
    assert site.client.post("/api/policy/decide", json=body, **more).status_code == 200
    return site.asked[-1]


def test_a_steward_comes_in_and_every_decision_says_whose_it_is(site: Site) -> None:
    assert 'href="/sign-in/begin"' in site.client.get("/", headers=EYES).text
    answer = site.came_back("ana")
    assert (answer.status_code, "signed in as ana@localhost" in answer.text) == (200, True)
    session = next(c for c in answer.headers.get_list("set-cookie") if c.startswith(f"thebes_site_{PORT}="))
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert decide(site)["by"] == "ana@localhost"
    assert decide(site, headers={"Authorization": "Bearer the-token"})["by"] == ""
    [browser] = site.access.listed(None)
    assert browser.who == "ana@localhost"
    site.clock.move(seconds=SESSION_SECONDS + 1)
    assert site.client.get("/requests", headers=EYES).headers["location"] == "/"
    assert site.access.listed(None) == []


def test_who_came_by_a_one_time_address_is_nobody_by_name(site: Site) -> None:
    site.client.get(one_time(PORT, site.access).removeprefix(ORIGIN))
    assert decide(site)["by"] == ""


def test_whatever_else_a_browser_shows_a_decision_is_its_owner_s(site: Site) -> None:
    site.came_back("ana")
    for shown in ("Basic eA==", "Digest x", ""):
        assert decide(site, headers={"Authorization": shown})["by"] == "ana@localhost"


def test_a_sign_in_opens_no_session_that_would_outlive_it(site: Site) -> None:
    site.came_back("ana")
    refused = site.client.post("/api/session", json={})
    assert (refused.status_code, "sign in there" in refused.text) == (403, True)
    assert site.client.post("/api/session", headers={"Authorization": "Bearer the-token"}).status_code == 201


def test_nobody_names_another_in_a_decision(site: Site) -> None:
    site.came_back("ana")
    body = {"action": "allow", "task": "a" * 32, "epsilon": 1, "shown": "x", "by": "bob"}
    assert site.client.post("/api/policy/decide", json=body).status_code == 422


def test_who_is_no_steward_reads_why_they_do_not_come_in(site: Site) -> None:
    answer = site.came_back("eve")
    assert (answer.status_code, "none of your groups is a steward" in answer.text) == (401, True)
    assert site.access.listed(None) == []


def test_what_comes_back_counts_once_and_in_the_browser_that_left(site: Site) -> None:
    back = decided(site.left(), "ana")
    kept = dict(site.client.cookies)
    site.client.cookies.clear()
    assert site.client.get(back, headers=SENT).status_code == 401, "another browser"
    site.client.cookies.update(kept)
    forged = site.client.get(back.replace("state=", "state=x"), headers=SENT)
    assert (forged.status_code, "not begun in this browser" in forged.text) == (401, True)
    assert site.client.get(back, headers=SENT).status_code == 401, "it was taken by the forged one"
    assert site.client.get("/sign-in/back?error=access_denied", headers=SENT).status_code == 401
    assert site.access.listed(None) == []


def test_another_server_sends_a_browser_to_no_other_page(site: Site) -> None:
    site.came_back("ana")
    for path in ("/", "/requests", "/sign-in/begin", "/api/ledger"):
        assert site.client.get(path, headers=SENT).status_code == 403
    assert site.client.post("/sign-in/back", headers=SENT, json={}).status_code == 403


def test_a_provider_that_is_away_is_said_and_sessions_go_on(tmp_path: Path) -> None:
    site = Site(written(tmp_path, "http://127.0.0.1:9"))
    session = site.access.admit("ana@localhost", 60)
    assert site.client.get("/sign-in/begin", headers=EYES).status_code in (502, 503)
    assert site.access.admits(session)


def test_without_a_provider_there_is_no_such_door(tmp_path: Path) -> None:
    assert stewards_provider(tmp_path) is None
    api: Any = guarded(_Nobody(), Access(lambda: "t"), port=PORT, confined=True, pages=put_on)  # type: ignore[arg-type]
    client = TestClient(api, base_url=ORIGIN, follow_redirects=False)
    assert "Sign in at" not in client.get("/", headers=EYES).text
    assert client.get("/sign-in/back?code=x&state=y").status_code == 401
    assert client.get("/sign-in/begin").status_code == 401


class _Nobody:
    name = "north"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"roles": {"stewards": "operator"}}, "roles"),
        ({"isuer": "https://idp.example"}, "isuer"),
        ({"issuer": "http://idp.example"}, "issuer"),
        ({"roles": {}}, "roles"),
    ],
)
def test_a_file_that_is_not_right_is_refused_by_its_place(tmp_path: Path, more: dict[str, Any], field: str) -> None:
    told = {"issuer": "https://idp.example", "client_id": "north", "roles": {"stewards": "steward"}, **more}
    roles = ", ".join(f"{group} = {json.dumps(role)}" for group, role in told.pop("roles").items())
    lines = [f"{name} = {json.dumps(value)}" for name, value in told.items()]
    (tmp_path / FILE).write_text("\n".join([*lines, f"roles = {{ {roles} }}"]))
    with pytest.raises(Mistake, match=rf"^{re.escape(FILE)}\.{field}"):
        stewards_provider(tmp_path)
    (tmp_path / FILE).write_text("issuer = ")
    with pytest.raises(Mistake, match="is not TOML"):
        stewards_provider(tmp_path)


def test_a_sign_in_that_was_begun_is_kept_for_a_while_and_not_without_end() -> None:
    clock = HandClock()
    kept = BegunSignIns(600, lambda: clock.now().timestamp())
    first, begun = kept.keep(BegunSignIn("", "s", "n", "v")), BegunSignIn("", "t", "n", "v")
    assert kept.take("another") is None
    name = kept.keep(begun)
    clock.move(seconds=599)
    assert (kept.take(name), kept.take(name)) == (begun, None)
    clock.move(seconds=1)
    assert kept.take(first) is None
    oldest, *_ = [kept.keep(begun) for _ in range(101)]
    assert kept.take(oldest) is None
