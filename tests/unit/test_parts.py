"""People and requestors need no package of another role, and whatever lacks one names the extra that brings it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from thebes.parts import PARTS, sentence
from thebes.privacy.faults import MissingPart, ThebesError

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: whose name in the index differs from what is imported
CALLED = {
    "adbc_driver_postgresql": "adbc-driver-postgresql", "dp_accounting": "dp-accounting", "grpc": "grpcio",
    "PIL": "pillow", "prometheus_client": "prometheus-client", "sklearn": "scikit-learn",
}  # fmt: skip

SCHEMA = {"unit": "person", "columns": {"a": {"type": "float", "low": 0, "high": 1}}}

ROLES = """
import importlib, pkgutil
for room in ("person", "requestor", "collectors", "sql", "tokens", "wire", "web.person"):
    package = importlib.import_module(f"thebes.{room}")
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # simulated answers of sites, and the figures of servers: with `thebes[site]`
        if found.name not in ("thebes.requestor.curve", "thebes.wire.exposition"):
            importlib.import_module(found.name)
from thebes.tasks import registry
registry.load_all()
registry.load_releases()
from thebes.cli.homes import copy, examination
from thebes.cli.main import main
main(["--help"])
"""


COORDINATOR = """
import importlib, pkgutil
package = importlib.import_module("thebes.coordinator")
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if ".migrations." not in found.name:  # these are run, not imported
        importlib.import_module(found.name)
"""


def thin(code: str, *words: str, extra: str = "") -> subprocess.CompletedProcess[str]:
    """Python where only what `pip install thebes` brings can be imported, or `pip install thebes[extra]`."""
    paths = os.pathsep.join([str(ROOT / "tests" / "support" / "thin"), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": paths, "THIN_WITH": extra}
    command, typed = [sys.executable, "-c", code, *words], "a-long-password-of-hers\n"
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, input=typed)


def test_everything_of_a_person_and_a_requestor_is_there_without_the_other_roles_packages() -> None:
    done = thin(ROLES)
    assert done.returncode == 0, done.stderr
    assert "person" in done.stdout


def test_a_coordinator_runs_and_comes_back_without_the_packages_of_sites(tmp_path: Path) -> None:
    told = "import sys\nfrom thebes.cli.main import main\nmain(sys.argv[1:])"
    home, copy, back = (str(tmp_path / name) for name in ("home", "copy.thebes", "back"))
    (tmp_path / "home").mkdir(mode=0o700)
    for code, *words in (
        (COORDINATOR,),
        (told, "user", "add", "ana", "--role", "requestor", "--home", home, "--password-stdin"),
        (told, "backup", home, "--to", copy),
        (told, "restore", copy, "--home", back),
        (told, "user", "list", "--home", back),
    ):
        done = thin(code, *words, extra="coordinator")
        assert done.returncode == 0, done.stderr
    assert "ana" in done.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("coordinator", "--home", "c"), "coordinator"),
        (("site", "--home", "s", "--coordinator", "localhost:1"), None),  # which comes before what it lacks
    ],
)
def test_a_command_whose_part_is_missing_is_one_sentence_that_names_the_extra(tmp_path: Path, words, extra) -> None:
    done = thin("import os, sys; os.chdir(sys.argv[1])\nfrom thebes.cli.main import main\nmain(sys.argv[2:])",
                str(tmp_path), *words)  # fmt: skip
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1, done.stderr
    if extra is not None:
        assert re.search(rf"not installed: pip install 'thebes\[{extra}\]'", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import thebes; thebes.learning.KMeans", "learn"),
        (f"import thebes; thebes.open_data({{'a': [1]}}, {SCHEMA}, epsilon=1)", "site"),
    ],
)
def test_python_says_the_same_sentence(code: str, extra: str) -> None:
    done = thin(code)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("thebes.privacy.faults.MissingPart: this needs ")
    assert last.endswith(f"which is not installed: pip install 'thebes[{extra}]'")


def test_nobody_elses_imports_change() -> None:
    done = thin(
        "import thebes, importlib.util\nassert importlib.util.find_spec('duckdb') is None\n"
        "try:\n    import duckdb\nexcept ModuleNotFoundError as error:\n    print(type(error).__name__, error)"
    )
    assert (done.returncode, done.stdout) == (0, "ModuleNotFoundError No module named 'duckdb'\n"), done.stderr


def test_every_part_is_in_the_extras_that_its_sentence_names() -> None:
    assert issubclass(MissingPart, ThebesError)
    extras = PROJECT["optional-dependencies"]
    for module, (_, named) in PARTS.items():
        for extra in named:
            packages = [re.split(r"[\[<>=]", each)[0] for each in extras[extra]]
            assert CALLED.get(module, module) in packages, (module, extra)
    plain = [re.split(r"[\[<>=]", each)[0] for each in PROJECT["dependencies"]]
    assert not {CALLED.get(module, module) for module in PARTS} & set(plain)
    assert sentence("grpc", "coordinator").endswith("'thebes[coordinator]'")


ROWS = """
import numpy as np, thebes
document = {
    "type": "bounded", "epsilon": 1.0, "min_count": 11, "featurizer": "SELECT hours FROM sleep.nights",
    "bounds": {"hours": {"type": "range", "low": 0, "high": 12}},
}
release = thebes.simulate(document, {"hours": np.full(30, 7.5)}, seed=1)
told = release.as_json()["value"]
same = release.as_columns()["hours"] == [row["hours"] for row in told]
print(len(told), sorted(told[0]), len(release.points()), same)
"""


def test_an_answer_of_rows_is_made_and_told_without_pandas() -> None:
    done = thin(ROWS)
    assert done.stdout.strip() == "30 ['hours', 'hours.present'] 2 True", done.stderr
    asked = thin(ROWS + "\nrelease.value")
    assert "this needs pandas" in asked.stderr
