"""`thebes ledger show | verify | thaw`, as a person at a terminal and as a program meets them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import exit_status
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy.losses import Concentrated

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; its exit status, standard output and standard error."""

    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status("ledger", *arguments), *capsys.readouterr()

    monkeypatch.delenv("THEBES_HOME", raising=False)
    return go


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose ledger has three blocks and two spenders."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.db", keeper=NoKeeper()) as ledger:
        ledger.open_block("2026-11-20", epsilon=1, delta=1e-6)
        ledger.open_block("[bold]people", epsilon=1, delta=1e-6, filter="zcdp", unit="person")
        ledger.open_block("curves", epsilon=1, delta=1e-6, filter="renyi", unit="person")
        ledger.cap("ana", 0.5)
        ledger.reserve(["2026-11-20"], epsilon=0.25, purpose="weekly mean", spender="ana").consume()
        ledger.reserve(["2026-11-20"], epsilon=0.125, purpose="weekly mean", spender="ana")
        loss = Concentrated("0.004")
        ledger.reserve(["[bold]people", "curves"], loss=loss, purpose="histogram", spender="ben").consume()
    return tmp_path


def test_show_is_readable_by_a_person(run: Run, home: Path) -> None:
    status, out, err = run("show", "--home", home)
    assert (status, err) == (0, "")
    for words in (
        ["2026-11-20", "one event, add-remove-one", "epsilon 1", "epsilon 0.25", "epsilon 0.125", "epsilon 0.625"],
        ["[bold]people", "one person", "rho 0.0243556", "rho 0.004"],
        ["curves", "order"],
        ["ana", "weekly mean", "25.0%"],
        ["ben", "histogram"],
        ["ana", "each", "0.5", "the block's"],
    ):
        for word in words:
            assert word in out
    with Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()) as ledger:
        assert f"Head {ledger.head()}" in out
    assert "FROZEN" not in out


def test_show_leaves_out_blocks_that_are_retired_and_what_tells_nothing_of_a_name(run: Run, home: Path) -> None:
    with Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()) as ledger:
        for number in range(2, 5):
            ledger.open_block(f"local, 2026-11-18 to 2026-12-18 #{number}", epsilon=number)
            ledger.cap("cleo", 1, block=f"local, 2026-11-18 to 2026-12-18 #{number}")
        for number in range(2, 4):
            ledger.retire_block(f"local, 2026-11-18 to 2026-12-18 #{number}")
    shown = run("show", "--home", home)[1]
    assert "local, 2026-11-18" in shown
    assert "#" not in shown
    assert "2 blocks that can pay for nothing more: --all" in shown
    assert shown.count("cleo") == 1
    everything = run("show", "--home", home, "--all")[1]
    assert all(f"#{number}" in everything for number in range(2, 5))
    assert everything.count("cleo") == 3
    assert len(json.loads(run("show", "--home", home, "--json")[1])["blocks"]) == 6


def test_show_writes_json_to_standard_output_or_a_file(run: Run, home: Path, tmp_path: Path) -> None:
    address = f"sqlite:///{home}/ledger.db"
    _, out, _ = run("show", address, "--json")
    picture = json.loads(out)
    (day,) = [block for block in picture["blocks"] if block["block"] == "2026-11-20"]
    assert day["remaining"] == {"epsilon": 0.625, "delta": 1e-6}
    assert day["meters"]["epsilon"] == {"capacity": 1.0, "spent": 0.25, "reserved": 0.125}
    assert picture["frozen"] is False
    assert {use["spender"]: use["claims"] for use in picture["uses"]} == {"ana": 2, "ben": 1}
    assert json.loads(run("show", "--json", address)[1]) == picture  # the address is not taken for a file
    status, out, _ = run("show", address, "--json", tmp_path / "picture.json")
    assert (status, out) == (0, "")
    assert json.loads((tmp_path / "picture.json").read_text()) == picture


def test_verify_says_that_nothing_was_changed(run: Run, home: Path) -> None:
    status, out, err = run("verify", "--home", home)
    assert (status, err) == (0, "")
    assert "Nothing was changed: 10 entries" in out
    report = json.loads(run("verify", "--home", home, "--json")[1])
    assert report["ok"] is True
    assert report["findings"] == []
    assert run("verify", "--home", home, "--head", report["head"])[0] == 0


def test_verify_fails_with_every_finding_when_something_was_changed(run: Run, home: Path) -> None:
    head = json.loads(run("show", "--home", home, "--json")[1])["head"]
    connection = sqlite3.connect(home / "ledger.db")
    with connection:
        connection.execute("DELETE FROM ledger_journal WHERE number = 10")
    connection.close()
    status, out, err = run("verify", "--home", home)
    assert (status, out) == (1, "")
    assert "its last entries were removed" in err
    status, out, err = run("verify", "--home", home, "--json")
    assert status == 1
    assert json.loads(out)["ok"] is False
    status, _, err = run("verify", "--home", home, "--head", head)
    assert status == 1
    assert "rolled back" in err


def test_thaw_lets_a_restored_ledger_spend_again(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()) as ledger:
        ledger.freeze()
    _, out, _ = run("show", "--home", home)
    assert "FROZEN" in out
    assert "epsilon 0.625" not in out
    monkeypatch.setenv("THEBES_HOME", str(home))
    assert json.loads(run("thaw", "--json")[1]) == {"was_frozen": True, "frozen": False, "settled": [2]}
    status, out, _ = run("thaw")
    assert (status, out) == (0, "The ledger was not frozen; nothing was changed.\n")
    assert "epsilon 0.625" in run("show")[1]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["show", "budget.db"],
        ["show", "memory://"],
        ["show", "sqlite:///nowhere.db"],
        ["show", "--home", "nowhere"],
        ["show", "sqlite:///a.db", "--home", "b"],
        ["verify", "--home", "HOME", "--head", "12:abc"],
        ["show", "--home", "HOME", "--json", "/nowhere/at/all.json"],
        ["burn"],
        ["show", "--colour"],
    ],
)
def test_a_mistake_is_one_sentence_and_exit_status_2(
    run: Run, home: Path, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    status, out, err = run(*(str(home) if argument == "HOME" else argument for argument in arguments))
    assert (status, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err
    assert sorted(path for path in tmp_path.iterdir() if path.suffix == ".db") == [
        p for p in before if p.suffix == ".db"
    ]


def test_a_ledger_that_cannot_be_reached_is_exit_status_1(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"this is no database at all" * 50)
    for arguments in (["--home", tmp_path], ["postgresql://ana:secret@127.0.0.1:1/x"]):
        status, out, err = run("show", *arguments)
        assert (status, out) == (1, "")
        assert err.startswith("thebes: ")
        assert err.count("\n") == 1
        assert "secret" not in err


def test_every_command_explains_itself_with_an_example(run: Run) -> None:
    for name in ("show", "verify", "thaw"):
        status, out, _ = run(name, "--help")
        assert status == 0
        assert f"Example: thebes ledger {name}" in " ".join(out.split())
