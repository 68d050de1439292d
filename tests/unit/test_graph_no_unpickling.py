"""Nothing under src/thebes unpickles, evaluates text, or loads a torch program, except one named line."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "thebes"
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "sympy", "jsonpickle"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
CALLS = {
    *("torch.load", "torch.jit.load", "torch.jit.script", "torch.export.load", "torch.package.PackageImporter"),
    *("torch.hub.load", "torch.serialization.load", "sympify", "parse_expr", "read_pickle"),
}
ALLOWED = {("torch.py", "torch.load")}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def findings(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
            found |= {name} if name.split(".")[0] in MODULES else set()
            found |= {f"{name}.{alias.name}" for alias in node.names if f"{name}.{alias.name}" in CALLS}
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            if called in BUILTINS or called in CALLS or called.rpartition(".")[2] in CALLS:
                found.add(called)
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False":
                    found.add(keyword.arg)
    return found


@pytest.mark.slow
def test_source_never_unpickles_or_evaluates():
    found = {
        (str(path.relative_to(SOURCE)), what)
        for path in sorted(SOURCE.rglob("*.py"))
        for what in findings(ast.parse(path.read_text()))
    }
    assert found == ALLOWED, "models and data are data: only the requestor's converter may read a torch file"


def test_the_one_torch_load_reads_tensors_only():
    calls = [
        node
        for node in ast.walk(ast.parse((SOURCE / "torch.py").read_text()))
        if isinstance(node, ast.Call) and dotted(node.func) == "torch.load"
    ]
    assert len(calls) == 1
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in calls[0].keywords}
    assert given["weights_only"] == "True"


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load('x')",
        "from torch.jit import load",
        "eval('1')",
        "numpy.load(file, allow_pickle=True)",
        "sympy.sympify('x')",
    ],
)
def test_the_search_finds_what_it_is_for(line):
    assert findings(ast.parse(line))


@pytest.mark.parametrize("line", ["model.eval()", "numpy.load(file, allow_pickle=False)", "json.load(file)"])
def test_the_search_lets_harmless_lines_pass(line):
    assert not findings(ast.parse(line))
