"""`thebes dataset synthesize`: paid before anything is drawn, certified, in declared domains, refused for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.command import exit_status
from thebes.ledger import Ledger, LedgerClaim, NoKeeper
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation
from thebes.site.steward import synthesis
from thebes.site.steward.synthesis import Wish

Run = Callable[..., tuple[int, str, str]]
SCHEMA = """
unit = "person"
[columns.age]
type = "integer"
low = 0
high = 99
[columns.sex]
type = "string"
values = ["female", "male"]
[columns.sick]
type = "boolean"
[columns.seen]
type = "timestamp"
values = ["2026-01-01T00:00:00", "2026-01-02T00:00:00"]
[columns.name]
type = "string"
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    monkeypatch.setenv("THEBES_HOME", "site")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    draw = np.random.default_rng(0)
    age = draw.integers(0, 100, 500)
    rows = {"age": age, "sex": draw.choice(["female", "male"], 500), "sick": age > 60, "name": "somebody"}
    pd.DataFrame({**rows, "seen": "2026-01-01 00:00:00"}).to_csv(tmp_path / "rows.csv", index=False)
    return go


def created(run: Run, *more: str) -> None:
    schema = ("--schema", "schema.toml", "--source", "rows.csv")
    assert run("dataset", "create", "patients", *schema, "--epsilon", "2", *more)[0] == 0


def made(run: Run, *more: str, epsilon: str = "1", out: str = "made.csv") -> tuple[int, str, str]:
    return run("dataset", "synthesize", "patients", "--rows", "300", "--epsilon", epsilon, "--out", out, *more)


def left() -> float:
    with Ledger("sqlite:///site/ledger.db", keeper=NoKeeper()) as ledger:
        assert not [claim for claim in ledger.claims() if claim.state.open]
        return float(ledger.remaining("patients").epsilon)


@pytest.mark.slow
def test_rows_are_written_with_their_certificate_and_paid(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = seeded_for_simulation(1)  # how much of what goes together is learned is luck
    monkeypatch.setattr("thebes.site.steward.synthesis.system", lambda: chance)
    created(run)
    status, out, err = made(run)
    assert (status, err) == (0, "")
    assert "300 synthetic rows" in out
    assert left() == pytest.approx(1.0)
    rows = pd.read_csv("made.csv")
    assert list(rows.columns) == ["age", "sex", "sick", "seen"]
    assert len(rows) == 300
    assert rows["age"].dropna().between(0, 99).all()
    assert set(rows["sex"].dropna()) == {"female", "male"}
    old = rows[rows["age"] > 70]["sick"].astype(str)
    assert (old == "True").mean() > 0.8  # what goes together there goes together here
    told = json.loads(Path("made.csv.certificate.json").read_text())
    assert (told["epsilon"], told["delta"], told["guarantee"], told["trust"]) == (1.0, 0.0, "pure", "site")
    assert told["mechanism"] == "synthetic rows (mst)"
    assert set(told["bounds"]) == {"age", "sex", "seen"}
    assert "somebody" not in Path("made.csv").read_text()


@pytest.mark.slow
def test_a_basic_budget_with_a_delta_pays_both_and_parquet_keeps_the_types(run: Run) -> None:
    created(run, "--delta", "1e-6", "--filter", "basic")
    options = ("--delta", "4e-7", "--method", "independent", "--bins", "age=18,65", "--columns", "age,sick,seen")
    status, out, _ = made(run, *options, "--json", out="made.parquet")
    assert status == 0
    assert json.loads(out)["certificate"]["parameters"]["bins"] == {"age": [18.0, 65.0]}
    with Ledger("sqlite:///site/ledger.db", keeper=NoKeeper()) as ledger:
        assert float(ledger.remaining("patients").delta) == pytest.approx(6e-7)
    import duckdb

    with duckdb.connect() as database:
        types = {c: str(t) for c, t, *_ in database.execute("DESCRIBE SELECT * FROM 'made.parquet'").fetchall()}
    assert types == {"age": "BIGINT", "sick": "BOOLEAN", "seen": "TIMESTAMP"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--method", "magic"), "must be one of"),
        (("--method", "aim"), "delta"),
        (("--columns", "name"), "neither declared values nor bounds"),
        (("--columns", "nobody"), "does not offer"),
        (("--bins", "age=many"), "COLUMN=NUMBER"),
        (("--bins", "sex=3"), "cut by its values"),
        (("--rows", "0"), "must be from 1"),
    ],
)
def test_what_cannot_work_is_refused_and_costs_nothing(run: Run, more: tuple[str, ...], said: str) -> None:
    created(run)
    status, _, err = made(run, *more)
    assert status == 2
    assert said in err
    assert left() == 2.0
    assert not Path("made.csv").exists()


def test_what_is_too_dear_or_could_not_be_written_costs_nothing(run: Run) -> None:
    created(run)
    assert made(run, epsilon="3")[0] == 1
    assert made(run, out="nowhere/made.csv")[0] == 2
    assert made(run, out="made.txt")[0] == 2
    Path("made.csv").write_text("mine")
    assert made(run)[0] == 2
    assert Path("made.csv").read_text() == "mine"
    Path("rows.csv").unlink()
    assert made(run, out="other.csv")[0] == 1
    assert left() == 2.0


def test_rows_that_break_off_stay_paid_once_noise_may_have_been_drawn(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(run)

    def cut(claim: LedgerClaim) -> None:
        claim.consume()
        raise OSError("the disk is full")

    monkeypatch.setattr(synthesis, "_pay", cut)
    assert made(run)[0] == 1
    assert not Path("made.csv").exists()
    assert left() == pytest.approx(1.0)


def test_growing_data_are_learned_from_every_block_that_can_pay(run: Run, tmp_path: Path) -> None:
    Path("rides.toml").write_text(
        'unit = "event"\ntime = "at"\n[columns.at]\ntype = "timestamp"\n'
        '[columns.km]\ntype = "float"\nlow = 0\nhigh = 9\n'
    )
    days = pd.to_datetime(["2026-01-01", "2026-01-02"]).repeat(200)
    pd.DataFrame({"at": days, "km": np.linspace(0, 9, 400)}).to_csv("rides.csv", index=False)
    rides = ("rides", "--schema", "rides.toml", "--block-by", "time:1d", "--epsilon", "2", "--delta", "1e-6")
    assert run("dataset", "create", *rides)[0] == 0
    assert run("dataset", "ingest", "rides", "rides.csv")[0] == 0
    asked = ("dataset", "synthesize", "rides", "--rows", "50", "--epsilon", "1", "--delta", "1e-7")
    assert run(*asked, "--out", "a.csv")[0] == 0
    assert "Learned from 2 blocks of rides" in json.loads(Path("a.csv.certificate.json").read_text())["text"]
    assert pd.read_csv("a.csv")["km"].dropna().between(0, 9).all()  # noise may have made a missing one
    assert run("dataset", "synthesize", "rides", "--rows", "9", "--epsilon", "5", "--out", "b.csv")[0] == 1


def test_a_wish_says_how_many_rows() -> None:
    with pytest.raises(Mistake, match="--rows"):
        Wish(rows=10**9, epsilon=1)
