"""The sites that are not in an answer, or would not be: the same words for why, wherever it is told.

What must stay true: that nobody paid is said only where nobody can have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from thebes.privacy.figures import figure
from thebes.wire.link import Code

GONE, LATE = "gone", "late"  #: why a site is missing that said nothing: its link was away; it took too long

#: what a site says where a price does not fit: no more, because everybody who may look at a task would read it
BEYOND = "the budget that this site allows for it does not cover it"

#: what a site's code, or the coordinator's word for one that said nothing, means
WORDS: dict[str, str] = {
    Code.POLICY: "its policy does not allow it",
    Code.BUDGET: "too little of its budget is left",
    Code.DATASET: "its data set cannot be used",
    Code.SCHEMA: "its data set does not fit",
    Code.DOCUMENT: "it does not take the question as it is put",
    Code.BUSY: "it has too much to do",
    Code.DOWN: "its data cannot be reached just now",
    Code.FAILED: "it could not answer",
    GONE: "it was not linked",
    LATE: "it took too long",
}


def why(reason: object, message: object) -> str:
    """Return a code in words, as far as it is known, with the code itself; then what was said."""
    code, said = str(reason or ""), str(message or "")
    if code == Code.BUDGET and said.removeprefix("refused: ") == BEYOND:
        said = ""  # the words for the code say it
    words = f"{WORDS[code]} ({code})" if code in WORDS else code
    return "; ".join(part for part in (words, said) if part)


def verdict(told: Mapping[str, Any]) -> str:
    """Say in words what a site says beforehand, as a quote has it."""
    allowed, left = told.get("allowed"), told.get("left")
    says = {True: "would answer", False: "would refuse", None: "is not known to answer"}.get(allowed, "says nothing")
    because = "" if allowed is True else why(told.get("reason"), told.get("message"))
    rest = ""
    if isinstance(left, Mapping):
        rest = f"; one more answer may cost at most epsilon {figure(left['epsilon'])}, delta {figure(left['delta'])}"
    return f"{says}{': ' if because else ''}{because}{rest}"


NOBODY_CHARGED = "no site charged anything for it"

_ENOUGH = {True: "", False: ": put up now, nothing would be released", None: "; whether enough would is not known"}


def together(allowed: bool | None, verdicts: Collection[bool | None], needed: int | None) -> str:
    """Say of all sites together what a quote says: how many would answer, and how many are needed where that is known
    (a coordinator of an earlier version does not tell it)."""
    yes, silent = sum(each is True for each in verdicts), sum(each is None for each in verdicts)
    whose = "site" if len(verdicts) == 1 else "sites"
    unknown = f", {silent} {'is' if silent == 1 else 'are'} not known to" if silent else ""
    least = "" if needed is None else f" (at least {needed} {'is' if needed == 1 else 'are'} asked for)"
    return f"{yes} of {len(verdicts)} {whose} would answer{unknown}{least}{_ENOUGH[allowed]}"


def nobody_charged(task: Mapping[str, Any]) -> bool:
    """Return whether no site was charged anything for a task, by what its coordinator tells of it: none is in the
    answer, and of each that is known."""
    refusals = task.get("refusals")
    if not isinstance(refusals, Mapping) or not refusals or not set(task.get("sites") or ()) <= refusals.keys():
        return False
    return all(isinstance(one, Mapping) and one.get("charged") is False for one in refusals.values())
