"""The ground of every test: the keyring of whoever runs it is never touched, and no test waits for a disk or for
threads of another one."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterable
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from tests.support import examples

# A change is judged by the same examples as the one before it; what `make laws` finds becomes an example that stays.
examples.load()
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
# Hundreds of processes are started; each would compile the whole house anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Tests run beside each other, each on one core: threads inside of one only wait for each other.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
# A killed process loses nothing that it wrote, on a disk or in memory; but a disk is waited for at every commit.
_MEMORY = Path("/dev/shm")
_ENOUGH = 6 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK | os.X_OK)
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    and min(shutil.disk_usage(_MEMORY).free, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) > _ENOUGH
):
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None  # asked for before this file was read, it would stay where it was for pytest's own folders


@cache
def _marks(file: Path) -> list[set[str]]:
    """List which of `slow` and `heavy` a test in a file can be, as its text says: one with `few` either."""
    text = file.read_text()
    always = re.findall(r"^pytestmark = .*mark\.(slow|heavy)\b", text, re.M)
    some = [mark for mark in ("slow", "heavy") if re.search(rf"mark\.({mark}|few)\b", text)]
    return [{*always, *some[first:last]} for first in (0, 1) for last in (0, 1, 2)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a test that is asked for, where no more is asked for than `slow` or `heavy`, or not: to
    import all of them takes every worker longer than most of them take to pass."""
    asked, known = config.getoption("markexpr"), {"slow", "heavy", "not", "and", "or"}
    if not collection_path.match("test_*.py") or not known >= {*re.findall(r"\w+", asked)}:
        return None
    able = _marks(collection_path)
    return None if any(eval(asked or "True", {mark: mark in each for mark in known}) for each in able) else True


class _FromTheEnd(pytest.Dir):
    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        return [*super().collect()][::-1]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Let every second worker read the tests from their end: each then keeps the compiled half of them for the other,
    where both would compile all of them in the same order. `_mixed` puts them into one order again."""
    worker = getattr(parent.config, "workerinput", {"workerid": "gw0"})["workerid"]
    if int(worker.removeprefix("gw")) % 2 == 0 or (path / "__init__.py").exists():
        return None
    return _FromTheEnd.from_parent(parent, path=path)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Processes that share the tests must call them alike: a name may not tell where in memory something lies. And a
    file must say itself which marks its tests have, or it would be left out."""
    assert " at 0x" not in item.nodeid, f"{item.nodeid} has another name in every process: give its cases ids"
    marked = {"slow", "heavy"} & {mark.name for mark in item.iter_markers()}
    assert marked in _marks(item.path), f"{item.nodeid} is {marked} by what another file says: mark it where it is"


@pytest.hookimpl(wrapper=True, tryfirst=True)  # marks come before cases are chosen by them, the order afterwards
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark all but `n` cases of a test that says `few(n)` as slow, and all but `slow` of those, where it says so, as
    heavy; those that are heavy anyhow are none of them. Which ones stay follows from their names alone, so that a case
    that is added moves no more than one other."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("few") is not None and item.get_closest_marker("heavy") is None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for each in cases.values():
        few = each[0].get_closest_marker("few")
        assert few is not None
        (kept,), rest = few.args, few.kwargs.get("slow", len(each))
        for place, item in enumerate(sorted(each, key=lambda case: crc32(case.nodeid.encode()))[kept:]):
            item.add_marker(pytest.mark.slow if place < rest else pytest.mark.heavy)
    yield
    if hasattr(config, "workerinput"):
        items[:] = _mixed(items)


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put files that mostly wait between files that compute, so that workers rarely do the same, and no long one last:
    the files that compute least come at the end."""
    files = defaultdict[Path, list[pytest.Item]](list)
    for item in items:
        files[item.path].append(item)
    waiting = sorted(file for file in files if file.parent.name in ("scenarios", "browser"))
    computing = sorted(files.keys() - set(waiting), key=lambda file: (file.parent.name == "unit", file))
    between = 3  #: files that compute, after each that waits
    order = list[Path]()
    while waiting or computing:
        order += [*waiting[:1], *computing[:between]]
        del waiting[:1], computing[:between]
    return [item for file in order for item in files[file]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what is there now until the end; looking for garbage in it again and again takes long."""
    gc.collect()
    gc.freeze()
