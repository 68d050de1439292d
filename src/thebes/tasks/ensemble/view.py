"""An ensemble: how many members it has, how frequent each label is, where ranges were cut."""

from __future__ import annotations

from thebes.privacy.figures import plural
from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section, short, telling
from thebes.tasks.document import PeopleDocument
from thebes.tasks.release import Release


def sections(release: Release, document: PeopleDocument) -> list[Section]:
    head, rows = table(release)
    members = len(release.value["members"])
    votes = release.value["document"]["method"] == "vote"
    told = plural(members, "small model votes", "small models vote") if votes else plural(members, "small table")
    told += "" if votes else " of odds, added up"
    words = f"{told}. How frequent each label is among those who took part, with error bars."
    words += telling([(row[2], row[3]) for row in rows], (0, 1))
    picture = Bars(
        {row[0]: 100 * row[1] for row in rows[:MOST_DRAWN]},
        title="Share of each label in per cent, with its error bar",
        low={row[0]: 100 * row[2] for row in rows[:MOST_DRAWN]},
        high={row[0]: 100 * row[3] for row in rows[:MOST_DRAWN]},
        unit=" %",
    )
    sections = [Section("Classifier", words, picture, AnswerTable.of(head, rows), folded=True)]
    cuts = [(column, ", ".join(map(short, places))) for column, places in release.extra["thresholds"].items()]
    if cuts:
        sections.append(Section("Where ranges were cut", table=AnswerTable.of(("column", "thresholds"), cuts)))
    return sections


def table(release: Release) -> Cells:
    told = release.extra["base_rate"]
    low, high = told["interval"]["low"], told["interval"]["high"]
    rows = [(str(label), float(share), low[label], high[label]) for label, share in told["value"].items()]
    return ("label", "share", "low", "high"), rows
