"""A release: wheel, source distribution, bill of materials, notes and checksums of the last commit, into `dist/`.

    python -m tools.release          # builds, and says how to tag
    python -m tools.release --tag    # builds, and makes the annotated tag

What must stay true: the same commit gives the same bytes, whenever, in whichever folder and under whichever umask it is
built (by the same versions of hatchling and zlib); nothing that is not committed is in it; the wheel is built from the
source distribution, so that this is whole; a version that is tagged is never built from another commit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools import supply
from tools.changelog import Changelog, ChangelogError

ROOT = Path(__file__).parents[1]
#: the optional parts that the bill of materials takes along
EXTRAS = ("all", "postgres", "torch")


class ReleaseError(Exception):
    """The last commit cannot be released, with what to do about it."""


@dataclass(frozen=True)
class Repository:
    """The checkout whose last commit is released."""

    folder: Path = ROOT

    def git(self, *words: str) -> bytes:
        """Return what git prints."""
        try:
            return subprocess.run(["git", "-C", str(self.folder), *words], check=True, stdout=subprocess.PIPE).stdout
        except (OSError, subprocess.CalledProcessError):
            raise ReleaseError("git cannot tell what the last commit is; release from a checkout of it.") from None

    def line(self, *words: str) -> str:
        """Return what git prints, as one text without its last line break."""
        return self.git(*words).decode().strip()

    @property
    def clean(self) -> bool:
        """Return whether nothing waits to be committed."""
        return not self.line("status", "--porcelain")

    def tagged(self, tag: str) -> bool:
        """Return whether the tag is there and names the last commit; a tag of another one is refused."""
        if not self.line("tag", "--list", tag):
            return False
        if self.line("rev-parse", f"{tag}^{{commit}}") != self.line("rev-parse", "HEAD"):
            raise ReleaseError(f"{tag} is another commit; raise __version__ in src/thebes/__init__.py.")
        return True

    def unpack(self, into: Path) -> None:
        """Write the files of the last commit into an empty folder."""
        with tarfile.open(fileobj=io.BytesIO(self.git("archive", "--format=tar", "HEAD"))) as packed:
            packed.extractall(into, filter="data")


def build(repository: Repository, out: Path) -> str:
    """Write everything that a release consists of into `out` and return its version."""
    moment = repository.line("log", "-1", "--format=%ct")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        repository.unpack(source)
        version = _version(source)
        repository.tagged(_tag(version))
        notes = _notes(source, version)
        bill = _bill(version, moment)
        stem = f"thebes-{version}"
        _hatch(source, "sdist", out, moment)
        with tarfile.open(out / f"{stem}.tar.gz") as packed:
            packed.extractall(scratch, filter="data")
        _hatch(Path(scratch) / stem, "wheel", out, moment)
    (out / f"{stem}.md").write_text(notes, encoding="utf-8")
    (out / f"{stem}.cdx.json").write_text(bill, encoding="utf-8")
    made = [f"{stem}-py3-none-any.whl", f"{stem}.cdx.json", f"{stem}.md", f"{stem}.tar.gz"]
    sums = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in made]
    (out / f"{stem}.sha256").write_text("".join(sums), encoding="utf-8")
    return version


def _tag(version: str) -> str:
    return f"v{version}"


def _version(source: Path) -> str:
    found = re.search(r'(?m)^__version__ = "(.+)"$', (source / "src/thebes/__init__.py").read_text(encoding="utf-8"))
    if found is None:
        raise ReleaseError("src/thebes/__init__.py has no __version__.")
    return found[1]


def _notes(source: Path, version: str) -> str:
    log = Changelog(source / "CHANGELOG.md", source / "changelog.d")
    if waiting := [path.name for path in log.fragments]:
        raise ReleaseError(f"Fragments wait ({', '.join(waiting[:3])}); first: make changelog VERSION={version}")
    return log.notes(version)


def _bill(version: str, moment: str) -> str:
    """Return the bill of materials of what is installed here, which has to be what is pinned."""
    pinned = supply.pins(supply.PINS)
    for part in supply.parts(EXTRAS):
        if pinned.get(part.name, ("none",))[0] != part.version.partition("+")[0]:
            raise ReleaseError(
                f"{part.name} {part.version} is installed and not what constraints.txt pins; first: make clean check"
            )
    bill = supply.bill(EXTRAS, moment=int(moment))
    if bill["metadata"]["component"]["version"] != version:
        raise ReleaseError(f"Another version than {version} is installed in .venv; first: make clean check")
    return json.dumps(bill, indent=2) + "\n"


def _hatch(source: Path, what: str, out: Path, moment: str) -> None:
    environment: Mapping[str, str] = {**os.environ, "SOURCE_DATE_EPOCH": moment}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", what, "-d", str(out.resolve())],
        cwd=source,
        env=environment,
        umask=0o022,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def tag_command(version: str, notes: Path) -> list[str]:
    """Return the command that tags the last commit with its notes, headings included."""
    return ["git", "tag", "--annotate", _tag(version), "--cleanup=whitespace", "--file", str(notes)]


def main(words: list[str] | None = None, repository: Repository | None = None, out: Path | None = None) -> int:
    """Build a release, and tag it or say how."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", action="store_true", help="make the annotated tag")
    asked = parser.parse_args(words)
    repository = repository or Repository()
    out = out or repository.folder / "dist"
    try:
        if asked.tag and not repository.clean:
            raise ReleaseError("Something is not committed, so that the tag would be of something else; commit it.")
        version = build(repository, out)
        print((out / f"thebes-{version}.sha256").read_text(encoding="utf-8"), end="")
        command = tag_command(version, out.resolve() / f"thebes-{version}.md")
        if repository.tagged(_tag(version)):
            print(f"{_tag(version)} is this commit already.")
        elif asked.tag:
            subprocess.run(command, cwd=repository.folder, check=True)
            print(f"{_tag(version)} is this commit now; publish it with: git push origin {_tag(version)}")
        elif repository.clean:
            print(f"To tag it: make release TAG=yes, or {shlex.join(command)}")
        else:
            print("What is not committed is in none of these; no tag before it is.")
    except (ReleaseError, ChangelogError) as fault:
        print(fault, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
