"""Whoever changes a ledger behind its back is seen: entries altered, removed, reordered, balances moved,
even a chain recomputed from end to end, where its head was remembered elsewhere."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from thebes.ledger import Head, Ledger, NoKeeper, Tampered
from thebes.ledger.journal import BEGINNING, written


class Remembered:
    """A keeper of heads in a dictionary, as a keyring would be."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}

    def kept(self, ledger: str) -> Head | None:
        return self.heads.get(ledger)

    def keep(self, ledger: str, head: Head) -> None:
        self.heads[ledger] = head


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a bit of everything in it."""
    path = tmp_path / "budget.db"
    with opened(path) as ledger:
        ledger.open_block("monday", epsilon=1, delta=1e-6)
        ledger.open_block("tuesday", epsilon=1, delta=1e-6, filter="zcdp")
        ledger.open_block("wednesday", epsilon=1, delta=1e-6, filter="renyi")
        ledger.retire_block(ledger.open_block("old", epsilon=1).name)
        ledger.cap("ana", 0.5)
        first = ledger.reserve(["monday", "tuesday", "wednesday"], epsilon=0.1, purpose="mean", spender="ana", key="k")
        first.consume(epsilon=0.05, part="one")
        ledger.reserve(["monday"], epsilon=0.2, delta=1e-8, purpose="count", spender="ben").consume()
        ledger.reserve(["monday"], epsilon=0.3, purpose="count", spender="ben").release()
        ledger.freeze()
        ledger.thaw()
        ledger.reserve(["monday"], epsilon=0.1, purpose="mean", spender="ana").acquire()
    return path


def opened(path: Path, keeper: object = None) -> Ledger:
    return Ledger(f"sqlite:///{path}", keeper=keeper or NoKeeper())  # type: ignore[arg-type]


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, f"changed nothing: {statement}"
    connection.close()


def findings(path: Path, *known: Head) -> str:
    with opened(path) as ledger, pytest.raises(Tampered) as tampered:
        ledger.verify(*known)
    assert tampered.value.findings
    return "\n".join(tampered.value.findings)


def recompute(path: Path) -> None:
    """Write the whole chain anew, as somebody with all the time in the world would."""
    connection = sqlite3.connect(path)
    with connection:
        rows = connection.execute("SELECT body FROM ledger_journal ORDER BY number").fetchall()
        connection.execute("DELETE FROM ledger_journal")
        head = Head(0, BEGINNING)
        for (body,) in rows:
            fields = json.loads(body)
            text, head = written(head, fields["at"], fields["event"], fields["facts"])
            connection.execute("INSERT INTO ledger_journal VALUES (?, ?, ?)", (head.length, text, head.hash))
        connection.execute("UPDATE ledger_standing SET length = ?, hash = ?", (head.length, head.hash))
    connection.close()


def length(path: Path) -> int:
    with opened(path) as ledger:
        return ledger.head().length


def test_an_untouched_ledger_verifies(path: Path) -> None:
    with opened(path) as ledger:
        assert ledger.verify() == ledger.head()
        assert ledger.verify(ledger.head(), Head(1, next(ledger.journal()).hash)) == ledger.head()
        assert ledger.head().length == len(list(ledger.journal()))


@pytest.mark.few(7)
@pytest.mark.parametrize("number", range(1, 16))
def test_any_altered_entry_is_found(path: Path, number: int) -> None:
    assert length(path) >= 15
    change(path, f'UPDATE ledger_journal SET body = replace(body, \'"at":"2\', \'"at":"3\') WHERE number = {number}')
    assert f"entry {number} was altered" in findings(path)


def test_an_altered_entry_with_its_own_hash_recomputed_breaks_the_chain(path: Path) -> None:
    connection = sqlite3.connect(path)
    rows = dict(connection.execute("SELECT number, body FROM ledger_journal"))
    fields = json.loads(rows[9])
    previous = Head(8, fields["previous"])
    body, head = written(previous, "3000-01-01T00:00:00Z", fields["event"], fields["facts"])
    with connection:
        connection.execute("UPDATE ledger_journal SET body = ?, hash = ? WHERE number = 9", (body, head.hash))
    connection.close()
    assert "entry 10 does not follow" in findings(path)


@pytest.mark.parametrize("number", [1, 2, 8, 14])
def test_an_entry_removed_from_the_middle_is_found(path: Path, number: int) -> None:
    change(path, f"DELETE FROM ledger_journal WHERE number = {number}")
    assert f"entry {number} is missing" in findings(path)


def test_the_last_entry_removed_is_found(path: Path) -> None:
    last = length(path)
    change(path, f"DELETE FROM ledger_journal WHERE number = {last}")
    assert "its last entries were removed" in findings(path)


def test_the_last_entry_removed_with_the_head_set_back_is_found_by_the_balances(path: Path) -> None:
    last = length(path)
    change(
        path,
        f"DELETE FROM ledger_journal WHERE number = {last}",
        f"UPDATE ledger_standing SET length = {last - 1}, "
        f"hash = (SELECT hash FROM ledger_journal WHERE number = {last - 1})",
    )
    assert "claim" in findings(path)


def test_an_entry_added_behind_the_head_is_found(path: Path) -> None:
    change(
        path,
        "INSERT INTO ledger_journal SELECT number + 1, body, hash FROM ledger_journal ORDER BY number DESC LIMIT 1",
    )
    assert "not the one the head records" in findings(path)


def test_reordered_entries_are_found(path: Path) -> None:
    change(
        path,
        "UPDATE ledger_journal SET number = 1000 WHERE number = 6",
        "UPDATE ledger_journal SET number = 6 WHERE number = 7",
        "UPDATE ledger_journal SET number = 7 WHERE number = 1000",
    )
    found = findings(path)
    assert "entry 6 was moved: it was written as entry 7" in found
    assert "entry 7 was moved: it was written as entry 6" in found


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_meter SET spent = spent - 1 WHERE spent > 0 AND block = 'monday' AND spender = ''",
        "UPDATE ledger_meter SET reserved = reserved - 1 WHERE reserved > 0 AND spender = ''",
        "UPDATE ledger_meter SET capacity = capacity + 1 WHERE block = 'tuesday' AND spender = ''",
        "UPDATE ledger_meter SET firm = 0 WHERE block = 'monday' AND spender = ''",
        "UPDATE ledger_meter SET spent = 0, reserved = 0 WHERE spender = 'ana'",
        "DELETE FROM ledger_meter WHERE block = 'wednesday' AND place = '32.0'",
        "UPDATE ledger_block SET epsilon = epsilon + 1 WHERE name = 'monday'",
        "UPDATE ledger_block SET unit = 'event' || 's' WHERE name = 'monday'",
        "UPDATE ledger_block SET state = 'open' WHERE name = 'old'",
        "INSERT INTO ledger_block VALUES ('new', 'event', 'add-remove-one', 'basic', 1, 0, 'open')",
        "UPDATE ledger_cap SET epsilon = epsilon * 2",
        "DELETE FROM ledger_cap",
        "UPDATE ledger_claim SET spender = 'ben' WHERE id = 1",
        "UPDATE ledger_claim SET purpose = 'nothing' WHERE id = 1",
        "UPDATE ledger_claim SET state = 'acquired' WHERE id = 2",
        "UPDATE ledger_claim SET key = NULL WHERE id = 1",
        'UPDATE ledger_claim SET "left" = \'{"epsilon":"9"}\' WHERE id = 4',
        "UPDATE ledger_charge SET spent = spent - 1 WHERE spent > 0",
        "DELETE FROM ledger_charge WHERE claim = 2",
        "DELETE FROM ledger_part",
        "UPDATE ledger_standing SET frozen = 1",
        "UPDATE ledger_standing SET ledger = 'another'",
        "UPDATE ledger_standing SET hash = 'f' || substr(hash, 1, 63)",
        "UPDATE ledger_standing SET length = length + 1",
    ],
)
def test_any_difference_between_journal_and_tables_is_found(path: Path, statement: str) -> None:
    change(path, statement)
    assert findings(path)


def test_an_entry_that_is_no_entry_is_found_and_not_stumbled_over(path: Path) -> None:
    for body in ("", "{", "[]", '{"number":5}', '{"number":5,"previous":"","event":"reserve","at":"","facts":{}}'):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE ledger_journal SET body = ? WHERE number = 5", (body,))
        connection.close()
        assert "entry 5" in findings(path)


def test_a_chain_recomputed_with_its_balances_is_seen_by_whoever_remembers_a_head(path: Path) -> None:
    with opened(path) as ledger:
        printed = Head.read(str(ledger.head()))
    # Forge: the claim of 0.2 becomes one of 0.1, in the journal and in every table.
    small, large = "100000000000", "200000000000"
    change(
        path,
        f"UPDATE ledger_journal SET body = replace(replace(body, '{large}', '{small}'), '\\\"0.2\\\"', '\\\"0.1\\\"')",
        f"UPDATE ledger_charge SET spent = {small} WHERE claim = 2 AND place = 'epsilon'",
        f"UPDATE ledger_meter SET spent = spent - {small} WHERE (block, place, spender) = ('monday', 'epsilon', '')",
        "UPDATE ledger_claim SET loss = replace(loss, '0.2', '0.1') WHERE id = 2",
    )
    recompute(path)
    with opened(path) as ledger:
        assert ledger.verify().length == printed.length  # whole in itself: that alone shows nothing
    assert "was rewritten" in findings(path, printed)


def test_a_ledger_rolled_back_to_an_older_copy_is_noticed_and_frozen(path: Path, tmp_path: Path) -> None:
    keeper = Remembered()
    with opened(path, keeper) as ledger:
        ledger.verify()
    backup = tmp_path / "backup.db"
    connection = sqlite3.connect(path)
    connection.execute(f"VACUUM INTO '{backup}'")
    connection.close()
    with opened(path, keeper) as ledger:
        ledger.verify()
        ledger.reserve(["monday"], epsilon=0.05, purpose="mean", spender="ben").consume()
    for leftover in ("-wal", "-shm"):
        Path(f"{path}{leftover}").unlink(missing_ok=True)
    shutil.copy(backup, path)
    with opened(path, keeper) as ledger:
        assert ledger.frozen
        with pytest.raises(Tampered, match=r"rolled back|rewritten"):
            ledger.verify()
        ledger.thaw()
        assert ledger.verify() == ledger.head() == ledger.kept_head()
    with opened(path, keeper) as ledger:
        assert not ledger.frozen


def test_the_head_is_remembered_outside_when_a_ledger_is_closed(path: Path) -> None:
    keeper = Remembered()
    with opened(path, keeper) as ledger:
        ledger.open_block("thursday", epsilon=1)
        head = ledger.head()
    assert keeper.heads == {ledger.id: head}
