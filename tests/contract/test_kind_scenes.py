"""The scenes of a kind in `thebes demo`: one that fails costs itself, and is told of in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from thebes.cli.demo import command, deployment
from thebes.cli.demo.scenes import scenes, waiting
from thebes.tasks import kind_failure, registry

Written = Callable[..., str]
SECRET = "4711-is-a-value"


@pytest.fixture(autouse=True)
def _untold() -> Iterator[None]:
    handlers = [*kind_failure.log.handlers]
    kind_failure.tell.cache_clear()
    yield
    kind_failure.log.handlers[:] = handlers


def played(stage: Any, scene: Any, progress: Any, *, leave: int = 0) -> dict[str, Any]:
    row = {"name": scene.name, "type": scene.document["type"], "true": 1.0, "value": 1.0, "interval": None}
    return row | {"epsilon": 1.0, "seconds": 1.0, "verdict": "ok", "ok": True}


def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[dict[str, Any]]]:
    """Play every scene on no stage, and return the exit status and the rows."""
    monkeypatch.setattr(deployment, "Stage", lambda *_, **__: nullcontext(SimpleNamespace(hospitals=None, urls={})))
    monkeypatch.setattr(command, "_play", played)
    status = 0
    try:
        command.demo(people=50, sites=0, seed=7, exit=True, kind=[], json=str(tmp_path / "rows.json"))
    except typer.Exit as ended:
        status = ended.exit_code
    return status, json.loads((tmp_path / "rows.json").read_text())["tasks"]


@pytest.mark.parametrize(
    ("instead", "raised"),
    [
        (f"raise LookupError({SECRET!r})\n", "LookupError"),
        (f"def scenes(crowd):\n    raise LookupError({SECRET!r})\n", "LookupError"),
        ("from thebes.privacy.faults import Refusal\n\ndef scenes(crowd):\n    raise Refusal('no')\n", "Refusal"),
        ("def scenes(crowd):\n    yield 1 / 0\n", "ZeroDivisionError"),
        ("def scenes(crowd):\n    return ['men']\n", "AttributeError"),
        ("def scenes(crowd):\n    return None\n", "TypeError"),
        ("", "AttributeError"),
    ],
)
def test_a_kind_that_cannot_give_its_scenes_leaves_the_others_to_be_played(
    written: Written,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    instead: str,
    raised: str,
) -> None:
    others = {scene.name for scene in scenes(50)}
    package = written()
    with registry.registered(package):
        (Path(registry.places()[0]) / package / "scene.py").write_text(instead)
        status, rows = shown(tmp_path, monkeypatch)
        assert waiting(50)
    told = capsys.readouterr()
    assert status == 1
    assert {row["name"] for row in rows if row["verdict"] == "ok"} >= others - {"y from a small network"}
    (lost,) = [row for row in rows if row["verdict"] == "FAILED"]
    assert (lost["type"], lost["name"], lost["ok"]) == ("tally", "scenes of tally", False)
    assert "scenes of tally" in told.out
    (line,) = [line for line in told.err.splitlines() if "the kind tally" in line]
    assert line.startswith(f"thebes: the kind tally could not give its scenes: its scene.py raised {raised} (")
    assert SECRET not in told.err + told.out


@pytest.mark.parametrize("judge", ["1 / 0", "None", f"[][{SECRET!r}]"])
def test_a_scene_whose_judge_fails_costs_itself(
    written: Written, capsys: pytest.CaptureFixture[str], judge: str
) -> None:
    answered = SimpleNamespace(
        run=lambda document, told: (None, [1]), rows=lambda *_: None, others=lambda *_: None, check=lambda: None
    )
    text = "def _judge(release: Release, mine: Rows, others: Rows) -> SceneVerdict:\n"
    with registry.registered(written("scene.py", text, f"{text}    return {judge}\n")):
        (scene,) = [each for each in scenes(50) if each.document["type"] == "tally"]
        row = command._play(answered, scene, None)  # type: ignore[arg-type]
    assert row["verdict"] == "FAILED"
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("thebes: ")]
    assert line.startswith("thebes: men, tallied: the kind tally could not judge this scene: its judge raised ")
    assert SECRET not in line


def test_a_scene_that_this_machine_cannot_play_is_left_out_and_says_why(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = written("scene.py", "_judge)]", "_judge, left_out='it needs a telescope')]")
    with registry.registered(package):
        status, rows = shown(tmp_path, monkeypatch)
    assert status == 0
    assert "tally" not in {row["type"] for row in rows}
    assert "thebes: men, tallied: left out, it needs a telescope" in capsys.readouterr().err


@pytest.mark.parametrize("people", [60, 300])
def test_what_costs_least_is_played_and_asked_first(people: int) -> None:
    played, asked = ([float(s.document["epsilon"]) for s in each(people)] for each in (scenes, waiting))
    assert played == sorted(played)
    assert asked == sorted(asked)
    assert asked[0] == played[0]
    if people == 300:
        assert asked[0] <= 1, "a person who keeps the proposed limits is not asked twice about the first"
    servers = {registry.check(scene.document).server for scene in waiting(people)}  # type: ignore[attr-defined]
    assert "untrusted" in servers
