"""Commands typed, from the histories of bash, zsh and fish."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import lines, opened, own_folder, since_1970, words
from thebes.privacy.faults import Mistake

_FILES = (
    ("bash", ".bash_history"),
    ("zsh", ".zsh_history"),
    ("zsh", ".zhistory"),
    ("fish", ".local/share/fish/fish_history"),
)
_BUILTINS = (
    ". : [ alias bg bind break builtin cd command continue declare dirs disown echo enable eval exec exit export false "
    "fc fg for function getopts hash help history if jobs kill let local logout popd printf pushd pwd read readonly "
    "return select set shift shopt source suspend test time times trap true type typeset ulimit umask unalias unset "
    "until wait while"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_REMEMBERED = 50  #: lines at the end of a history without times, by which it is found again


class Shell(Collector):
    """The name of each command; the rest of the line, where passwords may stand, only when asked for."""

    name = "shell"
    version = 1
    description = "Which commands you type and when."
    reads = (
        "The histories of bash, zsh and fish in your own folder, or the files you name. Of each line the first word, "
        "if it is a program or a built-in of this machine (otherwise `other`: it may be a password typed too early); "
        "the whole line only with --arguments."
    )
    tables = (
        table(  # noqa: S604  a column of that name
            "commands",
            "Commands typed",
            at=("timestamp", "in UTC; missing where the shell does not keep times"),
            command=("string", "name of the program, or other"),
            shell=("string", "bash, zsh or fish"),
            line=("string", "the whole line; empty unless installed with --arguments"),
        ),
    )
    options = (
        Option(
            "file", "a history (its name must contain bash, zsh or fish); default: those found", "path", several=True
        ),
        Option("arguments", "keep whole lines, which may hold passwords and names", "flag"),
    )
    every = timedelta(hours=1)

    def collect(self, session: Session) -> None:
        files = [(_shell_of(Path(file)), Path(file)) for file in session.options["file"]]
        own = own_folder()
        files = files or [(shell, own / file) for shell, file in _FILES if (own / file).is_file()]
        if not files:
            raise Mistake("file", "no shell's history was found; name one with --file when installing")
        programs: dict[str, str] = {}
        tails = session.state.setdefault("tails", {})
        for shell, file in files:
            with opened(file) as stream:
                entries = list(_READERS[shell](_raw(stream, file)))
            tails[str(file)] = self._insert(session, shell, entries, tails.get(str(file), []), programs)

    def _insert(
        self, session: Session, shell: str, entries: list[_Entry], tail: list[str], programs: dict[str, str]
    ) -> list[str]:
        digests = [_digest(entry) for entry in entries]
        for entry in entries[_overlap(digests, tail) :]:
            row = {
                "at": entry.at,
                "command": _command(entry.line, programs),
                "shell": shell,
                "line": words(entry.line) if session.options["arguments"] else None,
            }
            session.insert("commands", row)
        return digests[-_REMEMBERED:] or tail


@dataclass(frozen=True, slots=True)
class _Entry:
    line: str
    at: datetime | None = None


def _overlap(digests: list[str], tail: list[str]) -> int:
    """Find where what is new begins: after the last place where the remembered lines stand. Histories lose lines at
    their beginning, so fewer of the remembered lines may be left."""
    for place in range(len(digests), 0, -1):
        length = min(len(tail), place)
        if length and digests[place - length : place] == tail[-length:]:
            return place
    return 0


def _command(line: str, programs: dict[str, str]) -> str:
    """The first word that is no assignment, if this machine knows it."""
    for word in line.split():
        if not _ASSIGNMENT.match(word):
            name = word.rpartition("/")[2]
            if word not in programs:
                programs[word] = name if name in _BUILTINS.split() or shutil.which(word) is not None else "other"
            return programs[word]
    return "other"


def _digest(entry: _Entry) -> str:
    at = "" if entry.at is None else str(int(entry.at.timestamp()))
    return hashlib.sha256(f"{at}\n{entry.line}".encode("utf-8", "replace")).hexdigest()[:16]


def _raw(stream: object, file: Path) -> Iterator[str]:
    # commands may hold any bytes; as Latin-1 all of them can be read, and are put right by each shell's reader
    return (line for _, line in lines(stream, file, encoding="latin-1"))  # type: ignore[arg-type]


def _text(line: str) -> str:
    return line.encode("latin-1").decode("utf-8", "replace")


def _bash(raw: Iterator[str]) -> Iterator[_Entry]:
    at = None
    for line in raw:
        if re.fullmatch(r"#\d{9,11}", line):
            at = since_1970(line[1:], per_second=1)
        elif line.strip():
            yield _Entry(_text(line), at)
            at = None


def _zsh(raw: Iterator[str]) -> Iterator[_Entry]:
    for line in raw:
        while line.endswith("\\") and (more := next(raw, None)) is not None:
            line = f"{line[:-1]}\n{more}"
        line = _text(re.sub("\x83(.)", lambda found: chr(ord(found[1]) ^ 32), line, flags=re.DOTALL))
        timed = re.match(r": (\d{1,11}):\d+;", line)
        at = None if timed is None else since_1970(timed[1], per_second=1)
        line = line if timed is None else line[timed.end() :]
        if line.strip():
            yield _Entry(line, at)


def _fish(raw: Iterator[str]) -> Iterator[_Entry]:
    line = None
    for text in raw:
        if text.startswith("- cmd: "):
            if line is not None:
                yield _Entry(line)
            line = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], _text(text[7:]))
        elif line is not None and (timed := re.fullmatch(r"  when: (\d{1,11})", text)):
            yield _Entry(line, since_1970(timed[1], per_second=1))
            line = None
    if line is not None:
        yield _Entry(line)


_READERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def _shell_of(file: Path) -> str:
    for shell in _READERS:
        if shell in file.name or (shell == "zsh" and "zhistory" in file.name):
            return shell
    raise Mistake("file", f"{file.name!r} does not say whose history it is; its name must contain bash, zsh or fish")
