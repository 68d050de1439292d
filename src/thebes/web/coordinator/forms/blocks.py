"""An algorithm of blocks that is being composed: the form's fields and where each stands in the document, and new
columns as formulas.

What must stay true: a formula means the same expression that it was written from, or there is none; a document that the
form has no place for stays JSON.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from thebes.tasks.document import InvalidDocument

MAPPINGS = {
    "gradient": "in which direction a model would have to change, round after round",
    "statistic": "a number of each row, once",
}
REDUCED = ("mean", "sum", "histogram")
RULES = {
    "sgd": "sgd: straight on",
    "momentum": "momentum: keeps some of its speed",
    "adam": "adam: each weight at its own speed",
    "newton": "newton: by the curvature, for few inputs",
}
_GRADIENT = ("model", "inputs", "output", "clip", "rows", "batch")
_STATISTIC = ("column", "by", "bins")
_UPDATE = ("rule", "learning_rate", "momentum", "ridge")
_STOP = ("rounds", "tolerance")
FIELDS = (
    "mapping", "reduce", "features", "column", "bins", "model", "output", "clip", "rows", "batch", "rule",
    "learning_rate", "momentum", "ridge", "rounds", "tolerance", "loss_share",
)  # fmt: skip
WORDS = frozenset(["mapping", "reduce", "features", "column", "model", "output", "rows", "rule"])
_OF_GRADIENT = frozenset([*_GRADIENT, *_UPDATE, *_STOP, "loss_share"])
_OF_STATISTIC = frozenset([*_STATISTIC, "reduce"])
#: where a trouble of a whole block can be mended
_BLOCKS = {"map": "mapping", "map.gradient": "model", "map.statistic": "column", "update": "rule", "stop": "rounds"}
_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}
_LONGEST = 4000  #: characters of a formula


def idle(name: str, mapping: str) -> bool:
    """Return whether a field means nothing for what is mapped."""
    return name in (_OF_STATISTIC if mapping == "gradient" else _OF_GRADIENT)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A document of these fields; InvalidDocument where a formula cannot be read."""
    made = dict(flat)
    gradient = made.pop("mapping", "gradient") == "gradient"
    features = formulas(made.pop("features", ""))
    if gradient:
        made |= {"map": {"gradient": _taken(made, _GRADIENT)}, "reduce": "mean"}
        made |= {"update": _taken(made, _UPDATE), "stop": _taken(made, _STOP)}
    else:
        made["map"] = {"statistic": _taken(made, _STATISTIC)}
    return made | ({"features": features} if features else {})


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that mean a document; InvalidDocument where the form has no place for it."""
    made = {name: value for name, value in document.items() if name not in ("map", "update", "stop", "features")}
    blocks = document.get("map")
    if not isinstance(blocks, Mapping) or len(blocks) != 1:
        raise InvalidDocument([("map", "must hold either a gradient or a statistic")])
    ((mapping, block),) = blocks.items()
    known = {"gradient": _GRADIENT, "statistic": _STATISTIC}.get(mapping, ())
    for held, names in ((block, known), (document.get("update") or {}, _UPDATE), (document.get("stop") or {}, _STOP)):
        if not isinstance(held, Mapping) or not set(held) <= set(names):
            raise InvalidDocument([("map", "holds what the form has no place for")])
        made |= held
    if "loss" in block or isinstance(made.get("bins"), (list, tuple)):
        raise InvalidDocument([("map", "holds a network or places to cut at, for which the form has no place")])
    lines = [f"{name} = {formula(body)}" for name, body in (document.get("features") or {}).items()]
    return {**made, "mapping": mapping, "features": "\n".join(lines)}


def place(field: str) -> str:
    """The field of the form where a trouble of the document can be mended."""
    if field in _BLOCKS:
        return _BLOCKS[field]
    top, _, rest = field.partition(".")
    return rest.rpartition(".")[2] if top in ("map", "update", "stop") else top


# --- formulas -----------------------------------------------------------------------------------------------


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
        try:
            made[name] = _expression(ast.parse(written[:_LONGEST], mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InvalidDocument([("features", f"have a formula for {name[:40]!r} that cannot be read")]) from None
    return made


def troubles(text: str) -> list[tuple[str, str]]:
    """List what keeps formulas from being read."""
    try:
        formulas(text)
    except InvalidDocument as refused:
        return list(refused.problems)
    return []


def formula(body: Any) -> str:
    """An expression as a formula that reads back as the same; InvalidDocument where there is none."""
    try:
        written = _written(body, outermost=True)
        if _expression(ast.parse(written, mode="eval").body) == body:
            return written
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise InvalidDocument([("features", "hold an expression that is no formula of the form's")])


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


def _taken(made: dict[str, Any], block: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a block, out of the others."""
    return {name: made.pop(name) for name in block if name in made}
