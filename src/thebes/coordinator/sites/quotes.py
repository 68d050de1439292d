"""The quote in which a site says beforehand whether it would answer and what that would cost it, read from a message of
a stranger.

What must stay true: only a site's own yes is one; whoever says nothing, or cannot say, is not known to allow it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thebes.ledger.filters import FILTERS
from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.sites import SOURCES
from thebes.wire.link import Code, Word

_LONGEST_REASON = 200
_UNSURE = (Code.BUSY, Code.DOWN, Code.FAILED)  #: codes that say nothing of what is allowed
_NOT_SAID = "does not say beforehand whether it would answer"


@dataclass(frozen=True, slots=True)
class SiteVerdict:
    """The word of a site whether it would answer, by its rules, its caps and its budget now; None where that is not
    known. `reason` is the code under which it would refuse or did not say, `message` why in words. `left` is the most
    that one more answer may cost there (epsilon of one without a delta, and delta), where the site tells it whoever
    asks."""

    allowed: bool | None
    reason: str = ""
    message: str = ""
    left: tuple[float, float] | None = None

    def as_json(self) -> dict[str, Any]:
        told = {"allowed": self.allowed, "reason": self.reason, "message": self.message}
        return told if self.left is None else {**told, "left": {"epsilon": self.left[0], "delta": self.left[1]}}


@dataclass(frozen=True, slots=True)
class Quoted:
    """`cost` (epsilon, delta) and `source` of an answer now, where the document says its epsilon; `known` is what the
    aggregator may reckon with (see `Setting.quotes`); `silent` is why a site tells nothing of these."""

    verdict: SiteVerdict
    cost: tuple[float, float] | None = None
    source: str | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    silent: str = ""

    @property
    def unsure(self) -> bool:
        """Return whether a site answered and could not say whether it would."""
        return self.verdict.allowed is None and not self.silent


def unheard(why: str, reason: str) -> Quoted:
    """Return what is known of a site that says nothing."""
    return Quoted(SiteVerdict(None, reason, why), silent=why)


def quoted(answer: Mapping[str, Any]) -> Quoted:
    """Read a site's answer; a Mistake where it is none."""
    if answer["kind"] == Word.REFUSAL:
        code, why = _code(answer), f"refused: {_reason(answer)}"
        return Quoted(SiteVerdict(None if code in _UNSURE else False, code, why), silent=why)
    if answer["kind"] != Word.QUOTED:
        raise Mistake("quote", "is answered by something else")
    cost, source, made = _amounts(answer.get("cost")), answer.get("source"), _amounts(answer.get("made"))
    known: dict[str, Any] = {} if made is None or not made[0] else {"made": list(made)}
    synopsis = _amounts(answer.get("synopsis"))
    if synopsis is not None:
        known["synopsis"] = list(synopsis)
    if re.fullmatch(r"[0-9a-f]{64}", str(answer.get("helper_key"))):
        known["helper_key"] = answer["helper_key"]  # of a site that would help: by which people know it
    if answer.get("filter") in FILTERS:
        known["filter"] = answer["filter"]
    return Quoted(_verdict(answer), cost, str(source) if source in SOURCES else None, known)


def enough(verdicts: Sequence[SiteVerdict], needed: int) -> bool | None:
    """Return whether so many sites would answer; None where that is not known."""
    said = [verdict.allowed for verdict in verdicts]
    if said.count(True) >= needed:
        return True
    return False if len(said) - said.count(False) < needed else None


def written(said: Quoted) -> Any:
    """For a process that did not hear it, as JSON."""
    verdict = said.verdict
    told = [verdict.allowed, verdict.reason, verdict.message, verdict.left]
    return {"verdict": told, "cost": said.cost, "source": said.source, "known": dict(said.known), "silent": said.silent}


def read(told: Mapping[str, Any]) -> Quoted:
    """The inverse of `written`."""
    allowed, reason, message, left = told["verdict"]
    verdict = SiteVerdict(allowed, reason, message, None if left is None else tuple(left))
    cost = None if told["cost"] is None else tuple(told["cost"])
    return Quoted(verdict, cost, told["source"], told["known"], told["silent"])


def _verdict(answer: Mapping[str, Any]) -> SiteVerdict:
    allowed, left = answer.get("allowed"), _amounts(answer.get("left"))
    if allowed is not None and not isinstance(allowed, bool):
        raise Mistake("quote", "does not say whether it is allowed")
    if allowed is None:
        return SiteVerdict(None, "", _NOT_SAID, left)
    return (
        SiteVerdict(True, left=left)
        if allowed
        else SiteVerdict(False, _code(answer), f"refused: {_reason(answer)}", left)
    )


def _code(answer: Mapping[str, Any]) -> str:
    code = answer.get("code")
    return code if isinstance(code, str) and code in set(Code) else str(Code.FAILED)


def _reason(answer: Mapping[str, Any]) -> str:
    reason = answer.get("reason")
    said = reason if isinstance(reason, str) and reason.isprintable() and reason else "without a reason"
    return said[:_LONGEST_REASON]


def _amounts(told: object) -> tuple[float, float] | None:
    """An epsilon and a delta."""
    if told is None:
        return None
    if not isinstance(told, list) or len(told) != 2:
        raise Mistake("quote", "does not say an epsilon and a delta")
    for number in told:
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < math.inf:
            raise Mistake("quote", "does not say an epsilon and a delta")
    return float(told[0]), float(told[1])
