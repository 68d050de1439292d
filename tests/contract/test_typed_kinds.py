"""A kind that is written elsewhere is checked whole by its author's own `mypy --strict`, against installed Thebes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KINDS = ("tally", "daily")
#: mistakes that an author makes, each by what it changes and what the line that says KIND or OWNER is told
MISTAKES = {
    "a price of another document": (
        "kind.py",
        "def price(self, document: TallyDocument",
        "def price(self, document: int",
    ),
    "no explanation": ("kind.py", "def explain(", "def explained("),
    "a contribution that is none": ("owner.py", ") -> Contributions:", ") -> list[int]:"),
    "an aggregator that does not hear": ("aggregator.py", "def hear(", "def heard("),
}


@pytest.mark.slow
def test_strict_types_hold_for_a_kind_of_another_package_and_find_its_mistakes(tmp_path: Path) -> None:
    for kind in KINDS:
        shutil.copytree(Path(__file__).parent / kind, tmp_path / kind)
    wrong = {f"wrong{number}": mistake for number, mistake in enumerate(MISTAKES.values())}
    for name, (file, right, instead) in wrong.items():
        shutil.copytree(tmp_path / "tally", tmp_path / name)
        for path in (tmp_path / name).glob("*.py"):
            path.write_text(path.read_text().replace("from tally.", f"from {name}."))
        text = (tmp_path / name / file).read_text()
        assert right in text
        (tmp_path / name / file).write_text(text.replace(right, instead))
    asked = [argument for name in (*KINDS, *wrong) for argument in ("-p", name)]
    apart = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", *asked],
        cwd=tmp_path,
        env=apart,
        capture_output=True,
        text=True,
        check=False,
    )
    found = done.stdout.splitlines()
    assert not [line for line in found if line.startswith(KINDS)], done.stdout + done.stderr
    assert {line.split("/")[0] for line in found if ": error:" in line} == set(wrong), done.stdout + done.stderr
