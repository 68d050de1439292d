"""Statements of source code, for tests that read how the house is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a module and every statement in it, however deep. Far quicker than `ast.walk`: no expression is entered."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("cases", "handlers", "finalbody", "orelse", "body"):
            waiting += reversed(getattr(node, part, ()))
