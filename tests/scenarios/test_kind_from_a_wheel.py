"""Somebody else's kind, installed from its own wheel, is there for every command, page and process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, coordinator

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = {
    "type": "tally",
    "epsilon": 4.0,
    "min_count": 200,
    "featurizer": "SELECT smokes FROM profile.habits",
    "bounds": {"smokes": {"type": "set", "values": [0, 1], "default": 0}},
}
Ran = Callable[..., str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the document; the wheel is built, unpacked beside it, and on the path of every process."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "tests" / "contract" / "tally", folder / "source")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True, timeout=PATIENCE)
    (wheel,) = folder.glob("*.whl")
    overlay = ["--no-deps", "--no-index", "--no-cache-dir", "--quiet", "--target", str(folder / "installed")]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *overlay, str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, timeout=PATIENCE)
    (folder / "task.json").write_text(json.dumps(DOCUMENT))
    rows = "\n".join(["smokes", *("01"[person % 4 == 0] for person in range(400))])
    (folder / "people.csv").write_text(rows + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder / 'installed'}:{ROOT}")
        yield folder


@pytest.fixture(scope="module")
def ran(place: Path) -> Ran:
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=place, capture_output=True, text=True, timeout=2 * PATIENCE
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


def test_the_command_line_checks_explains_and_simulates_it(ran: Ran) -> None:
    assert "epsilon" in ran("-m", "thebes.cli.main", "task", "check", "task.json")
    assert "It is often a lie." in " ".join(ran("-m", "thebes.cli.main", "task", "explain", "task.json").split())
    release = json.loads(ran("-m", "thebes.cli.main", "simulate", "task.json", "people.csv", "--json", "--seed", "1"))
    assert release["value"] == pytest.approx(100, abs=40)
    assert release["certificate"]["mechanism"] == "randomized-response"


REHEARSED = """
import json, sys
from thebes.tasks import registry
from thebes.web.coordinator.rehearsal import rehearse
print(json.dumps(rehearse(registry.check(json.loads(sys.argv[1])))))
"""


def test_it_is_rehearsed_with_made_up_people(ran: Ran) -> None:
    told = json.loads(ran("-c", REHEARSED, json.dumps(DOCUMENT)))
    assert (told["people"], told["unanswered"], told["lent"]) == (200, 0, [])
    (quantity,) = told["quantities"]
    assert quantity["what"] == "the answer"
    assert 0 < quantity["within"] < 40  # a deviation of (200 p (1 - p))^1/2 / (2 p - 1) is 2


def test_it_is_rehearsed_without_bounds_with_people_like_those_of_its_own_sample(ran: Ran) -> None:
    unbounded = {field: value for field, value in DOCUMENT.items() if field != "bounds"}
    told = json.loads(ran("-c", REHEARSED, json.dumps(unbounded)))
    assert (told["people"], told["unanswered"], told["lent"]) == (200, 0, ["smokes"])
    assert 0 < told["quantities"][0]["within"] < 40


PLAYED = """
import json
from thebes.cli.demo.scenes import scenes
from thebes.simulation.featurizer import featurize
from thebes.simulation.population import population
from thebes.simulation.tables import people_of
from thebes.simulation.world import simulate
(scene,) = [each for each in scenes(60) if each.document["type"] == "tally"]
people = population(60, seed=1).columns
rows = featurize(scene.document["featurizer"], people_of(people))
release = simulate(scene.document, people, seed=1)
print(json.dumps([scene.name, scene.judge(release, rows, rows).ok]))
"""


def test_its_scene_is_one_of_the_demo(ran: Ran) -> None:
    assert json.loads(ran("-c", PLAYED)) == ["men, tallied", True]


AUDITED = """
import json
from evidence.audit.table import cases
from thebes.tasks import registry
from thebes.testing.audit import examine
own = [case.name for case in registry.audit("tally")]
found = [examine(case, level=1e-9) for case in cases() if case.name in own]
print(json.dumps([[each.name, each.verdict] for each in found]))
"""


def test_its_rows_stand_in_the_audit_of_all(ran: Ran) -> None:
    verdicts = dict(json.loads(ran("-c", AUDITED)))
    assert len(verdicts) == 3
    assert verdicts.pop("tally, the coin of twice the epsilon") == "caught"
    assert set(verdicts.values()) == {"holds"}


def test_a_coordinator_takes_it_and_its_pages_show_it(place: Path, ran: Ran) -> None:
    home = place / "coordinator"
    process = coordinator(home)
    try:
        url = process.ready()["url"]
        token = (home / "admin.token").read_text().strip()
        posted = ran(
            *("-m", "thebes.cli.main", "task", "submit", "task.json"),
            *("--coordinator", url, "--token", token, "--json"),
        )
        task = json.loads(posted)["task_id"]
        with httpx.Client(base_url=url, timeout=PATIENCE, follow_redirects=True) as client:
            page = client.get(f"/task/{task}").text
            assert "How many say yes" in page
            assert "It is often a lie." in page
            assert f'href="/ask?like={task}"' in page
            assert "How many say yes" in client.get("/").text
            assert 'value="tally">How many say yes' in client.get("/ask").text
            alike = client.get("/ask", params={"like": task}).text
            assert 'value="tally" selected>How many say yes' in alike
            assert "SELECT smokes FROM profile.habits" in alike
    finally:
        assert process.stop() == 0
