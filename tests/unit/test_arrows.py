"""Imports point down only. The failure names the rule, so that a newcomer learns the house from it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.source import statements

SOURCE = Path(__file__).parents[2] / "src" / "thebes"

BELOW: dict[str, set[str]] = {
    "privacy": set(),
    "machine": {"privacy"},
    "confinement": set(),
    "database": {"privacy"},
    "ledger": {"privacy", "database"},
    "data": {"privacy", "confinement", "database"},
    "learning": {"privacy", "confinement"},
    "tokens": {"privacy"},
    "sharing": {"privacy"},
    "curator": {"privacy", "confinement", "database", "ledger", "data", "learning", "tokens", "sharing"},
}
BELOW["tasks"] = BELOW["curator"] | {"curator"}
BELOW["wire"] = BELOW["tasks"] | {"tasks"}
BELOW["sql"] = BELOW["wire"]  # beside wire, above tasks
for _role in ("coordinator", "person", "site", "requestor"):
    BELOW[_role] = BELOW["wire"] | {"wire"}
BELOW["coordinator"] = BELOW["coordinator"] - {"curator"}
BELOW["requestor"] = BELOW["requestor"] | {"sql", "simulation"}  # what may be asked is rehearsed on one's own machine
BELOW["collectors"] = {"privacy", "database", "data", "wire"}  # beside the roles: they meet a person by HTTP only
BELOW["simulation"] = BELOW["wire"]  # beside the roles, above tasks, without wire
BELOW["web"] = BELOW["wire"] | {"wire", "coordinator", "person", "site", "requestor", "simulation", "collectors", "sql"}
BELOW["cli"] = BELOW["web"] | {"web"}
BELOW["testing"] = BELOW["cli"] | {"cli"}

#: thin public faces beside the rooms: module -> rooms it may show
FACES = {
    "torch": {"learning", "privacy"},
    "task": {"tasks", "privacy", "torch"},
    "collector": {"collectors"},
    "pipeline": {"curator"},
    "parts": {"privacy"},
}


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every `thebes.x` that a file imports, also inside functions."""
    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full, from the package's root"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return frozenset(name for name in found if name.split(".")[0] == "thebes")


FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted({path.relative_to(SOURCE).with_suffix("").parts[0] for path in FILES})


def files_of(room: str) -> list[tuple[Path, tuple[str, ...]]]:
    """The files of a room, each with its place below the package."""
    found = [(path, path.relative_to(SOURCE).with_suffix("").parts) for path in FILES]
    return [(path, parts) for path, parts in found if parts[0] == room]


@pytest.mark.few(5)
@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room: str) -> None:
    if room in ("__init__", "__main__"):  # the package and its command
        return
    assert room in BELOW or room in FACES, f"{room} is not a room of the house: place it in tests/unit/test_arrows.py"
    allowed = (BELOW.get(room) or FACES.get(room, set())) | {room, "", "__version__", "machine"}
    up = [
        f"{'/'.join(parts)} may not import {name}"
        for path, parts in files_of(room)
        for name in sorted(imports_of(path))
        if [*name.split("."), ""][1] not in allowed
    ]
    assert not up, "arrows point down only (house rule):\n" + "\n".join(up)


@pytest.mark.parametrize("room", ["coordinator", "person", "site", "tasks"])
def test_an_owners_half_and_an_aggregators_half_never_meet(room: str) -> None:
    """No coordinator imports what computes on rows; no owner imports what hears contributions."""
    files = files_of(room)
    assert files
    met = []
    for path, parts in files:
        names = [name for name in sorted(imports_of(path)) if name.startswith("thebes.tasks.")]
        if room == "coordinator" or (room == "tasks" and parts[-1] == "aggregator"):
            met += [f"{'/'.join(parts)} imports {name}" for name in names if ".owner" in name]
        if room in ("person", "site") or (room == "tasks" and parts[-1] == "owner"):
            met += [f"{'/'.join(parts)} imports {name}" for name in names if ".aggregator" in name]
    assert not met, "\n".join(met)


def test_no_drawers() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc", "models", "exceptions", "shared", "base"}
    assert not [p for p in FILES if p.stem in drawers or any(part in drawers for part in p.parts[-3:-1])]
