"""The rules of the threat model are held by tests, and chance comes in where it says."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: noise, coins, keys and tokens are drawn in these rooms
ROOMS = ("privacy", "ledger", "data", "learning", "tokens", "curator", "tasks", "wire", "coordinator", "person", "site")
#: what is drawn there without the door, and may be: none of it hides anybody
OTHERWISE = {
    "privacy/randomness.py": "the door itself",
    "tasks/samples.py": "made-up people and patients, to try documents with",
    "tasks/pipeline/samples.py": "made-up rides, to try documents with",
    "tasks/ensemble/voters.py": "rows made up of what was released",
    "tasks/bounded/moment_fit.py": "rows made up of what was released",
    "curator/cache/synthesis/aim.py": "rows made up of what was released, from a seed that the door gave",
    "learning/network.py": "where a network begins is public",
    "learning/graph/export.py": "an example on the requestor's machine, without anybody's rows",
    "site/link/dialer.py": "how long a site waits before it dials again",
}


def rules() -> dict[str, list[tuple[str, str]]]:
    """The tests that each rule names."""
    kept = tomllib.loads((ROOT / "tests" / "rules.toml").read_text(encoding="utf-8"))["rule"]
    return {each["topic"]: [(*named.split("::"),) for named in each["held_by"]] for each in kept}


@lru_cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


RULES = rules()


def test_the_page_has_every_topic_of_the_check_list() -> None:
    assert len(RULES) >= 28
    for topic in (
        "tokens of sessions", "passwords", "certificates of sites", "revocation", "links of sites", "noise in floats",
        "where chance comes from", "copies of a process", "time", "budgets as a channel", "repeats", "poisoning",
        "emptied budgets", "failing featurizers and models", "consent", "different tasks for different people",
        "what is written down",
    ):  # fmt: skip
        assert topic in RULES


@pytest.mark.few(11)
@pytest.mark.parametrize("topic", RULES)
def test_a_rule_names_tests_and_each_of_them_is_there(topic: str) -> None:
    assert RULES[topic], f"the rule on {topic} names no test"
    for file, name in RULES[topic]:
        assert name in functions_of(ROOT / "tests" / file), f"tests/rules.toml names {file}::{name}: there is none"


def draws(path: Path) -> bool:
    """Return whether a file draws from Python's, numpy's or torch's generators."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "rand" in text or "torch" in text else ():
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "random" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "") in ("random", "numpy.random", "torch.random"):
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            if owner in ("np", "numpy") and name == "random":
                return True
            if owner == "torch" and re.fullmatch(r"(rand|normal|bernoulli|manual_seed|multinomial).*", name):
                return True
    return False


def test_chance_has_one_door() -> None:
    source = ROOT / "src" / "thebes"
    files = [path for room in ROOMS for path in sorted((source / room).rglob("*.py"))]
    found = {str(path.relative_to(source)) for path in files if draws(path)}
    assert found == set(OTHERWISE), "noise is drawn through thebes.privacy.randomness only"
