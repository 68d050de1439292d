"""Imports point down only. The failure names the rule, so that a newcomer learns the house from it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "thebes"

BELOW: dict[str, set[str]] = {
    "privacy": set(),
    "confinement": set(),
    "database": {"privacy"},
    "ledger": {"privacy", "database"},
    "data": {"privacy", "confinement", "database"},
    "learning": {"privacy", "confinement"},
    "tokens": {"privacy"},
    "curator": {"privacy", "confinement", "database", "ledger", "data", "learning", "tokens"},
}
BELOW["tasks"] = BELOW["curator"] | {"curator"}
BELOW["wire"] = BELOW["tasks"] | {"tasks"}
for _role in ("coordinator", "person", "site", "requestor"):
    BELOW[_role] = BELOW["wire"] | {"wire"}
BELOW["coordinator"] = BELOW["coordinator"] - {"curator"}
BELOW["collectors"] = {"privacy", "data", "wire"}  # beside the roles: they meet a person by HTTP only
BELOW["simulation"] = BELOW["wire"]  # beside the roles, above tasks, without wire
BELOW["web"] = BELOW["wire"] | {"wire", "coordinator", "person", "site", "requestor", "simulation", "collectors"}
BELOW["cli"] = BELOW["web"] | {"web"}
BELOW["testing"] = BELOW["cli"] | {"cli"}

#: thin public faces beside the rooms: module -> rooms it may show
FACES = {
    "torch": {"learning", "privacy"},
    "task": {"tasks", "privacy", "torch"},
    "collector": {"collectors"},
    "pipeline": {"curator"},
}


def imports_of(path: Path) -> set[str]:
    """Every `thebes.x` that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full, from the package's root"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return {name for name in found if name.split(".")[0] == "thebes"}


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    if parts in (("__init__",), ("__main__",)):  # the package and its command
        return
    room = parts[0]
    assert room in BELOW or room in FACES, f"{room} is not a room of the house: place it in tests/unit/test_arrows.py"
    allowed = (BELOW.get(room) or FACES.get(room, set())) | {room}
    for name in imports_of(path):
        target = [*name.split("."), ""][1]
        if target in ("", "__version__"):
            continue
        assert target in allowed, f"{room} may not import {target}: arrows point down only (house rule), see {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_an_owners_half_and_an_aggregators_half_never_meet(path: Path) -> None:
    """No coordinator imports what computes on rows; no owner imports what hears contributions."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    names = imports_of(path)
    if parts[0] == "coordinator" or (parts[0] == "tasks" and parts[-1] == "aggregator"):
        assert not [n for n in names if n.startswith("thebes.tasks.") and ".owner" in n]
    if parts[0] in ("person", "site") or (parts[0] == "tasks" and parts[-1] == "owner"):
        assert not [n for n in names if n.startswith("thebes.tasks.") and ".aggregator" in n]


def test_no_drawers() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc", "models", "exceptions", "shared", "base"}
    assert not [p for p in FILES if p.stem in drawers or any(part in drawers for part in p.parts[-3:-1])]
