"""A quote: what a document would cost, and what each site that would be asked says of it, before anybody pays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from thebes.data.frame import FrameSource
from thebes.privacy.accounting.odds import large_delta, large_epsilon
from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.plain_text import shortened
from thebes.tasks import notebook
from thebes.tasks.mixed_reports import mixed_words
from thebes.tasks.site_document import in_all_words
from thebes.wire.problems import printable
from thebes.wire.refused_sites import together, verdict


@dataclass(frozen=True)
class SiteWord:
    """The word of a site whether it would answer now; None where that is not known. `reason` is the code under which it
    would refuse, or did not say (as of `SiteRefusal`), `message` says why in words. `left` ({"epsilon", "delta"}) is
    the most that one more answer may cost there, where its rule names you."""

    allowed: bool | None
    reason: str = ""
    message: str = ""
    left: Mapping[str, float] | None = None

    def __str__(self) -> str:
        return verdict(vars(self))


@dataclass(frozen=True)
class Quote(FrameSource):
    """The price that one contributor would pay for a document at most, and until when the coordinator holds to it. Of a
    question to institutions `allowed` says whether enough of them, `needed`, would answer now (None where that is not
    known), and `verdicts` the same of each. `sites` says what each of them expects its answer to cost
    ({"epsilon", "delta", "source"}), and `missing` why that is not known of the others. `choice` says which of several
    ways to do what is asked is taken ({"field", "taken", "expected_error", "of", "refused"}, and "why" where that
    follows from a rule, with no error expected of any). `in_all` ({"sites", "epsilon", "delta"}) is the most that
    somebody pays whose rows lie at all of the sites. `mixed` ({"epsilon", "delta", "n", "honest"}) is what holds
    against whoever sees the collected answers and cannot tell whose is whose, where the document asks for that.

    Example:
        quote = server.quote(document)
        if quote.allowed is False: print(quote)  # which sites would refuse, and why

    """

    price: Price
    expires_at: datetime | None
    sites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    allowed: bool | None = None
    verdicts: Mapping[str, SiteWord] = field(default_factory=dict)
    needed: int | None = None
    choice: Mapping[str, Any] = field(default_factory=dict)
    in_all: Mapping[str, Any] = field(default_factory=dict)
    mixed: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        until = "" if self.expires_at is None else f", until {self.expires_at.isoformat()}"
        price = self.price.as_json()
        lines = [f"epsilon {figure(price['epsilon'])}, delta {figure(price['delta'])} for one {price['unit']}{until}"]
        lines += filter(None, (large_epsilon(self.price.epsilon), large_delta(self.price.delta)))
        if self.in_all and (several := in_all_words(self.in_all, "are asked")):
            lines.append(several)
        if self.choice:
            each = ", ".join(f"{way} {figure(error, 2)}" for way, error in self.choice["expected_error"].items())
            why = self.choice.get("why") or f"{self.choice['of']}: {each}"
            lines.append(f"{self.choice['field']} {self.choice['taken']} ({why})")
        if self.mixed:
            lines.append(mixed_words(self.mixed))
        lines += [f"{site}: epsilon {figure(told['epsilon'])} ({told['source']})" for site, told in self.sites.items()]
        lines += [f"{site}: {why}" for site, why in self.missing.items() if site not in self.verdicts]
        lines += [f"{site} {told}" for site, told in self.verdicts.items()]
        if self.verdicts:
            said = [one.allowed for one in self.verdicts.values()]
            lines.append(together(self.allowed, said, self.needed))
        return "\n".join(lines)

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the word of each site as columns; of a question to people, one row with its price."""
        price = self.price.as_json()
        if not (named := list(dict.fromkeys([*self.verdicts, *self.sites, *self.missing]))):
            return {name: [price[name]] for name in ("epsilon", "delta", "unit")}
        told = [self.sites.get(site, {}) for site in named]
        words = [self.verdicts.get(site) for site in named]
        left = [None if word is None or word.left is None else word.left["epsilon"] for word in words]
        return {
            "site": named,
            "allowed": [None if word is None else word.allowed for word in words],
            "epsilon": [math.nan if one.get("epsilon") is None else float(one["epsilon"]) for one in told],
            "delta": [math.nan if one.get("delta") is None else float(one["delta"]) for one in told],
            "left": [math.nan if one is None else float(one) for one in left],
            "reason": ["" if word is None else word.reason for word in words],
            "message": [
                self.missing.get(site, "") if word is None else word.message
                for site, word in zip(named, words, strict=True)
            ],
        }

    def __repr__(self) -> str:
        price = self.price.as_json()
        said = {True: "enough sites would answer", False: "too few sites would answer", None: ""}[self.allowed]
        head = f"epsilon {figure(price['epsilon'])}, delta {figure(price['delta'])} for one {price['unit']}"
        return shortened(f"<quote: {'; '.join(filter(None, [head, said]))}>", 120)

    def _repr_html_(self) -> str:
        columns = self.as_columns()
        sites = notebook.table(list(columns), zip(*columns.values(), strict=True)) if "site" in columns else ""
        lines = str(self).splitlines()
        shown = [
            line for line in lines if not any(line.startswith((f"{s}:", f"{s} ")) for s in columns.get("site", ()))
        ]
        return notebook.shown(notebook.lines(shown), sites)


def quote_from_json(body: Mapping[str, Any]) -> Quote:
    """Read what a coordinator answers; an AttributeError, KeyError, TypeError or ValueError where it is no quote."""
    price, moment = body["price"], body.get("expires_at")
    told = Price(price["epsilon"], price["delta"], price["unit"])
    until = None if moment is None else datetime.fromisoformat(moment)
    verdicts = {printable(site): _verdict(one) for site, one in (body.get("verdicts") or {}).items()}
    allowed, needed = _truth(body.get("allowed")), body.get("needed")
    least = needed if type(needed) is int else None
    sites, missing, choice = (body.get(name) or {} for name in ("sites", "missing", "choice"))
    mixed = {name: float(number) for name, number in (body.get("mixed") or {}).items()}
    return Quote(told, until, sites, missing, allowed, verdicts, least, _choice(choice), _in_all(price), mixed)


def _verdict(told: Mapping[str, Any]) -> SiteWord:
    """Read what a coordinator says of one site."""
    left = told.get("left")
    amounts = None if left is None else {name: float(left[name]) for name in ("epsilon", "delta")}
    return SiteWord(_truth(told["allowed"]), printable(told["reason"]), printable(told["message"]), amounts)


def _in_all(price: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a coordinator says of somebody at all of the sites; nothing where it says nothing."""
    told = price.get("in_all")
    if told is None:
        return {}
    return {"sites": int(told["sites"]), "epsilon": float(told["epsilon"]), "delta": float(told["delta"])}


def _choice(told: Mapping[str, Any]) -> dict[str, Any]:
    """Read which of several ways a coordinator says is taken; nothing where it says nothing."""
    if not told:
        return {}
    words = {name: printable(told[name]) for name in ("field", "taken", "of", "why") if told.get(name) is not None}
    errors = {printable(way): float(error) for way, error in told["expected_error"].items()}
    return {
        **words,
        "expected_error": errors,
        "refused": {printable(w): printable(r) for w, r in told["refused"].items()},
    }


def _truth(told: object) -> bool | None:
    if told is not None and not isinstance(told, bool):
        raise TypeError
    return told
