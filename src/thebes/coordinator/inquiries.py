"""Tasks that institutions answer, as the reception speaks of them. How they are run is the federation's business.

What must stay true: whom a task asks, and by which schemas, is decided once, when it is put up; a document that no
site could answer is refused then, naming the field at fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from thebes.coordinator.authority import Authority
from thebes.coordinator.capabilities import Capabilities
from thebes.coordinator.clock import Clock
from thebes.coordinator.database import Database
from thebes.coordinator.federation.store import FederationStore
from thebes.coordinator.home import Home
from thebes.coordinator.store import Standing
from thebes.data.schema import Schema, read_shown
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.posting import check_postable
from thebes.tasks.shape import Convened, Setting
from thebes.tasks.sites import LOCAL, SiteDocument, SiteKind, schemas_of
from thebes.wire.refusals import NotAllowed


class Running(Protocol):
    """The federation, where it is in this process."""

    def look(self) -> None: ...

    def progress(self, task_id: str) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Convocation:
    """Who is asked, and by which schemas; and who is not although it has the data set, and why."""

    document: SiteDocument
    asked: Mapping[str, Schema]
    left_out: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {
            "asked": {site: schema.as_json() for site, schema in self.asked.items()},
            "left_out": dict(self.left_out),
        }

    @property
    def unit(self) -> Unit:
        return unit_of(self.asked)

    def aggregator(self) -> Convened:
        setting = Setting(unit=self.unit, randomness=randomness.system(), sites=self.asked)
        return cast(Convened, registry.aggregator(self.document, setting))


class Inquiries:
    """`running` is the federation once there is one in this process; everything else is read from the database."""

    def __init__(self, home: Home, database: Database, clock: Clock, capabilities: Capabilities) -> None:
        self._clock = clock
        self._alone = database.alone
        self._authority = Authority(home.folder, clock)
        self.store = FederationStore(database, "")
        self._capabilities = capabilities
        self.running: Running | None = None

    # --- sites ------------------------------------------------------------------------------------------

    def sites(self) -> list[dict[str, Any]]:
        """Every site that may take part or ever did. No count of anything."""
        now = self._clock.now().timestamp()
        spoken = self.running is not None if self._alone else self.store.seated(now)
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
        """Whom the document asks, or `InvalidDocument` where nobody could answer."""
        check_postable(document, self._clock.now())
        known = {site.name: site.datasets for site in self.store.sites() if not self._authority.revoked(site.name)}
        if document.sites == "all":
            named = sorted(name for name, datasets in known.items() if document.dataset in datasets)
            if not named:
                raise InvalidDocument([("dataset", "is not a data set of any site here; see GET /api/site")])
        else:
            named = list(document.sites)
            self._all_known(document, named, known)
        asked, left_out, first = dict[str, Schema](), dict[str, str](), None
        kind = cast(SiteKind, registry.kind(document.type))
        for name in named:
            schema = read_shown(known[name][document.dataset]["schema"])
            try:
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
        return Convocation(document, asked, left_out)

    def _all_known(self, document: SiteDocument, named: list[str], known: Mapping[str, Mapping[str, Any]]) -> None:
        certified = self._authority.sites()
        for name in named:
            if name not in known:
                why = "is not a site of this coordinator"
                if self._authority.revoked(name):
                    why = "is no longer a site of this coordinator: its certificate was revoked"
                elif name in certified or name == LOCAL:
                    why = "has never been linked, so what it has is not known"
                raise InvalidDocument([("sites", f"names {name!r}, which {why}")])
        without = [name for name in named if document.dataset not in known[name]]
        if without:
            raise InvalidDocument([("dataset", f"is not a data set of the site {without[0]}")])

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

    # --- tasks ------------------------------------------------------------------------------------------

    def summary(self, standing: Standing, document: SiteDocument) -> dict[str, Any]:
        """What is said of a task besides what every task has."""
        asked, progress = self.store.asked(standing.id), self._progress(standing.id)
        live = progress is not None and not standing.status.final
        return {
            "contributions": len((progress or {})["answered"]) if live else standing.accepted,
            "min_count": document.needed(len(asked["asked"])),
            "phase": (progress or {})["phase"] if live else standing.phase,
            "phases": document.phases,
            "sites": sorted(asked["asked"]),
        }

    def progress(self, task_id: str) -> dict[str, Any]:
        """How a task goes: who has answered, who will not and why, and where the time went."""
        told = self._progress(task_id)
        if told is None:
            asked = self.store.asked(task_id)
            told = {"answered": [], "missing": {}, "asked": sorted(asked["asked"]), "left_out": asked["left_out"]}
        return {"contributions": len(told["answered"]), "lanes": [], "sites": told}

    def price(self, task_id: str, document: SiteDocument) -> dict[str, Any]:
        """What one unit pays at each site, by the weakest of their units."""
        unit = unit_of(schemas_of(self.store.asked(task_id)["asked"]))
        return registry.kind(document.type).price(document, unit=unit).as_json()

    def look(self) -> None:
        """A task was put up or cancelled."""
        if self.running is not None:
            self.running.look()

    def _progress(self, task_id: str) -> dict[str, Any] | None:
        here = None if self.running is None else self.running.progress(task_id)
        return here if here is not None else self.store.progress(task_id)


def unit_of(schemas: Mapping[str, Schema]) -> Unit:
    """The weakest unit: one site that counts events makes it events."""
    return Unit.PERSON if schemas and all(schema.unit == "person" for schema in schemas.values()) else Unit.EVENT
