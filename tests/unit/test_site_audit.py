"""The audit log of a site: it only grows, and whoever changes it is found out."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from thebes.ledger import Head, Tampered
from thebes.site.steward.audit_log import Audit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "audit.db"
    audit = Audit(path)
    for number in range(5):
        audit.note(("ask", {"task": f"t{number}", "requestor": "ana"}), ("allowed", {"task": f"t{number}", "rule": 1}))
    audit.close()
    return path


def changed(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    db.execute("DROP TRIGGER no_change")
    db.execute("DROP TRIGGER no_removal")
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def test_an_untouched_log_is_whole(path: Path) -> None:
    audit = Audit(path)
    assert audit.verify() == audit.head()
    assert audit.head().length == 10
    assert [entry.event for entry in audit.latest(2)] == ["allowed", "ask"]
    assert audit.entries(after=9)[0].facts == {"task": "t4", "rule": 1}


def test_what_more_follows_is_there_for_whoever_opens_the_log_after_a_kill(path: Path) -> None:
    audit = Audit(path)
    audit.note(("ask", {"task": "t5"}), more=True)
    other = Audit(path)  # while nobody has closed the first
    assert other.verify().length == 11
    audit.note(("answer", {"task": "t5"}))
    assert [entry.event for entry in other.latest(2)] == ["answer", "ask"]
    audit.close()
    other.close()


def test_the_log_refuses_to_change_or_lose_an_entry(path: Path) -> None:
    db = sqlite3.connect(path)
    for statement in ("UPDATE entry SET body = '{}' WHERE number = 3", "DELETE FROM entry WHERE number = 3"):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)


@pytest.mark.parametrize(
    "statements",
    [
        ("UPDATE entry SET body = replace(body, 'ana', 'eve') WHERE number = 3",),
        ("DELETE FROM entry WHERE number = 4",),
        ("DELETE FROM entry WHERE number = 10",),
        ("UPDATE entry SET number = 99 WHERE number = 10",),
        ("INSERT INTO entry SELECT 11, body, hash FROM entry WHERE number = 10",),
        ("UPDATE head SET length = 9",),
        ("UPDATE entry SET body = (SELECT body FROM entry WHERE number = 5) WHERE number = 3",),
    ],
)
def test_every_tampering_is_found(path: Path, statements: tuple[str, ...]) -> None:
    changed(path, *statements)
    with pytest.raises(Tampered):
        Audit(path).verify()


def test_a_log_cut_short_together_with_its_head_is_found_by_a_head_that_was_remembered(path: Path) -> None:
    before = Audit(path).head()
    changed(
        path,
        "DELETE FROM entry WHERE number = 10",
        "UPDATE head SET length = 9, hash = (SELECT hash FROM entry WHERE number = 9)",
    )
    assert Audit(path).verify().length == 9
    with pytest.raises(Tampered):
        Audit(path).verify([before])


def test_what_cannot_be_written_leaves_no_trace(path: Path) -> None:
    audit = Audit(path)
    with pytest.raises(TypeError):
        audit.note(("ask", {"task": "t9"}), ("allowed", {"rule": object()}))
    assert audit.verify() == Head(10, audit.head().hash)
