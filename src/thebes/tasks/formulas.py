"""New columns as formulas, such as `bmi = clamp(kilos / height ** 2, 12, 45)`, as they are typed.

What must stay true: a formula means the same expression that it was written from, or there is none.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from thebes.tasks.document import InvalidDocument
from thebes.tasks.form import Hint

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}
_LONGEST = 4000  #: characters of a formula


def names(text: str) -> tuple[str, ...]:
    """The new columns, as far as they can be read."""
    return tuple(name for name, _ in _lines(text) if name.isidentifier())


def formulas(text: str) -> dict[str, Any]:
    """Expressions by name, from lines such as `bmi = clamp(kilos / height ** 2, 12, 45)`."""
    made: dict[str, Any] = {}
    for name, written in _lines(text):
        if not name.isidentifier() or not written:
            raise InvalidDocument([("features", "must be lines such as: bmi = clamp(kilos / height ** 2, 12, 45)")])
        if name in made:
            raise InvalidDocument([("features", f"make {name[:40]!r} twice")])
        if len(written) > _LONGEST:
            raise InvalidDocument([("features", f"have a formula for {name[:40]!r} of over {_LONGEST} characters")])
        try:
            made[name] = _expression(ast.parse(written, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InvalidDocument([("features", f"have a formula for {name[:40]!r} that cannot be read")]) from None
    return made


def written(features: Any) -> str:
    """Expressions by name as lines; ValueError where there is none for one."""
    if not isinstance(features, Mapping):
        raise ValueError
    return "\n".join(f"{name} = {formula(body)}" for name, body in features.items())


def formula(body: Any) -> str:
    """An expression as a formula that reads back as the same; ValueError where there is none."""
    try:
        written = _written(body, outermost=True)
        if _expression(ast.parse(written, mode="eval").body) == body:
            return written
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise ValueError


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.strip():
            name, _, written = line.partition("=")
            yield name.strip(), written.strip()


def _expression(node: ast.expr) -> Any:
    """Return what a formula means, as data. Which operations there are, and what each takes, is the document's to
    say."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _expression(node.operand)
        return -inner if isinstance(inner, (int, float)) else {"subtract": [0, inner]}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        if not (isinstance(node.right, ast.Constant) and node.right.value == 2):
            raise ValueError
        return {"square": _expression(node.left)}
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return {_OPERATORS[type(node.op)]: [_expression(node.left), _expression(node.right)]}
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and len(node.ops) == 1:
        value = node.comparators[0]
        if isinstance(node.ops[0], ast.Eq) and isinstance(value, ast.Constant):
            return {"is": [node.left.id, value.value]}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args and not node.keywords:
        parts = [_expression(part) for part in node.args]
        return {node.func.id: parts[0] if len(parts) == 1 else parts}
    raise ValueError


def _written(body: Any, *, outermost: bool = False) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, (int, float)) and not isinstance(body, bool):
        return json.dumps(body)
    if not isinstance(body, Mapping) or len(body) != 1:
        raise ValueError
    ((operation, given),) = body.items()
    parts = list(given) if isinstance(given, (list, tuple)) else [given]
    if operation == "is" and len(parts) == 2:
        made = f"{parts[0]} == {parts[1]!r}"
    elif operation in _INFIX and len(parts) == 2:
        made = f"{_written(parts[0])} {_INFIX[operation]} {_written(parts[1])}"
    elif operation == "square":
        made = f"{_written(parts[0])} ** 2"
    else:
        return f"{operation}({', '.join(_written(part, outermost=True) for part in parts)})"
    return made if outermost else f"({made})"


#: how new columns are asked for
FEATURES = Hint(
    label="New columns",
    help='one in each line, such as bmi = clamp(kilos / height ** 2, 12, 45) or old = age * (sex == "female")',
    place="data",
    lines=3,
    wide=True,
    reads=formulas,
    writes=written,
)
