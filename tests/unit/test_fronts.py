"""Several processes of a coordinator behind one port, and who keeps them. Here they only say that they listen."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import Counter, generate_latest
from prometheus_client.registry import CollectorRegistry

from tests.support.federation import CENSUS, Gathering, counting
from tests.support.half_kinds import known
from thebes.coordinator.process.fronts import Fronts, Told, serve_together
from thebes.coordinator.process.metrics import FIGURES, gathered
from thebes.privacy.faults import Mistake

PROCESS = """
import json, os, sys
told = json.loads(sys.stdin.readline())
folder = sys.argv[1]
with open(os.path.join(folder, str(os.getpid())), "w") as file:
    json.dump(told, file)
if os.path.exists(os.path.join(folder, "refused")):
    sys.exit(2)
facts, site = {"ready": True, "url": "http://there"}, told["site_port"]
if site is not None:
    facts["site_url"] = f"[::1]:{site or 4711}"
print(json.dumps(facts))
sys.stdout.flush()
sys.stdin.read()
"""
TOLD = Told(store="postgresql://secret@x", host="::1", descriptor=2, site_port=0, tls_cert=None, tls_key=None)


def fronts(folder: Path, count: int = 2) -> Fronts:
    return Fronts([sys.executable, "-ISc", PROCESS, str(folder)], TOLD, count, {})


def started(folder: Path) -> dict[int, dict[str, object]]:
    """List what each process was told, of all that ever were."""
    return {int(file.name): json.loads(file.read_text() or "{}") for file in folder.iterdir() if file.name.isdigit()}


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return all that was printed so far."""
    heard: list[str] = []

    def so_far() -> str:
        heard.append(capsys.readouterr().out)
        return "".join(heard)

    return so_far


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_one_line_once_all_listen_and_the_first_alone_is_given_the_port_for_sites(
    tmp_path: Path, said: Callable[[], str]
) -> None:
    async def scenario() -> int:
        running = asyncio.create_task(fronts(tmp_path, 3).run())
        await until(said)
        stop()
        return await running

    assert asyncio.run(scenario()) == 0
    (line,) = said().splitlines()
    assert json.loads(line) == {"ready": True, "url": "http://there", "site_url": "[::1]:4711", "processes": 3}
    given = [told["site_port"] for told in started(tmp_path).values()]
    assert sorted(given, key=str) == [0, None, None]
    assert not any(Path(f"/proc/{pid}").exists() for pid in started(tmp_path))


def test_one_that_dies_is_started_again_where_sites_know_it(tmp_path: Path, said: Callable[[], str]) -> None:
    async def scenario() -> int:
        running = asyncio.create_task(fronts(tmp_path).run())
        await until(said)
        ports = {told["site_port"]: pid for pid, told in started(tmp_path).items()}
        os.kill(ports[0], signal.SIGKILL)
        await until(lambda: len(started(tmp_path)) == 3 and all(started(tmp_path).values()))
        assert _alive(ports[None])
        stop()
        return await running

    assert asyncio.run(scenario()) == 0
    assert sorted((told["site_port"] for told in started(tmp_path).values()), key=str) == [0, 4711, None]
    assert len(said().splitlines()) == 1


def test_where_one_cannot_begin_all_end_with_its_status_and_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "refused").touch()
    assert asyncio.run(fronts(tmp_path).run()) == 2
    assert capsys.readouterr().out == ""
    assert not any(Path(f"/proc/{pid}").exists() for pid in started(tmp_path))


@pytest.mark.slow
def test_none_is_left_when_the_one_that_keeps_them_is_killed(tmp_path: Path) -> None:
    keeper = f"""
import asyncio, sys
from thebes.coordinator.process.fronts import Fronts, Told
asyncio.run(Fronts([sys.executable, "-ISc", {PROCESS!r}, sys.argv[1]], {TOLD!r}, 2, {{}}).run())
"""
    with subprocess.Popen([sys.executable, "-c", keeper, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["processes"] == 2
        process.kill()
    end = time.monotonic() + 60
    while any(_alive(pid) for pid in started(tmp_path)):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_address_of_the_store_is_in_no_list_of_processes(tmp_path: Path, said: Callable[[], str]) -> None:
    async def scenario() -> None:
        running = asyncio.create_task(fronts(tmp_path).run())
        await until(said)
        for pid in started(tmp_path):
            assert b"secret" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    asyncio.run(scenario())
    assert {told["store"] for told in started(tmp_path).values()} == {TOLD.store}


def test_several_on_a_file_are_refused_and_none_is_begun(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="--processes"):
        serve_together(tmp_path / "home", processes=2, command=["false"], host="127.0.0.1", port=0)
    for count in (1, 65):
        with pytest.raises(Mistake, match="between"):
            serve_together(tmp_path / "home", processes=count, command=["false"], host="127.0.0.1", port=0)


def test_figures_are_what_all_processes_have_counted_together(tmp_path: Path) -> None:
    counting = """
from prometheus_client import CollectorRegistry, Counter
Counter("thebes_submissions_total", "words", registry=CollectorRegistry()).inc(7)
"""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", counting], env={FIGURES: str(tmp_path)}, check=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(FIGURES, str(tmp_path))
        assert b"thebes_submissions_total 14.0" in generate_latest(gathered(CollectorRegistry()))
    alone = CollectorRegistry()
    Counter("thebes_submissions_total", "words", registry=alone).inc(3)
    assert b"thebes_submissions_total 3.0" in generate_latest(gathered(alone))


@pytest.fixture
def census() -> Iterator[None]:
    with known("thebes.testing.census"):
        yield


@pytest.mark.usefixtures("census")
def test_a_task_that_is_over_is_told_as_it_was_stored_whatever_a_process_still_believes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3))
            done = await world.asked(CENSUS)
            monkeypatch.setattr(world.federation, "progress", lambda _: {"answered": [], "phase": 0, "stale": True})
            told = (await world.service.progress(done["task_id"]))["sites"]
            assert told["answered"] == ["north"]
            assert "stale" not in told
            assert (await world.service.task(done["task_id"]))[0]["contributions"] == 1

    asyncio.run(scenario())


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
