"""A data set that grows at a site, as real processes: fed from two sides, asked over the wire, killed on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_site_process import World, until

from thebes.curator.pipelines.workspace import Workspace
from thebes.data.table import Sums, Term
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.requestor.refusals import SitesRefused
from thebes.site.dataset import DataSets
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of

pytestmark = pytest.mark.slow

SCHEMA = """
unit = "event"
time = "at"
[columns.at]
type = "timestamp"
[columns.km]
type = "float"
low = 0
high = 100
"""
COUNT = {"type": "query", "sites": "all", "dataset": "rides", "statistic": "count", "epsilon": 1.0}
KILLED = """
import os, sys
from thebes.cli import main
from thebes.data.growing import manifest, writer

def killed(*_, **__):
    os._exit(9)

real = manifest.Manifest.admit

def after(*args, **more):
    real(*args, **more)
    os._exit(9)

point = sys.argv.pop(1)
if point == "written":
    writer._counted = killed
elif point == "synced":
    manifest.Manifest.admit = killed
else:
    manifest.Manifest.admit = after
main.main()
"""


def thebes(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "thebes.cli.main", *map(str, arguments)]
    return subprocess.run(line, check=True, capture_output=True, text=True)


def declared(folder: Path, home: Path, *more: str) -> None:
    (folder / "schema.toml").write_text(SCHEMA)
    place = ("--home", home, "--schema", folder / "schema.toml")
    thebes("dataset", "create", "rides", *place, "--block-by", "time:1d", "--epsilon", 10, *more)


def rides(path: Path, day: str, rows: int) -> Path:
    path.write_text("at,km\n" + "".join(f"{day}T{n % 24:02}:00:00,{n % 100}\n" for n in range(rows)))
    return path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_site_is_fed_while_it_runs_and_asked_over_the_wire(world: World, tmp_path: Path) -> None:
    declared(tmp_path, tmp_path / "north")
    site = world.site("north")
    world.linked(site)
    until(lambda: any("rides" in (one["datasets"] or {}) for one in world.server.sites()))
    thebes("dataset", "ingest", "rides", rides(tmp_path / "a.csv", "2026-01-01", 600), "--home", site.home.folder)
    assert 500 < world.ask(COUNT).value < 700

    rows = [{"at": "2026-01-02T10:00:00Z", "km": 5.0} for _ in range(400)]
    sent = {"rows": rows, "key": "second day"}
    assert site.http.post("/api/dataset/rides/append", json=sent).json() == {"rows": 400, "again": False}
    assert site.http.post("/api/dataset/rides/append", json=sent).json() == {"rows": 400, "again": True}
    assert 900 < world.ask(COUNT).value < 1100

    for wrong, status in (({"rows": [{"at": "2026-01-02", "km": "SECRET"}]}, 422), ({"rows": [{"at": None}]}, 422)):
        answer = site.http.post("/api/dataset/rides/append", json=wrong)
        assert answer.status_code == status, answer.text
        assert "SECRET" not in answer.text
    assert site.http.post("/api/dataset/nope/append", json=sent).status_code == 422
    assert site.http.post("/api/dataset/rides/append", json=sent, headers={"Authorization": ""}).status_code == 401

    (shown,) = [one for one in site.get("/api/datasets") if one["name"] == "rides"]
    assert [(block["block"], block["state"]) for block in shown["blocks"]] == [
        ("rides/2026-01-01", "sealed"),
        ("rides/2026-01-02", "sealed"),
    ]
    assert shown["blocks"][0]["remaining"]["epsilon"] == pytest.approx(10 - 0.5 - 2)
    assert shown["blocks"][1]["remaining"]["epsilon"] == pytest.approx(10 - 0.5 - 1)
    assert site.get("/api/verified")["ledger"]["findings"] == []


@pytest.mark.parametrize(("point", "kept"), [("written", False), ("synced", False), ("named", True)])
def test_killed_while_rows_come_in_they_are_there_whole_or_not_at_all(tmp_path: Path, point: str, kept: bool) -> None:
    home, file = tmp_path / "site", rides(tmp_path / "a.csv", "2026-01-01", 5000)
    declared(tmp_path, home)
    line = [sys.executable, "-c", KILLED, point, "dataset", "ingest", "rides", str(file), "--home", str(home)]
    assert subprocess.run(line, check=False, capture_output=True).returncode == 9
    again = thebes("dataset", "ingest", "rides", file, "--home", home).stdout
    assert ("there already" in again) is kept
    place = SiteHome(home)
    dataset = DataSets(place).get("rides")
    assert dataset is not None
    with Ledger(place.ledger, keeper=NoKeeper()) as ledger:
        stream = stream_of(place, dataset, ledger)
        (block,) = stream.blocks()
        assert stream.rows([block.name]).sums(Sums((Term(),)))[0, 0] == 5000
        stream.close()
        ledger.verify()
    assert len(list((home / "growing" / "rides" / "rows").iterdir())) == 1, "nothing that was half written is left"


def test_two_who_bring_the_same_file_at_once_bring_it_once(tmp_path: Path) -> None:
    home, file = tmp_path / "site", rides(tmp_path / "a.csv", "2026-01-01", 20_000)
    declared(tmp_path, home)
    line = [sys.executable, "-m", "thebes.cli.main", "dataset", "ingest", "rides", str(file), "--home", str(home)]
    both = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(one.communicate(timeout=240)[0] for one in both)
    assert [("came in" in one, "there already" in one) for one in said] == [(True, False), (False, True)]


RULE = """
[[allow]]
requestors = ["*"]
datasets = ["rides"]
kinds = ["query", "pipeline"]
epsilon = 2
"""
SHARES = {
    "model": "Histogram", "stream": "rides", "inputs": ["km"], "bins": {"km": 4}, "target": {"absolute_error": 1e-4},
    "epsilon": 1.2, "start_epsilon": 0.3, "strategy": "conserve",
}  # fmt: skip


def attempted(home: Path) -> dict[str, Any]:
    """Return what every attempt of a pipeline may spend, as its own process wrote it down."""
    with closing(Workspace(home)) as workspace:
        return dict(workspace.attempts.amounts())


def began(home: Path) -> bool:
    """Return whether an attempt has its share of a block: while only written down, tasks may use all of it up."""
    said = attempted(home)
    with Ledger(SiteHome(home).ledger, keeper=NoKeeper()) as ledger:
        return any((claim.key or "") in said and claim.state != "released" for claim in ledger.claims())


def test_a_pipeline_beside_a_running_site_and_its_tasks_spend_one_budget_under_one_rule(
    world: World, tmp_path: Path
) -> None:
    """Two processes, one ledger that counts in rho: whatever the order in which they come, each counts the other."""
    site = world.site("north")
    home = site.home.folder
    declared(tmp_path, home, "--delta", "1e-6")
    rows = [rides(tmp_path / f"{day}.csv", f"2026-01-0{day}", 300) for day in (1, 2, 3)]
    for file in rows:
        thebes("dataset", "ingest", "rides", file, "--home", home)
    private_files.write(site.home.policy, RULE)
    world.linked(site)
    until(lambda: any("rides" in (one["datasets"] or {}) for one in world.server.sites()))
    (tmp_path / "shares.json").write_text(json.dumps(SHARES))
    run = [sys.executable, "-m", "thebes.cli.main", "pipeline", "run", str(tmp_path / "shares.json")]
    beside = subprocess.Popen(
        [*run, "--home", str(home), "--as", "ana"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    covered = []
    try:
        for km in range(8):  # so many would be 4 in all: the rule lets at most four through, less what the pipeline has
            try:
                document = {**COUNT, "epsilon": 0.5, "where": f"km > {km}"}
                covered.append(world.ask(document).coverage["blocks"])
            except SitesRefused:
                break
            until(lambda: began(home))
        _, err = beside.communicate(timeout=240)
    finally:
        beside.kill()
    assert beside.returncode == 0, err
    assert covered
    assert len(covered) < 8
    with Ledger(site.home.ledger, keeper=NoKeeper()) as ledger:
        said, tasks = attempted(home), 0
        had: dict[str, list[float]] = {}
        for claim in ledger.claims():
            asked = said.get(claim.key or "")
            if claim.state != "released" and (asked is not None or (claim.key or "").startswith("task")):
                tasks += asked is None
                for name in claim.blocks:
                    had.setdefault(name, []).append(0.5 if asked is None else float(asked.epsilon))
        ledger.verify()
    assert tasks == len(covered)
    assert len(had) == 3
    assert all(sum(each) <= 2 + 1e-9 for each in had.values()), had
    assert any(0.5 in each and set(each) - {0.5} for each in had.values()), "both were at one block"
    assert site.get("/api/verified")["ledger"]["findings"] == []
