"""A release is the same bytes from the same commit, holds what is committed only, and is not tagged by mistake."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from thebes import __version__
from tools.changelog import ChangelogError
from tools.release import ROOT, ReleaseError, Repository, build, main

NAMES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")
STEM = f"thebes-{__version__}"


@pytest.fixture(autouse=True)
def _ana(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever commits and tags here, whatever is set up on this machine."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ana")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ana@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-11-23T12:00:00Z")


def commit(folder: Path) -> None:
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(folder), "commit", "-q", "-m", "Make what is released"], check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository of the package's face only, which is enough for all but the bytes."""
    return made(tmp_path / "repository", ignore=lambda _, names: {*names} - {"thebes", "__init__.py"})


_CACHES = shutil.ignore_patterns("__pycache__")


def made(folder: Path, ignore: Callable[[Any, list[str]], set[str]] = _CACHES) -> Repository:
    folder.mkdir()
    for name in NAMES:
        shutil.copyfile(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignore)
    (folder / "changelog.d").mkdir()
    (folder / "changelog.d" / "README.md").write_text("# Fragments\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    commit(folder)
    return Repository(folder)


@pytest.mark.slow
def test_the_same_commit_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another folder, on another day, in another zone, under another umask, beside what is not committed."""
    first = made(tmp_path / "first")
    subprocess.run(["git", "clone", "-q", str(first.folder), str(tmp_path / "of another name")], check=True)
    second = Repository(tmp_path / "of another name")
    assert build(first, tmp_path / "out") == __version__
    (second.folder / "src" / "thebes" / "uncommitted.py").write_text("secret = 1\n")
    for path in second.folder.rglob("*.py"):
        os.utime(path, (2e9, 2e9))
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    before = os.umask(0o077)
    try:
        build(second, tmp_path / "again")
    finally:
        os.umask(before)
    made_once = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(made_once) == {f"{STEM}{end}" for end in (".tar.gz", "-py3-none-any.whl", ".cdx.json", ".md", ".sha256")}
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == made_once
    for line in made_once[f"{STEM}.sha256"].decode().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256(made_once[name]).hexdigest() == digest
    with zipfile.ZipFile(tmp_path / "out" / f"{STEM}-py3-none-any.whl") as wheel:
        assert {"thebes/py.typed", "thebes/cli/main.py"} <= set(wheel.namelist())
        assert "thebes/uncommitted.py" not in wheel.namelist()
        assert {each.date_time[:3] for each in wheel.infolist()} == {(2026, 11, 23)}
    with tarfile.open(tmp_path / "out" / f"{STEM}.tar.gz") as sources:
        assert {f"{STEM}/pyproject.toml", f"{STEM}/src/thebes/py.typed"} <= set(sources.getnames())
        assert {each.mtime for each in sources} == {1795435200}
    told = json.loads(made_once[f"{STEM}.cdx.json"])
    assert told["metadata"]["timestamp"] == "2026-11-23T12:00:00Z"
    assert made_once[f"{STEM}.md"].decode().startswith("The first version.")


@pytest.mark.slow
def test_a_release_is_tagged_on_request_once_and_with_its_notes(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([], repository, out) == 0
    assert f"git tag --annotate v{__version__}" in capsys.readouterr().out
    assert repository.line("tag", "--list") == ""
    assert main(["--tag"], repository, out) == 0
    assert "is this commit now" in capsys.readouterr().out
    assert repository.line("cat-file", "-t", f"v{__version__}") == "tag"
    assert repository.line("tag", "--list", "--format=%(contents)") == (out / f"{STEM}.md").read_text().strip()
    assert main(["--tag"], repository, out) == 0
    assert "is this commit already" in capsys.readouterr().out
    (repository.folder / "README.md").write_text("Another.\n")
    commit(repository.folder)
    assert main([], repository, out) == 1
    assert "is another commit" in capsys.readouterr().err


def test_what_is_not_committed_is_neither_released_nor_tagged(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.folder / "README.md").write_text("Uncommitted.\n")
    assert main(["--tag"], repository, tmp_path / "out") == 1
    assert not (tmp_path / "out").exists()
    assert main([], repository, tmp_path / "out") == 0
    assert "no tag before it is" in capsys.readouterr().out
    with tarfile.open(tmp_path / "out" / f"{STEM}.tar.gz") as sources:
        read = sources.extractfile(f"{STEM}/README.md")
        assert read is not None
        assert read.read() == (ROOT / "README.md").read_bytes()


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([], Repository(tmp_path), tmp_path / "out") == 1
    assert "release from a checkout" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("changelog.d/maps.added.md", "Maps.\n", "Fragments wait .maps.added.md"),
        ("CHANGELOG.md", "# Changelog\n", "says nothing of"),
        ("src/thebes/__init__.py", "", "has no __version__"),
    ],
)
def test_a_commit_that_is_no_release_yet_is_refused(
    repository: Repository, tmp_path: Path, name: str, content: str, said: str
) -> None:
    (repository.folder / name).write_text(content)
    commit(repository.folder)
    with pytest.raises((ReleaseError, ChangelogError), match=said):
        build(repository, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_environment_of_another_version_makes_no_bill(repository: Repository, tmp_path: Path) -> None:
    face = repository.folder / "src" / "thebes" / "__init__.py"
    face.write_text(face.read_text().replace(f'"{__version__}"', '"7.0.0"'))
    log = repository.folder / "CHANGELOG.md"
    log.write_text(log.read_text() + "\n## 7.0.0 (2030-01-01)\n\nMaps.\n")
    commit(repository.folder)
    with pytest.raises(ReleaseError, match=r"Another version than 7\.0\.0 is installed"):
        build(repository, tmp_path / "out")
