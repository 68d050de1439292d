"""Sources that other packages bring: found as they are installed, and never in the place of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from thebes.data.connectors.registry import OURS, kinds, open_connector
from thebes.privacy.faults import Mistake

MODULE = """
class Opened:
    def __init__(self, source, folder):
        self.source = source

def open_it(source, *, folder):
    return Opened(source, folder)
"""


def install(folder: Path, package: str, kind: str, function: str = "open_it") -> None:
    """Leave a package in a folder as an installer does."""
    (folder / f"{package}.py").write_text(MODULE)
    facts = folder / f"{package}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[thebes.connectors]\n{kind} = {package}:{function}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_source_of_an_installed_package_is_opened_and_listed(folder: Path) -> None:
    install(folder, "tapes", "tape")
    opened = open_connector({"kind": "tape", "path": "x"}, folder=folder)
    assert opened.source == {"kind": "tape", "path": "x"}  # type: ignore[attr-defined]
    with pytest.raises(Mistake, match=r"^source.kind: must be one of .*, tape$"):
        open_connector({"kind": "tapes"}, folder=folder)


def test_nothing_that_is_installed_takes_the_place_of_a_source_of_ours(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(folder, "sly", "sqlite")
    assert kinds()["sqlite"] == (OURS["sqlite"],)
    assert caplog.messages == ["sly brings a source 'sqlite', which is a kind of Thebes itself: not used"]


def test_a_kind_that_two_packages_bring_is_refused_and_no_other(folder: Path) -> None:
    for package, kind in (("one", "tape"), ("two", "tape"), ("three", "reel")):
        install(folder, package, kind)
    with pytest.raises(Mistake, match=r"'tape' is brought by one:open_it and by two:open_it; uninstall one"):
        open_connector({"kind": "tape"}, folder=folder)
    assert open_connector({"kind": "reel"}, folder=folder)


def test_a_package_that_lacks_what_it_names_is_refused_in_a_sentence(folder: Path) -> None:
    install(folder, "torn", "torn", function="gone")
    with pytest.raises(Mistake, match="'torn' cannot be opened: its package says torn:gone, which cannot be loaded"):
        open_connector({"kind": "torn"}, folder=folder)
