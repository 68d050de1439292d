"""The programs that run and how busy they are, by looking at the processes of this user from time to time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from thebes import machine
from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import words
from thebes.privacy.faults import Mistake

_LONGEST_GAP = 6  #: intervals; after a longer pause the machine or the collector was off, and nothing is claimed


class Screen(Collector):
    """Two looks make an interval. What it measures is processor time, which is not attention."""

    name = "screen"
    version = 1
    description = "Which programs you use: when they start and end, and how busy they are."
    reads = (
        "The list of your own processes in /proc: the name of each program, when it started, its processor time. Never "
        "its arguments, its windows or what it shows."
    )
    tables = (
        table(
            "events",
            "When a program was first and last seen",
            at=("timestamp", "in UTC, to within one look"),
            event=("string", "opened or closed"),
            application=("string", "name of the program"),
        ),
        table(
            "use",
            "How busy each program was between two looks; programs that did nothing are left out",
            at=("timestamp", "end of the interval, in UTC"),
            application=("string", "name of the program"),
            busy_seconds=("float", "processor time in the interval"),
            interval_seconds=("float", "length of the interval"),
        ),
    )
    options = (Option("proc", "where the system lists its processes", "path", default="/proc"),)
    every = timedelta(minutes=5)

    def collect(self, session: Session) -> None:
        proc = Path(session.options["proc"])
        now, boot, seen = session.now, _boot(proc), _processes(proc)
        state = session.state
        before: dict[str, Any] = state.get("seen", {}) if state.get("boot") == boot else {}
        names_before = {str(name) for name, _ in before.values()}
        names = {process.name for process in seen.values()}
        if state.get("at") is not None:
            for event, which in (("opened", names - names_before), ("closed", names_before - names)):
                for name in sorted(which):
                    session.insert("events", {"at": now, "event": event, "application": name})
            _use(session, now, before, seen)
        session.state.clear()
        session.state.update(
            at=now.isoformat(), boot=boot, seen={key: [process.name, process.busy] for key, process in seen.items()}
        )


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    busy: float  #: seconds of processor time since it started


def _use(session: Session, now: datetime, before: dict[str, Any], seen: dict[str, _Process]) -> None:
    interval = (now - datetime.fromisoformat(session.state["at"]).astimezone(UTC)).total_seconds()
    if not before or not 0 < interval <= _LONGEST_GAP * Screen.every.total_seconds():
        return
    busy: dict[str, float] = {}
    for key, process in seen.items():
        busy[process.name] = busy.get(process.name, 0.0) + process.busy - float(before.get(key, ("", 0.0))[1])
    for name, seconds in sorted(busy.items()):
        if seconds > 0:
            row = {"at": now, "application": name, "busy_seconds": seconds, "interval_seconds": interval}
            session.insert("use", row)


def _boot(proc: Path) -> str:
    """Processor times and process numbers begin anew when the machine does."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:64]
    except (OSError, UnicodeDecodeError):
        raise Mistake("proc", "this system does not list its processes in /proc, so nothing can be collected") from None


def _processes(proc: Path) -> dict[str, _Process]:
    """{number and start: process} of this user; those that end meanwhile are left out."""
    ticks, own, found = os.sysconf("SC_CLK_TCK"), machine.user(), {}
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if folder.stat().st_uid != own:
                continue
            raw = (folder / "stat").read_bytes()
            # the name stands in parentheses and may hold spaces and parentheses itself
            fields = raw[raw.rindex(b")") + 2 :].split()
            if fields[0] in (b"Z", b"X"):
                continue
            busy = (int(fields[11]) + int(fields[12])) / ticks
            found[f"{folder.name}:{int(fields[19])}"] = _Process(_name(folder, raw), busy)
        except (OSError, ValueError, IndexError):
            continue
    return found


def _name(folder: Path, raw: bytes) -> str:
    """The program's file, without its folder; for processes that hide it what the system calls them."""
    try:
        name = Path(os.readlink(folder / "exe").removesuffix(" (deleted)")).name
    except OSError:
        name = raw[raw.index(b"(") + 1 : raw.rindex(b")")].decode("utf-8", "replace")
    return words(os.fsencode(name).decode("utf-8", "replace"), 100) or "?"
