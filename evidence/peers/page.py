"""The page of the documentation about other libraries, written from what was kept: nobody types a figure."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log10
from typing import Any

_HEAD = """\
# Beside other libraries

*For whoever chooses between Thebes and another library.*

The same work on the same rows in the same run: each library in a virtual environment of its own, ours and theirs in
turn, one thread each. `make peers` runs it all again (`python -m evidence.peers opendp` one, `--rounds` says how often;
environments lie in `.venv-peers`, or where `PEERS_HOME` says), and `make docs` writes this page from what was kept. It
is not part of the tests.

- **Figures** are means over the rounds, with the standard deviation between rounds. In each round every row of a small
  table is unseen once (five folds, other folds in every round); of Adult the published test part is.
- **Times** is our time for one call over theirs, in the middle of the rounds, with the least and the most of a round.
  Below 1 we are faster. What a process loads first is not in it, but told beside it. Where the least and
  the most lie far apart, the machine had other work to do.
- **Lines** are those with code that a user writes: the body of the function in `evidence/peers/NAME/ours.py` and
  `theirs.py`, or the files and commands of a deployment, all formatted in the same way.
- **Bold** is what is better by more than twice both spreads, and by a thousandth.
- Equal epsilon is not always an equal promise. Who promises what stands under each work.
"""


def written(everything: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = [_HEAD, "\n".join(_glance(everything)) + "\n"]
    for found in everything.values():
        parts.append("\n".join(of_peer(found)) + "\n")
    return "\n".join(parts)


def _glance(everything: Mapping[str, Any]) -> list[str]:
    """A line for each work, at one of its settings."""
    told = ["## At a glance", "", "| work | at | measure | ours | theirs | times | lines: ours, theirs |"]
    told.append("|---|---|---|---|---|---|---|")
    for found in everything.values():
        for work in found["works"]:
            result = work["results"][len(work["results"]) // 2]
            setting, ours, theirs, _, _, times = _cells(work, result, work["rounds"])
            lines = f"{work['lines']['ours']}, {work['lines']['theirs']}"
            named = f"{found['title']}: {work['does']}"
            told.append(f"| {named} | {setting} | {work['measure']} | {ours} | {theirs} | {times} | {lines} |")
    return told


def of_peer(found: Mapping[str, Any]) -> list[str]:
    """A peer's chapter, line by line."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    made = found.get("made_by", {})
    ours = f" beside Thebes {made['thebes']}" if made else ""
    told = [f"## {found['title']}", "", found["about"], ""]
    day = f", on {found['day']}, {found['cores']} cores" if "day" in found else ""
    told += [f"{versions}{ours}{day}.", ""]
    for work in found["works"]:
        told += [f"### {found['title']}: {work['does']}", ""]
        told += [
            f"| | ours: {work['measure']} | theirs | our time for a call | theirs | times |",
            "|---|---|---|---|---|---|",
        ]
        told += [f"| {' | '.join(_cells(work, result, work['rounds']))} |" for result in work["results"]]
        lines, first = work["lines"], work["first_seconds"]
        told += ["", f"- {_counted(work['rounds'], 'round')}. Lines: ours {lines['ours']}, theirs {lines['theirs']}."]
        if first["ours"] > 1e-3:  # where nothing was warmed up there is no such call
            said = f"ours {_time(first['ours'])}, theirs {_time(first['theirs'])}"
            told.append(f"- The first call of a process, which loads everything: {said}.")
        ours, theirs = work["ours_promises"], work["theirs_promises"]
        told.append(f"- Protected: {ours}." if ours == theirs else f"- Protected by ours: {ours}; by theirs: {theirs}.")
        told += [f"- Why: {work['why']}."] if work["why"] else []
        told.append("")
    told += [f"Left out: {one['work']} ({one['because']})." for one in found["left_out"]]
    return told[:-1] if told[-1] == "" else told


def _cells(work: Mapping[str, Any], result: Mapping[str, Any], rounds: int) -> list[str]:
    ours, theirs, ratio = result["ours"], result["theirs"], result["time_ratio"]
    setting = ", ".join(f"{name} {value:g}" for name, value in result["setting"].items())
    scores = [_score(ours, theirs), _score(theirs, ours)]
    better = 0 if (ours["score"] >= theirs["score"]) == (work["better"] == "more") else 1
    if work["better"] != "neither" and rounds > 1 and _apart(ours, theirs):
        scores[better] = f"**{scores[better]}**"
    times = f"{_short(ratio['median'])} ({_short(ratio['least'])} to {_short(ratio['most'])})"
    return [setting, *scores, _time(ours["seconds"]), _time(theirs["seconds"]), times]


def _apart(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return whether two figures differ by more than their spreads explain: only then is one printed as the better."""
    return abs(one["score"] - other["score"]) > max(2 * (one["spread"] + other["spread"]), 1e-3 * abs(other["score"]))


def _score(one: Mapping[str, float], other: Mapping[str, float]) -> str:
    """Two digits of the spread; without one three digits, or as many more as tell the two apart."""
    if one["spread"]:
        size = max(one["spread"], abs(one["score"]) / 100)  # four digits are enough for whoever reads
        return f"{_to(one['score'], size)} ± {_to(one['spread'], size)}"
    digits = next((d for d in (3, 5, 7) if f"{one['score']:.{d}g}" != f"{other['score']:.{d}g}"), 7)
    return f"{one['score']:.{digits}g}"


def _to(number: float, size: float) -> str:
    return f"{number:.{max(0, 1 - floor(log10(size)))}f}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{_short(1000 * seconds)} ms"


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
