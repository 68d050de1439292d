"""Measurements and workouts, from Apple Health's export and from the daily table of Google Fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any

from thebes.collectors.declaration import Collector, Option, State, table
from thebes.collectors.delimited import records
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, members, moment, number, words
from thebes.collectors.stream_parser import elements
from thebes.data.store.declaration import Table

_PREFIX = re.compile(r"^HK(QuantityType|CategoryType|DataType)Identifier|^HKWorkoutActivityType")
_WANTED = re.compile(r"(^|/)(export|exportieren|exportar|exporter)\.xml$|Daily activity metrics\.csv$", re.IGNORECASE)
_SOUGHT = "export.xml (of Apple Health, in several languages) or Daily activity metrics.csv"
_MINUTES = {"s": 1 / 60, "sec": 1 / 60, "min": 1.0, "hr": 60.0, "h": 60.0}


MOST_DAYS = 500_000  #: of all kinds and devices together that a file may measure


class Health(Collector):
    """Names of devices are left out: they often hold their owner's name. A home that held single measurements before
    there were days goes on with them."""

    name = "health"
    version = 2
    migrations = {1: lambda state: {**state, "raw": True, "tables": ["measurements"]}}  # noqa: RUF012
    description = "What your telephone and watch measured: steps, pulse, sleep, workouts."
    reads = (
        "The files you name: export.xml of Apple Health or the .zip it comes in, and `Daily activity metrics.csv` of "
        "Google Fit (Takeout). Never who or what measured, your date of birth, or clinical records."
    )
    tables = (
        table(
            "daily",
            "One row for each day and kind of measurement; not with --raw",
            day=("timestamp", "midnight, as the clock said where you were"),
            kind=("string", "StepCount, HeartRate, SleepAnalysisAsleepCore, ..."),
            count=("integer", "how often it was measured; of several devices the one that measured most"),
            sum=("float", "of the amounts; of a state its minutes"),
            mean=("float", "of the amounts; of a state its minutes"),
            unit=("string", "of the amounts"),
        ),
        table(
            "measurements",
            "Single measurements; only with --raw",
            at=("timestamp", "beginning, in UTC"),
            minutes=("float", "how long it lasted"),
            kind=("string", "StepCount, HeartRate, SleepAnalysis, ..."),
            amount=("float", "how much; missing where it is a state"),
            status=("string", "the state, such as Asleep; missing where it is an amount"),
            unit=("string", "of the amount"),
        ),
        table(
            "workouts",
            "Workouts",
            at=("timestamp", "beginning, in UTC"),
            minutes=("float", "how long"),
            kind=("string", "Running, Cycling, ..."),
            distance=("float", "how far, where the export says it with the workout"),
            energy=("float", "used, where the export says it with the workout"),
        ),
    )
    options = (
        Option("file", "export.xml, export.zip or the daily .csv", "path", required=True, several=True),
        Option("kind", "only this kind of measurement, such as StepCount", several=True),
        Option("raw", "keep every single measurement instead of days", "flag"),
    )

    def declare(self, options: Mapping[str, Any], state: State) -> Sequence[Table]:
        filled = {_filled(options, state), "workouts", *state.get("tables", [])}
        return [each for each in self.tables if each.name in filled]

    def collect(self, session: Session) -> None:
        filled = _filled(session.options, session.state)
        for file in session.options["file"]:
            for member in members(file, lambda name: _WANTED.search(name) is not None, _SOUGHT):
                days = _Days(member) if filled == "daily" else None
                (_google if member.name.lower().endswith(".csv") else _apple)(session, member, days)
                if days is not None:
                    days.insert(session)
        session.state["tables"] = sorted({filled, *session.state.get("tables", [])})


def _filled(options: Mapping[str, Any], state: State) -> str:
    return "measurements" if options["raw"] or state.get("raw") else "daily"


class _Days:
    """The sums of what one file measured: one entry for each kind, unit, device and day."""

    def __init__(self, member: SourceFile) -> None:
        self._member, self._count = member, 0
        self._sums: dict[tuple[str, str | None, str], dict[date, tuple[int, float]]] = {}
        self._known: dict[str, date] = {}  #: days as they are written; each is read once
        self.until: date | None = None  #: the first day that the file does not hold to its end

    def day(self, text: str, at: datetime) -> date:
        """Return the day that a time is written with, wherever that was."""
        found = self._known.get(text[:10])
        if found is None:
            found = (
                date.fromisoformat(text[:10]) if re.fullmatch(r"\d{4}-\d\d-\d\d", text[:10], re.ASCII) else at.date()
            )
            self._known[text[:10]] = found
        return found

    def add(self, day: date, kind: str, unit: str | None, device: str, amount: float, line: int) -> None:
        days = self._sums.setdefault((kind, unit, device), {})
        held = days.get(day)
        if held is None:
            self._count += 1
            if self._count > MOST_DAYS:
                raise broken(self._member.name, line, "measures more kinds, days and devices than a life has")
            days[day] = (1, amount)
        else:
            days[day] = (held[0] + 1, held[1] + amount)

    def insert(self, session: Session) -> None:
        """Insert days that are over. Of devices that measured the same the one counts that measured most: two that
        count the same steps would double them."""
        best: dict[tuple[date, str, str | None], tuple[int, float]] = {}
        for (kind, unit, _), days in self._sums.items():
            for day, found in days.items():
                held = best.get((day, kind, unit))
                if held is None or (found[1], found[0]) > (held[1], held[0]):
                    best[day, kind, unit] = found
        until = self.until or max((day for day, _, _ in best), default=date.max)
        for (day, kind, unit), (count, total) in best.items():
            if day >= until:
                session.leave_out("of the newest day, which may not be over")
                continue
            at = datetime.combine(day, time(), UTC)
            row = {"day": at, "kind": kind, "count": count, "sum": total, "mean": total / count, "unit": unit}
            session.insert("daily", row, key=["day", kind, unit, at])


def _apple(session: Session, member: SourceFile, days: _Days | None) -> None:
    seen = False
    for path, said, _, line in elements(member.stream, member.name):
        if path[0] != "HealthData":
            raise broken(member.name, line, "is not an export of Apple Health")
        seen = True
        if path == ("HealthData", "Record"):
            _measurement(session, member, said, line, days)
        elif path == ("HealthData", "Workout"):
            _workout(session, member, said, line)
        elif path == ("HealthData", "ExportDate") and days is not None:
            at = moment(said.get("value"))
            days.until = None if at is None else days.day(said["value"], at)
    if not seen:
        raise broken(member.name, None, "is empty")


def _measurement(session: Session, member: SourceFile, said: Mapping[str, str], line: int, days: _Days | None) -> None:
    kind = _PREFIX.sub("", words(said.get("type"), 200) or "")
    if not kind:
        session.leave_out("without a kind")
    if not kind or (session.options["kind"] and kind not in session.options["kind"]):
        return
    value = said.get("value")
    amount = number(value)
    device = (said.get("sourceName") or "")[:200]
    status = None if amount is not None or value is None else _state(words(value, 100) or "", kind)
    unit = words(said.get("unit"), 40) if amount is not None else None
    if days is not None:
        at, minutes = _span(said, member, line, ends=amount is None)
        day = days.day(said["startDate"], at)
        days.add(day, kind + (status or ""), unit, device, minutes or 0.0 if amount is None else amount, line)
        return
    at, minutes = _span(said, member, line)
    row = {"at": at, "minutes": minutes, "kind": kind, "amount": amount, "status": status, "unit": unit}
    session.insert("measurements", row, key=[kind, at, minutes, value, device])


def _state(value: str, kind: str) -> str:
    """HKCategoryValueSleepAnalysisAsleep is Asleep."""
    return value.removeprefix("HKCategoryValue").removeprefix(kind) or value


def _workout(session: Session, member: SourceFile, said: Mapping[str, str], line: int) -> None:
    at, minutes = _span(said, member, line)
    kind = _PREFIX.sub("", words(said.get("workoutActivityType"), 200) or "")
    lasted, unit = number(said.get("duration")), said.get("durationUnit", "min")
    row = {
        "at": at,
        "minutes": lasted * _MINUTES[unit] if lasted is not None and unit in _MINUTES else minutes,
        "kind": kind,
        "distance": number(said.get("totalDistance")),
        "energy": number(said.get("totalEnergyBurned")),
    }
    session.insert("workouts", row, key=[kind, at, minutes])


def _span(
    said: Mapping[str, str], member: SourceFile, line: int, *, ends: bool = True
) -> tuple[datetime, float | None]:
    at, end = moment(said.get("startDate")), moment(said.get("endDate")) if ends else None
    if at is None:
        raise broken(member.name, line, "has no time that can be read")
    return at, None if end is None or end < at else (end - at).total_seconds() / 60


def _google(session: Session, member: SourceFile, days: _Days | None) -> None:
    for line, row in records(member, ["Date"]):
        _daily(session, member, row, line, days)


def _daily(session: Session, member: SourceFile, row: Mapping[str, str], line: int, days: _Days | None) -> None:
    day = moment(f"{row['Date']}T00:00:00") if re.fullmatch(r"\d{4}-\d\d-\d\d", row["Date"]) else None
    if day is None:
        raise broken(member.name, line, "has no date that can be read")
    for title, value in row.items():
        amount = number(value)
        named = re.fullmatch(r"([^()]{1,100}?)(?: \(([^()]{1,20})\)| (count))?", title)
        if title == "Date" or amount is None or named is None:
            if title != "Date" and value.strip():
                session.leave_out("no number in a column of amounts")
            continue
        kind = "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", named[1]))
        if session.options["kind"] and kind not in session.options["kind"]:
            continue
        unit = named[2] or named[3]
        if days is not None:
            days.add(day.date(), kind, unit, "google", amount, line)
            continue
        said = {"at": day, "minutes": 1440.0, "kind": kind, "amount": amount, "status": None, "unit": unit}
        session.insert("measurements", said, key=["google", kind, day, amount])
