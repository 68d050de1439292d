"""The answers of sites to an ask, read from messages of strangers; and why a site is in none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from thebes.tasks.contributions import Layout
from thebes.wire.link import Code

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Absence:
    """The reason why a site is not in an answer: in words, and in one (`reason`)."""

    words: str
    reason: str = Code.FAILED


class UnfitAnswer(Exception):
    """A site's answer that cannot be counted, and what that makes of the site."""

    def __init__(self, words: str | Absence) -> None:
        self.absence = Absence(words) if isinstance(words, str) else words
        super().__init__(self.absence.words)


def longest(layout: Layout) -> int:
    """No honest contribution of this layout travels in more bytes."""
    each = {"text": 12, "number": 26, "integer": 20}
    return 65_536 + sum(
        8 * len(name) + (6 if slot.packed else each[slot.kind]) * max(1, slot.length) for name, slot in layout.items()
    )


def refusal(answer: Mapping[str, Any]) -> Absence:
    code, reason = answer.get("code"), answer.get("reason")
    said = reason if isinstance(reason, str) and reason.isprintable() and reason else "without a reason"
    known = code if isinstance(code, str) and code in set(Code) else str(Code.FAILED)
    return Absence(f"refused: {said[:_LONGEST_REASON]}", known)


def cost_of(told: object) -> dict[str, float] | None:
    """Return what the answer cost at its site, by its own word."""
    if not isinstance(told, Mapping):
        return None
    epsilon, delta = told.get("epsilon"), told.get("delta", 0)
    for value in (epsilon, delta):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
            return None
    return {"epsilon": float(cast(float, epsilon)), "delta": float(cast(float, delta))}
