"""The days, and what a report of one looks like: all that both halves share."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from daily.kind import DailyDocument
from thebes.tasks.contributions import Layout, Slot

_FIRST = date(1970, 1, 1)
LAST_DAY = (date.max - _FIRST).days


def layout_of(document: DailyDocument) -> Layout:
    return {"day": Slot("integer", 0, LAST_DAY), "value": Slot("integer", 0, len(document.values) - 1)}


def day_of(now: datetime) -> int:
    """Return the number of days since 1970, which begin and end at midnight in UTC."""
    return (now.astimezone(UTC).date() - _FIRST).days


def called(day: int) -> str:
    return (_FIRST + timedelta(days=day)).isoformat()
