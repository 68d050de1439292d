"""The count of lines that a user must write: those of a function's body that hold code, or those of whole files."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

_NOTHING = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def of_function(source: str, name: str) -> int:
    """Lines with code in the body of the function `name`: neither its first line, its docstring, comments nor empty
    lines."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            return len({line for line in _coded(source) if body and body[0].lineno <= line <= (node.end_lineno or 0)})
    raise ValueError(f"there is no function {name!r}")


def of_file(path: Path) -> int:
    """Of a Python file as of a function; of any other those that are neither empty nor begin with # or [."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return sum(1 for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#[")
    tree = ast.parse(text)
    told = tree.body[0] if ast.get_docstring(tree) is not None else None
    skipped = range(told.lineno, (told.end_lineno or told.lineno) + 1) if told is not None else range(0)
    return len(_coded(text) - set(skipped))


def _coded(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {line for t in tokens if t.type not in _NOTHING for line in range(t.start[0], t.end[0] + 1)}
