"""Whoever runs a home is told whether an older copy of it, put back in its place, would be noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import pytest
from fastapi.testclient import TestClient

from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.ledger import Ledger, NoKeeper
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.web.person import pages
from thebes.wire.access import Access, make_token

TOLD = "Never put an older copy of this home back by hand"


class Remembering(keyring.backend.KeyringBackend):
    """A keyring that works."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


class Forgetful(Remembering):
    """One that takes everything and remembers nothing."""

    def set_password(self, service: str, username: str, password: str) -> None:
        return None


class Failing(Remembering):
    """One whose folder cannot be read: backends raise what they like."""

    def get_password(self, service: str, username: str) -> str | None:
        raise PermissionError(13, "Permission denied")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise PermissionError(13, "Permission denied")


@pytest.fixture
def using() -> Iterator[Callable[[Any], None]]:
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


def found(home: Path) -> tuple[How, str]:
    (finding,) = [f for f in examined(home, Surroundings()) if "older copy" in f.what]
    return finding.how, finding.advice


@pytest.mark.parametrize(("backend", "notices"), [(Remembering, True), (Forgetful, False), (Failing, False)])
def test_a_ledger_in_a_file_notices_an_older_copy_where_a_keyring_gives_its_head_back(
    tmp_path: Path, using: Callable[[Any], None], backend: type[Remembering], notices: bool
) -> None:
    using(backend())
    (tmp_path / "now").mkdir()
    with Ledger(f"sqlite:///{tmp_path}/now/budget.db") as ledger:
        assert ledger.notices_older_copies is notices
        ledger.open_block("people", epsilon=1)
        early = Path(shutil.copytree(tmp_path / "now", tmp_path / "early"))
        ledger.reserve(["people"], epsilon=0.5, purpose="p", spender="ana").consume()
    with Ledger(f"sqlite:///{early}/budget.db") as brought_back:
        assert brought_back.frozen is notices


@pytest.mark.parametrize(("backend", "notices"), [(Remembering, True), (Forgetful, False), (Failing, False)])
def test_a_person_is_told_on_their_page_and_by_the_doctor(
    tmp_path: Path, using: Callable[[Any], None], backend: type[Remembering], notices: bool
) -> None:
    using(backend())
    home = tmp_path / "me"
    with Person(home, delay=False) as me:
        me.settings().changed({}).write(home)
        make_token(home)
        token = (home / "token").read_text().strip()
        app = guarded(me, Access(home), port=80, stop=lambda: None, pages=pages.put_on)
        signed = {"Authorization": f"Bearer {token}"}
        with TestClient(app, base_url="http://127.0.0.1", headers=signed) as http:
            assert http.get("/api/ledger").json()["notices_older_copies"] is notices
            assert (TOLD in http.get("/privacy").text) is not notices
    how, advice = found(home)
    assert how is (How.OK if notices else How.ABSENT)
    assert notices or ("thebes restore" in advice and "nothing outside this home remembers" in advice)


def test_the_doctor_tells_how_far_behind_a_keyring_is(tmp_path: Path, using: Callable[[Any], None]) -> None:
    using(Remembering())
    tmp_path.chmod(0o700)
    with Ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.open_block("people", epsilon=1)
    assert found(tmp_path) == (How.OK, "")
    with Ledger(f"sqlite:///{tmp_path}/ledger.db", keeper=NoKeeper()) as elsewhere:  # by a process without the keyring
        elsewhere.reserve(["people"], epsilon=0.5, purpose="p", spender="ana").consume()
    how, advice = found(tmp_path)
    assert how is How.ABSENT
    assert "remembers 2 of its 4 entries" in advice
