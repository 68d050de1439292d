"""The course of a training: the instances of each rate, and what whoever listens could learn of one contributor.

What must stay true: an estimate is called one, and beside it stands what is guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thebes.privacy.figures import plural, spaced
from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Cells, short
from thebes.tasks.course_view import ContributionLeak, CourseOf, CourseSection, Line, Profiles, SmallBars, TaskCourse
from thebes.tasks.draw_discard.certificate import each_of, estimates
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import plan

_COUNTS = ("updates", "refused", "quarantined", "stale")
_SPREAD = "Spread between the instances"
_SHOWN_TO_FEW = (
    "On this page only who asked and the operators are shown the instances one by one: each is what somebody sent."
)


def going(document: DrawDiscardDocument, progress: Mapping[str, Any]) -> TaskCourse:
    """Draw what the coordinator tells of a training; the rate whose average is the answer comes first."""
    lanes = list(zip(document.rates, progress["lanes"], range(len(document.rates)), strict=True))
    lanes.sort(key=lambda lane: lane[2] != document.kept)
    several = len(lanes) > 1
    head = (*(("learning rate",) if several else ()), "mixed in", "refused", "set aside", "too old")
    rows = [(*((rate,) if several else ()), *(lane[name] for name in _COUNTS)) for rate, lane, _ in lanes]
    courses = tuple(_course(document, rate, lane, place) for rate, lane, place in lanes)
    shown = any(lane.get("models") or lane.get("distances") for lane in progress["lanes"])
    return TaskCourse(AnswerTable.of(head, rows), courses, "" if shown else _SHOWN_TO_FEW)


def _course(document: DrawDiscardDocument, rate: float, lane: Mapping[str, Any], place: int) -> CourseOf:
    name = f"Learning rate {short(rate)}" if len(document.rates) > 1 else ""
    of = f" at {name.lower()}" if name else ""
    updates, sections = int(lane["updates"]), []
    if lane["history"]:
        ends = updates, "0 updates", spaced(updates)
        points = [(float(at), float(apart)) for at, apart in lane["history"]]
        picture = Line(points, f"{_SPREAD}{of}, over the updates", ends)
        words = f"{_still(document, place, updates)} It says how much the instances differ, not how good the model is."
        sections.append(CourseSection(f"{_SPREAD}, over the updates", _SPREAD, picture, words))
    sections += _instances(document, lane, of)
    return CourseOf(name, tuple(sections), "" if lane["history"] else "Nothing was mixed in yet.")


def _still(document: DrawDiscardDocument, lane: int, updates: int) -> str:
    """Say what the noise makes of the spread."""
    if document.instances == 1:
        return "There is one instance, so nothing can differ."
    noise = plan(document).first_deviation * document.rate(lane, updates) * math.sqrt(document.instances / 2)
    return f"The noise alone, one update at a time, keeps it at about {spaced(noise, 3)}."


def _instances(document: DrawDiscardDocument, lane: Mapping[str, Any], of: str) -> list[CourseSection]:
    count, models = document.instances, lane.get("models")
    picture: Profiles | SmallBars
    if models:
        shown = min(MOST_DRAWN, len(models[0]))
        some = "" if shown == len(models[0]) else f"the first {shown} of "
        title = f"{plural(count, 'instance')}{of}, each with {some}its {plural(len(models[0]), 'weight')}"
        words = f"Each little drawing is one instance: {some}its weights side by side, up where they are above zero."
        picture = Profiles([model[:shown] for model in models], title)
    elif lane.get("distances"):
        words = "How far each instance is from their average."
        picture = SmallBars(lane["distances"], f"How far each of {plural(count, 'instance')}{of} is from their average")
    else:
        return []
    words += " Whoever takes part is sent one of them; what comes back takes the place of one."
    return [CourseSection("The instances just now", "The instances", picture, words)]


def history(document: DrawDiscardDocument, progress: Mapping[str, Any]) -> Cells:
    """Every point of the curves."""
    rows = [
        (rate, at, apart)
        for rate, lane in zip(document.rates, progress["lanes"], strict=True)
        for at, apart in lane["history"]
    ]
    return ("learning rate", "updates", "spread between instances"), rows


# --- what could be learned of one contributor ---------------------------------------------------------------


def learned(document: DrawDiscardDocument) -> list[ContributionLeak]:
    """For each adversary of the seed: guaranteed against the strongest, estimated for the weaker ones."""
    made, guess = plan(document), estimates(document)
    everything = "everything that one owner sends, and the model it was made from"
    found = [ContributionLeak("who listens", everything, float(made.epsilon), float(made.delta), True)]
    if "internal" in guess:
        who = "who sees all instances" if document.average == "weights" else "whoever reads the releases"
        sees = (
            "all instances right afterwards, but not which one was drawn (whoever runs the server could note that, "
            "and would be one who listens; that it does not is a promise)"
        )
        found.append(ContributionLeak(who, sees, guess["internal"]["expected_epsilon"], 0.0, False))
    later = guess["opportunistic"]
    for updates, epsilon in later["epsilon_after_updates_of_that_instance"].items():
        of_the_task = spaced(int(updates) * each_of(document))
        sees = f"one instance, {spaced(int(updates))} updates of it later: about {of_the_task} of the task"
        if later["chance_to_be_there"] < 1:
            sees += f" (in the end one contribution in {document.instances} is still in any)"
        found.append(ContributionLeak("who asks once", sees, epsilon, later["delta"], False))
    return found
