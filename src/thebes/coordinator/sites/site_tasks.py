"""Tasks that institutions answer, as the service speaks of them. How they are run is the federation's business.

What must stay true: whom a task asks, and by which schemas, is decided once, when it is put up; a document that no
site could answer is refused then, naming the field at fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.capabilities import Capabilities
from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.sites.quotes import Quoted, SiteVerdict, enough, unheard
from thebes.coordinator.sites.site_store import FederationStore
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.task_standing import TaskStanding
from thebes.data.schema import Schema, read_shown
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.privacy.spelling import did_you_mean
from thebes.tasks import accuracy_prices, registry
from thebes.tasks.document import InvalidDocument, PeopleDocument
from thebes.tasks.posting_rules import check_postable
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.site_document import LOCAL, SiteDocument, in_all, schemas_of
from thebes.tasks.site_protocols import Convened
from thebes.wire.link import Code
from thebes.wire.refusals import NotAllowed
from thebes.wire.refused_sites import GONE

STATES = ("connected", "away", "revoked", "never")  #: in which a site may be
_MOST_NAMED = 20  #: data sets in one refusal
_UNASKED = unheard("was not asked: sites say it to whom they may answer", "")


HelpedType = TypeVar("HelpedType", PeopleDocument, SiteDocument)


class RunningFederation(Protocol):
    """The federation, where it is in this process."""

    def look(self) -> None: ...

    def progress(self, task_id: str) -> dict[str, Any] | None: ...

    async def quotes(self, sites: Sequence[str], question: Mapping[str, Any]) -> dict[str, Quoted]:
        """Return what each says of an answer now, or why it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Convocation:
    """The sites that are asked, and by which schemas; and those that are not although they have the data set, and why.
    `quotes` is what those said who were asked beforehand, `at_price` what they said who were asked again once all had
    named a cost."""

    document: SiteDocument
    asked: Mapping[str, Schema]
    left_out: Mapping[str, str]
    quotes: Mapping[str, Quoted] = field(default_factory=dict)
    at_price: Mapping[str, Quoted] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "asked": {site: schema.as_json() for site, schema in self.asked.items()},
            "left_out": dict(self.left_out),
        }
        return {**told, "quotes": self.known} if self.known else told

    @property
    def known(self) -> dict[str, Any]:
        """The answers that sites have already, as the aggregator is told them."""
        quoted = {site: told.known for site, told in self.quotes.items() if told.known}
        return quoted if self.document.by_accuracy else {}

    @property
    def unit(self) -> Unit:
        return unit_of(self.asked)

    def aggregator(self) -> Convened:
        return registry.aggregator(self.document, self._setting)

    def priced(self) -> Convocation:
        """The same with the document's price in it, where it says how exact the answer is to be."""
        return replace(self, document=accuracy_prices.priced(self.document, self._setting))

    def asks(self) -> tuple[Convocation, dict[str, dict[str, Any]]]:
        """Return the same with its price, and what each site would be told that is asked."""
        priced = self.priced()
        aggregator = priced.aggregator()
        asks = {site: aggregator.ask(site) for site in self.asked}
        return priced, {site: dict(ask.payload) for site, ask in asks.items() if isinstance(ask, Ask)}

    @property
    def alone(self) -> dict[str, float]:
        """The figures that a site is told that answers within a width of its own."""
        return accuracy_prices.alone(self.document, self._setting) if self.document.by_accuracy else {}

    def expected(self) -> dict[str, Any]:
        """Return whether enough sites, `needed`, would answer (`allowed`), and each (`verdicts`); of a question that
        they may have answered before also what each is expected to pay (`sites`), and why that is not known of the
        others (`missing`)."""
        document = self.document
        unfit = {**self.left_out, **self.aggregator().missing}
        verdicts = {site: SiteVerdict(False, Code.SCHEMA, why) for site, why in unfit.items()}
        quotes = {site: self.quotes.get(site, _UNASKED) for site in self.asked if site not in unfit}
        verdicts |= {site: said.verdict for site, said in {**quotes, **self.at_price}.items()}
        needed = document.needed(len(self.asked))
        told: dict[str, Any] = {
            "allowed": enough([verdicts[site] for site in self.asked], needed),
            "needed": needed,
            "verdicts": {site: verdict.as_json() for site, verdict in sorted(verdicts.items())},
        }
        if not document.recallable:
            return told
        missing = unfit | {site: said.silent for site, said in quotes.items() if said.silent}
        if document.by_accuracy:
            delta = document.delta
            costs = {
                site: {"epsilon": epsilon, "delta": delta if epsilon else 0.0, "source": source}
                for site, (epsilon, source) in accuracy_prices.expected(document, self._setting).items()
            }
        else:
            costs = {
                site: {"epsilon": said.cost[0], "delta": said.cost[1], "source": said.source}
                for site, said in quotes.items()
                if said.cost is not None and said.source is not None
            }
        return {
            **told,
            "sites": {site: own for site, own in costs.items() if site not in missing},
            "missing": missing,
        }

    @property
    def _setting(self) -> Setting:
        return Setting(unit=self.unit, randomness=randomness.system(), sites=self.asked, quotes=self.known)


class Inquiries:
    """`running` is the federation once there is one in this process; everything else is read from the database."""

    def __init__(self, home: CoordinatorHome, database: Database, clock: Clock, capabilities: Capabilities) -> None:
        self._clock = clock
        self._alone = database.alone
        self._authority = CertificateAuthority(home.folder, clock)
        self.store = FederationStore(database, "")
        self._capabilities = capabilities
        self.running: RunningFederation | None = None

    # --- sites ------------------------------------------------------------------------------------------

    def sites(self) -> list[dict[str, Any]]:
        """Every site that may take part or ever did. No count of anything."""
        spoken = self.running is not None if self._alone else self.store.seated()
        known = {site.name: site for site in self.store.sites()}
        certified = self._authority.sites()
        shown = []
        for name in sorted({*known, *certified}):
            site = known.get(name)
            state = "never" if site is None else "away"
            if site is not None and site.linked and spoken:
                state = "connected"
            if self._authority.revoked(name):
                state = "revoked"
            seen = None if site is None else datetime.fromtimestamp(site.seen, UTC).isoformat(timespec="seconds")
            ends = self._authority.ends(name)
            shown.append(
                {
                    "name": name,
                    "state": state,
                    "last_seen": seen,
                    "certificate_ends": None if ends is None else ends.isoformat(timespec="seconds"),
                    "datasets": {} if site is None else dict(site.datasets),
                }
            )
        return shown

    # --- documents --------------------------------------------------------------------------------------

    def convened(self, document: SiteDocument) -> Convocation:
        """Decide whom the document asks, or raise `InvalidDocument` where nobody could answer."""
        check_postable(document, self._clock.now())
        known = {site.name: site.datasets for site in self.store.sites() if not self._authority.revoked(site.name)}
        if document.sites == "all":
            helper = getattr(document, "helper", None)
            there = {*document.datasets}
            named = sorted(name for name, has in known.items() if has.keys() >= there and name != helper)
            if not named:
                everything = sorted({name for datasets in known.values() for name in datasets})
                absent = [each for each in document.datasets if each not in everything]
                if not absent:
                    raise InvalidDocument([("join", "names a data set that no site has together with the other one")])
                field = "dataset" if absent[0] == document.dataset else "join"
                raise InvalidDocument([(field, f"names {absent[0]!r}, which no site here has{_has(everything)}")])
        else:
            named = list(document.sites)
            self._all_known(document, named, known)
        asked, left_out, first = dict[str, Schema](), dict[str, str](), None
        kind = registry.site_kind(document)
        for name in named:
            try:
                schema = document.schema_among(
                    {dataset: read_shown(known[name][dataset]["schema"]) for dataset in document.datasets}
                )
                kind.fits(document, schema)
            except Mistake as mistake:
                told = f"{mistake.message} (the site {name})"
                first = first or InvalidDocument([(mistake.argument, told)])
                left_out[name] = f"its schema does not fit: {mistake.argument} {mistake.message}"
                continue
            asked[name] = schema
        if first is not None and (document.sites != "all" or not asked):
            raise first
        if document.min_sites is not None and document.min_sites > len(asked):
            raise InvalidDocument([("min_sites", f"must not be more than the {len(asked)} sites that can answer")])
        if document.server == "split" and document.needed(len(asked)) > len(asked):
            least = document.needed(len(asked))
            raise InvalidDocument(
                [("sites", f"must be at least {least} with totals in shares; {len(asked)} can answer")]
            )
        return Convocation(document, asked, left_out)

    def _all_known(self, document: SiteDocument, named: list[str], known: Mapping[str, Mapping[str, Any]]) -> None:
        certified = self._authority.sites()
        for name in named:
            if name not in known:
                why = f"is not a site of this coordinator{did_you_mean(name, known)}"
                if self._authority.revoked(name):
                    why = "is no longer a site of this coordinator: its certificate was revoked"
                elif name in certified or name == LOCAL:
                    why = "has never been linked, so what it has is not known"
                raise InvalidDocument([("sites", f"names {name!r}, which {why}")])
        without = [(name, each) for each in document.datasets for name in named if each not in known[name]]
        if without:
            (name, absent), there = without[0], sorted(known[without[0][0]])
            why = f"names {absent!r}, which the site {name} does not have{_has(there)}"
            raise InvalidDocument([("dataset" if absent == document.dataset else "join", why)])

    def check_allowed(self, convocation: Convocation, requestor: str) -> None:
        """Refuse what this user may not ask. Somebody of whom nothing is said may ask everybody: the sites decide."""
        capabilities, kind = self._capabilities.of(requestor), convocation.document.type
        if not capabilities:
            return
        everybody = {*convocation.asked, *convocation.left_out}
        forbidden = [site for site in sorted(everybody) if not any(c.covers(site, kind) for c in capabilities)]
        if forbidden:
            rest = sorted(everybody - set(forbidden))
            may = f"; of these you may ask {', '.join(rest)}: name them in sites" if rest else ""
            raise NotAllowed(f"you may not ask the site {', '.join(forbidden)} for {kind!r}{may}")

    async def quoted(self, convocation: Convocation, requestor: str) -> Convocation:
        """Return the same with what the sites say of an answer now, or why they do not."""
        question = {"requestor": requestor, "document": convocation.document.as_json(), "payload": convocation.alone}
        if self.running is None:
            return replace(convocation, quotes=dict.fromkeys(convocation.asked, unheard("is not linked", GONE)))
        return replace(convocation, quotes=await self.running.quotes(sorted(convocation.asked), question))

    async def judged(self, convocation: Convocation, requestor: str) -> Convocation:
        """Return the same, of which the price is known only now, with what the sites say of it who could not before:
        each of what it would be asked."""
        if self.running is None:
            return convocation
        priced, asks = await asyncio.to_thread(convocation.asks)
        question = {"requestor": requestor, "document": priced.document.as_json()}
        unsure = [site for site, said in convocation.quotes.items() if said.unsure and site in asks]
        questions = [self.running.quotes([site], {**question, "payload": asks[site]}) for site in unsure]
        at_price = {site: said for each in await asyncio.gather(*questions) for site, said in each.items()}
        return replace(convocation, at_price=at_price)

    async def helped(self, document: HelpedType, requestor: str) -> HelpedType:
        """Return a document with the fingerprint of its helper, once that says that it would help; any that has none as
        it is."""
        body = document.as_json()
        helper = body.get("helper")
        if helper is None:
            return document
        if helper == LOCAL or self.running is None:
            raise InvalidDocument([("helper", "must be a site of another institution, which is linked")])
        question = {"requestor": requestor, "document": body}
        said = (await self.running.quotes([helper], question))[helper]
        if said.verdict.allowed is not True:
            raise InvalidDocument([("helper", f"cannot be {helper}: it {said.verdict.message}")])
        if body.get("helper_key") not in (None, said.known.get("helper_key")) or "helper_key" not in said.known:
            raise InvalidDocument([("helper_key", "is not the fingerprint that the helper says; ask its institution")])
        dated = registry.check({**body, "helper_key": said.known["helper_key"]})
        assert isinstance(dated, type(document))  # noqa: S101
        return dated

    # --- tasks ------------------------------------------------------------------------------------------

    def summary(
        self, standing: TaskStanding, document: SiteDocument, asked: Sequence[str], going: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return what is said of a task besides what every task has: of whom it asks, and how it goes where it still
        does."""
        return {
            "contributions": standing.accepted if going is None else len(going["answered"]),
            "min_count": document.needed(len(asked)),
            "phase": standing.phase if going is None else going["phase"],
            "phases": document.phases,
            "sites": list(asked),
        }

    def asked(self, task_id: str) -> tuple[str, ...]:
        """The sites that a task asks, by name: this never changes."""
        return tuple(sorted(self.store.asked(task_id)["asked"]))

    def going(self, standings: Iterable[TaskStanding]) -> dict[str, Mapping[str, Any]]:
        """Return how each of these goes that sites answer and that is not over, where anything is known."""
        found, elsewhere = dict[str, Mapping[str, Any]](), list[str]()
        for standing in standings:
            if standing.of_sites and not standing.status.final:
                here = None if self.running is None else self.running.progress(standing.id)
                if here is None:
                    elsewhere.append(standing.id)
                else:
                    found[standing.id] = here
        return found | (self.store.progresses(elsewhere) if elsewhere else {})

    def progress(self, standing: TaskStanding) -> dict[str, Any]:
        """Tell how a task goes: who has answered, who will not and why, and where the time went."""
        told = self._progress(standing)
        if told is None:
            asked = self.store.asked(standing.id)
            told = {"answered": [], "missing": {}, "asked": sorted(asked["asked"]), "left_out": asked["left_out"]}
        return {"contributions": len(told["answered"]), "lanes": [], "sites": told}

    def refusals(self, standing: TaskStanding) -> dict[str, dict[str, Any]]:
        """Return every site of a task that is not in its answer, with why: in a word that programs read, and in words;
        and, where that is known, whether it was charged anything."""
        told = self._progress(standing) or {"left_out": self.store.asked(standing.id)["left_out"]}
        reasons, paid = told.get("reasons", {}), told.get("charged", {})
        unasked = {"reason": str(Code.SCHEMA), "charged": False}
        found: dict[str, dict[str, Any]] = {
            site: {**unasked, "message": why} for site, why in told.get("left_out", {}).items()
        }
        for site, why in told.get("missing", {}).items():
            charged = {"charged": paid[site]} if site in paid else {}
            found[site] = {"reason": reasons.get(site, str(Code.FAILED)), "message": why, **charged}
        return found

    def price(self, task_id: str, document: SiteDocument) -> dict[str, Any]:
        """Return what one unit pays at each site, by the weakest of their units, and at all of them."""
        asked = self.store.asked(task_id)["asked"]
        unit = unit_of(schemas_of(asked))
        return price_at_sites(document, unit, len(asked))

    def look(self) -> None:
        """A task was put up or cancelled."""
        if self.running is not None:
            self.running.look()

    def _progress(self, standing: TaskStanding) -> dict[str, Any] | None:
        # Of a task that is over whoever ended it has stored all; a process that had the seat before may not know yet.
        here = None if self.running is None or standing.status.final else self.running.progress(standing.id)
        return here if here is not None else self.store.progress(standing.id)


def price_at_sites(document: SiteDocument, unit: Unit, sites: int) -> dict[str, Any]:
    """Return what one unit pays at each of so many sites, and `in_all` whose rows lie at all of them."""
    price: Price = registry.drawn(document.type).price(document, unit=unit)
    return {**price.as_json(), "in_all": in_all(document, price, sites)}


def _has(there: Sequence[str]) -> str:
    """Say which data sets there are; everybody may see them with their schemas."""
    if not there:
        return "; there is none"
    more = f" and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
    return f"; there {'is' if len(there) == 1 else 'are'} {', '.join(there[:_MOST_NAMED])}{more}"


def unit_of(schemas: Mapping[str, Schema]) -> Unit:
    """The weakest unit: one site that counts events makes it events."""
    return Unit.PERSON if schemas and all(schema.unit == "person" for schema in schemas.values()) else Unit.EVENT
