"""The turns among the pipelines of a site's growing data set: said by its owner, in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import exit_status
from thebes.curator.pipelines.scheduler import SchedulingRule
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake
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
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, more: str) -> None:
    with pytest.raises(Mistake, match="schedule"):
        read(declared(tmp_path, more), "rides")


FILE = """
from tests.support.pipelines import Lines as _Lines

class Large(_Lines):
    name = "large"
    epsilon = start_epsilon = "0.5"
"""


def test_a_pipeline_at_a_terminal_waits_for_its_turn(
    home: SiteHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With DPF a claim for half of a block waits until others have asked for it too."""
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
        status, (out, err) = exit_status(*line), capsys.readouterr()
        assert status == 0, err
    assert "waits for its turn" in out
    with Ledger(home.ledger, create=False) as ledger:
        assert ledger.claims(spender="ana") == []
