"""The certificate on a released number: what was promised, to whom, how it was made; never more than was proved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from thebes.privacy.accounting.odds import meaning
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.plain_text import plain_text, shortened
from thebes.privacy.promise import Adjacency, Unit

#: who must keep their word for the promise to hold ("none": nobody; "split": one of `parameters["servers"]`)
TRUST = ("none", "server", "split", "site")

_TOLD_AS_FACTOR = 20.0  #: beyond this epsilon e^epsilon is a number of ten digits, which tells nobody anything

#: what nobody can tell of an answer about rows that was not paid for
ROWS_UNTOLD = (
    "It was not measured how many values were missing or cut to the schema's bounds, so only the sites can know; "
    "error bars are about the values as they were counted."
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Everything a reader needs to judge one release.

    `epsilon` and `delta` are one unit's total; a weaker reading stands beside it in `parameters`
    (`per_weight`), never instead of it. `estimated` lists what was learned privately from the data inside
    the same budget (for example bounds). `beside_earlier`: the number rests on earlier releases as well, so that what
    is proved holds for those who had seen them; it is what this release adds to what they could learn.

    Example: release.certificate.epsilon, release.certificate.trust, print(release.certificate.text)
    """

    unit: Unit
    adjacency: Adjacency
    epsilon: float
    delta: float
    guarantee: str  #: pure | approximate | zcdp | renyi | none
    mechanism: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, Any] | None = None
    contributors: int | None = None  #: None where the number of contributors is private
    trust: str = "none"
    estimated: tuple[str, ...] = ()
    simulated: bool = False
    notes: tuple[str, ...] = ()  #: sentences a reader must also know (missing values, who could see what)
    beside_earlier: bool = False

    def __post_init__(self) -> None:
        if self.trust not in TRUST:
            raise Mistake("trust", f"must be one of {', '.join(TRUST)}")
        if self.guarantee not in ("pure", "approximate", "zcdp", "renyi", "none"):
            raise Mistake("guarantee", "must be pure, approximate, zcdp, renyi or none")
        if self.guarantee == "pure" and self.delta != 0:
            raise Mistake("delta", "must be 0 for a pure guarantee")

    @property
    def text(self) -> str:
        """One human paragraph."""
        return " ".join(self.statements)

    @property
    def statements(self) -> tuple[str, ...]:
        """The promise, what it means and on whom it rests, then what a reader must also know: each can stand on a line
        of its own."""
        if self.guarantee == "none":
            promise = "No privacy guarantee: this number was released without noise."
        else:
            odds = f"at most e^{figure(self.epsilon)}{self._factor} times likelier or less likely"
            slack = f", except with probability {figure(self.delta)}" if self.delta else ""
            begun = (
                "For somebody who had seen the earlier releases on which this rests: if"
                if self.beside_earlier
                else "If"
            )
            promise = (
                f"{begun} {self.unit.sentence} {self.adjacency.sentence}, any outcome would have been "
                f"{odds}{slack} (epsilon {figure(self.epsilon)}, delta {figure(self.delta)}; "
                f"mechanism: {self.mechanism})."
            )
        trust = {
            "none": "Nobody has to be trusted for this: the noise was added before anything left its owner.",
            "server": "This holds if the server that collected the answers keeps its promise.",
            "split": f"This holds if at least one of {self._servers} keeps its word and does not share what it holds.",
            "site": "This holds if the institution that holds the rows keeps its promise.",
        }[self.trust]
        pieces = [promise, self._guess, trust if self.guarantee != "none" else "", self._of_mixed]
        if self.estimated:
            pieces.append(f"Estimated from the data inside the same budget: {', '.join(self.estimated)}.")
        if self.simulated:
            pieces.append("Simulated: made with declared people or repeatable noise, so it protects nobody.")
        return tuple(p for p in (*pieces, *self.notes) if p)

    @property
    def _factor(self) -> str:
        """About how much e^epsilon is; nothing of a large one, or of what is no number: anybody may have written it."""
        told = self.epsilon
        small = isinstance(told, (int, float)) and told <= _TOLD_AS_FACTOR
        return f" (about {figure(math.exp(told), 3)})" if small else ""

    @property
    def _of_mixed(self) -> str:
        """The sentence of the second promise, on what it rests; nothing where there is none, or somebody wrote what
        none can be."""
        told = self.parameters.get("mixed")
        if not isinstance(told, Mapping):
            return ""
        try:
            epsilon, delta, n, honest = (figure(float(told[name])) for name in ("epsilon", "delta", "n", "honest"))
            apart = " of each partition" if float(told.get("partitions", 1)) > 1 else ""
        except (KeyError, TypeError, ValueError):
            return ""
        if told.get("against") == "readers":
            begun, kept = "For whoever sees only what is released: if the server tells nobody whose answer is whose", ""
        else:
            begun = "If those who see the answers cannot tell whose is whose and asked everybody the same"
            kept = " and hid where they sent from"
        return (
            f"{begun}, and at least {honest} of {n}{apart} followed the rules{kept}, it is at most e^{epsilon} (delta "
            f"{delta}). Nobody can check that; the first sentence holds without it."
        )

    @property
    def _servers(self) -> str:
        named = self.parameters.get("servers")
        return " and ".join(map(str, named)) if isinstance(named, list | tuple) and named else "two servers"

    @property
    def _guess(self) -> str:
        """The sentence of what somebody could learn at most; nothing where the figures are none that a guarantee can
        have: anybody may have written them."""
        try:
            told = meaning(self.epsilon, self.delta)
        except Mistake:
            return ""
        return "" if self.guarantee == "none" else told.sentence(which="which of the two it was", seen="that outcome")

    def __repr__(self) -> str:
        budget = f"epsilon {figure(self.epsilon)}, delta {figure(self.delta)} for one {self.unit}"
        return shortened(f"<certificate: {budget}, {self.guarantee}; {self.mechanism}>", 120)

    def _repr_html_(self) -> str:
        """For notebooks: the promise in one line that opens the rest. Everything is escaped."""
        told = {
            "epsilon": figure(self.epsilon),
            "delta": figure(self.delta),
            "unit": str(self.unit),
            "adjacency": str(self.adjacency),
            "contributors": "private" if self.contributors is None else str(self.contributors),
            "trust": self.trust,
        }
        rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in told.items())
        head = f"Certificate: epsilon {told['epsilon']}, delta {told['delta']} for one {told['unit']}"
        text = escape(plain_text(self.text))
        return f"<details><summary>{escape(head)}</summary><p>{text}</p><table>{rows}</table></details>"

    def as_json(self) -> dict[str, Any]:
        """The keys every reader may rely on."""
        return {
            "unit": str(self.unit),
            "adjacency": str(self.adjacency),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "guarantee": self.guarantee,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "bounds": None if self.bounds is None else dict(self.bounds),
            "contributors": self.contributors,
            "trust": self.trust,
            "estimated": list(self.estimated),
            "simulated": self.simulated,
            "notes": list(self.notes),
            "text": self.text,
            **({"beside_earlier": True} if self.beside_earlier else {}),
        }
