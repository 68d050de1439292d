"""The look of its answers: bars for each day, the newest first."""

from __future__ import annotations

from daily.kind import DailyDocument
from thebes.tasks.answer_view import AnswerTable, Bars, Cells, Section
from thebes.tasks.release import Release


def sections(release: Release, document: DailyDocument) -> list[Section]:
    head, rows = table(release)
    made = []
    for day in reversed(release.extra["reports_of_day"]):
        own = [row[1:] for row in rows if row[0] == day]
        value, low, high = ({row[0]: row[place] for row in own} for place in (1, 2, 3))
        picture = Bars(value, title=f"How many had which value on {day}", low=low, high=high)
        words = f"{release.extra['reports_of_day'][day]} people answered that day, each with noise of their own."
        made.append(Section(day, words, picture, AnswerTable.of(head[1:], own), folded=True))
    return made


def table(release: Release) -> Cells:
    bar = release.as_json()["interval"]
    rows = [(*key.split(" ", 1), number, bar["low"][key], bar["high"][key]) for key, number in release.value.items()]
    return ("day", "value", "people", "from", "to"), rows
