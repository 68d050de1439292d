"""Measurements and workouts, from Apple Health's export and from the daily table of Google Fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.delimited import records
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, members, moment, number, words
from thebes.collectors.stream_parser import elements

_PREFIX = re.compile(r"^HK(QuantityType|CategoryType|DataType)Identifier|^HKWorkoutActivityType")
_WANTED = re.compile(r"(^|/)(export|exportieren|exportar|exporter)\.xml$|Daily activity metrics\.csv$", re.IGNORECASE)
_SOUGHT = "export.xml (of Apple Health, in several languages) or Daily activity metrics.csv"
_MINUTES = {"s": 1 / 60, "sec": 1 / 60, "min": 1.0, "hr": 60.0, "h": 60.0}


class Health(Collector):
    """Names of devices are left out: they often hold their owner's name."""

    name = "health"
    version = 1
    description = "What your telephone and watch measured: steps, pulse, sleep, workouts."
    reads = (
        "The files you name: export.xml of Apple Health or the .zip it comes in, and `Daily activity metrics.csv` of "
        "Google Fit (Takeout). Never who or what measured, your date of birth, or clinical records."
    )
    tables = (
        table(
            "measurements",
            "What was measured",
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
    )

    def collect(self, session: Session) -> None:
        for file in session.options["file"]:
            for member in members(file, lambda name: _WANTED.search(name) is not None, _SOUGHT):
                (_google if member.name.lower().endswith(".csv") else _apple)(session, member)


def _apple(session: Session, member: SourceFile) -> None:
    seen = False
    for path, said, _, line in elements(member.stream, member.name):
        if path[0] != "HealthData":
            raise broken(member.name, line, "is not an export of Apple Health")
        seen = True
        if path == ("HealthData", "Record"):
            _measurement(session, member, said, line)
        elif path == ("HealthData", "Workout"):
            _workout(session, member, said, line)
    if not seen:
        raise broken(member.name, None, "is empty")


def _measurement(session: Session, member: SourceFile, said: Mapping[str, str], line: int) -> None:
    kind = _PREFIX.sub("", words(said.get("type"), 200) or "")
    if not kind:
        session.leave_out("without a kind")
    if not kind or (session.options["kind"] and kind not in session.options["kind"]):
        return
    at, minutes = _span(said, member, line)
    value = said.get("value")
    amount = number(value)
    status = None if amount is not None or value is None else _state(words(value, 100) or "", kind)
    row = {
        "at": at,
        "minutes": minutes,
        "kind": kind,
        "amount": amount,
        "status": status,
        "unit": words(said.get("unit"), 40) if amount is not None else None,
    }
    session.insert("measurements", row, key=[kind, at, minutes, value, (said.get("sourceName") or "")[:200]])


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


def _span(said: Mapping[str, str], member: SourceFile, line: int) -> tuple[datetime, float | None]:
    at, end = moment(said.get("startDate")), moment(said.get("endDate"))
    if at is None:
        raise broken(member.name, line, "has no time that can be read")
    return at, None if end is None or end < at else (end - at).total_seconds() / 60


def _google(session: Session, member: SourceFile) -> None:
    for line, row in records(member, ["Date"]):
        _daily(session, member, row, line)


def _daily(session: Session, member: SourceFile, row: Mapping[str, str], line: int) -> None:
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
        session.insert(
            "measurements",
            {
                "at": day.astimezone(UTC),
                "minutes": 1440.0,
                "kind": kind,
                "amount": amount,
                "status": None,
                "unit": named[2] or named[3],
            },
            key=["google", kind, day, amount],
        )
