"""Fragments become one section of the changelog, once, and none is lost on the way."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from thebes import __version__
from tools.changelog import Changelog, ChangelogError

DAY = date(2027, 1, 31)
BEFORE = "# Changelog\n\nWhat users notice.\n\n## 0.1.0 (2026-11-23)\n\nThe first.\n"


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("# What a fragment is\n")
    (tmp_path / "CHANGELOG.md").write_text(BEFORE)
    return Changelog(tmp_path / "CHANGELOG.md", tmp_path / "changelog.d")


def put(log: Changelog, **texts: str) -> None:
    for name, text in texts.items():
        (log.folder / f"{name.replace('__', '.').replace('_', '-')}.md").write_text(text, encoding="utf-8")


def test_fragments_become_one_section_above_the_others_and_are_removed(log: Changelog) -> None:
    put(log, b_ars__fixed="An error bar covers.\n", a_bar__fixed="A bar is drawn\nas it is.\n\nBelow, too.")
    put(log, maps__added="- Maps.\n- Of two kinds.\n", names__changed="Names hold no comma.")
    section = log.gather("0.2.0", DAY)
    assert section == (
        "## 0.2.0 (2027-01-31)\n\n### Added\n\n- Maps.\n- Of two kinds.\n\n### Changed\n\n- Names hold no comma.\n\n"
        "### Fixed\n\n- A bar is drawn\n  as it is.\n\n  Below, too.\n- An error bar covers.\n"
    )
    head, _, first = BEFORE.partition("## ")
    assert log.file.read_text() == f"{head}{section}\n## {first}"
    assert [path.name for path in log.folder.iterdir()] == ["README.md"]
    assert log.notes("0.2.0") == section.partition("\n\n")[2]
    assert log.notes("0.1.0") == "The first.\n"


def test_the_first_section_follows_what_the_file_says_of_itself(log: Changelog) -> None:
    log.file.write_text("# Changelog\n\nWhat users notice.\n")
    put(log, maps__added="Maps.")
    log.gather("0.1.0", DAY)
    assert log.file.read_text() == (
        "# Changelog\n\nWhat users notice.\n\n## 0.1.0 (2027-01-31)\n\n### Added\n\n- Maps.\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("maps.removed.md", b"Maps.", "is no fragment"),
        ("maps.md", b"Maps.", "is no fragment"),
        ("Maps.added.md", b"Maps.", "is no fragment"),
        ("maps_of.added.md", b"Maps.", "is no fragment"),
        ("maps.added.md~", b"Maps.", "is no fragment"),
        ("maps.added.md", b" \n", "is empty"),
        ("maps.added.md", b"## Maps\nMaps.", "has a heading"),
        ("maps.added.md", b"Maps \xff.", "is not written in UTF-8"),
    ],
)
def test_a_fragment_that_cannot_be_gathered_is_named_and_nothing_changes(
    log: Changelog, name: str, content: bytes, said: str
) -> None:
    put(log, good__added="Good.")
    assert log.faults() == []
    (log.folder / name).write_bytes(content)
    (fault,) = log.faults()
    assert fault.startswith(f"{name}: {said}")
    with pytest.raises(ChangelogError, match=said):
        log.gather("0.2.0", DAY)
    assert log.file.read_text() == BEFORE
    assert {path.name for path in log.folder.iterdir()} == {"README.md", "good.added.md", name}


@pytest.mark.parametrize(("version", "said"), [("0.1.0", "a section for 0.1.0 already"), ("next", "is no version")])
def test_a_section_is_written_once_and_for_a_version(log: Changelog, version: str, said: str) -> None:
    put(log, good__added="Good.")
    with pytest.raises(ChangelogError, match=said):
        log.gather(version, DAY)
    assert log.file.read_text() == BEFORE
    assert len(log.fragments) == 1


def test_without_fragments_there_is_no_section_and_without_a_section_no_notes(log: Changelog) -> None:
    with pytest.raises(ChangelogError, match="no fragment"):
        log.gather("0.2.0", DAY)
    with pytest.raises(ChangelogError, match=r"says nothing of 0\.2\.0"):
        log.notes("0.2.0")


def test_a_disk_that_fails_loses_no_fragment(log: Changelog, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    put(log, good__added="Good.")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        log.gather("0.2.0", DAY)
    assert log.file.read_text() == BEFORE
    assert [path.name for path in log.fragments] == ["good.added.md"]


def test_the_projects_own_fragments_can_be_gathered_and_its_version_is_described() -> None:
    assert Changelog().faults() == []
    assert len(Changelog().notes(__version__).splitlines()) > 10
