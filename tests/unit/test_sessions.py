"""Sessions are listed and ended: each user's own, and by an operator everybody's; what was ended counts at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import Front
from thebes.coordinator.auth.accounts import LIFE, Role

PASSWORD = "correct horse battery"
HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as made:
        for name, role in (("ana", Role.REQUESTOR), ("ben", Role.REQUESTOR), ("olga", Role.OPERATOR)):
            made.service.accounts.add(name, PASSWORD, role)
        yield made


def login(front: Front, name: str) -> dict[str, str]:
    answer = front.client.post("/api/login", json={"username": name, "password": PASSWORD})
    assert answer.status_code == 200
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def listed(front: Front, who: dict[str, str]) -> list[dict[str, Any]]:
    answer = front.client.get("/api/session", headers=who)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


def end(front: Front, session: str, who: dict[str, str]) -> int:
    return front.client.delete(f"/api/session/{session}", headers=who).status_code


def test_users_see_and_end_their_own_sessions_and_operators_everybodys(front: Front) -> None:
    ana, second, ben, olga = (login(front, name) for name in ("ana", "ana", "ben", "olga"))
    assert [each["user"] for each in listed(front, ana)] == ["ana", "ana"]
    assert {each["client"] for each in listed(front, ana)} == {"a password"}
    assert sorted(each["user"] for each in listed(front, olga)) == ["ana", "ana", "ben", "olga"]
    assert listed(front, front.admin) == listed(front, olga)
    assert front.client.get("/api/session").status_code == 401
    (bens,) = listed(front, ben)
    assert end(front, bens["id"], ana) == 404, "another's is not there"
    assert listed(front, ben)
    own = front.service.accounts.session_of(second["Authorization"].removeprefix("Bearer "))
    assert end(front, str(own), ana) == 204
    assert front.client.get("/api/session", headers=second).status_code == 401, "at once"
    assert len(listed(front, ana)) == 1
    assert end(front, str(own), ana) == 404
    assert end(front, bens["id"], olga) == 204
    assert front.client.get("/api/session", headers=ben).status_code == 401


def test_a_session_that_ended_by_itself_is_not_listed_and_nothing_renews_one_of_a_password(front: Front) -> None:
    ana = login(front, "ana")
    (session,) = listed(front, ana)
    answer = front.client.post("/api/login/refresh", json={"refresh_token": f"{session['id']}."})
    assert answer.status_code == 401
    ana = login(front, "ana")
    assert len(listed(front, ana)) == 1, "whoever tries that has ended it"
    front.clock.move(seconds=LIFE.total_seconds() + 1)
    assert listed(front, front.admin) == []


def test_a_program_that_was_let_in_is_listed_by_its_name_and_ended(front: Front) -> None:
    ana = login(front, "ana")
    begun = front.client.post("/api/login/device", json={"client": "thebes on laptop"}).json()
    front.service.accounts.devices.decide(begun["user_code"], "ana", let_in=True)
    found = front.client.post("/api/login/device/token", json={"device_code": begun["device_code"]}).json()
    (program,) = [each for each in listed(front, ana) if each["client"] == "thebes on laptop"]
    assert end(front, program["id"], ana) == 204
    again = front.client.post("/api/login/refresh", json={"refresh_token": found["refresh_token"]})
    assert again.status_code == 401
    bearer = {"Authorization": f"Bearer {found['token']}"}
    assert front.client.get("/api/session", headers=bearer).status_code == 401


def test_another_password_and_being_shut_out_end_every_session(front: Front) -> None:
    ana, ben = login(front, "ana"), login(front, "ben")
    front.service.accounts.change_password("ana", PASSWORD + "!")
    front.service.accounts.disable("ben")
    for who in (ana, ben):
        assert front.client.get("/api/session", headers=who).status_code == 401
    assert listed(front, front.admin) == []


def test_the_page_marks_this_session_ends_another_and_leads_out_of_an_ended_one(front: Front) -> None:
    def write(path: str, body: dict[str, str]) -> Any:
        return front.client.post(path, json=body, headers=HERE)

    other = login(front, "ana")
    assert front.client.get("/sessions").status_code == 401
    write("/sign-in", {"username": "ana", "password": PASSWORD})
    page = front.client.get("/sessions").text
    assert page.count("this one") == 1
    assert page.count(">End</button>") == 2
    assert page.count(' UTC">End</button>') == 2, "a label is read aloud and holds no markup"
    assert 'href="/sessions"' in front.client.get("/").text
    first, second = (each["id"] for each in listed(front, other))
    mine = front.service.accounts.session_of(other["Authorization"].removeprefix("Bearer "))
    theirs, own = (first, second) if first == mine else (second, first)
    assert "That session has ended." in write("/sessions/end", {"session": theirs}).text
    assert "no such session" in write("/sessions/end", {"session": theirs}).text.lower()
    assert write("/sessions/end", {"session": own}).headers["hx-redirect"] == "/sign-in"
    assert front.client.get("/sessions").status_code == 401


def test_signing_out_ends_the_session_in_the_list_too(front: Front) -> None:
    front.client.post("/sign-in", json={"username": "ana", "password": PASSWORD}, headers=HERE)
    assert len(listed(front, front.admin)) == 1
    front.client.post("/sign-out", json={}, headers=HERE)
    assert listed(front, front.admin) == []
