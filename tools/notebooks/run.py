"""Run a notebook's cells in this process, one after another, and keep what each puts out as Jupyter would.

The files are plain notebooks (nbformat 4) that Jupyter opens; only what shows itself as text, HTML or SVG is kept.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
#: a cell of this tag puts out something else each time: its noise comes from the operating system
CHANCE = "chance"

Cell = dict[str, Any]


def notebooks() -> list[Path]:
    """Return every notebook, in the order of their names."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def source_of(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"])


def executed(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same notebook with what its cells put out now; whatever a cell raises ends it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    random.seed(0)
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(dict(cell))
            continue
        count += 1
        cells.append({**cell, "execution_count": count, "outputs": _outputs(source_of(cell), names, count)})
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], count: int) -> list[Cell]:
    """Run one cell: what is written comes first, then the last line's value, if it has one."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    heard = io.StringIO()
    value = None
    with contextlib.redirect_stdout(heard):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    outputs: list[Cell] = []
    if text := heard.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        outputs.append(
            {"data": _shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def _shown(value: Any) -> dict[str, list[str]]:
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    html = getattr(value, "_repr_html_", lambda: None)()
    return data if html is None else {"text/html": html.splitlines(keepends=True), **data}


def written(notebook: Mapping[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
