"""Arguments, addresses, keyring, migrations and forks of the ledger."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from thebes.ledger import (
    Budget,
    BudgetExceeded,
    ClaimEnded,
    Frozen,
    Head,
    KeyringKeeper,
    Ledger,
    LedgerUnavailable,
    NoKeeper,
    Tampered,
)
from thebes.ledger.amounts import Amount, plain
from thebes.ledger.keeper import system_keeper
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import ORDERS, Approximate, Concentrated, Renyi

NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger("memory://")
    ledger.open_block("b", epsilon=1, delta=1e-6)
    return ledger


GOOD = {"epsilon": 0.1, "purpose": "p", "spender": "s"}


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("epsilon", {"epsilon": value})
        for value in (0, -1, NAN, INFINITY, -INFINITY, "", "much", True, [], 10**400, "1e400", None)
    ]
    + [("delta", {"delta": value}) for value in (-1e-9, 1, 1.5, NAN, INFINITY, "x", True)]
    + [("spender", {"spender": value}) for value in ("", " ", None, 5, "a\nb", "\x00", "\x1b[2J", "x" * 501, "\ud800")]
    + [("purpose", {"purpose": value}) for value in ("", "\t", None, b"p")]
    + [("key", {"key": value}) for value in ("", 7, "\r")]
    + [("unit", {"unit": "human"}), ("adjacency", {"adjacency": "near"})]
    + [
        ("loss", {"epsilon": None, "loss": value})
        for value in (0.1, Concentrated(0), Concentrated(Decimal("Infinity")))
    ]
    + [("loss", {"loss": Concentrated("0.1")}), ("epsilon", {"epsilon": None, "delta": 1e-9})],
)
def test_a_bad_request_names_its_argument_and_charges_nothing(ledger: Ledger, argument: str, wrong: dict) -> None:
    before = ledger.head()
    with pytest.raises(Mistake) as mistake:
        ledger.reserve(["b"], **{**GOOD, **wrong})
    assert mistake.value.argument == argument
    assert ledger.head() == before
    assert ledger.remaining("b") == Budget(Amount(1), Amount("0.000001"))


@pytest.mark.parametrize("blocks", ["b", b"b", [], ["b", "b"], [""], [None], ["c"], ["b", "c"]])
def test_bad_blocks_are_named(ledger: Ledger, blocks: object) -> None:
    with pytest.raises(Mistake) as mistake:
        ledger.reserve(blocks, **GOOD)  # type: ignore[arg-type]
    assert mistake.value.argument == "blocks"


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [("epsilon", {"epsilon": value}) for value in (0, -1, NAN, INFINITY, None, "1e-13", 1e7)]
    + [("delta", {"delta": value}) for value in (1, -1, NAN, None)]
    + [("filter", {"filter": value}) for value in ("pld", None, 3)]
    + [("orders", {"orders": [2.0]}), ("orders", {"filter": "zcdp", "delta": 1e-6, "orders": [2.0]})]
    + [("orders", {"filter": "renyi", "delta": 1e-6, "orders": orders}) for orders in ([], [1.0], [7.0])]
    + [("delta", {"filter": name, "delta": 0}) for name in ("zcdp", "either", "renyi")]
    + [("epsilon", {"filter": "renyi", "epsilon": 1e-3, "delta": 1e-9})]
    + [("unit", {"unit": None}), ("adjacency", {"adjacency": None})],
)
def test_a_bad_block_names_its_argument_and_is_not_opened(ledger: Ledger, argument: str, wrong: dict) -> None:
    before = ledger.head()
    with pytest.raises(Mistake) as mistake:
        ledger.open_block("new", **{"epsilon": 1, **wrong})
    assert mistake.value.argument == argument
    assert ledger.head() == before


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"epsilon": -0.1}, {"epsilon": NAN}, {"delta": 0}, {"delta": 2}, {"part": ""}]
)
def test_a_bad_part_charges_nothing(ledger: Ledger, wrong: dict) -> None:
    claim = ledger.reserve(["b"], **GOOD)
    before = ledger.head()
    with pytest.raises(Mistake):
        claim.consume(**wrong)
    assert ledger.head() == before


def test_questions_about_nothing_are_mistakes(ledger: Ledger) -> None:
    for ask in (
        lambda: ledger.remaining("nowhere"),
        lambda: ledger.block("nowhere"),
        lambda: ledger.claim(5),
        lambda: ledger.claim(key="never used"),
        lambda: ledger.claim(),
        lambda: ledger.claim(1, key="k"),
        lambda: ledger.claim(True),
        lambda: ledger.cap("ana", -1),
        lambda: ledger.cap("", 1),
        lambda: ledger.cap("ana", 1, 1),
        lambda: ledger.freeze(""),
    ):
        with pytest.raises(Mistake):
            ask()


@pytest.mark.parametrize(
    "where",
    ["", "budget.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///a.db?mode=ro", "mysql://x/y",
     "sqlite:////nowhere/at/all/budget.db", "postgresql://user@host:port/x"],
)  # fmt: skip
def test_an_address_that_cannot_be_one_is_a_mistake(where: str) -> None:
    with pytest.raises(Mistake) as mistake:
        Ledger(where)
    assert mistake.value.argument == "ledger"


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_bytes(b"not a database at all, but long enough to look like a file" * 20)
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{text}")
    assert text.read_bytes().startswith(b"not a database")
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)")
    with pytest.raises(LedgerUnavailable):
        Ledger(f"sqlite:///{other}", create=False)
    with pytest.raises(Mistake):
        Ledger(f"sqlite:///{tmp_path}/none.db", create=False)
    assert not (tmp_path / "none.db").exists()


def test_an_unreachable_server_is_one_sentence_without_the_password() -> None:
    with pytest.raises(LedgerUnavailable) as error:
        Ledger("postgresql://ana:secret@127.0.0.1:1/x")
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_a_ledger_written_by_a_newer_version_is_refused(tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path}/budget.db"
    Ledger(where, keeper=NoKeeper()).close()
    connection = sqlite3.connect(tmp_path / "budget.db")
    with connection:
        connection.execute("UPDATE ledger_version SET version_num = '9999'")
    with pytest.raises(LedgerUnavailable, match="newer"):
        Ledger(where)


def test_a_new_ledger_is_readable_by_its_owner_only_and_fully_durable(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db", keeper=NoKeeper())
    assert (tmp_path / "budget.db").stat().st_mode & 0o077 == 0
    for use in ("writer", "reader"):
        connection = ledger._store._connection(use)  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_ledger_is_usable_after_a_fork_in_both_processes(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db", keeper=NoKeeper())
    ledger.open_block("b", epsilon=1)
    ledger.reserve(["b"], **GOOD).consume()
    child = os.fork()
    if child == 0:
        try:
            ledger.reserve(["b"], **GOOD).consume()
        finally:
            os._exit(0)
    ledger.reserve(["b"], **GOOD).consume()
    os.waitpid(child, 0)
    assert ledger.remaining("b").epsilon == Decimal("0.7")
    assert ledger.verify()


def test_the_journal_tells_the_story_in_order(ledger: Ledger) -> None:
    moment = datetime(2026, 11, 20, 12, tzinfo=timezone(timedelta(hours=2)))
    ledger._clock = lambda: moment
    ledger.reserve(["b"], epsilon=0.1, delta=1e-9, purpose="mean of ages", spender="ana").consume()
    begin, opening, reserving, consuming = ledger.journal()
    assert [e.event for e in (begin, opening, reserving, consuming)] == ["begin", "open", "reserve", "consume"]
    assert [e.number for e in ledger.journal(after=2)] == [3, 4]
    assert reserving.at == "2026-11-20T10:00:00Z"
    assert reserving.facts["purpose"] == "mean of ages"
    assert reserving.facts["charges"] == [
        {"blocks": ["b"], "amounts": {"epsilon": "100000000000", "delta": "1000000000"}}
    ]
    assert consuming.facts["state"] == "closed"
    assert ledger.head() == Head(4, consuming.hash)


def test_entries_hold_no_floats_so_that_their_spelling_is_one() -> None:
    ledger = Ledger("memory://")
    for name in ("basic", "zcdp", "either", "renyi"):
        ledger.open_block(name, epsilon=1.5, delta=1e-6, filter=name)
        ledger.reserve([name], epsilon=0.1, purpose="é ü 数", spender="ana").consume(epsilon=0.05)

    def floats(value: object) -> bool:
        if isinstance(value, dict):
            return any(floats(one) for one in value.values())
        return any(floats(one) for one in value) if isinstance(value, list) else isinstance(value, float)

    import rfc8785

    for _, body, _ in ledger._store.read(lambda t: list(t.entries())):
        assert not floats(json.loads(body))
        assert rfc8785.dumps(json.loads(body)).decode() == body


def test_refusals_survive_a_journey_between_processes() -> None:
    budget = Budget(Amount("0.1"), Amount(0))
    for error in (
        BudgetExceeded("b", budget, budget, "ana"),
        Frozen("b", budget, budget),
        ClaimEnded(3, "is closed"),
        Tampered(("one", "two")),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)


def test_amounts_meet_floats_as_written() -> None:
    left = Amount("0.9")
    assert left - 0.9 == 0
    assert 1 - left == 1.0 - left == Decimal("0.1")
    assert left + 0.1 == 0.1 + left == 1
    assert 2 * left == left * 2.0 == Decimal("1.8")
    assert left / 3 == Decimal("0.3")
    assert left == pytest.approx(0.9)
    assert [plain(Decimal(x)) for x in ("0", "1.50", "1e-6", "100")] == ["0", "1.5", "1e-6", "100"]


def test_a_claim_shows_what_it_is(ledger: Ledger) -> None:
    claim = ledger.reserve(["b"], epsilon=0.1, delta=1e-9, purpose="mean", spender="ana", key="k")
    assert "claim 1 of 'ana' for 'mean'" in repr(claim)
    assert (claim.id, claim.key, claim.unit, claim.adjacency) == (1, "k", "event", "add-remove-one")
    assert claim.loss == claim.left == Approximate("0.1", "1e-9")
    assert claim.remaining == Budget(Amount("0.1"), Amount("1e-9"))
    claim.consume(delta=1e-9)
    assert claim.remaining == Budget(Amount("0.1"), Amount(0))
    assert claim.consume().state == "closed"
    assert claim.remaining == Budget(Amount(0), Amount(0))


def test_uses_sum_claims_by_spender_and_purpose(ledger: Ledger) -> None:
    ledger.open_block("r", epsilon=1, delta=1e-6, filter="renyi", orders=[32])
    for spender, epsilon in (("ana", 0.2), ("ana", 0.1), ("ben", 0.1)):
        ledger.reserve(["b", "r"], epsilon=epsilon, purpose="mean", spender=spender).consume()
    ledger.reserve(["b"], epsilon=0.1, purpose="count", spender="ana")
    found = {(use.spender, use.purpose): use for use in ledger.uses()}
    assert (found["ana", "mean"].claims, found["ana", "mean"].open, found["ana", "mean"].blocks) == (2, 0, 2)
    assert (found["ana", "count"].open, found["ana", "count"].most) == (1, 0)
    assert 0.3 <= found["ana", "mean"].most < 1
    assert found["ben", "mean"].most < found["ana", "mean"].most


def test_a_steep_curve_beyond_every_limit_is_refused_and_not_overflown() -> None:
    ledger = Ledger("memory://")
    ledger.open_block("r", epsilon=1e6, delta=0.5, filter="renyi")
    ledger.open_block("z", epsilon=1e6, delta=0.5, filter="zcdp")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(["r"], loss=Renyi([Decimal("Infinity")] * len(ORDERS)), purpose="p", spender="s")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(["z"], epsilon=1e6, purpose="p", spender="s")
    assert ledger.verify()


# --- the keyring -----------------------------------------------------------------------------------


@pytest.fixture
def in_memory_keyring():
    import keyring
    from keyring.backend import KeyringBackend
    from keyring.errors import KeyringLocked

    before = keyring.get_keyring()  # before there is another one to choose

    class InMemory(KeyringBackend):
        priority = 1
        locked = False

        def __init__(self) -> None:
            super().__init__()
            self.words: dict[tuple[str, str], str] = {}

        def get_password(self, service: str, username: str) -> str | None:
            if self.locked:
                raise KeyringLocked
            return self.words.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            if self.locked:
                raise KeyringLocked
            self.words[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.words[service, username]

    backend = InMemory()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


def test_where_there_is_a_keyring_the_head_is_kept_in_it(in_memory_keyring, tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path}/budget.db"
    with Ledger(where) as ledger:
        ledger.open_block("b", epsilon=1)
        head = ledger.head()
    assert in_memory_keyring.words == {("thebes ledger", ledger.id): str(head)}
    with Ledger(where) as ledger:
        assert ledger.kept_head() == head == ledger.verify()


def test_a_keyring_that_is_locked_or_holds_nonsense_is_as_good_as_none(in_memory_keyring) -> None:
    assert isinstance(system_keeper(), KeyringKeeper)
    keeper = KeyringKeeper()
    in_memory_keyring.words["thebes ledger", "x"] = "nonsense"
    assert keeper.kept("x") is None
    in_memory_keyring.locked = True
    keeper.keep("x", Head(1, "0" * 64))
    assert keeper.kept("x") is None
    assert isinstance(system_keeper(), NoKeeper)


@pytest.mark.parametrize("backend", ["keyring.backends.fail.Keyring", "keyring.backends.null.Keyring"])
def test_a_headless_machine_has_no_keeper(backend: str) -> None:
    script = "from thebes.ledger.keeper import system_keeper; print(type(system_keeper()).__name__)"
    environment = {**os.environ, "PYTHON_KEYRING_BACKEND": backend}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "NoKeeper"


def test_postgres_tests_are_failed_and_not_skipped_where_they_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support import postgres

    monkeypatch.setattr(postgres, "running_cluster", lambda: None)
    monkeypatch.delenv("THEBES_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception):
        postgres.new_database()
    monkeypatch.setenv("THEBES_REQUIRE", "chromium,postgres")
    with pytest.raises(pytest.fail.Exception):
        postgres.new_database()


def test_the_clock_only_dates_entries() -> None:
    backwards = iter(
        [datetime(2030, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)]
    )
    ledger = Ledger("memory://", clock=lambda: next(backwards))
    ledger.open_block("b", epsilon=1)
    ledger.freeze()
    assert [entry.at[:4] for entry in ledger.journal()] == ["2030", "2020", "2025"]
    assert ledger.verify()


def test_many_ledgers_are_made_at_once_by_several_threads(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def made(number: int) -> float:
        with Ledger(f"sqlite:///{tmp_path / f'{number}.db'}") as one:
            one.open_block("b", epsilon=1, delta=0)
            return float(one.remaining("b").epsilon)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(made, range(12))) == [1.0] * 12
