"""The key of a home lives in one place and is made once."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.errors
import pytest

from thebes.data import keys
from thebes.data.store import Store
from thebes.privacy.faults import Mistake


class Remembering(keyring.backend.KeyringBackend):
    """A keyring that works."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise keyring.errors.KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class Forgetful(Remembering):
    """One that takes everything and remembers nothing."""

    def set_password(self, service: str, username: str, password: str) -> None:
        return None


class Absent(Remembering):
    """The keyring of a server without a desktop."""

    def set_password(self, service: str, username: str, password: str) -> None:
        raise keyring.errors.NoKeyringError("none")


@pytest.fixture
def using() -> Any:
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


def test_a_working_keyring_keeps_the_key_and_the_home_does_not(tmp_path: Path, using: Any) -> None:
    backend = Remembering()
    using(backend)
    key = keys.key_of(tmp_path)
    assert keys.kept(tmp_path) == "keyring"
    assert len(key) == 32
    assert keys.key_of(tmp_path) == key
    assert list(backend.entries.values()) == [key.hex()]
    assert all(key.hex() not in p.read_text() for p in tmp_path.iterdir())
    backend.locked = True
    with pytest.raises(Mistake, match="unlock"):
        keys.key_of(tmp_path)
    backend.locked = False
    keys.forget(tmp_path)
    assert backend.entries == {}
    assert keys.kept(tmp_path) is None
    keys.forget(tmp_path)


def test_a_lost_keyring_entry_never_becomes_a_new_key(tmp_path: Path, using: Any) -> None:
    backend = Remembering()
    using(backend)
    keys.key_of(tmp_path)
    backend.entries.clear()
    with pytest.raises(Mistake, match="keyring"):
        keys.key_of(tmp_path)
    assert backend.entries == {}


@pytest.mark.parametrize("backend", [Forgetful, Absent])
def test_without_a_working_keyring_the_key_is_a_file_for_its_owner_alone(
    tmp_path: Path, using: Any, backend: type[Remembering]
) -> None:
    using(backend())
    key = keys.key_of(tmp_path / "home")
    assert keys.kept(tmp_path / "home") == "file"
    assert keys.key_of(tmp_path / "home") == key
    (file,) = (tmp_path / "home").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    file.chmod(0o640)
    with pytest.raises(Mistake, match="read by others"):
        keys.key_of(tmp_path / "home")


@pytest.mark.slow
def test_a_passphrase_is_stretched_and_kept_nowhere(tmp_path: Path, using: Any) -> None:
    backend = Remembering()
    using(backend)
    key = keys.key_of(tmp_path / "one", passphrase="correct horse battery")
    assert keys.kept(tmp_path / "one") == "passphrase"
    assert backend.entries == {}
    assert keys.key_of(tmp_path / "one", passphrase="correct horse battery") == key
    assert keys.key_of(tmp_path / "two", passphrase="correct horse battery") != key  # a salt for every home
    record = (tmp_path / "one" / "key.json").read_text()
    assert key.hex() not in record
    assert "horse" not in record
    settings = json.loads(record)
    assert (settings["passes"], settings["memory_kib"], settings["lanes"]) == (3, 65536, 4)
    for wrong in ("correct horse batterz", ""):
        with pytest.raises(Mistake, match="not the one"):
            keys.key_of(tmp_path / "one", passphrase=wrong)
    with pytest.raises(Mistake, match="is needed"):
        keys.key_of(tmp_path / "one")
    with pytest.raises(Mistake, match="at least 8"):
        keys.key_of(tmp_path / "three", passphrase="short")
    assert keys.kept(tmp_path / "three") is None
    with Store.open(tmp_path / "one", key=key) as store:
        assert store.describe() == []
    with pytest.raises(Mistake, match="passphrase"):
        Store.open(tmp_path / "one")


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "7", '{"kept": "nowhere"}', '{"kept": "file"}', '{"kept": "file", "key": "x"}']
)
def test_a_damaged_record_is_never_replaced(tmp_path: Path, content: str) -> None:
    record = tmp_path / "key.json"
    record.write_text(content)
    record.chmod(0o600)
    with pytest.raises(Mistake, match="damaged"):
        keys.key_of(tmp_path)
    assert record.read_text() == content


def test_a_race_to_make_the_key_has_one_winner(tmp_path: Path, using: Any) -> None:
    using(Absent())
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(keys.key_of(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["key.json"]


def test_two_homes_have_two_keys(tmp_path: Path, using: Any) -> None:
    using(Absent())
    assert keys.key_of(tmp_path / "a") != keys.key_of(tmp_path / "b")


def test_a_file_in_the_way_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Mistake, match="folder"):
        keys.key_of(tmp_path / "file" / "home")
