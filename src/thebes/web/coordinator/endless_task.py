"""A task that is trained without end: how it goes, drawn; and what whoever listens could learn of one contributor.

What must stay true: an estimate is called one, and beside it stands what is guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from thebes.privacy.figures import plural, spaced
from thebes.tasks.answer_view import MOST_DRAWN, Cells, Table, short
from thebes.tasks.draw_discard.certificate import each_of, estimates
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import plan
from thebes.web import drawings

_COUNTS = ("updates", "refused", "quarantined", "stale")


@dataclass(frozen=True, slots=True)
class Course:
    """The instances of one learning rate: how their spread went, and how they are. `name` tells several apart."""

    name: str
    updates: int
    spread: Markup | None
    still: str  #: what the spread is held against, in words
    instances: Markup | None
    alike: str  #: what is drawn of the instances, in words


@dataclass(frozen=True, slots=True)
class Training:
    """The progress of a training, as its page shows it."""

    counts: Table
    courses: tuple[Course, ...]


def going(document: DrawDiscardDocument, progress: Mapping[str, Any]) -> Training:
    """Draw what the coordinator tells of a training; the rate whose average is the answer comes first."""
    lanes = list(zip(document.rates, progress["lanes"], range(len(document.rates)), strict=True))
    lanes.sort(key=lambda lane: lane[2] != document.kept)
    several = len(lanes) > 1
    head = (*(("learning rate",) if several else ()), "mixed in", "refused", "set aside", "too old")
    rows = [(*((rate,) if several else ()), *(lane[name] for name in _COUNTS)) for rate, lane, _ in lanes]
    courses = tuple(_course(document, rate, lane, place) for rate, lane, place in lanes)
    return Training(Table.of(head, rows), courses)


def _course(document: DrawDiscardDocument, rate: float, lane: Mapping[str, Any], place: int) -> Course:
    name = f"Learning rate {short(rate)}" if len(document.rates) > 1 else ""
    of = f" at {name.lower()}" if name else ""
    updates, spread = int(lane["updates"]), None
    if lane["history"]:
        ends = updates, "0 updates", spaced(updates)
        points = [(float(at), float(apart)) for at, apart in lane["history"]]
        spread = drawings.line(points, title=f"Spread between the instances{of}, over the updates", until=ends)
    instances, alike = _instances(document, lane, of)
    return Course(name, updates, spread, _still(document, place, updates), instances, alike)


def _still(document: DrawDiscardDocument, lane: int, updates: int) -> str:
    """Say what the noise makes of the spread."""
    if document.instances == 1:
        return "There is one instance, so nothing can differ."
    noise = plan(document).first_deviation * document.rate(lane, updates) * math.sqrt(document.instances / 2)
    return f"The noise alone, one update at a time, keeps it at about {spaced(noise, 3)}."


def _instances(document: DrawDiscardDocument, lane: Mapping[str, Any], of: str) -> tuple[Markup | None, str]:
    count, models = document.instances, lane.get("models")
    if models:
        shown = min(MOST_DRAWN, len(models[0]))
        some = "" if shown == len(models[0]) else f"the first {shown} of "
        title = f"{plural(count, 'instance')}{of}, each with {some}its {plural(len(models[0]), 'weight')}"
        words = f"Each little drawing is one instance: {some}its weights side by side, up where they are above zero."
        return drawings.profiles([model[:shown] for model in models], title=title), words
    if lane.get("distances"):
        title = f"How far each of {plural(count, 'instance')}{of} is from their average"
        return drawings.small_bars(lane["distances"], title=title), "How far each instance is from their average."
    return None, ""


def history(document: DrawDiscardDocument, progress: Mapping[str, Any]) -> Cells:
    """Every point of the curves."""
    rows = [
        (rate, at, apart)
        for rate, lane in zip(document.rates, progress["lanes"], strict=True)
        for at, apart in lane["history"]
    ]
    return ("learning rate", "updates", "spread between instances"), rows


# --- what could be learned of one contributor ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Learned:
    """The measure of what somebody who sees so much could learn from one contribution."""

    who: str
    sees: str
    epsilon: float
    delta: float
    guaranteed: bool


def learned(document: DrawDiscardDocument) -> list[Learned]:
    """For each adversary of the seed: guaranteed against the strongest, estimated for the weaker ones."""
    made, guess = plan(document), estimates(document)
    everything = "everything that one owner sends, and the model it was made from"
    found = [Learned("who listens", everything, float(made.epsilon), float(made.delta), True)]
    if "internal" in guess:
        who = "who sees all instances" if document.average == "weights" else "whoever reads the releases"
        sees = (
            "all instances right afterwards, but not which one was drawn (whoever runs the server could note that, "
            "and would be one who listens; that it does not is a promise)"
        )
        found.append(Learned(who, sees, guess["internal"]["expected_epsilon"], 0.0, False))
    later = guess["opportunistic"]
    for updates, epsilon in later["epsilon_after_updates_of_that_instance"].items():
        of_the_task = spaced(int(updates) * each_of(document))
        sees = f"one instance, {spaced(int(updates))} updates of it later: about {of_the_task} of the task"
        if later["chance_to_be_there"] < 1:
            sees += f" (in the end one contribution in {document.instances} is still in any)"
        found.append(Learned("who asks once", sees, epsilon, later["delta"], False))
    return found
