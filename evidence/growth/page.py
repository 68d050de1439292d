"""The page of the documentation about growth, written from what was kept: nobody types a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.privacy.figures import figure

_HEAD = """\
# How cost grows

*For whoever asks how far one machine goes.*

`make growth` measures this page anew, `make docs` writes it. A time is what processors computed, of all processes and
threads together, so that other work on the machine hardly counts; both sides of a ratio are from one run. Each series
says what it was measured beside: mostly a bare engine that keeps no promise. How long people wait, for a disk or a
network too, is [elsewhere](load.md); other libraries are [there](peers.md).

Not measured: machines of their own for sites and coordinator, PostgreSQL, more than 15 sites (in trainings 5), rows of
persons, heavy steps of a training, Spark.
"""
ORDER = ("people", "rows", "sites", "training", "blocks", "weights", "noise")


def written(everything: Mapping[str, Any]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *("\n".join(of_series(everything[name])) for name in ORDER if name in everything)])


def of_series(found: Mapping[str, Any]) -> list[str]:
    """One series as a chapter, line by line."""
    made = f"Measured on {found['day']} with Thebes {found['thebes']} on {found['cores']} cores."
    told = [f"## {found['does']}", "", f"Beside {found['beside']}. {made}", ""]
    told += [f"| {found['of']} | Thebes | beside | times |", "|--:|--:|--:|--:|"]
    for point in found["points"]:
        ours, bare = point["seconds"], point["bare"]
        told.append(f"| {point['size']:,} | {_time(ours)} | {_time(bare)} | {_short(ours / bare)} |")
    return [*told, ""]


def _time(seconds: float) -> str:
    unit, size = next(each for each in (("s", 1.0), ("ms", 1e-3), ("µs", 0.0)) if seconds >= each[1])
    return f"{_short(seconds / (size or 1e-6))} {unit}"


def _short(number: float) -> str:
    return figure(float(f"{number:.2g}"))
