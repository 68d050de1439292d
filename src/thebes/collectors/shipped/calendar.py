"""Appointments, from iCalendar files (.ics) as every calendar exports them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, lines, members, words

_NAME = re.compile(r"([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:\"[^\"]*\"|[^\";:]*))*):", re.ASCII)
_DURATION = re.compile(r"([+-]?)P(?:(\d{1,5})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?")
_MOST_PROPERTIES = 10_000


class Calendar(Collector):
    """One row for each appointment as written; a repeating one is one row that says so."""

    name = "calendar"
    version = 1
    description = "When you have appointments and for how long."
    reads = (
        "The .ics files you name, or a .zip or a folder of them. Of each appointment its time, length, whether it "
        "repeats and how many people are invited; its title only with --titles. Never places, notes or who is invited."
    )
    tables = (
        table(
            "events",
            "Appointments; one that was moved is a further row",
            at=("timestamp", "beginning in UTC; of days and of times without a zone as written"),
            minutes=("float", "length"),
            all_day=("boolean", "whether it is for whole days"),
            repeats=("string", "daily, weekly, monthly, yearly, ...; missing for a single one"),
            people=("integer", "how many are invited"),
            title=("string", "empty unless installed with --titles"),
        ),
    )
    options = (
        Option("file", "an .ics file, or a .zip or folder of them", "path", required=True, several=True),
        Option("titles", "keep the titles of appointments", "flag"),
    )

    def collect(self, session: Session) -> None:
        for file in session.options["file"]:
            for member in members(file, lambda name: name.lower().endswith((".ics", ".ical")), "*.ics"):
                for event in _events(member):
                    self._insert(session, event, member.name)

    def _insert(self, session: Session, event: _Event, name: str) -> None:
        began = event.moment("DTSTART", name)
        if began is None:
            session.leave_out("without a time")
            return  # the standard allows appointments without a time where the file is a message
        at, all_day = began
        rule = re.search(r"FREQ=([A-Za-z]+)", event.value("RRULE"))
        row = {
            "at": at,
            "minutes": _minutes(event, at, all_day, name),
            "all_day": all_day,
            "repeats": rule[1].lower()[:20] if rule else None,
            "people": event.people,
            "title": words(_unescaped(event.value("SUMMARY"))) if session.options["titles"] else None,
        }
        uid = event.value("UID")[:1000] or [row["at"], row["minutes"], event.value("SUMMARY")[:1000]]
        session.insert("events", row, key=[uid, event.value("RECURRENCE-ID")[:100], at])


@dataclass(slots=True)
class _Event:
    properties: dict[str, tuple[int, str, str]] = field(default_factory=dict)  #: name -> (line, parameters, value)
    people: int = 0

    def value(self, name: str) -> str:
        return self.properties[name][2] if name in self.properties else ""

    def moment(self, name: str, file: str) -> tuple[datetime, bool] | None:
        """(time in UTC, whether it is a whole day), or None where it is not said."""
        if name not in self.properties:
            return None
        line, parameters, value = self.properties[name]
        found = _moment(value.strip(), parameters)
        if found is None:
            raise broken(file, line, f"{name} is not a time")
        return found


def _events(member: SourceFile) -> Iterator[_Event]:
    open_: list[str] = []
    event = _Event()
    number, seen = 0, False
    for number, line in _unfolded(member):
        if not line.strip():
            continue
        named = _NAME.match(line)
        if named is None:
            raise broken(member.name, number, "is not a property of iCalendar")
        name, value = named[1].upper(), line[named.end() :]
        if name == "BEGIN":
            open_.append(value.strip().upper())
            seen = seen or open_ == ["VCALENDAR"]
            if len(open_) > 10 or not seen:
                raise broken(member.name, number, "is not a calendar, or nested too deeply")
            if open_[-1] == "VEVENT":
                event = _Event()
        elif name == "END":
            if not open_ or open_.pop() != value.strip().upper():
                raise broken(member.name, number, "ends something that was not begun")
            if value.strip().upper() == "VEVENT":
                yield event
        elif open_ and open_[-1] == "VEVENT":
            event.people += name == "ATTENDEE"
            if name != "ATTENDEE" and len(event.properties) < _MOST_PROPERTIES:
                event.properties.setdefault(name, (number, named[2], value))
    if open_ or not seen:
        raise broken(member.name, number, "ends before its calendar does" if seen else "is not a calendar")


def _unfolded(member: SourceFile) -> Iterator[tuple[int, str]]:
    """Lines that begin with white space go on from the one before."""
    first, parts = 0, [""]
    size = 0
    for number, line in lines(member.stream, member.name):
        if line[:1] in (" ", "\t") and first:
            parts.append(line[1:])
            size += len(line)
            if size > 2**22:
                raise broken(member.name, first, "is longer than any line should be")
            continue
        if first:
            yield first, "".join(parts)
        first, parts, size = number, [line], len(line)
    if first:
        yield first, "".join(parts)


def _moment(value: str, parameters: str) -> tuple[datetime, bool] | None:
    try:
        if re.fullmatch(r"\d{8}", value):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, tzinfo=UTC), True
        found = datetime.strptime(value.removesuffix("Z"), "%Y%m%dT%H%M%S")
        zone = re.search(r";TZID=\"?([^\";]+)", parameters, re.IGNORECASE)
        if value.endswith("Z") or zone is None:
            return found.replace(tzinfo=UTC), False
        try:
            return found.replace(tzinfo=ZoneInfo(zone[1])).astimezone(UTC), False
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return found.replace(tzinfo=UTC), False  # a zone of the file's own: as written
    except (ValueError, OverflowError):
        return None


def _minutes(event: _Event, at: datetime, all_day: bool, name: str) -> float | None:
    ended = event.moment("DTEND", name)
    if ended is not None:
        return max(0.0, (ended[0] - at).total_seconds() / 60)
    if "DURATION" in event.properties:
        found = _DURATION.fullmatch(event.value("DURATION").strip())
        if found is None:
            raise broken(name, event.properties["DURATION"][0], "DURATION is not a length of time")
        weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        return max(0.0, length.total_seconds() / 60) if found[1] != "-" else 0.0
    return 1440.0 if all_day else 0.0


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] in "nN" else found[1], text)
