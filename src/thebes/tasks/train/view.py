"""A model that was trained over the rows of sites: its weights, where they are few."""

from __future__ import annotations

from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section
from thebes.tasks.document import Document
from thebes.tasks.release import Release


def sections(release: Release, document: Document) -> list[Section]:
    head, rows = table(release)
    if not rows:
        return [Section("Model", "A network. Download it to use it.")]
    largest = sorted(rows, key=lambda row: -abs(row[1]))[:MOST_DRAWN]
    some = "" if len(largest) == len(rows) else f"The {len(largest)} largest of {len(rows)} are drawn. "
    words = (
        f"{some}How much each input speaks for {next(iter(release.extra['output']))}, when it goes from the middle of "
        "its declared range to the end. No error bar is known for them."
    )
    picture = Bars({row[0]: row[1] for row in largest}, title="The weights of the model")
    return [Section("Weights", words, picture, AnswerTable.of(head, rows), folded=True)]


def table(release: Release) -> Cells:
    weights = release.value["weights"]
    named = weights if isinstance(weights, dict) else {}
    return ("weight of", "weight"), [(name, float(weight)) for name, weight in named.items()]
