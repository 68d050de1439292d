"""Ours and theirs in turn, each in a process of its own, on the same tables; judged in the same way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from evidence.peers import lines, tables
from evidence.peers.environments import HERE, pinned, python_of
from evidence.peers.peer import Peer, Work

ROOT = HERE.parents[1]
#: One thread each: the machine's cores are not what is compared.
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


def compared(name: str, rounds: int, only: str = "") -> dict[str, Any]:
    """Everything that is told of one peer, or of one of its works. Raises `NotInstalled` where there can be no
    environment."""
    peer: Peer = import_module(f"evidence.peers.{name}").PEER
    python = python_of(name)
    found, left_out = [], []
    for work in peer.works:
        if only not in ("", work.name):
            continue
        try:
            found.append(_work(name, work, python, rounds))
        except tables.Absent as absent:
            left_out.append({"work": work.name, "because": str(absent)})
    return {
        "versions": pinned(name),
        "works": found,
        "left_out": left_out,
    }


def _work(name: str, work: Work, python: Path, rounds: int) -> dict[str, Any]:
    told: dict[str, list[list[tuple[list[float], list[float]]]]] = {"ours": [], "theirs": []}
    first: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(rounds):
        handed = getattr(tables, work.tables)(turn)
        # Whoever comes second may find files in memory: sides take turns at being first.
        for side in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
            did = _done(name, side, work, handed, Path(sys.executable) if side == "ours" else python)
            first[side].append(did["first"])
            told[side].append([_judged(work, handed, one) for one in did["found"]])
        print(f"  {name} {work.name}: round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    results = []
    for place, setting in enumerate(work.settings):
        ratios = [
            median(ours[place][0]) / median(theirs[place][0])
            for ours, theirs in zip(told["ours"], told["theirs"], strict=True)
        ]
        sides = {side: _summed([turn[place] for turn in told[side]]) for side in told}
        ratio = {"median": median(ratios), "least": min(ratios), "most": max(ratios)}
        results.append({"setting": dict(setting), **sides, "time_ratio": ratio})
    return {
        "name": work.name,
        "rounds": rounds,
        "first_seconds": {side: median(first[side]) for side in told},
        "results": results,
    }


def worded(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return what was found, with the words of today and the lines of today: neither asks for another run."""
    peer: Peer = import_module(f"evidence.peers.{name}").PEER
    works = {work.name: work for work in peer.works}
    told = ("does", "measure", "better", "why", "ours_promises", "theirs_promises")
    done = [
        {
            **one,
            **{key: getattr(works[one["name"]], key) for key in told},
            "lines": {side: written(name, side, works[one["name"]]) for side in ("ours", "theirs")},
        }
        for one in found["works"]
        if one["name"] in works
    ]
    return {**found, "title": peer.title, "about": peer.about, "works": done}


def written(name: str, side: str, work: Work) -> int:
    """Lines a user must write."""
    folder, files = HERE / name, work.our_files if side == "ours" else work.their_files
    if files:
        return sum(lines.of_file(folder / file) for file in files)
    return lines.of_function((folder / f"{side}.py").read_text(encoding="utf-8"), work.function(side))


def _done(name: str, side: str, work: Work, handed: Sequence[tables.Table], python: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        held = {
            f"{place}/{key}": array
            for place, table in enumerate(handed)
            for key, array in table.items()
            if not key.startswith("answer")
        }
        np.savez(Path(folder) / "tables.npz", count=len(handed), **held)  # type: ignore[arg-type]
        order = {
            "tables": str(Path(folder) / "tables.npz"),
            "settings": [dict(setting) for setting in work.settings],
            "calls": work.calls,
            "warm": work.warm,
            "spare": work.spare,
        }
        command = [str(python), "-m", "evidence.peers.script", f"{name}.{side}", work.function(side), json.dumps(order)]
        kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        spark = {"PYSPARK_PYTHON": str(python)}  # a session's workers are of its environment, as in an activated one
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**kept, **_THREADS, **spark})
    if done.returncode:
        raise RuntimeError(f"{name}.{side} cannot do {work.name}:\n{done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def _judged(work: Work, handed: Sequence[tables.Table], did: Any) -> tuple[list[float], list[float]]:
    """(seconds, scores) of all calls of one process."""
    score = getattr(tables, work.score)
    whose = [table for table in handed[work.spare :] for _ in range(work.calls)]
    return did["seconds"], [score(table, said) for table, said in zip(whose, did["said"], strict=True)]


def _summed(turns: Sequence[tuple[list[float], list[float]]]) -> dict[str, float]:
    """The mean over rounds and how far rounds lie apart; seconds of a call in the middle."""
    means = [mean(scores) for _, scores in turns]
    return {
        "score": mean(means),
        "spread": stdev(means) if len(means) > 1 else 0.0,
        "seconds": median(second for seconds, _ in turns for second in seconds),
    }
