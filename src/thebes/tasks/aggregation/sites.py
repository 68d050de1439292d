"""The part of every aggregator that is the same where institutions answer: each is known by name, k of n are enough.

A phase closes when every site that was asked has answered or was excused. With fewer answers than are needed the task
ends without a release. Who did not answer is named in the release, with the reason.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.privacy.certificate import ROWS_UNTOLD
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.aggregation.snapshots import Arrays, packed, unpacked
from thebes.tasks.conclusion import concluded
from thebes.tasks.contributions import Contributions, Layout, checked
from thebes.tasks.protocols import Ask, Closed, Setting, State, TaskClosed, Wait
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument, differing, in_all, in_all_words

LONGEST_REASON = 300
LONGEST_ASSUMPTION = 1000
MECHANISM, CACHE, SYNOPSIS = "mechanism", "cache", "synopsis"
SOURCES = (MECHANISM, CACHE, SYNOPSIS)  #: where an answer of a site may come from
_BLOCKS = ("blocks", "since", "until")
SiteDocumentType = TypeVar("SiteDocumentType", bound=SiteDocument)


_ONE_NOISE = {
    "coordinator": "The coordinator saw each site's exact totals and added the noise once.",
    "split": "Of each site's totals either server heard one share, which is chance alone. Each added noise that "
    "suffices alone, and only the noised sum of all sites was opened.",
}


class Convening(ABC, Generic[SiteDocumentType]):
    """An aggregator of a document that sites answer. A kind says what it wants, hears it and concludes."""

    together = None
    endless = False

    def __init__(self, document: SiteDocumentType, setting: Setting) -> None:
        self.document = document
        self.setting = setting
        self.state = State.OPEN
        self.phase = 0
        self.sites = tuple(sorted(setting.sites))
        self.answered: list[str] = []  #: in this phase
        self._heard: set[str] = set()  #: in any phase
        self.missing: dict[str, str] = {}
        #: by site: which blocks of a growing data set its answer is about
        self._covered: dict[str, dict[str, Any]] = {}
        #: by site: what its answers cost in this phase, and where they came from
        self._paid: dict[str, dict[str, Any]] = {}
        self._needed = document.needed(len(self.sites))
        self._digest = document.digest
        self._release: Release | None = None
        self._unlike = self._compared()
        self.missing.update(self._unlike)

    # --- what a kind adds -------------------------------------------------------------------------------

    @abstractmethod
    def layout(self, part: str, partition: int = 0) -> Layout: ...

    def examine(self, contributions: Contributions) -> Contributions:
        """Refuse what no honest site could have sent, naming the field; nothing is heard yet."""
        return checked(self.layout(contributions.part, contributions.partition), contributions)

    @abstractmethod
    def hear(self, site: str, contributions: Contributions) -> None:
        """Take in a checked answer to the current phase."""

    @abstractmethod
    def conclude(self) -> Release | None:
        """End the current phase: the release so far, or None where only a later phase has one."""

    @abstractmethod
    def memory(self) -> tuple[dict[str, Any], Arrays]:
        """Everything heard that is still needed, as JSON and arrays."""

    @abstractmethod
    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """The inverse of `memory`."""

    def payload(self, site: str) -> dict[str, Any]:
        """Return what the ask says in this phase, beyond its part."""
        return {}

    def unfit(self, schema: Schema) -> str | None:
        """Say in words why a data set of this schema cannot answer at all; None where it can."""
        return None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that all sites must declare alike."""
        return self.document.reads

    def lapsed(self) -> Release | None:
        """Return what is released where a phase ended with too few answers.

        That is what earlier phases released already, or None.
        """
        return None

    def finished(self) -> bool:
        """Return whether the phase that was just concluded was the last; a kind may stop early."""
        return self.phase + 1 >= self.document.phases

    def progress(self) -> dict[str, Any]:
        """Return how far it is, in public figures."""
        return {"phase": self.phase, "phases": self.document.phases, "answered": list(self.answered)}

    # --- what every release of such a task says ---------------------------------------------------------

    @property
    def unit(self) -> Unit:
        """The weakest unit among the sites that are asked: one of them counting rows makes it rows."""
        units = {Unit(schema.unit) for schema in self.setting.sites.values()}
        return Unit.PERSON if units == {Unit.PERSON} else Unit.EVENT

    @property
    def trust(self) -> str:
        """The party that must keep its word: each site at least, because it sees the rows."""
        return {"coordinator": "server", "split": "split"}.get(self.document.noise, "site")

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences that every certificate of such a task must also say."""
        said = ["Each site's promise stands by itself: somebody whose rows lie at m sites pays m times."]
        said += filter(None, [in_all_words(in_all(self.document, self.quote(), len(self._heard)), "answered")])
        if getattr(self.document, "column", "") is not None:  # a plain count reads no values
            said.append(ROWS_UNTOLD)
        if self.document.one_noise:
            said.append(_ONE_NOISE[self.document.noise])
            if self.document.delta:  # one noise hides what several sites' rows move together: group privacy
                said.append(
                    "As there is one noise for all sites, m times epsilon comes with delta "
                    "(e^(m epsilon) - 1) / (e^epsilon - 1) times as large, which is more than m times."
                )
        for site, told in self._about():
            said += [f"At {site}: {told[what]}" for what in ("earlier", "assumption") if what in told]
        return tuple(said)

    @property
    def coverage(self) -> dict[str, Any]:
        """The sites that are in the answer, and those that are not, each with the reason."""
        found = {"answered": sorted(self.answered), "missing": dict(sorted(self.missing.items()))}
        about = {site: {name: told[name] for name in _BLOCKS if name in told} for site, told in self._about()}
        return {**found, "blocks": about} if about else found

    def _about(self) -> list[tuple[str, dict[str, Any]]]:
        return sorted((site, told) for site, told in self._covered.items() if site in self.answered)

    # --- the shape --------------------------------------------------------------------------------------

    @property
    def part(self) -> str:
        return part_of(self.phase)

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.part,)

    @property
    def wanted(self) -> int:
        return max(1, len(self.sites))

    @property
    def least(self) -> int:
        return self._needed

    @property
    def partitions(self) -> int:
        return max(1, len(self.sites))

    def partition(self, slot: str) -> int:
        """A site is a partition of its own."""
        if slot not in self.sites:
            raise Mistake("site", "is not one that this task asks")
        return self.sites.index(slot)

    @property
    def awaited(self) -> tuple[str, ...]:
        return tuple(site for site in self.sites if site not in self.answered and site not in self.missing)

    def quote(self, public_state: Mapping[str, Any] | None = None) -> Price:
        return Price(self.document.epsilon, self.document.delta, self.unit)

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        if self.state is not State.OPEN:
            return Closed()
        partition = self.partition(slot)
        if slot not in self.awaited:
            return Wait(1.0)
        return Ask(self._ask_id(partition), self.part, self.phase, self.payload(slot), None, partition)

    def asked(self, ask_id: str, slot: str, packet: int = 0) -> bool:
        """Return whether this is what the site is asked now."""
        return self.state is State.OPEN and slot in self.awaited and ask_id == self._ask_id(self.partition(slot))

    def _ask_id(self, partition: int) -> str:
        return f"{self._digest[:16]}.{self.phase}.{partition}"

    def accept(self, contributions: Contributions) -> None:
        if self.state is not State.OPEN or contributions.part != self.part:
            raise TaskClosed("this phase of the task is closed; nothing was taken")
        if not 0 <= contributions.partition < len(self.sites) or contributions.count != 1:
            raise Mistake("partition", "is not one of this task's sites")
        site = self.sites[contributions.partition]
        if site not in self.awaited:
            raise TaskClosed("this site has answered this phase, or is no longer waited for; nothing was taken")
        self.hear(site, self.examine(contributions))
        self.answered.append(site)
        self._heard.add(site)

    def excuse(self, site: str, why: str) -> None:
        if site not in self.sites:
            raise Mistake("site", "is not one that this task asks")
        if site not in self.answered:
            self.missing[site] = why[:LONGEST_REASON]

    def covers(self, site: str, told: object) -> None:
        if not isinstance(told, Mapping) or site not in self.sites:
            return
        texts = {name: told[name] for name in ("since", "until", "assumption", "earlier") if _is_text(told.get(name))}
        count = told.get("blocks")
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 2**31:
            self._covered[site] = {"blocks": count, **texts}

    def paid(self, site: str, cost: object, source: object) -> None:
        if not isinstance(cost, Mapping) or site not in self.sites or source not in SOURCES:
            return
        epsilon, delta = _number(cost.get("epsilon")), _number(cost.get("delta"))
        if 0 <= epsilon <= self.document.epsilon and 0 <= delta <= self.document.delta:
            self._paid[site] = {"cost": {"epsilon": epsilon, "delta": delta}, "source": str(source)}

    def advance(self, now: datetime, absent: int = 0) -> None:
        """End the phase once nobody is waited for. `absent` is for people; sites are excused by name."""
        deadline = self.document.deadline
        if self.state is not State.OPEN:
            return
        if deadline is not None and now >= deadline:
            for site in self.awaited:
                self.excuse(site, "had not answered when the task expired")
        if self.awaited:
            return
        if len(self.answered) < max(1, self._needed):
            self.state = State.EXPIRED
            self._release = self._beside(self.lapsed()) or self._release
            return
        self._release = self._beside(concluded(self, self.conclude())) or self._release
        if self.finished():
            self.state = State.DONE
            return
        self.phase += 1
        self.answered, self.missing, self._paid = [], dict(self._unlike), {}

    def close(self) -> None:
        raise Mistake("type", "is a kind that ends by itself; cancel the task instead")

    def expect(self, count: int) -> None:
        """In simulation only: everybody who is there answers."""
        if not self.setting.simulated:
            raise Fault("only a simulated task may replace its document's min_sites")
        self._needed = count

    def release(self) -> Release | None:
        return self._release

    def snapshot(self) -> bytes:
        facts, arrays = self.memory()
        header = {
            "digest": self.document.digest,
            "state": str(self.state),
            "phase": self.phase,
            "sites": list(self.sites),
            "answered": self.answered,
            "heard": sorted(self._heard),
            "missing": self.missing,
            "covered": self._covered,
            "paid": self._paid,
            "facts": facts,
            "release": None if self._release is None else self._release.as_json(),
        }
        return packed(header, arrays)

    def restore(self, snapshot: bytes) -> None:
        from thebes.tasks.release_reader import release_from_json

        header, arrays = unpacked(snapshot, self.document.digest)
        if tuple(header["sites"]) != self.sites:
            raise Mistake("snapshot", "belongs to other sites")
        self.state, self.phase = State(header["state"]), header["phase"]
        self.answered, self.missing = list(header["answered"]), dict(header["missing"])
        # One of 0.1.0 does not say who was heard: any of the sites may have been.
        self._heard = set(header.get("heard", self.sites))
        self._covered, self._paid = dict(header.get("covered", {})), dict(header.get("paid", {}))
        self._release = None if header["release"] is None else release_from_json(header["release"])
        self.remember(header["facts"], arrays)

    def _beside(self, release: Release | None) -> Release | None:
        """The release; where a site's part rests on what was told before, its certificate says so."""
        if release is None or not any("earlier" in told for _, told in self._about()):
            return release
        return replace(release, certificate=replace(release.certificate, beside_earlier=True))

    def _compared(self) -> dict[str, str]:
        """The sites to go on without, and why: those whose data set cannot answer, and those whose columns are declared
        differently from those of most others."""
        why = {site: self.unfit(schema) for site, schema in sorted(self.setting.sites.items())}
        left = {site: schema for site, schema in self.setting.sites.items() if why[site] is None}
        reads = self.reads
        alike = {
            site: sum(differing(schema, other, reads) is None for other in left.values())
            for site, schema in sorted(left.items())
        }
        if alike:
            model = left[max(alike, key=lambda site: alike[site])]
            why |= {site: differing(model, schema, reads) for site, schema in left.items()}
        return {site: reason[:LONGEST_REASON] for site, reason in why.items() if reason is not None}


def _number(told: object) -> float:
    """A number as it was told; what is none compares to nothing."""
    return float(told) if isinstance(told, (int, float)) and not isinstance(told, bool) else math.nan


def _is_text(told: object) -> bool:
    return isinstance(told, str) and len(told) <= LONGEST_ASSUMPTION and told.isprintable()
