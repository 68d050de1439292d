"""Write the rules of the threat model as one page, each with the tests that hold it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tools.reference.cells import cell

FILE = Path(__file__).parents[2] / "tests" / "rules.toml"
_TOP = """# Rules, and the tests that hold them

*For checking that the [threat model](threat-model.md) is kept: each rule, and the tests that fail where it is
broken.* They lie in `tests/`; one of them reads this list and finds each test that it names.

| topic | rule | held by |
|---|---|---|
"""


def written() -> str:
    """Return the page."""
    rules = tomllib.loads(FILE.read_text(encoding="utf-8"))["rule"]
    return _TOP + "".join(f"{_row(**rule)}\n" for rule in rules)


def _row(topic: str, rule: str, held_by: list[str]) -> str:
    return f"| {topic} | {cell(rule)} | {' '.join(f'`{test}`' for test in held_by)} |"
