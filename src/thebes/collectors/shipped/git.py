"""A person's own commits, from the git repositories that they name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import since_1970, words
from thebes.privacy.faults import Mistake

#: what a repository's own settings could otherwise make git run
_HARMLESS = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "protocol.allow=never",
)
_FORMAT = "--format=tformat:%x1e%H%x1f%at%x1f%ae"
_SECONDS = 600
_OTHERS = "commits by other addresses than yours; --author says yours, once for each"


class Git(Collector):
    """Counts, not contents: no message, no file's name."""

    name = "git"
    version = 1
    description = "When you commit, and how much changes."
    reads = (
        "The history of the repositories you name, through git. Of each commit of yours the time, the repository's "
        "folder name, and how many files and lines changed. Never messages, file names or contents."
    )
    tables = (
        table(
            "commits",
            "Your own commits",
            at=("timestamp", "when it was written, in UTC"),
            repository=("string", "name of the repository's folder"),
            files=("integer", "files changed"),
            added=("integer", "lines added"),
            deleted=("integer", "lines deleted"),
        ),
    )
    options = (
        Option("repository", "a git repository on this machine", "path", required=True, several=True),
        Option("author", "your address in commits; default: what git is set to there", several=True),
    )
    every = timedelta(days=1)

    def collect(self, session: Session) -> None:
        heads, addresses = (session.state.setdefault(name, {}) for name in ("heads", "addresses"))
        for place in session.options["repository"]:
            repository = Path(place)
            mine = session.options["author"] or [_git(repository, "config", "user.email").strip()]
            if not all(mine):
                raise Mistake("--author", f"git knows no address of yours in {repository.name!r}; give one")
            # Whoever says another address wants the commits that were left out before; keys tell which are here.
            known = heads.get(place, []) if set(mine) <= set(addresses.get(place, mine)) else []
            now = sorted(set(_git(repository, "rev-parse", "--all").split()))
            kept = False
            for digest, at, added, deleted, files in _commits(repository, mine, now, known):
                row = {
                    "at": since_1970(at, per_second=1),
                    "repository": words(repository.resolve().name, 255),
                    "files": files,
                    "added": added,
                    "deleted": deleted,
                }
                session.insert("commits", row, key=digest)
                kept = True
            if now and not kept and (found := _count(repository, now, known)):
                session.leave_out(_OTHERS, found)
            heads[place] = now[:500]  # more are walked again; their keys are known
            addresses[place] = mine


def _commits(
    repository: Path, mine: list[str], now: list[str], known: list[str]
) -> Iterator[tuple[str, str, int, int, int]]:
    """(digest, time, lines added, lines deleted, files) of the commits since the heads that were seen before."""
    if not now:
        return
    authors = [f"--author={address}" for address in mine]
    told = _git(
        repository,
        "log",
        _FORMAT,
        "--numstat",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--fixed-strings",
        "--ignore-missing",
        *authors,
        "--stdin",
        said=_since(now, known),
    )
    for block in told.split("\x1e")[1:]:
        head, _, changes = block.partition("\n")
        digest, at, address = head.split("\x1f")
        if address not in mine:
            continue
        counts = [line.split("\t")[:2] for line in changes.splitlines() if "\t" in line]
        added, deleted = (sum(int(c[side]) for c in counts if c[side].isdigit()) for side in (0, 1))
        yield digest, at, added, deleted, len(counts)


def _count(repository: Path, now: list[str], known: list[str]) -> int:
    """Count all commits since the heads that were seen before, whoever wrote them."""
    return int(_git(repository, "rev-list", "--count", "--ignore-missing", "--stdin", said=_since(now, known)))


def _since(now: list[str], known: list[str]) -> str:
    return "\n".join([*now, *(f"^{head}" for head in known)]) + "\n"


def _git(repository: Path, *arguments: str, said: str = "") -> str:
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    command = ["git", "--no-pager", *_HARMLESS, "-C", str(repository), *arguments]
    try:
        done = subprocess.run(
            command, input=said.encode(), capture_output=True, timeout=_SECONDS, env=quiet, check=False
        )
    except FileNotFoundError:
        raise Mistake("git", "is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise Mistake("--repository", f"{repository.name!r} takes longer than {_SECONDS} seconds to read") from None
    if done.returncode and arguments[0] != "config":
        raise Mistake("--repository", f"{repository.name!r} cannot be read by git; is it a repository of yours?")
    return done.stdout.decode("utf-8", "replace")
