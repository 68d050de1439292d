"""Standing rules: what the person agreed to in advance, by fields of the document alone.

What must stay true: a rule never looks at data, so that taking part tells nothing about it; its coin is tossed once
for each task; none agrees to a price without a limit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from thebes.person.participation.participation import Participation, share
from thebes.person.settings import read_number
from thebes.person.tasks.task_feed import OfferedTask
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Coin, system
from thebes.tasks import registry

log = logging.getLogger(__name__)

WEEK_SECONDS = 7 * 86_400
LONGEST_NAME = 200  #: of a requestor
FIELDS = (
    "type",
    "requestor",
    "server",
    "tables",
    "epsilon_at_most",
    "delta_at_most",
    "epsilon_per_week",
    "min_count",
    "probability",
    "stated",
)


@dataclass(frozen=True, slots=True)
class AgreementRule:
    """Agree to tasks of `type` (of `requestor`, to a `server` that is trusted or not, reading no other `tables`, for at
    least `min_count` people, that say what for, whom to ask and until when where `stated`) that cost at most
    `epsilon_at_most`, up to `epsilon_per_week` in seven days, with `probability`. What is None does not matter."""

    type: str
    epsilon_at_most: Decimal
    requestor: str | None = None
    server: str | None = None
    tables: frozenset[str] | None = None
    delta_at_most: Decimal | None = None
    epsilon_per_week: Decimal | None = None
    min_count: int | None = None
    probability: Decimal = Decimal(1)
    stated: bool = False

    @classmethod
    def read(cls, body: object, where: str = "rule") -> AgreementRule:
        if not isinstance(body, Mapping):
            raise Mistake(where, "must be an object of document fields")
        for name in body:
            if name not in FIELDS:
                raise Mistake(f"{where}.{str(name)[:40]}", f"is not one of {', '.join(FIELDS)}")
        found: dict[str, Any] = dict(body)
        if found.get("type") not in registry.people_types():
            raise Mistake(f"{where}.type", f"must be one of {', '.join(registry.people_types())}")
        if "epsilon_at_most" not in found:
            raise Mistake(f"{where}.epsilon_at_most", "must be given: the most that one task may cost")
        if not _is_name(found.get("requestor", "")):
            raise Mistake(f"{where}.requestor", "must be a name")
        if len(found.get("requestor", "")) > LONGEST_NAME:
            raise Mistake(f"{where}.requestor", f"may have {LONGEST_NAME} characters")
        if found.get("server", "trusted") not in ("trusted", "split", "untrusted"):
            raise Mistake(f"{where}.server", "must be trusted, split or untrusted")
        if "tables" in found:
            tables = found["tables"]
            if not isinstance(tables, list) or not all(_is_name(table) for table in tables):
                raise Mistake(f"{where}.tables", "must be a list of names such as profile.demographics")
            found["tables"] = frozenset(tables)
        for name in ("epsilon_at_most", "epsilon_per_week"):
            if name in found:
                number = read_number(f"{where}.{name}", found[name])
                found[name] = exact.epsilon(number, f"{where}.{name}")
        if "delta_at_most" in found:
            number = read_number(f"{where}.delta_at_most", found["delta_at_most"])
            found["delta_at_most"] = exact.delta(number, f"{where}.delta_at_most")
        if "min_count" in found:
            count = read_number(f"{where}.min_count", found["min_count"])
            if count % 1 or count < 1:
                raise Mistake(f"{where}.min_count", "must be a whole number, 1 or more")
            found["min_count"] = int(count)
        if not isinstance(found.get("stated", False), bool):
            raise Mistake(f"{where}.stated", "must be true or false")
        if "probability" in found:
            found["probability"] = read_number(f"{where}.probability", found["probability"])
            if not 0 < found["probability"] <= 1:
                raise Mistake(f"{where}.probability", "must be more than 0 and at most 1")
        return cls(**found)

    def covers(self, offer: OfferedTask) -> bool:
        """Return whether the rule speaks about this document at all."""
        document = offer.document
        epsilon, delta = share(document)
        return (
            document.type == self.type
            and self.requestor in (None, offer.requestor)
            and document.server in (registry.unsaid_servers(document.type) if self.server is None else (self.server,))
            and (self.tables is None or set(document.reads) <= self.tables)
            and epsilon <= self.epsilon_at_most
            and (self.delta_at_most is None or delta <= self.delta_at_most)
            and (self.min_count is None or document.min_count >= self.min_count)
            and (document.stated or not self.stated)
        )

    def toss(self) -> bool:
        """The coin: whether to take part in one task."""
        if self.probability == 1:
            return True
        return bool(system().toss(Coin.nearest(Fraction(self.probability)), 1)[0])

    def affords(self, offer: OfferedTask, earlier: Iterable[Participation], now: float) -> bool:
        """Return whether this week's share of the rule covers the price; what was agreed to counts, whatever came of
        it."""
        if self.epsilon_per_week is None:
            return True
        recent = [p for p in earlier if p.accepted_at is not None and p.accepted_at > now - WEEK_SECONDS]
        return sum((share(p.document)[0] for p in recent), share(offer.document)[0]) <= self.epsilon_per_week


def _is_name(value: object) -> bool:
    """Text without half a character, which JSON can hold and nobody could be told again."""
    return isinstance(value, str) and not any(0xD800 <= ord(c) <= 0xDFFF for c in value)


def in_force(kept: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[int, AgreementRule]:
    """The kept rules by their numbers. One that was made before and lacks what a rule needs now agrees to nothing."""
    found = {}
    for number, body in kept:
        try:
            found[number] = AgreementRule.read(body)
        except Mistake as lacking:
            log.warning(
                "a standing rule from before is not followed: %s %s",
                lacking.argument,
                lacking.message,
                extra={"event": "rule.not-followed"},
            )
    return found


def read_rules(body: object) -> list[AgreementRule]:
    """A list of rules, or a Mistake that names the field at fault."""
    if not isinstance(body, list) or len(body) > 200:
        raise Mistake("rules", "must be a list of at most 200 rules")
    return [AgreementRule.read(item, f"rules.{place}") for place, item in enumerate(body)]
