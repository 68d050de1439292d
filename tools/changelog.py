"""The changelog: fragments of what users notice, gathered into one section a version.

    python tools/changelog.py check            # whether every fragment can be gathered; says what is wrong with which
    python tools/changelog.py gather 0.2.0     # one section of CHANGELOG.md out of the fragments, which are removed
    python tools/changelog.py notes 0.1.0      # the section of a version, to publish beside it

A fragment is a file `changelog.d/<what>.added.md` (or `.changed.md`, `.fixed.md`) with a few lines of Markdown. What
must stay true: a section that is there is never changed, and no fragment is removed before its text is in the file.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: in the order in which a section has them
HEADINGS = {"added": "Added", "changed": "Changed", "fixed": "Fixed"}
_NAME = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(HEADINGS)})\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


class ChangelogError(Exception):
    """The changelog cannot be written or read as asked; nothing was changed."""


@dataclass(frozen=True)
class Changelog:
    """CHANGELOG.md and the folder of fragments beside it."""

    file: Path = ROOT / "CHANGELOG.md"
    folder: Path = ROOT / "changelog.d"

    @property
    def fragments(self) -> list[Path]:
        """The files that wait to be gathered, by name."""
        return sorted(path for path in self.folder.iterdir() if path.name != "README.md")

    @property
    def versions(self) -> list[str]:
        """The versions that have a section, newest first."""
        return list(_sections(self.file.read_text(encoding="utf-8")))

    def faults(self) -> list[str]:
        """Return what is wrong, one sentence for each fragment that could not be gathered."""
        return [f"{path.name}: {said}" for path in self.fragments for said in _faults(path)]

    def gather(self, version: str, day: date) -> str:
        """Write the fragments into a section for the version above all others, remove them, and return the section."""
        if not _VERSION.fullmatch(version):
            raise ChangelogError(f"{version!r} is no version; write it as 0.2.0")
        if faults := self.faults():
            raise ChangelogError("Mend the fragments first:\n" + "\n".join(faults))
        fragments = self.fragments
        if not fragments:
            raise ChangelogError("There is no fragment in changelog.d, so there is nothing to write down.")
        text = self.file.read_text(encoding="utf-8")
        if version in _sections(text):
            raise ChangelogError(f"CHANGELOG.md has a section for {version} already; choose the next version.")
        section = f"## {version} ({day.isoformat()})\n\n{_body(fragments)}"
        head, mark, rest = text.partition("\n## ")
        made = f"{head.rstrip()}\n\n{section}" + (f"\n## {rest}" if mark else "")
        beside = self.file.with_suffix(".new")
        beside.write_text(made, encoding="utf-8")
        os.replace(beside, self.file)
        for path in fragments:
            path.unlink()
        return section

    def notes(self, version: str) -> str:
        """Return the text of a version's section without its heading."""
        found = _sections(self.file.read_text(encoding="utf-8")).get(version, "")
        if not found:
            raise ChangelogError(f"CHANGELOG.md says nothing of {version}; gather its fragments first.")
        return found + "\n"


def _faults(path: Path) -> list[str]:
    if not path.is_file() or not _NAME.fullmatch(path.name):
        return [f"is no fragment; name it like what-it-is.{'|'.join(HEADINGS)}.md, in small letters"]
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
    except UnicodeDecodeError:
        return ["is not written in UTF-8"]
    if not lines:
        return ["is empty; say in a line or two what is so now, for whom"]
    if any(line.startswith("#") for line in lines):
        return ["has a heading; the section brings its own"]
    return []


def _body(fragments: list[Path]) -> str:
    parts = []
    for kind, heading in HEADINGS.items():
        entries = [_entry(path) for path in fragments if path.name.endswith(f".{kind}.md")]
        if entries:
            parts.append(f"### {heading}\n\n" + "\n".join(entries) + "\n")
    return "\n".join(parts)


def _entry(path: Path) -> str:
    """Return a fragment as items of a list; one that is a list already stays as it is."""
    text = path.read_text(encoding="utf-8").strip()
    if text.startswith("- "):
        return text
    first, *others = text.splitlines()
    return "\n".join([f"- {first.rstrip()}", *(f"  {line.rstrip()}".rstrip() for line in others)])


def _sections(text: str) -> dict[str, str]:
    """Return what stands under each version's heading, newest first."""
    found = {}
    for each in re.split(r"(?m)^## ", text)[1:]:
        heading, _, body = each.partition("\n")
        found[heading.split()[0]] = body.strip()
    return found


def main(words: list[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("check", help="say which fragments cannot be gathered")
    gather = what.add_parser("gather", help="write a version's section and remove the fragments")
    gather.add_argument("version")
    gather.add_argument("--day", type=date.fromisoformat, default=None, help="its day (default: today)")
    what.add_parser("notes", help="print a version's section").add_argument("version")
    asked = parser.parse_args(words)
    log = Changelog()
    try:
        if asked.what == "gather":
            print(log.gather(asked.version, asked.day or date.today()), end="")
        elif asked.what == "notes":
            print(log.notes(asked.version), end="")
        elif faults := log.faults():
            raise ChangelogError("\n".join(faults))
    except ChangelogError as fault:
        print(fault, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
