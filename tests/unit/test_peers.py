"""The counts and tables of the comparison with other libraries. Nothing is run beside it: that is `make peers`."""

from __future__ import annotations

import ast
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(place.parent.name for place in (ROOT / "evidence" / "peers").glob("*/requirements.txt"))
SOURCE = '''
def asked(given):
    """Not counted,
    however long."""
    import numpy

    # nor is this
    told = numpy.mean(
        given.rows,  # but this line is
    )

    def half(number):
        return number / 2

    return half(told)


def other():
    return 1
'''


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))

    def module(name: str) -> ModuleType:
        return import_module(f"evidence.peers.{name}")

    yield module
    for name in [name for name in sys.modules if name == "evidence.peers" or name.startswith("evidence.peers.")]:
        monkeypatch.delitem(sys.modules, name)


def test_lines_are_those_of_a_functions_body_that_hold_code(peers: Any) -> None:
    lines = peers("lines")
    assert lines.of_function(SOURCE, "asked") == 7
    assert lines.of_function(SOURCE, "other") == 1
    with pytest.raises(ValueError, match="absent"):
        lines.of_function(SOURCE, "absent")


def test_lines_of_files_are_neither_empty_nor_comments_nor_headings(peers: Any, tmp_path: Path) -> None:
    lines = peers("lines")
    (tmp_path / "some.commands").write_text("# why\n[server]\nrun this &\n\nand that\n", encoding="utf-8")
    (tmp_path / "some.py").write_text(
        '"""Not this."""\n\nimport json  # this\n\nprint(\n    json\n)\n', encoding="utf-8"
    )
    assert lines.of_file(tmp_path / "some.commands") == 2
    assert lines.of_file(tmp_path / "some.py") == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_work_has_a_function_on_both_sides_and_a_peer_pins_all_it_installs(peers: Any, name: str) -> None:
    running, tables = peers("running"), peers("tables")
    for work in peers(name).PEER.works:
        assert callable(getattr(tables, work.tables))
        assert callable(getattr(tables, work.score))
        for side in ("ours", "theirs"):
            tree = ast.parse((ROOT / "evidence" / "peers" / name / f"{side}.py").read_text(encoding="utf-8"))
            (function,) = (
                node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == work.function(side)
            )
            arguments = [argument.arg for argument in function.args.args]
            assert all(arguments[1:] == list(setting) for setting in work.settings)
            assert running.written(name, side, work) > 1
    wanted = (ROOT / "evidence" / "peers" / name / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert all("==" in line for line in wanted if line and not line.startswith("#"))
    assert peers("environments").pinned(name)


def test_both_sides_of_a_deployment_have_commands_for_server_site_and_asker(peers: Any) -> None:
    deployment = peers("flower.deployment")
    for side in ("ours", "theirs"):
        server, site, asker = (deployment._lines(side, whose) for whose in ("server", "site", "asker"))
        assert server[-1].endswith("&")
        assert site[-1].endswith("&")
        assert asker
        assert not any(line.endswith("&") for line in asker)


def test_a_script_calls_every_table_with_every_setting_and_keeps_what_is_for_warming_up_apart(
    peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def work(given: Any, epsilon: float) -> Any:
        called.append((int(given.rows.sum()), epsilon))
        return {"seconds": 2.5, "said": given.rows * epsilon} if epsilon > 1 else given.rows

    monkeypatch.setitem(sys.modules, "evidence.peers.made_up", ModuleType("evidence.peers.made_up"))
    sys.modules["evidence.peers.made_up"].work = work  # type: ignore[attr-defined]
    np.savez(tmp_path / "t.npz", count=2, **{"0/rows": np.array([7]), "1/rows": np.array([1, 2])})  # type: ignore[arg-type]
    order = {"tables": str(tmp_path / "t.npz"), "settings": [{"epsilon": 1}, {"epsilon": 2}], "calls": 2}
    told = peers("script").main("made_up", "work", {**order, "warm": True, "spare": 1})
    assert called == [(7, 1), (3, 1), (3, 1), (3, 2), (3, 2)]
    assert [one["said"] for one in told["found"]] == [[[1, 2], [1, 2]], [[2, 4], [2, 4]]]
    assert told["found"][1]["seconds"] == [2.5, 2.5]
    assert json.loads(json.dumps(told)) == told


def told(ours: tuple[float, float], theirs: tuple[float, float], better: str = "more") -> dict[str, Any]:
    sides = {
        side: {"score": score, "spread": spread, "seconds": seconds}
        for side, (score, spread), seconds in (("ours", ours, 0.0123), ("theirs", theirs, 2.0))
    }
    result = {"setting": {"epsilon": 1}, **sides, "time_ratio": {"median": 0.5, "least": 0.25, "most": 20.0}}
    work = {"name": "w", "does": "work", "measure": "accuracy", "better": better, "why": "Because", "rounds": 3}
    promises = {"ours_promises": "much", "theirs_promises": "little"}
    counted = {"lines": {"ours": 3, "theirs": 4}, "first_seconds": {"ours": 1.5, "theirs": 0.0}}
    done = {**work, **promises, **counted, "results": [result]}
    return {
        "title": "T", "about": "A.", "versions": {"t": "1.0"}, "works": [done],
        "left_out": [{"work": "x", "because": "no rows"}],
    }  # fmt: skip


def test_the_page_prints_figures_with_their_spread_and_times_as_ratios(peers: Any) -> None:
    lines = peers("page").of_peer(told((0.9412, 0.0123), (0.5, 0.02)))
    assert "| epsilon 1 | **0.941 ± 0.012** | 0.500 ± 0.020 | 12 ms | 2.00 s | 0.5 (0.25 to 20) |" in lines
    assert "- 3 rounds. Lines: ours 3, theirs 4." in lines
    assert "- Protected by ours: much; by theirs: little." in lines
    assert "- Why: Because." in lines
    assert "Left out: x (no rows)." in lines


@pytest.mark.parametrize(
    ("ours", "theirs", "better", "bold"),
    [
        ((0.9, 0.02), (0.93, 0.02), "more", None),
        ((0.9, 0.0), (0.93, 0.0), "more", "0.93"),
        ((0.9, 0.0), (0.93, 0.0), "less", "0.9"),
        ((0.76848901, 0.0), (0.76848902, 0.0), "less", None),
    ],
)
def test_only_what_is_better_beyond_the_spreads_is_printed_bold(
    peers: Any, ours: tuple[float, float], theirs: tuple[float, float], better: str, bold: str | None
) -> None:
    (row,) = (line for line in peers("page").of_peer(told(ours, theirs, better)) if line.startswith("| epsilon"))
    assert [cell.strip(" *") for cell in row.split("|") if "**" in cell] == ([] if bold is None else [bold])


def test_a_peer_that_is_run_again_takes_its_own_place_only(peers: Any, tmp_path: Path) -> None:
    results = peers("results")
    for name, title in (("b", "B"), ("a", "A"), ("b", "B again")):
        results.written_with(name, {"title": title}, tmp_path / "r.json")
    assert {name: one["title"] for name, one in results.kept(tmp_path / "r.json").items()} == {"a": "A", "b": "B again"}


def test_the_page_has_a_chapter_for_each_peer_that_was_run(peers: Any) -> None:
    found = {name: peers("running").worded(name, one) for name, one in peers("results").kept().items()}
    written = peers("page").written(found)
    assert found
    assert re.findall(r"^## (.+)$", written, re.MULTILINE) == ["At a glance", *(one["title"] for one in found.values())]
