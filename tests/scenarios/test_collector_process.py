"""`thebes collector` against a real `thebes person`: install, run, kill, remove, sign, publish."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, PersonProcess, Process, coordinator

NOWHERE = "http://127.0.0.1:9"
pytestmark = pytest.mark.slow
STEPS = '''
import time
from pathlib import Path
from thebes.collector import Collector, Option, Session, table


class Steps(Collector):
    """Rows of a file that grows, one number a line."""

    name = "steps"
    version = {version}
    description = "Counts steps."
    reads = "The file that you name."
    tables = (table("walks", "One a line", steps=("integer", "counted"){column}),)
    options = (Option("file", "numbers", "path", required=True), Option("pause", "a file to wait for", default=""))
    migrations = {{1: lambda state: {{"lines": state["seen"]}}}}

    def collect(self, session: Session) -> None:
        name = "seen" if self.version == 1 else "lines"
        lines = Path(session.options["file"]).read_text().split()
        for number in range(session.state.get(name, 0), len(lines)):
            session.insert("walks", {{"steps": int(lines[number])}})
            if number == 7000 and session.options["pause"]:
                Path(session.options["pause"]).touch()
                while Path(session.options["pause"]).exists():
                    time.sleep(0.01)
        session.state[name] = len(lines)
'''


class World:
    """A person's process, and commands as the person types them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.person = PersonProcess(folder / "home", NOWHERE)
        self.person.ready()
        self.site = folder / "site"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "thebes.cli.main", "collector", *arguments]
        path = {**os.environ, "PYTHONPATH": str(self.site), "THEBES_HOME": str(self.person.home)}
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=path, cwd=self.folder
        )

    def run(self, *arguments: str, status: int = 0, said: str = "") -> str:
        running = self.start(*arguments)
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode == status, (out, err)
        assert said in out + err
        assert "Traceback" not in err
        return out

    def rows(self, app: str, table: str) -> int:
        for collector in self.person.get("/api/store"):
            if collector["name"] == app:
                return next(int(t["rows"]) for t in collector["tables"] if t["name"] == table)
        return -1

    def package(self, *, version: int = 1) -> None:
        """A third party's package, as pip would have put it."""
        folder, info = self.site / "acme_steps", self.site / "acme_steps-1.0.dist-info"
        for each in (folder, info):
            each.mkdir(parents=True, exist_ok=True)
        column = ', length=("integer", "its digits")' if version > 1 else ""
        (folder / "__init__.py").write_text("")
        (folder / "collector.py").write_text(STEPS.format(version=version, column=column))
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-steps\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[thebes.collectors]\nsteps = acme_steps.collector:Steps\n")

    def sign(self, *more: str) -> None:
        self.run("sign", "acme_steps.collector:Steps", "--key", "acme.pem", *more)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    assert made.person.process.stop() == 0


def test_a_table_is_installed_filled_listed_and_removed(world: World) -> None:
    file = world.folder / "coffee.csv"
    file.write_text("day,price\n2026-03-01,2.5\n2026-03-02,3.5\n")
    told = world.run("install", "table", "--as", "coffee", "--file", str(file), "--yes")
    for word in ("coffee.entry", "price (float)", "day (timestamp)", "part of Thebes itself"):
        assert word in told
    world.run("run", "coffee", "--once", said="2 new rows")
    with thebes.open_person(world.person.home) as me:
        assert me.newest("coffee", "entry", 1) == [{"day": "2026-03-02 00:00:00", "price": 3.5}]
        (held,) = me.store()
        assert (held["description"], held["release"]) == (
            "A table from a file, such as an export of rides, coffees or a bank.",
            1,
        )
    listed = {row["name"]: row for row in json.loads(world.run("list", "--json"))}
    assert (listed["coffee"]["rows"], listed["coffee"]["next_run"]) == (2, None)
    assert listed["browser"] == {
        "name": "browser",
        "collector": "browser",
        "installed": False,
        "package": "thebes",
    }
    for path in (world.person.home / "collectors").iterdir():
        assert path.stat().st_mode & 0o077 == 0
    file.write_text("day,price\nyesterday\n")
    world.run("run", "coffee", status=2, said="coffee.csv, line 2")
    world.run("list", said="failed: file: coffee.csv, line 2")
    world.run("remove", "coffee", "--keep-data", said="stay in your store")
    assert world.rows("coffee", "entry") == 2
    file.write_text("day,price\n2026-03-01,2.5\n2026-03-02,3.5\n2026-03-03,1\n")
    world.run("install", "table", "--as", "coffee", "--file", str(file), "--yes")
    world.run("run", "--all", said="1 new rows, 2 known")
    world.run("remove", "coffee", "--with-data", said="deleted")
    assert world.rows("coffee", "entry") == -1


def test_a_run_that_is_killed_anywhere_counts_wholly_or_not_at_all(world: World) -> None:
    world.package()
    world.sign("--new-key")
    numbers, pause = world.folder / "steps.txt", world.folder / "waiting"
    numbers.write_text("\n".join(str(n) for n in range(12_000)))
    world.run("install", "steps", "--file", str(numbers), "--pause", str(pause), "--yes", said="signed by")
    running = world.start("run", "steps")
    _until(pause.exists)  # a first part of the delivery has arrived, and it is in the middle of the second
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=PATIENCE)
    assert world.rows("steps", "walks") == 0
    pause.unlink()
    other = world.start("run", "steps")
    _until(pause.exists)
    world.run("run", "steps", status=1, said="running already")
    world.person.process.kill()  # now the store is killed in the middle
    pause.unlink()
    _, err = other.communicate(timeout=PATIENCE)
    assert other.returncode == 1
    assert "does not answer" in err
    world.run("run", "steps", status=1, said="thebes person --home")
    world.person.process.launch()
    world.person.ready()
    again = world.start("run", "steps")
    _until(pause.exists)
    pause.unlink()
    again.communicate(timeout=PATIENCE)
    assert world.rows("steps", "walks") == 12_000
    world.run("run", "steps", said="0 new rows")
    assert world.rows("steps", "walks") == 12_000


def test_a_publisher_s_new_version_migrates_and_another_publisher_is_refused(world: World) -> None:
    world.package()
    numbers = world.folder / "steps.txt"
    numbers.write_text("1 2 3")
    options = ("--file", str(numbers), "--yes")
    world.run("install", "steps", *options, status=1, said="not signed")
    world.sign("--new-key")
    assert "steps.walks" in world.run("install", "steps", *options)
    world.run("run", "steps", said="3 new rows")
    world.package(version=2)
    world.run("run", "steps", status=1, said="was altered")
    world.sign()
    numbers.write_text("1 2 3 4")
    world.run("run", "steps", status=1, said="also fills walks.length now")
    assert world.rows("steps", "walks") == 3
    assert "length (integer)" in world.run("install", "steps", "--yes")
    world.run("run", "steps", said="1 new rows")
    columns = [c["name"] for c in world.person.get("/api/store")[0]["tables"][0]["columns"]]
    assert columns == ["steps", "length"]
    assert world.person.get("/app/steps/delivery")["state"] == {"lines": 4}
    (world.folder / "acme.pem").unlink()
    world.sign("--new-key")
    world.run("run", "steps", status=1, said="--forget-publisher")
    world.run("remove", "steps", "--keep-data")
    world.run("install", "steps", *options, status=1, said="--forget-publisher")
    world.run("remove", "steps", "--forget-publisher", said="forgotten")
    world.run("install", "steps", *options)
    assert world.rows("steps", "walks") == 4


def test_what_is_due_runs_by_itself_until_it_is_told_to_stop(world: World) -> None:
    world.package()
    world.sign("--new-key")
    numbers = world.folder / "steps.txt"
    numbers.write_text("1 2 3")
    world.run("install", "steps", "--file", str(numbers), "--yes")
    world.run("run", "steps", "--every", status=2, said="--every 1h")
    world.run("install", "steps", "--file", str(numbers), "--every", "1s", "--yes")
    staying = world.start("run", "--all", "--every")
    _until(lambda: world.rows("steps", "walks") == 3)
    longer = world.folder / "longer.txt"
    longer.write_text("1 2 3 4")
    longer.rename(numbers)  # at no moment is the file half written
    _until(lambda: world.rows("steps", "walks") == 4)
    staying.terminate()
    out, _ = staying.communicate(timeout=PATIENCE)
    assert staying.returncode == 0
    assert "steps: 3 new rows" in out


def test_a_run_that_is_told_to_end_ends_after_a_part_and_one_told_twice_at_once(world: World) -> None:
    world.package()
    world.sign("--new-key")
    numbers, pause = world.folder / "steps.txt", world.folder / "waiting"
    numbers.write_text("\n".join(str(n) for n in range(12_000)))
    options = ("--file", str(numbers), "--pause", str(pause), "--every", "1h", "--yes")
    world.run("install", "steps", *options)
    staying = world.start("run", "--all", "--every")
    _until(pause.exists)  # a first part has arrived, and it is in the middle of the second of three
    staying.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert staying.poll() is None
    pause.unlink()
    out, err = staying.communicate(timeout=PATIENCE)
    assert (staying.returncode, out, err) == (0, "", "")
    assert world.rows("steps", "walks") == 0
    assert {row["name"]: row for row in json.loads(world.run("list", "--json"))}["steps"]["last_run"] is None
    again = world.start("run", "--all", "--every")
    _until(pause.exists)
    while again.poll() is None:  # two that come together count as one
        again.send_signal(signal.SIGINT)
        time.sleep(0.5)
    again.communicate(timeout=PATIENCE)
    assert again.returncode == -signal.SIGINT
    pause.unlink()
    third = world.start("run", "steps")
    _until(pause.exists)
    pause.unlink()
    out, _ = third.communicate(timeout=PATIENCE)
    assert "12,000 new rows" in out
    assert world.rows("steps", "walks") == 12_000


def test_while_nobody_serves_the_home_no_turn_is_lost(world: World) -> None:
    world.package()
    world.sign("--new-key")
    (world.folder / "steps.txt").write_text("1 2 3")
    world.run("install", "steps", "--file", str(world.folder / "steps.txt"), "--every", "1h", "--yes")
    assert world.person.process.stop() == 0
    staying = world.start("run", "--all", "--every")
    assert staying.stderr is not None
    assert "waiting until this runs" in staying.stderr.readline()
    world.person.process.launch()
    world.person.ready()
    _until(lambda: world.rows("steps", "walks") == 3)
    staying.send_signal(signal.SIGINT)
    assert staying.wait(timeout=PATIENCE) == 0
    staying.communicate()


def test_an_operator_makes_a_publication_known(world: World) -> None:
    world.package()
    world.sign("--new-key")
    server: Process = coordinator(world.folder / "coordinator")
    url = server.ready()["url"]
    token = (world.folder / "coordinator" / "admin.token").read_text().strip()
    there: Any = ("--coordinator", url, "--token", token)
    world.run("publish", str(world.site / "acme_steps" / "publication.json"), *there, said="walks")
    world.run("publish", "browser", *there, said="visits")
    world.run("publish", "table", *there, status=2, said="depend on the file")
    (world.folder / "publication.json").write_text("{}")
    world.run("publish", str(world.folder / "publication.json"), *there, status=1, said="publication")
    schemas = httpx.get(f"{url}/api/schema", trust_env=False, timeout=PATIENCE).json()
    assert set(schemas) == {"steps", "browser"}
    assert schemas["steps"]["tables"]["walks"]["columns"]["steps"]["type"] == "integer"
    assert server.stop() == 0


def _until(done: Any, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
