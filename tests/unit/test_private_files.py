"""Files for their owner alone: they are so at every moment, and are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from thebes.database import private_files

WAYS: list[Callable[[Path, bytes | str], object]] = [private_files.write, private_files.put, private_files.create]


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """Nobody else may be kept out by the process's mask."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_is_for_its_owner_alone_and_nothing_lies_beside_it(
    way: Callable[[Path, bytes | str], object], tmp_path: Path
) -> None:
    way(tmp_path / "key", "é")
    assert (tmp_path / "key").read_bytes() == "é".encode()
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_what_others_could_read_before_is_not_what_they_can_read_after(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"before")
    with open(tmp_path / "key", "rb") as open_elsewhere:
        private_files.write(tmp_path / "key", b"after")
        assert open_elsewhere.read() == b"before"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_a_secret_that_was_made_first_is_never_replaced(tmp_path: Path) -> None:
    assert private_files.create(tmp_path / "key", b"first")
    assert not private_files.create(tmp_path / "key", b"second")
    assert (tmp_path / "key").read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("way", WAYS)
def test_where_it_cannot_be_put_nothing_is_left_beside_it(
    way: Callable[[Path, bytes | str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError("no space left")

    (tmp_path / "kept").write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        way(tmp_path / "kept", b"after")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"kept": b"before"}
