"""A system that lacks what only POSIX has: everything can be imported, and what keeps a home refuses in one sentence.

There is no Windows here. What is taken away is what it lacks and our own code could reach: modules, calls, signals.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.source import statements

SOURCE = Path(__file__).parents[2] / "src" / "thebes"
POSIX = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}
CALLS = {"fork", "forkpty", "geteuid", "getuid", "getegid", "getgid", "killpg", "setsid", "setuid", "setgid"}
SIGNALS = {"SIGHUP", "SIGUSR1", "SIGUSR2"}

#: the standard library's own use of these modules stays: on another system it does not have it either
ANOTHER_SYSTEM = dedent(f"""
    import asyncio, builtins, os, signal, subprocess, sys, tempfile

    imported = builtins.__import__

    def without(name, names=None, *more, **others):
        ours = str((names or {{}}).get("__name__", "")).split(".")[0] == "thebes"
        if ours and name.split(".")[0] in {sorted(POSIX)}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
        return imported(name, names, *more, **others)

    builtins.__import__ = without
    for call in {sorted(CALLS)}:
        delattr(os, call)
    for number in {sorted(SIGNALS)}:
        delattr(signal, number)
""")


def there(program: str) -> subprocess.CompletedProcess[str]:
    code = ANOTHER_SYSTEM + dedent(program)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return there(f"from thebes.cli.main import main; main({list(words)!r})")


def test_nothing_but_the_door_takes_what_only_some_systems_have() -> None:
    taken, named = [], re.compile(rf"\b({'|'.join(POSIX | CALLS | SIGNALS)})\b")
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path == SOURCE / "machine.py" or not named.search(text):  # most: reading each takes long
            continue
        tree = ast.parse(text)
        for node in statements(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            taken += [f"{path}: {name}" for name in names if name.split(".")[0] in POSIX]
        for each in ast.walk(tree):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                wanted = {"os": CALLS, "signal": SIGNALS}.get(each.value.id, set())
                taken += [f"{path}: {each.value.id}.{each.attr}"] if each.attr in wanted else []
    assert not taken, "only thebes/machine.py may take these:\n" + "\n".join(taken)


@pytest.mark.slow
def test_the_package_and_every_command_can_be_imported_on_another_system() -> None:
    told = there(
        """
        import thebes
        from thebes import ledger, task, learning, sql, connect, simulate, open_person, open_data
        from thebes.cli.main import wired
        wired()
        from importlib import import_module
        from pkgutil import walk_packages
        for info in walk_packages(thebes.__path__, "thebes."):
            if not info.name.endswith("__main__") and ".migrations." not in info.name and ".torch" not in info.name:
                import_module(info.name)
        print(sorted(name for name in sys.modules if name == "thebes.wire.local_server"))
        """
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.strip() == "['thebes.wire.local_server']"


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["person", "--help"], ["doctor", "--help"], ["--version"]])
def test_help_is_shown_on_another_system(words: list[str]) -> None:
    told = command(*words)
    assert (told.returncode, told.stderr) == (0, "")
    assert "hebes" in told.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["person", "--home", "HOME", "--coordinator", "http://127.0.0.1:1"],
        ["site", "init", "--home", "HOME"],
        ["coordinator", "--home", "HOME"],
        ["backup", "HOME", "--to", "HOME.copy"],
    ],
)
def test_what_keeps_a_home_refuses_in_one_sentence_on_another_system(words: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    if words[0] in ("person", "backup"):
        (home / "person.db").touch()
    before = list(home.iterdir())
    told = command(*(word.replace("HOME", str(home)) for word in words))
    assert (told.returncode, told.stdout) == (1, ""), told.stderr[-2000:]
    assert told.stderr.count("\n") == 1
    for part in ("lacks locks between processes", "not yet on Windows", "WSL 2"):
        assert part in told.stderr
    assert list(home.iterdir()) == before


@pytest.mark.slow
def test_a_ledger_needs_no_home_and_works_on_another_system(tmp_path: Path) -> None:
    told = there(
        f"""
        from thebes.ledger import Ledger
        ledger = Ledger("sqlite:///{tmp_path}/budget.db")
        ledger.open_block("day", epsilon=1.0, delta=1e-6)
        ledger.reserve(["day"], epsilon=0.1, delta=0.0, purpose="mean", spender="ana").consume()
        print(ledger.remaining("day").epsilon)
        """
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert float(told.stdout) == pytest.approx(0.9)


@pytest.mark.slow
def test_doctor_says_what_another_system_lacks() -> None:
    told = command("doctor")
    assert told.returncode == 0, told.stderr[-2000:]
    lines = told.stdout.splitlines()
    (home,) = [line for line in lines if "this system can keep a home" in line]
    assert home.startswith("absent")
    assert "WSL 2" in home
    for wall in ("system calls of strangers' work are filtered", "strangers' work has no network"):
        assert [line for line in lines if wall in line and line.startswith("absent")], told.stdout
