"""The example kind as somebody else would have written it, for every test of what becomes of its mistakes."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Written = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """The example kind in a package of its own, with some of its lines changed, or a file more."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def write(file: str = "kind.py", right: str = "", instead: str = "") -> str:
        name = f"mine_{len(made)}_{re.sub(r'[^a-z0-9]', '_', tmp_path.name)}"
        made.append(name)
        shutil.copytree(Path(__file__).parent / "tally", tmp_path / name)
        for path in (tmp_path / name).glob("*.py"):
            path.write_text(path.read_text().replace("from tally.", f"from {name}."))
        changed = tmp_path / name / file
        text = changed.read_text() if changed.exists() else ""
        assert right in text
        changed.write_text(text.replace(right, instead))
        importlib.invalidate_caches()
        return name

    yield write
    for module in [each for each in sys.modules if each.split(".")[0] in made]:
        del sys.modules[module]
