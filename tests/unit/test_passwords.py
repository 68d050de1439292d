"""Passwords at a coordinator: what they are kept as is renewed, and neither their length nor a race lets anybody in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.coordinator import HandClock
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


def test_a_password_that_is_changed_while_somebody_signs_in_with_it_stays_changed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts(database, passes=1).add("ana", PASSWORD, Role.REQUESTOR)
    now = accounts(database, passes=2)
    hashed = now._hasher

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(hashed, name)

        def check_needs_rehash(self, before: str) -> bool:
            accounts(database, passes=2).change_password("ana", "quite another one")
            return hashed.check_needs_rehash(before)

    monkeypatch.setattr(now, "_hasher", Slow())
    now.login("ana", PASSWORD)
    monkeypatch.setattr(now, "_hasher", hashed)
    with pytest.raises(NotSignedIn):
        now.login("ana", PASSWORD)
    now.login("ana", "quite another one")


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
