"""A file is short enough to be read at once. The failure says which is not, and what to look for."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "thebes"
MOST = 400  #: lines of a file


def test_no_file_is_longer_than_one_reads_at_once() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert files
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    long = {name: lines for name, lines in lengths.items() if lines > MOST}
    assert not long, f"over {MOST} lines: look which noun is missing, and give it a file, or find what can go: {long}"
