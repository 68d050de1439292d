"""`make bench` fails where a ratio is worse than the one kept, twice and beyond noise; what it found first is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evidence.bench import __main__ as bench
from evidence.bench._losses import losses


@pytest.mark.parametrize(
    ("name", "was", "now", "worse"),
    [
        ("a.ratio", 1.0, 1.2, False),
        ("a.ratio", 1.0, 1.4, True),
        ("a.ratio", 1.4, 1.0, False),
        ("a.overhead", 2.0, 3.0, True),
        ("submit.ratio to the bare endpoint", 0.2, 0.1, True),
        ("submit.ratio to the bare endpoint", 0.1, 0.2, False),
        ("ours, ratio to an empty endpoint", 0.2, 0.1, True),
        ("a.seconds", 1.0, 9.0, False),
        ("a.ratio", "skipped", 9.0, False),
    ],
)
def test_a_ratio_is_a_loss_where_it_is_worse_beyond_noise(name: str, was: Any, now: Any, worse: bool) -> None:
    assert list(losses({name: was}, {name: now})) == [name] * worse


def test_a_benchmark_that_is_not_there_any_more_is_no_loss() -> None:
    assert losses({"a.ratio": 1.0}, {}) == {}


def measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *figures: float) -> None:
    """Let the accounting benchmark give these ratios, run after run."""
    left, made = iter(figures), ModuleType("evidence.bench.accounting")
    made.run = lambda: {"one": {"ratio": next(left)}}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "evidence.bench.accounting", made)
    monkeypatch.setattr(bench, "RESULTS", tmp_path)


def kept(tmp_path: Path) -> float:
    return float(json.loads((tmp_path / "kept" / "accounting.json").read_text())["one"]["ratio"])


def test_what_is_worse_twice_fails_and_leaves_what_was_kept_until_that_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measuring(monkeypatch, tmp_path, 1.0, 2.0, 2.1, 2.0)
    bench.main(["accounting"])
    with pytest.raises(SystemExit, match=r"accounting\.one\.ratio: 2\.1 instead of 1$"):
        bench.main(["accounting"])
    assert kept(tmp_path) == 1.0
    with pytest.raises(SystemExit, match="there is no 'acounting'"):
        bench.main(["forget", "acounting"])
    bench.main(["forget", "accounting"])
    bench.main(["accounting"])
    assert kept(tmp_path) == 2.0


def test_what_is_worse_once_was_luck_and_small_losses_add_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measuring(monkeypatch, tmp_path, 1.0, 2.0, 1.2, 1.4, 1.4)
    bench.main(["accounting"])
    bench.main(["accounting"])
    assert json.loads((tmp_path / "accounting.json").read_text())["one"]["ratio"] == 1.2
    with pytest.raises(SystemExit, match=r"1\.4 instead of 1$"):
        bench.main(["accounting"])


def test_a_run_otherwise_than_by_default_is_neither_kept_nor_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measuring(monkeypatch, tmp_path, 1.0, 9.0)
    bench.main(["accounting"])
    run = sys.modules["evidence.bench.accounting"].run
    sys.modules["evidence.bench.accounting"].run = lambda rounds: run()  # type: ignore[attr-defined]
    bench.main(["accounting", "--rounds", "1"])
    assert kept(tmp_path) == 1.0
