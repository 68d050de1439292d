"""The pages of groups, at the coordinator and at a person: who may do what there, and that words stay words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import Front
from tests.support.peers import enrolment
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.web.person.pages import put_on
from thebes.wire.access import Access, make_token, read_secret
from thebes.wire.client import CoordinatorClient

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator") as made:
        yield made


def write(front: Front, path: str, body: dict[str, Any]) -> str:
    answer = front.client.post(path, json=body, headers={**HERE, "hx-request-type": "partial"})
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def sign_in(front: Front) -> None:
    answer = front.client.post("/sign-in", json={"token": front.admin_token}, headers=HERE)
    assert "hx-redirect" in answer.headers, answer.text


def test_an_operator_makes_fills_and_publishes_a_group_in_a_browser(front: Front) -> None:
    sign_in(front)
    assert "There are no groups yet" in front.client.get("/groups").text
    assert "Admit its members" in write(front, "/groups", {"name": "city", "minimum": 2, "epoch": "one"})
    told = write(front, "/groups/admit", {"name": "city", "epoch": "one", "people": "ana\n\n<b>bob</b>\n"})
    assert "&lt;b&gt;bob&lt;/b&gt;" in told
    assert "<b>bob" not in told
    assert "fewer" in told
    codes = [piece.split("</code>")[0] for piece in told.split("<td><code>")[1:]]
    assert len(codes) == 2
    assert codes[0] not in front.client.get("/groups").text
    assert "no longer works" not in told
    told = write(front, "/groups/admit", {"name": "city", "epoch": "one", "people": "eve\nana"})
    assert "What was given before to ana no longer works." in told
    codes = [told.split("<td><code>")[2].split("</code>")[0], codes[1]]
    assert "promised at least 2" in write(front, "/groups/publish", {"name": "city", "epoch": "one"})
    for code in codes:
        assert enrolment(front.client, "city", code)[1].status_code == 200
    assert "is published with 2 members" in write(front, "/groups/publish", {"name": "city", "epoch": "one"})
    page = front.client.get("/groups").text
    assert "the list is fixed" in page
    assert "names private" in page
    assert "ana" not in front.client.get("/api/group/city").text
    digest = front.client.get("/api/group/city").json()["digest"]
    assert f"{digest[:4]} {digest[4:8]}" in page
    assert 'href="/groups"><code>group~city~one' in front.client.get("/log").text


def test_whether_names_become_public_is_said_when_a_group_is_made_and_seen_from_then_on(front: Front) -> None:
    sign_in(front)
    body = {"name": "city", "minimum": 2, "epoch": "one", "names": "public"}
    assert "Everybody will see who is in it" in write(front, "/groups", body)
    told = write(front, "/groups/admit", {"name": "city", "epoch": "one", "people": "ana\nbob"})
    for piece in told.split("<td><code>")[1:]:
        assert enrolment(front.client, "city", piece.split("</code>")[0])[1].status_code == 200
    assert "<li>ana</li>" in write(front, "/groups/publish", {"name": "city", "epoch": "one", "names": "private"})


@pytest.mark.parametrize(
    "body",
    [
        {"name": "City!", "minimum": 2},
        {"name": "city"},
        {"name": "city", "minimum": 1},
        {"name": "city", "minimum": 2, "names": "some"},
    ],
)
def test_what_is_wrong_with_a_new_group_is_said_in_its_place(front: Front, body: dict[str, Any]) -> None:
    sign_in(front)
    assert 'class="note bad"' in write(front, "/groups", body)
    assert front.client.get("/api/group").json() == []


def test_nobody_else_changes_groups_and_nobody_sees_who_was_admitted(front: Front) -> None:
    front.service.register.create("city", minimum=2, epoch="one")
    front.service.register.admit("city", ["ana"])
    page = front.client.get("/groups").text
    assert "ana" not in page
    assert "Make the group" not in page
    for path, body in (
        ("/groups", {"name": "town", "minimum": 2}),
        ("/groups/admit", {"name": "city", "epoch": "one", "people": "eve"}),
        ("/groups/publish", {"name": "city", "epoch": "one"}),
    ):
        assert front.client.post(path, json=body, headers=HERE).status_code == 401
    sign_in(front)
    foreign = {"origin": "http://elsewhere.example", "sec-fetch-site": "cross-site"}
    assert front.client.post("/groups", json={"name": "town", "minimum": 2}, headers=foreign).status_code == 403


@pytest.mark.slow
def test_a_person_joins_in_a_browser_and_reads_what_it_offers(front: Front, tmp_path: Path) -> None:
    import asyncio

    import httpx

    register = front.service.register
    digest = register.create("city", minimum=2, epoch="one", names="public").parameters.digest
    codes = register.admit("city", ["me", "ana", "bob"])
    client = CoordinatorClient("http://127.0.0.1:1", transport=front.transport, retries=0)
    with Person(tmp_path / "home", client=client, delay=False) as me:
        make_token(me.home)
        token = read_secret(me.home / "token")
        url = "http://127.0.0.1:8766"
        app = guarded(me, Access(me.home), port=8766, stop=lambda: None, pages=put_on)
        headers = {"Authorization": f"Bearer {token}", "hx-request-type": "partial"}

        def ask(method: str, path: str, **more: Any) -> httpx.Response:
            async def once() -> httpx.Response:
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(transport=transport, base_url=url, headers=headers) as asking:
                    return await asking.request(method, path, **more)

            return asyncio.run(once())

        assert "None yet" in ask("GET", "/groups").text
        wrong = ask("POST", "/groups/join", json={"name": "city", "code": codes["me"], "pin": "0" * 64})
        assert (wrong.status_code, wrong.headers["hx-retarget"]) == (403, "find .outcome")
        spaced = " ".join(digest[i : i + 4] for i in range(0, 64, 4))
        silent = ask("POST", "/groups/join", json={"name": "city", "code": codes["me"], "pin": spaced})
        assert silent.status_code == 403
        assert "publishes the names" in silent.text
        assert ask("GET", "/api/groups").json()["groups"] == []
        agreed = {"name": "city", "code": codes["me"], "pin": spaced, "names": "public"}
        joined = ask("POST", "/groups/join", json=agreed)
        assert "Everybody will read who joined it." in joined.text
        assert "You are a member of city, epoch one." in joined.text
        assert "not published yet" in joined.text
        for name in ("ana", "bob"):
            enrolment(front.client, "city", codes[name])
        register.publish("city")
        page = ask("GET", "/groups").text
        assert "one of its 3 members" in page
        assert "if every other member who answered says so, the one that is left is yours" in page
        assert "Everybody can read who its members are." in page
        assert spaced in page
        told = ask("GET", "/api/groups").json()["groups"]
        assert [(g["name"], g["epoch"], g["size"], g["minimum"]) for g in told] == [("city", "one", 3, 2)]
        assert "secret" not in json.dumps(told)
