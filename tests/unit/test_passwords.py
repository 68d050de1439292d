"""Passwords at a coordinator: what they are kept as is renewed, and neither their length nor a race lets anybody in."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from argon2 import PasswordHasher
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.coordinator import HandClock
from tests.support.postgres import new_database
from thebes.coordinator.auth.accounts import LONGEST_PASSWORD, Accounts, Role
from thebes.coordinator.storage.database import Database
from thebes.wire.refusals import NotSignedIn

PASSWORD = "a long password"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'x.db'}")
    yield made
    made.close()


def accounts(database: Database, *, passes: int) -> Accounts:
    key = Ed25519PrivateKey.generate().private_bytes_raw()
    cheap = PasswordHasher(time_cost=passes, memory_cost=64, parallelism=1)
    return Accounts(
        database, admin_token=lambda: "the-admin-token", session_key=lambda: key, clock=HandClock(), hasher=cheap
    )


def kept(of: Accounts, name: str) -> str:
    found = of._found(name)
    assert found is not None
    return found[0]


def test_a_password_that_was_kept_cheaper_is_kept_anew_when_its_user_signs_in(database: Database) -> None:
    accounts(database, passes=1).add("ana", PASSWORD, Role.REQUESTOR)
    now = accounts(database, passes=2)
    with pytest.raises(NotSignedIn):
        now.login("ana", "another password")
    assert ",t=1," in kept(now, "ana")
    now.login("ana", PASSWORD)
    assert ",t=2," in kept(now, "ana")
    now.login("ana", PASSWORD)


@pytest.mark.parametrize("kept_at", [1, 2], ids=["kept cheaper", "kept as now"])
def test_a_password_that_is_changed_while_somebody_signs_in_with_it_stays_changed_and_lets_nobody_in(
    database: Database, monkeypatch: pytest.MonkeyPatch, kept_at: int
) -> None:
    accounts(database, passes=kept_at).add("ana", PASSWORD, Role.REQUESTOR)
    now = accounts(database, passes=2)
    hashed = now._hasher

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(hashed, name)

        def check_needs_rehash(self, before: str) -> bool:
            accounts(database, passes=2).change_password("ana", "quite another one")
            return hashed.check_needs_rehash(before)

    monkeypatch.setattr(now, "_hasher", Slow())
    with pytest.raises(NotSignedIn, match="changed just now"):
        now.login("ana", PASSWORD)
    assert now.lasting.listed("ana") == []
    monkeypatch.setattr(now, "_hasher", hashed)
    with pytest.raises(NotSignedIn):
        now.login("ana", PASSWORD)
    now.login("ana", "quite another one")


def test_who_is_shut_out_while_their_password_is_looked_at_is_not_let_in(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = accounts(database, passes=1)
    now.add("ana", PASSWORD, Role.REQUESTOR)
    hashed = now._hasher

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(hashed, name)

        def check_needs_rehash(self, before: str) -> bool:
            now.disable("ana")
            return hashed.check_needs_rehash(before)

    monkeypatch.setattr(now, "_hasher", Slow())
    with pytest.raises(NotSignedIn, match="changed just now"):
        now.login("ana", PASSWORD)
    now.grant("ana", Role.REQUESTOR)
    assert now.lasting.listed("ana") == []


@pytest.mark.postgres
def test_in_postgresql_nothing_that_began_while_a_password_was_changed_goes_on() -> None:
    database = Database(new_database())
    now = accounts(database, passes=1)
    now.add("ana", PASSWORD, Role.REQUESTOR)
    together = Barrier(3)

    def login(password: str) -> bool:
        together.wait()
        try:
            now.login("ana", password)
        except NotSignedIn:
            return False
        return True

    def claim(device: str) -> bool:
        together.wait()
        try:
            return now.devices.claim(device) is not None
        except NotSignedIn:
            return False

    with ThreadPoolExecutor(2) as pool:
        for turn in range(40):
            device, code = now.devices.begin("a notebook", "127.0.0.1")
            now.devices.decide(code, "ana", let_in=True)
            begun = (
                pool.submit(login, PASSWORD if turn == 0 else f"password number {turn - 1}"),
                pool.submit(claim, device),
            )
            together.wait()
            now.change_password("ana", f"password number {turn}")
            _ = [each.result() for each in begun]
            assert now.lasting.listed("ana") == []
    database.close()


def test_of_what_is_longer_than_a_password_only_the_beginning_is_looked_at_and_nobody_gets_in(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = "x" * LONGEST_PASSWORD
    mine = accounts(database, passes=1)
    mine.add("ana", longest, Role.REQUESTOR)
    looked: list[int] = []
    hashed = mine._hasher

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(hashed, name)

        def verify(self, before: str, password: str) -> bool:
            looked.append(len(password))
            return hashed.verify(before, password)

    monkeypatch.setattr(mine, "_hasher", Counting())
    with pytest.raises(NotSignedIn):
        mine.login("ana", longest + "x" * 1_000_000)
    assert looked == [LONGEST_PASSWORD]
    mine.login("ana", longest)
