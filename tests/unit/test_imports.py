"""Whatever tests, audits, benches and tools take from a file of this house is there, also in programs that they hold as
strings and in the documentation's. Tests are not typed, and a name that has moved would else be found only by running
every test, which takes long. Nothing is imported here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.source import statements

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests", "evidence", "papers", "tools")
#: where a module is looked for; the last two are put on the path by whoever imports what lies there
PLACES = (ROOT / "src", ROOT, ROOT / "tests" / "scenarios", ROOT / "tests" / "contract")
OURS = "thebes|evidence|papers|tests|tools"
IMPORTED = re.compile(rf"\b(?:from|import) (?:{OURS})\b")
#: what is started, or put in the place of something, by its name
STARTED = re.compile(rf"-m(?:['\"], ['\"]| )((?:{OURS})(?:\.\w+)*)")
REPLACED = re.compile(r"setattr\(\s*f?['\"](thebes(?:\.\w+)+)['\"]")
FENCED = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


@cache
def module_of(name: str) -> Path | None:
    """The file or folder of a module of ours; None where it is somebody else's."""
    for place in PLACES:
        path = place.joinpath(*name.split("."))
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
        if path.is_dir() and (path / "__init__.py").exists():
            return path / "__init__.py"
        if path.is_dir() and place is not PLACES[0] and any(path.glob("*.py")):
            return path
    return None


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module(body=[], type_ignores=[])


def bound(nodes: list[ast.stmt]) -> Iterator[str]:
    """The names that statements bind, also where they stand under `if`, `try`, `with` and `for`."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*" and isinstance(node, ast.ImportFrom) and (star := module_of(node.module or "")):
                    yield from names_of(star)
                yield alias.asname or alias.name.split(".")[0]
        yield from (
            part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            for each in getattr(node, inner, []):
                yield from bound([each] if isinstance(each, ast.stmt) else each.body)


@cache
def bound_in(path: Path) -> frozenset[str]:
    """The names that a module binds by itself, also from inside of a function."""
    tree = tree_of(path)
    within = {name for node in statements(tree) if isinstance(node, ast.Global) for name in node.names}
    return frozenset(bound(tree.body)) | within


@cache
def names_of(path: Path) -> frozenset[str]:
    """The names that can be taken from a module: what it binds, and the modules in its folder."""
    if path.name != "__init__.py" and not path.is_dir():
        return bound_in(path)
    folder = path if path.is_dir() else path.parent
    return bound_in(path) | {entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}


def has(path: Path, name: str) -> bool:
    anything = "__getattr__" in names_of(path)
    return anything or name in names_of(path) or (name.startswith("__") and name.endswith("__"))


def missing_from(tree: ast.Module) -> list[str]:
    """List what is taken of our modules and not there, as `line: module.name`."""
    found: list[str] = []
    modules: dict[str, Path] = {}
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = module_of(alias.name.split(".")[0])
                if root is not None and module_of(alias.name) is None:
                    found.append(f"{node.lineno}: {alias.name}")
                elif alias.asname and (module := module_of(alias.name)):
                    modules[alias.asname] = module
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if module_of(origin.split(".")[0]) is None:
                continue
            path = module_of(origin)
            for alias in node.names:
                if path is None or (alias.name != "*" and not has(path, alias.name)):
                    found.append(f"{node.lineno}: {origin}.{alias.name}")
                elif (module := module_of(f"{origin}.{alias.name}")) and alias.name not in bound_in(path):
                    modules[alias.asname or alias.name] = module
    if not modules:
        return found
    nodes = list(ast.walk(tree))
    again = {part.id for part in nodes if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    again |= {part.arg for part in nodes if isinstance(part, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            of = modules.get(node.value.id) if node.value.id not in again else None
            if of is not None and not has(of, node.attr):
                found.append(f"{node.lineno}: {node.value.id}.{node.attr}")
    return found


def programs(tree: ast.Module, lines: list[str]) -> Iterator[ast.Module]:
    """Yield the programs among the strings of a source that import something of ours."""
    for node in statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines[node.lineno - 1] = ""
    if not IMPORTED.search("\n".join(lines)):
        return  # most files: to look at every expression takes long
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        told = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in parts)
        if isinstance(node, ast.JoinedStr | ast.Constant) and IMPORTED.search(told):
            yield from parsed(told)


def parsed(text: str) -> Iterator[ast.Module]:
    """Yield a text as a program; nothing of one that is none, such as a sentence about imports."""
    with suppress(SyntaxError):
        yield ast.parse(dedent(text))


def resolves(name: str) -> bool:
    """Return whether a dotted name leads to a module of ours, or to what is in one."""
    if module_of(name) is not None:
        return True
    origin, _, last = name.rpartition(".")
    path = module_of(origin) if origin else None
    return last in names_of(path) if path is not None else "." in origin and resolves(origin)


def starts(name: str) -> bool:
    """Return whether `python -m` finds something to run."""
    if (path := module_of(name)) is None:
        return False
    folder = path.parent if path.name == "__init__.py" else path
    return folder.suffix == ".py" or (folder / "__main__.py").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_program_in_a_string_takes_is_there(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path != Path(__file__):
            held = programs(tree_of(path), path.read_text(encoding="utf-8").splitlines())
            found = [each for program in held for each in missing_from(program)]
            assert not found, f"{path.relative_to(ROOT)} holds a program that takes what is not there: {found}"


def test_what_is_started_or_replaced_by_its_name_is_there() -> None:
    files = [path for folder in (*FOLDERS, "src", "docs") for path in (ROOT / folder).rglob("*.[pm][yd]")]
    for path in [*files, ROOT / "Makefile", ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        gone = [name for name in STARTED.findall(text) if not starts(name)]
        gone += [name for name in REPLACED.findall(text) if not resolves(name)]
        assert not gone, f"{path.relative_to(ROOT)} names what is not there: {gone}"


def test_what_the_documentation_takes_is_there() -> None:
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]:
        fenced = [code for _, code in FENCED.findall(path.read_text(encoding="utf-8"))]
        found = [each for code in fenced for program in parsed(code) for each in missing_from(program)]
        assert not found, f"{path.relative_to(ROOT)} takes what is not there: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_file_takes_from_another_is_there(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    missing = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in missing_from(tree_of(path))]
    assert not missing, "\n".join(["what files take and is not there:", *missing])


@pytest.mark.parametrize(
    "code",
    [
        "from thebes.ledger import Ledgers",
        "from thebes.ledgers import Ledger",
        "import thebes.ledgers",
        "from thebes.site import algorithm_process\nalgorithm_process.OWN",
        "import thebes.site.algorithm_process as there\nthere.OWN",
        "def test():\n    from processes import Processes",
        "from tests.scenarios.processes import Processes",
        "from evidence.bench.nowhere import run",
    ],
)
def test_what_is_not_there_is_found(code: str) -> None:
    assert len(missing_from(ast.parse(code))) == 1


def test_what_is_there_is_not() -> None:
    code = (
        "import thebes, numpy.nowhere\nfrom thebes.ledger import Ledger, sqlite\nfrom thebes.site import metrics\n"
        "metrics.Any\nsqlite.__name__\nfrom processes import Process\nfrom nobody import anything\nthebes.connect"
    )
    assert missing_from(ast.parse(code)) == []


def test_a_program_in_a_string_is_read_and_a_sentence_is_not() -> None:
    sentence = "TOLD = 'import thebes.nowhere, or do not'\n"
    held = sentence + "RUN = f'{sentence}\\nimport thebes.no'"
    assert {line for program in programs(ast.parse(held), held.splitlines()) for line in missing_from(program)} == {
        "2: thebes.no"
    }


@pytest.mark.parametrize("name", ["thebes.ledger", "thebes.ledger.Ledger", "thebes.ledger.Ledger.spend"])
def test_a_name_leads_to_a_module_or_what_is_in_it(name: str) -> None:
    assert resolves(name)
    assert not resolves(name.replace("ledger", "ledgers"))


@pytest.mark.parametrize(("name", "so"), [("papers", True), ("thebes.cli.main", True), ("thebes.data", False)])
def test_a_module_and_a_folder_with_a_main_can_be_started(name: str, so: bool) -> None:
    assert starts(name) == so
    assert not starts(f"{name}.nowhere")
