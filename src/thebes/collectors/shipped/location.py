"""The places where a person was: Google's location history in its forms of the years, and GPX tracks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, members, moment, number, since_1970, words
from thebes.collectors.stream_parser import elements, items
from thebes.privacy.faults import Mistake

_WANTED = re.compile(
    r"(^|/)(Records|Location History|Timeline|location-history|\d{4}_[A-Z]+)\.json$|\.gpx$", re.IGNORECASE
)
_SOUGHT = "Records.json, Location History.json, Timeline.json, location-history.json, 2026_MARCH.json or *.gpx"
_PAIR = re.compile(r"(?:geo:)?\s*(-?\d{1,3}(?:\.\d+)?)°?\s*,\s*(-?\d{1,3}(?:\.\d+)?)°?")


class Location(Collector):
    """Points as recorded; visits and trips as Google's own programs made them out."""

    name = "location"
    version = 1
    description = "Where you were, and how you moved."
    reads = (
        "The files you name: Records.json, the Semantic Location History and Timeline.json of Google Takeout (also "
        "inside its .zip), and .gpx tracks. Of places the coordinates, rounded to --decimals, and what kind of place; "
        "never names or addresses."
    )
    tables = (
        table(
            "points",
            "Recorded positions",
            at=("timestamp", "in UTC"),
            latitude=("float", "degrees north"),
            longitude=("float", "degrees east"),
            accuracy=("float", "metres, where known"),
        ),
        table(
            "visits",
            "Places where you stayed",
            at=("timestamp", "arrival, in UTC"),
            minutes=("float", "how long"),
            latitude=("float", "degrees north"),
            longitude=("float", "degrees east"),
            kind=("string", "home, work, ... where Google says so"),
        ),
        table(
            "trips",
            "Ways between places",
            at=("timestamp", "departure, in UTC"),
            minutes=("float", "how long"),
            metres=("float", "how far"),
            activity=("string", "walking, cycling, in_bus, ..."),
        ),
    )
    options = (
        Option("file", "a .json or .gpx file, or a .zip or folder of them", "path", required=True, several=True),
        Option("decimals", "of degrees that are kept: 5 is a metre, 3 about 100 metres, 2 a kilometre", "number", 5.0),
    )

    def collect(self, session: Session) -> None:
        if session.options["decimals"] not in (0, 1, 2, 3, 4, 5, 6, 7):
            raise Mistake("--decimals", "must be a whole number from 0 to 7")
        for file in session.options["file"]:
            for member in members(file, lambda name: _WANTED.search(name) is not None, _SOUGHT):
                reader = _Reader(session, int(session.options["decimals"]))
                (reader.gpx if member.name.lower().endswith(".gpx") else reader.json)(member)


class _Reader:
    """Puts what one file says into the session; what lacks a time or a place is left out, and counted."""

    def __init__(self, session: Session, decimals: int) -> None:
        self._session, self._decimals = session, decimals

    def gpx(self, member: SourceFile) -> None:
        at = None
        for path, attributes, text, _ in elements(member.stream, member.name):
            if path[-1] == "time" and path[-2:-1] in (("trkpt",), ("wpt",)):
                at = moment(text)
            elif path[-1] in ("trkpt", "wpt"):
                self._point(at, (number(attributes.get("lat")), number(attributes.get("lon"))), None)
                at = None

    def json(self, member: SourceFile) -> None:
        for key, item, _ in items(member.stream, member.name):
            if not isinstance(item, dict):
                if key in (*_KEYS, ""):
                    self._session.leave_out("no object")
                continue
            if key == "locations":
                at = moment(item.get("timestamp")) or since_1970(item.get("timestampMs"), per_second=1000)
                self._point(at, _e7(item), number(item.get("accuracy")))
            elif key == "timelineObjects":
                self._past(item)
            elif key in ("semanticSegments", ""):
                self._segment(item)

    def _past(self, item: Mapping[str, Any]) -> None:
        """The Semantic Location History until 2024."""
        visit, trip = _inner(item, "placeVisit"), _inner(item, "activitySegment")
        for found in (visit, trip):
            duration = _inner(found, "duration")
            begin, end = (_either(duration, name) for name in ("startTimestamp", "endTimestamp"))
            if found is visit and visit:
                place = _inner(visit, "location")
                kind = words(place.get("semanticType"), 100)
                self._visit(begin, end, _e7(place), kind)
            elif found is trip and trip:
                self._trip(begin, end, number(trip.get("distance")), trip.get("activityType"))
        if not visit and not trip:
            self._session.leave_out(_OTHER)

    def _segment(self, item: Mapping[str, Any]) -> None:
        """The timeline that telephones keep themselves since 2024."""
        begin, end = moment(item.get("startTime")), moment(item.get("endTime"))
        if visit := _inner(item, "visit"):
            best = _inner(visit, "topCandidate")
            place = best.get("placeLocation")
            where = _pair(place.get("latLng") if isinstance(place, dict) else place)
            self._visit(begin, end, where, words(best.get("semanticType"), 100))
        if trip := _inner(item, "activity"):
            kind = _inner(trip, "topCandidate").get("type")
            self._trip(begin, end, number(trip.get("distanceMeters")), kind)
        path = item.get("timelinePath")
        for step in path if isinstance(path, list) else []:
            if isinstance(step, dict):
                self._point(moment(step.get("time")) or begin, _pair(step.get("point")), None)
            else:
                self._session.leave_out("no object")
        if not visit and not trip and not isinstance(path, list):
            self._session.leave_out(_OTHER)

    def _point(self, at: datetime | None, where: _Where, accuracy: float | None) -> None:
        place = self._rounded(where)
        if at is not None and place is not None:
            row = {"at": at, "latitude": place[0], "longitude": place[1], "accuracy": accuracy}
            self._session.insert("points", row, key=[at, *place])
        else:
            self._session.leave_out(_LACKING)

    def _visit(self, at: datetime | None, end: datetime | None, where: _Where, kind: str | None) -> None:
        place = self._rounded(where)
        if at is not None and place is not None:
            row = {"at": at, "minutes": _minutes(at, end), "latitude": place[0], "longitude": place[1]}
            self._session.insert("visits", {**row, "kind": kind.lower() if kind else None}, key=[at, *place])
        else:
            self._session.leave_out(_LACKING)

    def _trip(self, at: datetime | None, end: datetime | None, metres: float | None, kind: object) -> None:
        if at is not None:
            activity = (words(kind, 100) or "").lower().replace(" ", "_") or None
            row = {"at": at, "minutes": _minutes(at, end), "metres": metres, "activity": activity}
            self._session.insert("trips", row, key=[at, _minutes(at, end)])
        else:
            self._session.leave_out("without a time")

    def _rounded(self, where: _Where) -> tuple[float, float] | None:
        latitude, longitude = where
        if latitude is None or longitude is None or not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            return None
        return round(latitude, self._decimals), round(longitude, self._decimals)


_Where = tuple[float | None, float | None]
_KEYS = ("locations", "timelineObjects", "semanticSegments")
_LACKING, _OTHER = "without a time or a place", "neither a visit nor a trip"


def _e7(item: Mapping[str, Any]) -> _Where:
    latitude, longitude = number(item.get("latitudeE7")), number(item.get("longitudeE7"))
    if latitude is None or longitude is None:
        return None, None
    # older exports wrote numbers beyond 180 degrees as if they had no sign
    turned = [v - 2**32 if v > most * 1e7 else v for v, most in ((latitude, 90), (longitude, 180))]
    return turned[0] / 1e7, turned[1] / 1e7


def _pair(text: object) -> _Where:
    found = _PAIR.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 100 else None
    return (None, None) if found is None else (float(found[1]), float(found[2]))


def _inner(item: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = item.get(name)
    return found if isinstance(found, dict) else {}


def _either(duration: Mapping[str, Any], name: str) -> datetime | None:
    return moment(duration.get(name)) or since_1970(duration.get(f"{name}Ms"), per_second=1000)


def _minutes(at: datetime, end: datetime | None) -> float | None:
    return None if end is None or end < at else (end - at).total_seconds() / 60
