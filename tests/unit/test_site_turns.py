"""The turns among the pipelines of a site's growing data set: said by its owner, in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import exit_status
from thebes.curator.pipelines.scheduler import SchedulingRule
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.site.dataset import SCHEDULES, DataSets, read
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of, turns_of

DECLARED = """
[budget]
epsilon = 1
delta = 0
filter = "basic"
[source]
kind = "growing"
[blocks]
by = "time:1d"
{more}
[schema]
unit = "event"
time = "at"
[schema.columns.at]
type = "timestamp"
[schema.columns.x]
type = "float"
low = 0.0
high = 1.0
"""


def declared(folder: Path, more: str) -> Path:
    path = folder / "rides.toml"
    path.write_text(DECLARED.format(more=more), encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path) -> SiteHome:
    return SiteHome(tmp_path / "site")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_owner_says_whose_turn_it_is(home: SiteHome, schedule: str) -> None:
    declared(home.datasets, f'schedule = "{schedule}"')
    dataset = DataSets(home).get("rides")
    assert dataset is not None
    assert f'schedule = "{schedule}"' in dataset.as_toml()
    with Ledger("memory://") as ledger:
        stream_of(home, dataset, ledger).close()
        turns = turns_of(home, dataset, ledger)
        assert turns is not None
        turns.arrive("speed")
        assert turns.policy is SchedulingRule(schedule)
        turns.close()
        stream_of(home, dataset, ledger).close()
        assert (home.folder / "growing" / "rides" / "turns.db").is_file()  # no left-over of rows: it is not swept


def test_without_a_word_whoever_is_first_is_served(home: SiteHome) -> None:
    declared(home.datasets, "")
    dataset = DataSets(home).get("rides")
    assert dataset is not None
    with Ledger("memory://") as ledger:
        assert turns_of(home, dataset, ledger) is None


def test_every_policy_can_be_asked_for() -> None:
    assert set(SCHEDULES) == set(SchedulingRule)


@pytest.mark.parametrize(
    "more",
    [
        'schedule = "luck"',
        "schedule = 3",
        'schedule = "even"\nseparate_by = "developer"\naccept_separate_ledgers = true',
        'schedule = "even"\nfair = 3',
        'lifetime = "3d"',
        'schedule = "dpf"\nfair = 0',
        'schedule = "dpf"\nfair = "3"',
        'schedule = "dpf"\nlifetime = "long"',
        'schedule = "dpf"\nlifetime = "0d"',
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, more: str) -> None:
    with pytest.raises(Mistake, match=r"schedule|fair|lifetime"):
        read(declared(tmp_path, more), "rides")


FILE = """
from tests.support.pipelines import Lines as _Lines

class Large(_Lines):
    name = "large"
    epsilon = start_epsilon = "0.5"
"""


@pytest.mark.parametrize("alone", [True, False])
def test_a_pipeline_at_a_terminal_waits_for_its_turn_where_others_want_the_same(
    home: SiteHome, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, alone: bool
) -> None:
    """With DPF a claim for half of a block that others want too waits until more have asked for it, or time has."""
    more = '[schema.columns.y]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'
    path = declared(home.datasets, 'schedule = "dpf"')
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    (tmp_path / "large.py").write_text(FILE, encoding="utf-8")
    (tmp_path / "rides.csv").write_text("at,x,y\n2026-10-01T10:00:00,0.5,0.4\n", encoding="utf-8")
    place = ("--home", str(home.folder))
    lines = (
        ("dataset", "ingest", "rides", str(tmp_path / "rides.csv"), *place),
        ("dataset", "grant", "rides", *place, "--to", "ana", "--kinds", "pipeline", "--epsilon", "0.9"),
        ("pipeline", "run", str(tmp_path / "large.py"), *place, "--as", "ana"),
    )
    for line in lines:
        if line[0] == "pipeline" and not alone:
            with Ledger(home.ledger, create=False) as ledger:
                dataset = DataSets(home).get("rides")
                assert dataset is not None
                turns = turns_of(home, dataset, ledger)
                assert turns is not None
                turns.due("other", [one.name for one in ledger.blocks("rides/")], Pure("0.4"))
                turns.close()
        status, (out, err) = exit_status(*line), capsys.readouterr()
        assert status == 0, err
    assert ("waits for its turn" in out) is not alone
    with Ledger(home.ledger, create=False) as ledger:
        assert bool(ledger.claims(spender="ana")) is alone


def test_the_shares_and_the_time_of_dpf_can_be_said_at_a_terminal(
    home: SiteHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = 'unit = "event"\ntime = "at"\n[columns.at]\ntype = "timestamp"\n'
    (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")

    def create(name: str, *more: str) -> int:
        place = ("--home", str(home.folder), "--schema", str(tmp_path / "schema.toml"), "--epsilon", "1")
        return exit_status("dataset", "create", name, *place, "--delta", "1e-6", "--block-by", "time:1d", *more)

    assert create("rides", "--schedule", "dpf", "--fair", "5", "--lifetime", "12h") == 0
    dataset = DataSets(home).get("rides")
    assert dataset is not None
    assert dataset.blocks is not None
    assert {name: dataset.blocks.more[name] for name in ("schedule", "fair", "lifetime")} == {
        "schedule": "dpf", "fair": 5, "lifetime": "12h"
    }  # fmt: skip
    capsys.readouterr()
    for more in (("--fair", "5"), ("--schedule", "dpf", "--lifetime", "long"), ("--schedule", "even", "--fair", "5")):
        assert create("taxi", *more) != 0
        assert more[-2] in capsys.readouterr().err
