"""Docstrings open with what a thing is or does. The failure says where one opens with a question, and what to write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import statements

ROOT = Path(__file__).parents[2]
QUESTION = re.compile(r"(What|Who|Whom|Whose|Which|Where|When|Whether|How|Why)\b")
#: wherever such a docstring begins
QUOTED = re.compile(r"[\"'][\s\\]*" + QUESTION.pattern)
INSTEAD = """begin with a question word. Write instead, for a function, a verb and its object ("Return whether ...", \
"Count the rows ..."), and for a class, a module or a property a noun that names it ("The price of ...", \
"Rules that say who ..."):"""


FOLDERS = ["src", "papers", "evidence", "tools", "tests"]


def questions(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and first line of every docstring in a module that begins with a question word."""
    if not QUOTED.search(source):  # most: reading each takes long
        return
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            told = ast.get_docstring(node)
            if told is not None and QUESTION.match(told):
                yield node.body[0].lineno, told.splitlines()[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_begins_with_a_question_word(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {first}"
        for path in files
        for line, first in questions(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join([f"{len(found)} docstrings {INSTEAD}", *found])


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""What lies here."""', [1]),
        ('class A:\n    """Who pays."""\n', [2]),
        ('class A:\n    @property\n    def f(self):\n        """\n        Whether it is open.\n        """\n', [4]),
        ('async def f():\n    """How many there are."""\n', [2]),
        ('def f():\n    def g():\n        """Why not."""\n', [3]),
        ('def f():\n    """Whatever is there, return it."""\n    "What else."\n', []),
        ('def f():\n    """Return what lies here. Which one?"""\n', []),
    ],
)
def test_a_question_is_found_where_it_opens_a_docstring_and_nowhere_else(source: str, lines: list[int]) -> None:
    assert [line for line, _ in questions(source)] == lines
