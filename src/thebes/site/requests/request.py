"""One ask that a site handles: what it says it is about, what allows it, what its document costs, and what is paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.curator.streams.stream import Context, Stream
from thebes.ledger import LedgerClaim
from thebes.privacy import exact
from thebes.privacy.faults import Fault, Refusal
from thebes.site.budget.policy import PolicyRule
from thebes.site.dataset import DataSet
from thebes.site.requests.messages import TaskAsk, declined
from thebes.site.requests.response_store import SiteRequest
from thebes.site.streams import context_of
from thebes.tasks import registry
from thebes.tasks.block_price import Cost, cost
from thebes.tasks.protocols import Ask
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import SiteOwner, StreamOwner
from thebes.wire.link import Code


class Turn:
    """One ask while it is looked at: what it says it is about, and how far it has come."""

    def __init__(self, began: float, message: Mapping[str, Any]) -> None:
        ask, document = message.get("ask"), message.get("document")
        part = ask.get("part") if isinstance(ask, Mapping) else None
        self.began = began
        self.told = {"task": message.get("task"), "part": part}  #: as it came, to be repeated
        self.place = {name: _short(value) for name, value in self.told.items()}
        self._document = document if isinstance(document, Mapping) else {}
        self._requestor = message.get("requestor")
        self.request: SiteRequest | None = None
        self.rules: tuple[PolicyRule, ...] = ()
        self.noted = False  #: whether the audit log has the ask

    def facts(self) -> dict[str, str]:
        """Tell who asks for what, for the audit log."""
        about = {"requestor": self._requestor, "kind": self._document.get("type")}
        return {
            **self.place,
            **{n: _short(v) for n, v in about.items()},
            "dataset": _short(self._document.get("dataset")),
            **({"join": _short(self._document["join"])} if self._document.get("join") else {}),
        }

    def numbers(self) -> dict[str, int]:
        """Tell which rules allow it, for the audit log."""
        return dict(zip(("rule", "rule_of_join"), (rule.number for rule in self.rules), strict=False))


@dataclass(slots=True)
class Matter:
    """A task's document, checked and as it came, and its price once that is known."""

    document: SiteDocument
    raw: Mapping[str, Any]
    _priced: tuple[DataSet, str, Cost] | None = None

    def price(self, dataset: DataSet, filter: str) -> Cost:
        if self._priced is None or self._priced[0] is not dataset or self._priced[1] != filter:
            event = registry.site_kind(self.document).event(self.document, dataset.schema)
            self._priced = (dataset, filter, cost(self.document, event, filter))
        return self._priced[2]


@dataclass(frozen=True, slots=True)
class Allowed:
    """An ask that a rule allows, about a data set that has what it asks. Nothing is made of rows for any other."""

    request: SiteRequest
    rules: tuple[PolicyRule, ...]  #: for each data set that is asked for
    question: TaskAsk
    matter: Matter
    dataset: DataSet

    @property
    def rule(self) -> PolicyRule:
        return self.rules[0]

    @property
    def document(self) -> SiteDocument:
        return self.matter.document

    @property
    def ask(self) -> Ask:
        return self.question.ask

    @property
    def owner(self) -> SiteOwner[Any]:
        """Return the half of the document that runs here, on rows."""
        return registry.site_owner(self.document)

    @property
    def attempts(self) -> StreamOwner[Any]:
        """Return the half of a document that is answered in attempts over a growing data set."""
        return registry.stream_owner(self.document)

    def context(self, stream: Stream) -> Context:
        """Return for whom a growing data set is asked; declined where the rule does not let its requestor."""
        return asking(stream, self.rule, self.request.requestor)


def asking(stream: Stream, rule: PolicyRule, requestor: str) -> Context:
    """Return for whom a growing data set is asked under a rule; declined where the rule does not let its requestor."""
    try:
        return context_of(stream, rule, requestor)
    except Refusal as refused:
        raise declined(Code.POLICY, refused) from None


@dataclass(slots=True)
class Charge:
    """The charge that an owner's half is given as its claim: consuming charges the ledger for this part, once, whatever
    the amounts are that it names. Those are told with the answer as its cost."""

    claim: LedgerClaim | None
    cost: Cost | None
    part: str
    epsilon: float = 0.0
    delta: float = 0.0
    paid: bool = False

    def consume(self, *, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        if self.claim is None or self.cost is None:
            raise Fault("an owner's half paid for an answer about a public data set")
        if self.cost.phase is None:
            self.claim.consume(loss=self.cost.whole, part="all of it")
        else:
            self.claim.consume(loss=self.cost.phase, part=self.part)
        self.paid = True
        self.epsilon += float(exact.declared("epsilon", epsilon))
        self.delta += float(exact.declared("delta", delta))


def _short(value: object) -> str:
    """Return what a stranger said, as the audit log keeps it."""
    return value[:200] if isinstance(value, str) and value[:200].isprintable() else "?"
