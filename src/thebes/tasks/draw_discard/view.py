"""The answer of what is trained without end: the weights as they stand, how far the instances differ, and every
learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from thebes.privacy.figures import plural, spaced
from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section, Spans, short
from thebes.tasks.document import PeopleDocument
from thebes.tasks.draw_discard.plan import plan
from thebes.tasks.draw_discard.release import unpacked
from thebes.tasks.release import Release

NO_BAR = (
    "The line reaches one standard deviation between the instances to either side. It is not an error bar: the "
    "instances share ancestors, and how far a weight is from the truth is not known."
)


def sections(release: Release, document: PeopleDocument) -> list[Section]:
    told: Any = release
    rates, kept = told.document.rates, told.extra["kept"]
    rows = [row[1:] for row in table(release)[1] if row[0] == kept]
    largest = rows if len(rows) <= MOST_DRAWN else sorted(rows, key=lambda row: -abs(row[1]))[:MOST_DRAWN]
    words = f"The average of {plural(told.document.instances, 'instance')} after {plural(told.updates, 'update')}"
    words += f", those of learning rate {short(kept)}. " if len(rates) > 1 else ". "
    words += (
        f"The {len(largest)} largest of {spaced(len(rows))} weights are drawn. " if len(largest) < len(rows) else ""
    )
    picture: Bars | Spans
    if told.spreads:
        lines = [(name, weight, weight - spread, weight + spread) for name, weight, spread in largest]
        picture = Spans(lines, title="Each weight, and how far the instances differ in it")
        words += NO_BAR
    else:
        picture = Bars({name: weight for name, weight, _ in largest}, title="The largest weights")
        words += "No error bar is known for them."
    head = ("weight of", "weight", "spread between instances")
    made = [Section("The model", words, picture, AnswerTable.of(head, rows), folded=True)]
    return [*made, *_rates(told)] if len(rates) > 1 else made


def _rates(release: Any) -> Iterable[Section]:
    head = ("learning rate", "updates", "refused", "spread between instances", "where")
    rows = [
        (lane["learning_rate"], lane["updates"], lane["refused"], lane["spread"], _shown(lane, release.extra))
        for lane in release.extra["lanes"]
    ]
    words = (
        "Each contribution went to one of these, whichever the coordinator drew. Which of them is best, rows of your "
        "own can tell: release.best(rows)."
    )
    yield Section("Every learning rate", words, table=AnswerTable.of(head, rows))


def _shown(lane: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    return "shown above" if lane["learning_rate"] == extra["kept"] else ""


def table(release: Release) -> Cells:
    told: Any = release
    names, rows = plan(told.document).names, []
    for lane in told.extra["lanes"]:
        weights = unpacked(lane["weights"]).tolist()
        spreads = unpacked(lane["spreads"]).tolist() if "spreads" in lane else [""] * len(weights)
        rows += [(lane["learning_rate"], *row) for row in zip(names, weights, spreads, strict=True)]
    return ("learning rate", "weight of", "weight", "spread between instances"), rows
