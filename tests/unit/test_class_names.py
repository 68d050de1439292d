"""A public class has a name of its own. The failure says which name stands for several, and where they are."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "thebes"
#: the same thing in a program and as the JSON that tells of it
TOLD = {"Collector", "Column", "DataSet", "Health", "Price", "Quote", "Session", "SiteRefusal", "Table"}
#: the same model as an estimator and as a pipeline, the same range in a document and as a feature
MODELS = {"LinearRegression", "LogisticRegression", "Range"}


def names(source: str) -> set[str]:
    """Return the public classes of a module."""
    defined = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
    return {name for name in defined if not name.startswith("_")}


@cache
def shared() -> dict[str, list[str]]:
    """Return where each name is defined that several modules give to a class."""
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for name in names(path.read_text(encoding="utf-8")):
            places[name].append(str(path.relative_to(ROOT)))
    return {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.slow
def test_one_name_stands_for_one_concept() -> None:
    found = {name: places for name, places in shared().items() if name not in TOLD | MODELS}
    assert not found, f"give each a name that says whose it is: {found}"


@pytest.mark.slow
def test_no_pair_is_listed_that_is_none() -> None:
    assert set(shared()) >= TOLD | MODELS


def test_classes_are_found_wherever_they_are_defined() -> None:
    assert names("class A:\n    class B: ...\ndef f():\n    class _C: ...\n    class D: ...\n") == {"A", "B", "D"}
