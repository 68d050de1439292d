"""The map of a stream's blocks, the pages of what grows, and models asked at a site's own interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from thebes.curator.pipelines.ready import of
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.workspace import Workspace
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.privacy.losses import Pure
from thebes.privacy.randomness import seeded_for_simulation
from thebes.site.algorithm_process import Office
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet, DataSets
from thebes.site.home import SiteHome
from thebes.site.steward.rest import guarded, one_time
from thebes.site.streams import turns_of
from thebes.web.site import block_map
from thebes.web.site.pages import put_on
from thebes.wire.access import Access

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
SCHEMA = schema_of(
    {
        "unit": "event",
        "time": "at",
        "columns": {
            "at": {"type": "timestamp"},
            "hour": {"type": "integer", "values": [0, 1, 2]},
            "took": {"type": "float", "low": 0.0, "high": 1.0},
        },
    }
)
MEANS = {
    "stream": "rides",
    "model": "GroupMeans",
    "inputs": ["hour"],
    "output": "took",
    "target": {"absolute_error": 0.2},
    "epsilon": 4.0,
    "name": "means",
}
RULE = """
[[allow]]
requestors = ["ana"]
datasets = ["rides"]
kinds = ["pipeline"]
epsilon = 6
"""
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def blocks(count: int, hours: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "block": f"rides/{n}",
            "state": "sealed",
            "left": n / count,
            "account": f"of epsilon 1: so much of {n} is left",
            "since": (BEGAN + timedelta(hours=hours * n)).isoformat(),
            "until": (BEGAN + timedelta(hours=hours * (n + 1))).isoformat(),
            **more,
        }
        for n in range(count)
    ]


@pytest.mark.parametrize(("hours", "columns", "rows"), [(1, 365, 24), (6, 365, 4), (24, 53, 7), (168, 53, 1)])
def test_every_block_of_a_year_has_a_square_of_its_own(hours: int, columns: int, rows: int) -> None:
    count = 365 * 24 // hours
    drawn = str(block_map.heat(blocks(count, hours), title="a <year>"))
    places = set(re.findall(r"M(\d+) (\d+)h", drawn))
    assert len(places) == count
    assert len({x for x, _ in places}) <= columns
    assert len({y for _, y in places}) == rows
    assert "<title>a &lt;year&gt;</title>" in drawn
    assert ">Jan 2026<" in drawn or hours == 168


def test_a_week_that_has_just_begun_is_a_whole_week_high() -> None:
    drawn = str(block_map.heat(blocks(3, 24), title="three days"))
    height = re.search(r'height="(\d+)"', drawn)
    sunday = re.search(r'y="(\d+)"[^>]*>Sun<', drawn)
    assert height is not None
    assert sunday is not None
    assert int(sunday[1]) < int(height[1])


def test_blocks_without_a_calendar_lie_line_by_line() -> None:
    drawn = str(block_map.heat(blocks(150, 1, since=None, until=None), title="users"))
    assert len(set(re.findall(r"M(\d+) (\d+)h", drawn))) == 150
    assert str(block_map.heat([], title="none")) == ""


def test_a_square_is_as_dark_as_what_is_left() -> None:
    looks = [block_map.look({"state": "sealed", "left": left}) for left in (1.0, 0.6, 0.3, 0.1, 0.0)]
    assert looks == ["full", "most", "some", "little", "little"]
    assert [block_map.look({"state": s, "left": 1.0}) for s in ("open", "retired", "dropped")] == [
        "open",
        "retired",
        "dropped",
    ]
    assert block_map.counted(blocks(4, 1)) == {"some": 1, "most": 1, "little": 2}


class Told:
    """A link whose other end is in this process."""

    name, state, reason = "north", "connected", ""

    def __init__(self, office: Office) -> None:
        self.office, self.algorithm = office, self

    def shown(self) -> dict[str, Any]:
        about = {"name": self.name, "state": self.state, "reason": "", "coordinator": "coordinator.example:8443"}
        return {**about, "since": "2026-11-22T01:00:00+00:00", "certificate_ends": None, "algorithm": "up"}

    async def ask(self, kind: str, **more: Any) -> Any:
        sent = json.loads(json.dumps({"kind": kind, "id": "x", **more}))
        assert self.office.lane(sent) == ("predict" if kind == "predict" else "")
        return json.loads(json.dumps(self.office.answer(sent)["body"]))


def grown(home: SiteHome) -> Office:
    """Three days of rides, and a pipeline that was accepted on them."""
    DataSets(home).keep(
        DataSet(
            "rides",
            SCHEMA,
            {"kind": "growing"},
            BudgetDeclaration.of("10"),
            BlockDeclaration(block_by("time:1d", SCHEMA), {"schedule": "dpf"}),
        )
    )
    private_files.write(home.policy, RULE)
    office = Office(home, "north")
    dataset = office.datasets.get("rides")
    assert dataset is not None
    stream = office.streams(dataset)
    draw = np.random.default_rng(1)
    hour = draw.integers(0, 3, 6000)
    at = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"] * 2000)
    stream.ingest(pd.DataFrame({"at": at, "hour": hour, "took": 0.2 + 0.2 * hour}))
    chance = seeded_for_simulation(1)  # whether a model is accepted is luck, and no test's
    with closing(Workspace(home.folder)) as workspace, pytest.MonkeyPatch.context() as patch:
        patch.setattr("thebes.curator.pipelines.runner.system", lambda: chance)
        ended = Runner(stream, workspace, "ana", lambda *_: None).run(of(MEANS))
    assert ended.verdict == "ACCEPT"
    return office


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> SiteHome:
    return SiteHome(tmp_path_factory.mktemp("grown") / "site")


@pytest.fixture(scope="module")
def office(home: SiteHome) -> Iterator[Office]:
    made = grown(home)
    yield made
    made.ledger.close()


@pytest.fixture
def client(office: Office) -> Any:
    access = Access(lambda: "the-token")
    made = TestClient(guarded(Told(office), access, port=PORT, confined=True, pages=put_on), base_url=ORIGIN)  # type: ignore[arg-type]
    made.get(one_time(PORT, access).removeprefix(ORIGIN))
    return made


def page(client: Any, path: str, status: int = 200) -> str:
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == status, answer.text
    return str(answer.text)


def test_pages_show_streams_pipelines_and_models_as_the_home_has_them(client: Any) -> None:
    streams = page(client, "/streams")
    for words in (
        "3 blocks by time:1d; each may spend epsilon 10 for one event",
        "Map of the blocks",
        "rides/2026-01-03",
    ):
        assert words in streams
    sets = page(client, "/datasets")
    assert "/streams#stream-rides" in sets
    assert "epsilon 6 of each block" in sets
    assert "rides/2026-01-03" not in sets  # a year of hours would be thousands
    runs = page(client, "/pipelines")
    for words in ("ana on rides", "ACCEPT", "Version 1 of the model", "absolute_error 0.2", "with confidence 95 %"):
        assert words in runs
    assert "took from hour" in page(client, "/models")
    model = page(client, "/models/means")
    for words in ("took from hour", "block of rides", "thebes model predict means ROWS.csv", "the column hour"):
        assert words in model
    assert client.get("/models/means/model.json").json() == client.get("/api/model/means").json()
    page(client, "/models/none", 404)


def test_who_waits_for_budget_is_shown(client: Any, office: Office, home: SiteHome) -> None:
    assert "Waiting for budget" not in page(client, "/pipelines")
    dataset = office.datasets.get("rides")
    assert dataset is not None
    turns = turns_of(home, dataset, office.ledger)
    assert turns is not None
    with closing(turns):
        turns.due("others", ["rides/2026-01-01"], Pure(Decimal("0.5")))
    shown = page(client, "/pipelines")
    assert "Waiting for budget" in shown
    assert re.search(r"others</th><td>rides</td><td>dpf</td><td>epsilon 0.5", shown)


def test_models_are_told_given_whole_and_asked(client: Any) -> None:
    (told,) = client.get("/api/model").json()
    assert (told["name"], told["version"], told["kind"], told["stream"]) == ("means", 1, "StatisticsModel", "rides")
    assert "model" not in told
    whole = client.get("/api/model/means?version=1").json()
    assert (whole["versions"], whole["gone"]) == ([1], 0)
    rows = [{"hour": 2}, {"hour": 0}, {"hour": None}]
    answer = client.post("/api/model/means/predict", json={"rows": rows}).json()
    assert (answer["model"], answer["version"]) == ("means", 1)
    numbers = whole["model"]["numbers"]
    assert answer["predictions"] == [numbers["2"], numbers["0"], None]
    assert abs(numbers["2"] - 0.6) < 0.2


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/model/none/predict", {"rows": [{"hour": 1}]}, 404, "no model of that name"),
        ("/api/model/means/predict?version=2", {"rows": [{"hour": 1}]}, 404, "no such version"),
        ("/api/model/means/predict?version=x", {"rows": [{"hour": 1}]}, 422, "must be a whole number"),
        ("/api/model/NO/predict", {"rows": [{"hour": 1}]}, 422, "has characters that are not allowed"),
        (
            "/api/model/means/predict",
            {"rows": [{"houre": 1}]},
            422,
            "'houre' is not a column of this model, which has hour",
        ),
        ("/api/model/means/predict", {"rows": [{}]}, 422, "row 1 has no 'hour'"),
        ("/api/model/means/predict", {"rows": []}, 422, "must be a list of 1 to"),
        ("/api/model/means/predict", {"rows": 1}, 422, "must be a list of objects"),
        ("/api/model/means/predict", {"rows": [{"hour": 1}], "key": "a"}, 422, "is for rows that are appended"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(
    client: Any, path: str, body: Any, status: int, words: str
) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
    if "predict" in path and status == 404:
        assert client.get(path.replace("/predict", "")).status_code == 404


def test_a_retired_block_changes_nothing_about_its_model(client: Any, office: Office) -> None:
    before = client.get("/api/model/means").json()
    for name in before["lineage"]["blocks"]:
        office.ledger.retire_block(name)
    after = client.get("/api/model/means").json()
    assert after["gone"] == len(before["lineage"]["blocks"]) > 0
    assert after["model"] == before["model"]
    assert "which changes nothing about the model" in page(client, "/models/means")
