"""Checks before a commit are what `make check` checks, by the same programs, and fetches nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    if repo["repo"] == "local"
    for hook in repo["hooks"]
}


def test_nothing_is_fetched() -> None:
    told = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repo["repo"] for repo in told["repos"]} == {"local"}
    assert {hook["language"] for hook in HOOKS.values()} == {"system", "pygrep"}


def test_every_program_is_one_of_the_check_and_all_of_them_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\ncheck: ")[2].partition("\n\n")[0].replace("$(BIN)", ".venv/bin")
    checked = {line.strip().removeprefix("@") for line in recipe.splitlines()[1:] if "pytest" not in line}
    entries = {hook["entry"] for hook in HOOKS.values() if hook["language"] == "system"}
    for entry in entries:
        assert any(line.startswith(entry) for line in checked), entry
    for line in checked:
        assert any(line.startswith(entry) for entry in entries), line


@pytest.mark.parametrize(("message", "good"), [("x" * 72, True), ("Do it\n\n" + "x" * 90, True), ("x" * 73, False)])
def test_a_subject_has_at_most_72_characters(message: str, good: bool) -> None:
    hook = HOOKS["subject"]
    assert "--multiline" in hook["args"]
    assert (re.search(hook["entry"], message, re.MULTILINE | re.DOTALL) is None) is good
