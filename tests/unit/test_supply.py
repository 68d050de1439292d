"""Parts of Thebes: pinned with hashes, listed with licences, and built into the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import supply

ROOT = Path(__file__).parents[2]


def test_every_pin_has_hashes_but_the_one_that_has_a_build_for_each_machine() -> None:
    assert supply.unhashed() == []
    plain, hashed = supply.pins(supply.PINS), supply.pins(supply.HASHED)
    assert set(plain) - set(hashed) == {"torch"}
    assert len(hashed) > 100
    text = (ROOT / "constraints.hashed.txt").read_text(encoding="utf-8")
    assert not re.search(r"https?:|--index|--find|file:", text)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (r"(?m)^numpy==\S+", "numpy==0.0.1", "numpy is "),
        (r"(?m)^numpy==\S+ \\\n(    --hash=\S+( \\)?\n)+", "", "numpy .* has no hashes"),
        (r"(?m)^(numpy==\S+) \\\n(    --hash=\S+( \\)?\n)+", r"\1\n", "numpy .* has no hashes"),
        (r"\A", "nobody==1 \\\\\n    --hash=sha256:" + "0" * 64 + "\n", "nobody has hashes and no pin"),
        (r"(?m)^(numpy==\S+ \\\n    --hash=sha256:)\w{10}", r"\1", "numpy .* has no hashes"),
    ],
)
def test_hashes_that_are_not_those_of_the_pins_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, said: str
) -> None:
    text = supply.HASHED.read_text(encoding="utf-8")
    changed = re.sub(before, after, text, count=1)
    assert changed != text
    (tmp_path / "hashed").write_text(changed, encoding="utf-8")
    monkeypatch.setattr(supply, "HASHED", tmp_path / "hashed")
    wrong = supply.unhashed()
    assert len(wrong) == 1
    assert re.search(said, wrong[0])


@pytest.mark.slow
def test_the_bill_names_what_is_installed_and_how_it_hangs_together() -> None:
    told = supply.bill(["all", "postgres"])
    assert told == supply.bill(["all", "postgres"])
    assert json.loads(json.dumps(told)) == told
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    refs = [component["bom-ref"] for component in told["components"]]
    assert len(refs) == len(set(refs)) > 60
    ours = told["metadata"]["component"]["bom-ref"]
    needs = {each["ref"]: each["dependsOn"] for each in told["dependencies"]}
    assert {ref for each in needs.values() for ref in each} == set(refs)  # each is needed by somebody
    assert any(ref.startswith("pkg:pypi/cryptography@") for ref in needs[ours])
    assert "vendored:htmx.min.js" in needs[ours]
    assert any(ref.startswith("pkg:pypi/psycopg@") for ref in refs)
    assert not any(ref.startswith("pkg:pypi/psycopg@") for ref in [c["bom-ref"] for c in supply.bill()["components"]])


def test_what_the_bill_lists_is_pinned() -> None:
    pinned = supply.pins(supply.PINS)
    found = {part.name: part.version.partition("+")[0] for part in supply.parts(["postgres", "torch", "dev"])}
    assert {name: version for name, version in found.items() if pinned.get(name, ("",))[0] != version} == {}


def test_nothing_that_is_shipped_has_a_licence_that_binds_its_users() -> None:
    found = supply.parts(["all", "postgres", "torch"])
    assert [part.name for part in found if part.binding or not part.licence] == []
    strict = supply.Part("x", "1", "GNU Affero General Public License v3", ())
    assert strict.binding
    assert not supply.Part("x", "1", "LGPL-3.0-only", ()).binding


def test_programs_of_others_in_the_package_are_those_that_are_named() -> None:
    named = {each["file"]: each for each in supply.vendored()}
    static = ROOT / "src" / "thebes" / "web" / "static"
    minified = {path.name for path in static.iterdir() if ".min." in path.name}
    assert minified == set(named)
    for each in named.values():
        assert set(each) == {"file", "name", "version", "licence", "sha256"}


def test_a_program_of_others_that_was_changed_stops_the_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(supply.STATIC, tmp_path / "static")
    with open(tmp_path / "static" / "htmx.min.js", "ab") as file:
        file.write(b";")
    monkeypatch.setattr(supply, "STATIC", tmp_path / "static")
    with pytest.raises(SystemExit, match="is not the htmx"):
        supply.bill()


@pytest.mark.slow
def test_the_same_files_give_the_same_wheel(tmp_path: Path) -> None:
    """Whenever, wherever and under whichever umask it is built."""
    digests, source = [], ROOT
    for number, umask in ((1, 0o022), (2, 0o077)):
        place = tmp_path / str(number) / "of another name"[: 5 * number]
        place.mkdir(parents=True)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copyfile(source / name, place / name)
        shutil.copytree(source / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
        source = place  # the second is of what the first was, whatever is edited meanwhile
        for path in place.rglob("*.py"):
            os.utime(path, (1e9 * number,) * 2)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"],
            cwd=place,
            umask=umask,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (wheel,) = (place / "out").iterdir()
        digests.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
        with zipfile.ZipFile(wheel) as packed:
            names = set(packed.namelist())
    assert digests[0] == digests[1]
    assert {"thebes/py.typed", "thebes/web/static/vendored.json", "thebes/cli/main.py"} <= names
    assert not any("__pycache__" in name or name.startswith("tests") for name in names)
