"""A program is let in on a page, goes on silently for as long as it is used, and stops when anything is odd."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import thebes
from tests.support.coordinator import AGES, Front
from tests.support.postgres import new_database
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.auth.device_codes import LETTERS
from thebes.requestor.sign_in import SilentRenewal, sign_in, sign_out
from thebes.requestor.stored_logins import StoredLogin, StoredLogins, UnreadableLogins, folder
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotAllowed, NotSignedIn

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
URL = "http://127.0.0.1:8000"


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setattr("thebes.requestor.stored_logins._into_keyring", lambda *_: False)
    with Front(tmp_path / "home") as made:
        for name in ("ana", "eve"):
            made.service.accounts.add(name, "correct horse battery", Role.REQUESTOR)
        yield made


def begun(front: Front, client: str = "a notebook") -> dict[str, Any]:
    answer = front.client.post("/api/login/device", json={"client": client})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def browser(front: Front, name: str = "ana") -> None:
    front.client.cookies.clear()
    told = {"username": name, "password": "correct horse battery"}
    answer = front.client.post("/sign-in", json=told, headers=HERE)
    assert answer.headers.get("hx-redirect"), answer.text


def page(front: Front, path: str, **body: str) -> str:
    return front.client.post(path, json=body, headers=HERE).text


def let_in(front: Front, code: str, name: str = "ana", decision: str = "let in") -> str:
    browser(front, name)
    page(front, "/device", code=code)
    return page(front, "/device/decision", code=code, decision=decision)


def claim(front: Front, device: str) -> Any:
    return front.client.post("/api/login/device/token", json={"device_code": device})


def session(front: Front, name: str = "ana") -> dict[str, Any]:
    told = begun(front)
    let_in(front, told["user_code"], name)
    answer = claim(front, told["device_code"])
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refresh(front: Front, token: str) -> Any:
    return front.client.post("/api/login/refresh", json={"refresh_token": token})


def asks(front: Front, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    front.client.cookies.clear()
    return front.client.post("/api/quote", json=AGES, headers=headers).status_code


def test_a_program_is_let_in_by_its_code_and_asks_as_whoever_typed_it(front: Front) -> None:
    told = begun(front, "thebes on desk")
    assert re.fullmatch(f"[{LETTERS}]{{4}}-[{LETTERS}]{{4}}", told["user_code"])
    assert (told["expires_in"], told["interval"]) == (600, 5)
    assert claim(front, told["device_code"]).status_code == 202
    browser(front)
    shown = page(front, "/device", code=told["user_code"].lower().replace("-", " "))
    assert "thebes on desk" in shown
    assert "testclient" in shown
    assert claim(front, told["device_code"]).status_code == 202, "looking lets nobody in"
    assert "may ask as ana now" in page(front, "/device/decision", code=told["user_code"], decision="let in")
    found = claim(front, told["device_code"]).json()
    assert asks(front, found["token"]) == 200
    assert claim(front, told["device_code"]).status_code == 401, "it is let in once"
    task = front.client.post("/api/task", json=AGES, headers={"Authorization": f"Bearer {found['token']}"})
    assert front.task(task.json()["task_id"])["requestor"] == "ana"


def test_what_a_program_calls_itself_is_text(front: Front) -> None:
    told = begun(front, "<script>alert(1)</script>\x1b[2J")
    browser(front)
    shown = page(front, "/device", code=told["user_code"])
    assert "<script" not in shown
    assert "\x1b" not in shown


def test_a_refused_program_hears_so(front: Front) -> None:
    told = begun(front)
    assert "was refused" in let_in(front, told["user_code"], decision="refuse")
    assert claim(front, told["device_code"]).status_code == 403


def test_a_code_counts_for_ten_minutes(front: Front) -> None:
    told = begun(front)
    front.clock.move(minutes=10)
    assert "No program waits" in let_in(front, told["user_code"])
    assert claim(front, told["device_code"]).status_code == 401


def test_five_wrong_codes_stop_the_page_for_whoever_typed_them(front: Front) -> None:
    told = begun(front)
    browser(front)
    for _ in range(5):
        assert "No program waits" in page(front, "/device", code="BBBB-BBBB")
    assert "5 codes were wrong" in page(front, "/device", code=told["user_code"])
    assert "5 codes were wrong" in page(front, "/device/decision", code=told["user_code"], decision="let in")
    assert claim(front, told["device_code"]).status_code == 202
    assert "may ask as eve" in let_in(front, told["user_code"], "eve")
    front.clock.move(minutes=10, seconds=1)
    later = begun(front)
    assert "may ask as ana" in let_in(front, later["user_code"])


def test_a_page_that_is_not_of_this_server_decides_nothing(front: Front) -> None:
    told = begun(front)
    browser(front)
    body = {"code": told["user_code"], "decision": "let in"}
    answer = front.client.post("/device/decision", json=body, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert claim(front, told["device_code"]).status_code == 202


def test_nobody_decides_who_is_not_signed_in_nor_with_the_operators_token(front: Front) -> None:
    told = begun(front)
    front.client.cookies.clear()
    answer = front.client.get("/device", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?then=/device")
    refused = front.client.post("/device", json={"code": told["user_code"]}, headers=HERE)
    assert refused.status_code == 401
    front.client.post("/sign-in", json={"token": front.admin_token}, headers=HERE)
    assert "operator&#39;s token cannot let a program in" in page(front, "/device", code=told["user_code"])


def test_a_session_lasts_while_it_is_used_and_ends_unused_after_twelve_hours(front: Front) -> None:
    found = session(front)
    for _ in range(13):
        front.clock.move(hours=1)
        assert asks(front, found["token"]) == 401
        found = refresh(front, found["refresh_token"]).json()
        assert asks(front, found["token"]) == 200
    front.clock.move(hours=13)
    assert refresh(front, found["refresh_token"]).status_code == 401


def test_a_session_ends_after_thirty_days_however_much_it_is_used(front: Front) -> None:
    found = session(front)
    for _ in range(60):
        front.clock.move(hours=11, minutes=59)
        found = refresh(front, found["refresh_token"]).json()
    front.clock.move(minutes=59)
    assert refresh(front, found["refresh_token"]).status_code == 200
    front.clock.move(minutes=2)
    assert refresh(front, found["refresh_token"]).status_code == 401


def test_a_token_that_is_shown_again_ends_the_whole_session(front: Front) -> None:
    first, other = session(front), session(front)
    second = refresh(front, first["refresh_token"]).json()
    assert asks(front, second["token"]) == 200
    assert refresh(front, first["refresh_token"]).status_code == 401
    assert asks(front, second["token"]) == 401, "also what the owner holds"
    assert refresh(front, second["refresh_token"]).status_code == 401
    assert asks(front, other["token"]) == 200, "other sessions of the same user go on"


@pytest.mark.postgres
def test_in_postgresql_of_two_renewals_at_once_one_counts_and_the_session_ends(
    tmp_path: Path,
) -> None:
    with Front(tmp_path / "home", store=new_database()) as front:
        front.service.accounts.add("ana", "correct horse battery", Role.REQUESTOR)
        found = session(front)
        found = refresh(front, found["refresh_token"]).json()
        accounts = front.service.accounts

        def renew(_: int) -> bool:
            try:
                accounts.lasting.renew(found["refresh_token"])
            except NotSignedIn:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(renew, range(4))) == 1
        assert asks(front, found["token"]) == 401
        browser(front)
        for _ in range(5):
            assert "No program waits" in page(front, "/device", code="BBBB-BBBB")
        assert "5 codes were wrong" in page(front, "/device", code="BBBB-BBBB")


@pytest.mark.parametrize("what", ["disable", "password", "key", "end"])
def test_a_session_ends_with_what_it_rests_on(front: Front, what: str) -> None:
    found = session(front)
    if what == "disable":
        front.service.accounts.disable("ana")
    elif what == "password":
        front.service.accounts.change_password("ana", "another horse battery")
    elif what == "key":
        (front.home.folder / "session.key").write_bytes(os.urandom(32))
    else:
        assert front.client.post("/api/login/end", json={"refresh_token": found["refresh_token"]}).status_code == 204
    if what != "key":
        assert asks(front, found["token"]) == 401
    assert refresh(front, found["refresh_token"]).status_code == 401


@pytest.mark.parametrize("what", ["password", "shut out for a while"])
def test_a_program_that_was_let_in_before_a_change_of_the_user_begins_nothing_after_it(front: Front, what: str) -> None:
    told, undecided = begun(front), begun(front)
    let_in(front, told["user_code"])
    if what == "password":
        front.service.accounts.change_password("ana", "another horse battery")
    else:
        front.service.accounts.disable("ana")
        front.service.accounts.grant("ana", Role.REQUESTOR)
    assert claim(front, told["device_code"]).status_code == 401
    assert front.service.accounts.lasting.listed("ana") == []
    assert claim(front, undecided["device_code"]).status_code == 202, "what nobody has decided waits"


def test_a_database_holds_no_token(front: Front) -> None:
    told = begun(front)
    let_in(front, told["user_code"])
    found = claim(front, told["device_code"]).json()
    content = b"".join(path.read_bytes() for path in front.home.folder.glob("coordinator.db*"))
    for secret in (told["device_code"], found["refresh_token"].partition(".")[2], found["token"]):
        assert secret.encode() not in content


# --- the program ------------------------------------------------------------------------------------------------


def client_of(front: Front) -> CoordinatorClient:
    return CoordinatorClient(URL, transport=front.transport, retries=0)


def signed_in(front: Front) -> StoredLogin:
    client = client_of(front)
    return sign_in(client, "thebes", tell=lambda _, code: let_in(front, code) and None, sleep=lambda _: None)


def test_a_program_goes_on_silently_for_thirteen_hours(front: Front) -> None:
    signed_in(front)
    assert (Path(os.environ["XDG_CONFIG_HOME"]) / "thebes/login.json").stat().st_mode & 0o777 == 0o600
    client = client_of(front)
    client.present_from(SilentRenewal(client_of(front), clock=front.clock.now))
    for _ in range(13 * 4):
        front.clock.move(minutes=15)
        assert client.quote(AGES)["price"]["epsilon"] == 1.0
    front.clock.move(hours=13)
    with pytest.warns(UserWarning, match="sign-in has ended"), pytest.raises(NotSignedIn, match="thebes login"):
        client.post_task(AGES)
    assert not StoredLogins().known(URL)


def test_connect_uses_the_sign_in_of_its_address_alone(front: Front) -> None:
    assert thebes.connect(URL).client._token_of is None
    signed_in(front)
    assert thebes.connect(URL).client._token_of is not None
    assert thebes.connect(URL, token="given").client._token_of is None
    assert thebes.connect("http://127.0.0.1:9").client._token_of is None
    apart = thebes.connect(URL).client.apart()
    assert apart._token_of is None, "what must not be known by its company shows no token"


def test_signing_out_ends_the_session_there_and_here(front: Front) -> None:
    held = signed_in(front)
    assert sign_out(client_of(front))
    assert asks(front, held.token) == 401
    assert not StoredLogins().known(URL)
    assert not sign_out(client_of(front))


def test_nobody_decides_in_time(front: Front) -> None:
    def tell(page: str, code: str) -> None:
        assert page == f"{URL}/device"

    with pytest.raises(NotSignedIn, match=r"in time|no longer valid"):
        sign_in(client_of(front), "thebes", tell=tell, sleep=lambda seconds: front.clock.move(seconds=seconds))
    with pytest.raises(NotAllowed):
        sign_in(
            client_of(front),
            "thebes",
            tell=lambda _, code: let_in(front, code, decision="refuse") and None,
            sleep=lambda _: None,
        )


def test_threads_with_sign_ins_of_their_own_renew_once(front: Front) -> None:
    signed_in(front)
    front.clock.move(minutes=15)
    renewals: list[str] = []

    class Counting(CoordinatorClient):
        def renew_login(self, refresh_token: str) -> dict[str, Any]:
            renewals.append(refresh_token)
            return super().renew_login(refresh_token)

    def ask(_: int) -> str | None:
        with Counting(URL, transport=front.transport, retries=0) as client:
            return SilentRenewal(client, clock=front.clock.now)()

    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(ask, range(16)))
    assert len(tokens) == 1
    assert len(renewals) == 1


def _renew_elsewhere(place: str, number: int) -> None:
    """Renew as another process would: what the coordinator gives is the number of renewals that it saw."""

    class Fake(CoordinatorClient):
        def renew_login(self, refresh_token: str) -> dict[str, Any]:
            with (Path(place) / "shown").open("a") as file:
                file.write(f"{refresh_token}\n")
            ends = "2999-01-01T00:00:00+00:00"
            fresh = f"{refresh_token}+"
            return {"token": f"t{number}", "expires_at": ends, "refresh_token": fresh, "refresh_until": ends}

    assert SilentRenewal(Fake(URL), StoredLogins(Path(place)))()


def test_processes_that_renew_at_the_same_time_show_a_token_once(tmp_path: Path, front: Front) -> None:
    past = front.clock.now() - timedelta(days=9999)
    with StoredLogins(tmp_path).locked():
        StoredLogins(tmp_path).keep(URL, StoredLogin("old", past, "r", past))
    begin = multiprocessing.get_context("fork")
    running = [begin.Process(target=_renew_elsewhere, args=(str(tmp_path), n)) for n in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join(30)
    assert [process.exitcode for process in running] == [0] * 4
    assert (tmp_path / "shown").read_text().split() == ["r"]


def test_a_file_that_others_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "login.json"
    path.write_text(json.dumps({URL: {}}))
    path.chmod(0o644)
    with pytest.raises(UnreadableLogins, match="chmod 600"):
        StoredLogins(tmp_path).known(URL)
    path.chmod(0o600)
    with pytest.raises(UnreadableLogins, match="thebes login"):
        StoredLogins(tmp_path).of(URL)
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert "secret" not in repr(StoredLogin("secret", moment, "secret", moment))


def test_settings_lie_where_the_desktop_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert folder() == tmp_path / "thebes"
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", unset)
        monkeypatch.setenv("HOME", "/somebody")
        assert folder() == Path("/somebody/.config/thebes")
    assert not StoredLogins(Path(os.devnull) / "nowhere").known(URL), "some users have no folder of their own"
