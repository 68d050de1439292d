"""Words for the state of a participation and of its task, and what a person may do in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from thebes.person.participation.participation import UNFINISHED, ParticipationState
from thebes.person.participation.worker import FORGOTTEN as NOT_KNOWN


@dataclass(frozen=True, slots=True)
class StateWords:
    """A state as a person reads it: a word, what it means now, what comes next, and how it is coloured."""

    word: str
    sentence: str
    next: str
    colour: str = ""


_FREE = "Until it is sent you may take it back, and pay nothing."
STATES = {
    ParticipationState.SEEN: StateWords(
        "undecided",
        "You have not decided. Nothing is set aside and nothing has left.",
        "Say yes or no; as long as you say nothing, nothing happens.",
    ),
    ParticipationState.RESERVED: StateWords(
        "agreed",
        "You agreed. The price is set aside; nothing has left yet.",
        f"Your machine asks by itself what is wanted. {_FREE}",
        "warn",
    ),
    ParticipationState.ASKED: StateWords(
        "being made",
        "Your machine makes what was asked for; nothing has left yet.",
        f"It goes on by itself. {_FREE}",
        "warn",
    ),
    ParticipationState.COMPUTED: StateWords(
        "waiting to be sent",
        "Your contribution is ready and waits a random while; nothing has left yet.",
        f"It is sent by itself. {_FREE}",
        "warn",
    ),
    ParticipationState.SENDING: StateWords(
        "being sent",
        "Your contribution is on its way; what it costs is spent.",
        "Your machine tries until it has arrived. Then this page says what you can do.",
        "next",
    ),
    ParticipationState.SENT: StateWords(
        "sent",
        "Your contribution arrived.",
        "The answer comes here by itself, when enough people took part.",
        "good",
    ),
    ParticipationState.DONE: StateWords("answered", "The task has its answer.", "There is nothing left to do.", "done"),
    ParticipationState.DECLINED: StateWords(
        "declined", "You said no. Nothing left.", "You may still say yes while the task is open.", "over"
    ),
    ParticipationState.REFUSED: StateWords(
        "refused",
        "The coordinator refused what was sent; what it cost stays spent.",
        "There is nothing to do: the operator of the coordinator can say why.",
        "bad",
    ),
    ParticipationState.CLOSED: StateWords("closed", "The task has ended.", "There is nothing left to do.", "over"),
    ParticipationState.WITHDRAWN: StateWords(
        "withdrawn", "You took it back.", "While the task is open you may agree to it again.", "over"
    ),
    ParticipationState.FAILED: StateWords(
        "failed",
        "Your machine could not go on with it; what had not begun to leave went back.",
        "While the task is open you may agree to it again.",
        "bad",
    ),
}
#: sent, and the coordinator no longer knows the task
FORGOTTEN = StateWords("forgotten", "Your contribution arrived.", "There is nothing left to do.", "over")
#: sent, and there is an answer already, as there is of what keeps learning
SO_FAR = StateWords("sent", "Your contribution arrived.", "The answer stands here as it is so far.", "good")
#: where taking it back is worth a try
BACK = (ParticipationState.RESERVED, ParticipationState.ASKED, ParticipationState.COMPUTED, ParticipationState.SENT)
#: a task's own state, in the coordinator's word
TASKS = {
    "open": "open",
    "running": "running",
    "done": "answered",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired without an answer",
}
_OPEN = ("open", "running")


def state(name: str) -> StateWords:
    """The words for a participation's state."""
    return STATES[ParticipationState(name)]


def standing(p: Mapping[str, Any]) -> StateWords:
    """The words for a participation as it stands now."""
    if p["note"] == NOT_KNOWN:
        return FORGOTTEN
    if p["state"] == ParticipationState.SENT and p.get("result"):
        return SO_FAR
    told = state(p["state"])
    if p["state"] in (ParticipationState.WITHDRAWN, ParticipationState.FAILED) and _was_last(p):
        return replace(told, next="You cannot agree to it again: you have paid for all that it takes of one person.")
    return told


def _was_last(p: Mapping[str, Any]) -> bool:
    """Return whether what was taken back was sent and was all that a task takes of one person."""
    if "turns_left" in p:
        return not p["turns_left"]
    return p.get("times", 1) == 1 and bool(p.get("spent") and p["spent"]["epsilon"])


def waits(p: Mapping[str, Any]) -> bool:
    """Return whether a contribution is made and waits for the moment that was drawn when it was agreed to."""
    return p["state"] == ParticipationState.COMPUTED and p.get("due_at") is not None


def may_decide(task: Mapping[str, Any]) -> bool:
    """Return whether yes and no mean anything now."""
    return task["status"] in _OPEN and task["state"] in ("seen", "declined")


def undecided(task: Mapping[str, Any]) -> bool:
    """Return whether nothing was ever agreed to of a task."""
    return task["state"] in ("seen", "declined") and not task["paid"]["epsilon"]


def takes_back(task: Mapping[str, Any]) -> bool:
    """Return whether taking it back is worth a try."""
    known, sent = standing(task) is not FORGOTTEN, task["state"] == ParticipationState.SENT
    return known and task["state"] in BACK and (task["returnable"] or not sent)


def again(task: Mapping[str, Any]) -> bool:
    """Return whether one may agree once more, after what was agreed to has come to a rest."""
    resting = task["state"] not in (*UNFINISHED, "seen", "declined") and standing(task) is not FORGOTTEN
    return bool(resting and task["turns_left"] and task["status"] in _OPEN)
