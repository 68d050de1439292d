"""Shares of sites' totals at the two servers that add them up: what either does with its own, and what passes between.

Promise: `helper_sum` is the one place where something of a helper's shares leaves it, with noise that suffices alone
(`split_servers`). A site's share opens only under the declaration of rows that the site itself goes by, and for what it
says that its numbers are, so a coordinator that shows the helper something else, for less noise, is told nothing of
that site. It opens in the one part of the one task only under whose id the site booked its answer, of which there is
one: so nobody is in a sum twice under one noise, and no round of a task stands for another.
What must stay true: a nonce counts once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness
from thebes.sharing import Elements, SealingKey, bound_to, context_of, sealing_key
from thebes.sharing.field import add
from thebes.sharing.site_totals import SharedTotals, bytes_of, helper_share, received, shared
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.aggregation.split_servers import CoordinateNoise, noised, totals
from thebes.tasks.contributions import Layout, Slot, as_text
from thebes.tasks.protocols import Ask
from thebes.tasks.site_document import SiteDocument, declared, differing
from thebes.tasks.split_noise_document import SplitNoiseDocument
from thebes.tasks.split_reports import REPORT, decoded

UNOPENED = "sent a share that the helper cannot open"
SHOWN = ("helper_key", "signed_by", "signature")  #: what sites are shown of the helper's key


@dataclass(frozen=True, slots=True)
class SealedShare:
    """A site's share as its helper is given it, with the declaration that the site is said to go by, and what its
    numbers are said to be, where a kind has several sorts of them."""

    nonce: bytes
    sealed: bytes
    schema: Schema
    sort: str = ""


@dataclass(frozen=True, slots=True)
class HelperSum:
    """The helper's word on shares: which of them it could open, and their sum with its noise."""

    counted: tuple[bool, ...]
    total: Elements


def context_at(document: SiteDocument, part: str, task: str) -> bytes:
    return bound_to(task, context_of(bytes.fromhex(document.digest), part))


def declaration_of(document: SiteDocument, schema: Schema, sort: str = "") -> bytes:
    """Return what a share is sealed under: of a fixed length what the rows are, then what the numbers are."""
    return bytes.fromhex(declared(schema, document.reads)) + sort.encode()


def fitting_together(document: SiteDocument, shares: Sequence[SealedShare]) -> list[Schema]:
    """Return the declarations of shares that are added up, or a Mistake where two declare a column differently: totals
    would not add up, and a declaration that a coordinator made up, within narrow bounds for example, would choose too
    little noise for those of the others."""
    schemas = [share.schema for share in shares]
    for other in schemas:
        why = differing(schemas[0], other, document.reads)
        if why is not None:
            raise Mistake("schemas", f"do not fit together: of one site {why}")
    return schemas


def layout_of(size: int) -> Layout:
    return {REPORT: Slot("text", length=4 * -(-bytes_of(size) // 3))}


def helper_key(document: SplitNoiseDocument, ask: Ask) -> bytes:
    """Return the key in an ask, if the helper that the document names signed it for this task, StrangeHelper otherwise.
    It is one for all parts: each share is sealed for one of them."""
    shown = {name: as_text(ask.payload.get(name)) for name in SHOWN}
    return sealing_key(shown, document.helper_key, context_at(document, part_of(0), ask.task))


def shared_totals(
    document: SiteDocument,
    context: bytes,
    schema: Schema,
    exact: NDArray[np.int64],
    helper_key: bytes,
    randomness: Randomness,
    *,
    sort: str = "",
) -> dict[str, NDArray[np.generic]]:
    """Split a site's exact totals, as they travel."""
    place = {"declaration": declaration_of(document, schema, sort), "context": context}
    made = shared(exact, helper_key=helper_key, **place, randomness=randomness).as_bytes()
    return {REPORT: np.array([base64.b64encode(made).decode("ascii")])}


def helper_sum(
    document: SiteDocument,
    context: bytes,
    shares: Sequence[SealedShare],
    noises: Sequence[CoordinateNoise],
    key: SealingKey,
    randomness: Randomness,
) -> HelperSum:
    """Add up the shares that open, and noise the sum. Whoever calls this must not do so twice for one part."""
    if len({share.nonce for share in shares}) < len(shares):
        raise Mistake("reports", "hold a share twice; each is added once")
    size = sum(noise.count for noise in noises)
    found, counted = np.zeros(size, dtype=np.uint64), list[bool]()
    for share in shares:
        declaration = declaration_of(document, share.schema, share.sort)
        opens = {"nonce": share.nonce, "sealed": share.sealed, "declaration": declaration}
        mine = helper_share(key, **opens, context=context, size=size)
        counted.append(mine is not None)
        found = found if mine is None else add(found, mine)
    return HelperSum(tuple(counted), noised(found, noises, randomness))


@dataclass
class LeaderShares:
    """The coordinator's shares of one part, by site, and what the numbers of each are; and the helper's sum, once it is
    there."""

    size: int
    sites: dict[str, SharedTotals] = field(default_factory=dict)
    sorts: dict[str, str] = field(default_factory=dict)
    helper: Elements | None = None

    def read(self, fields: Mapping[str, NDArray[np.generic]]) -> SharedTotals:
        """Read what a site sent, or refuse what no honest site makes of any totals."""
        (text,) = fields[REPORT].tolist()
        return received(decoded(str(text)), self.size)

    def shown(self, schemas: Mapping[str, Schema]) -> list[SealedShare]:
        """Return what the helper is given, in the order of the sites' names."""
        return [
            SealedShare(own.nonce, own.sealed, schemas[site], self.sorts.get(site, ""))
            for site, own in sorted(self.sites.items())
        ]

    def hear(self, said: HelperSum) -> list[str]:
        """Take the helper's sum; the sites that are not in it, and so in no answer."""
        names = sorted(self.sites)
        if len(said.counted) != len(names) or said.total.shape != (self.size,):
            raise Fault("the helper's sum does not have the form of the task")
        away = [site for site, counted in zip(names, said.counted, strict=True) if not counted]
        for site in away:
            del self.sites[site]
        self.helper = said.total
        return away

    def opened(self, noises: Sequence[CoordinateNoise], randomness: Randomness) -> Floats:
        """Open the sum of both servers, this one's with its own noise; once."""
        if self.helper is None:
            raise Fault("the helper of a task has not said what is needed")
        mine = np.zeros(self.size, dtype=np.uint64)
        for own in self.sites.values():
            mine = add(mine, own.share)
        both, self.helper = self.helper, None
        return totals([noised(mine, noises, randomness), both], noises)

    def as_json(self) -> dict[str, list[str]]:
        held = sorted(self.sites.items())
        return {site: [base64.b64encode(own.as_bytes()).decode(), self.sorts.get(site, "")] for site, own in held}

    def remember(self, told: Mapping[str, Any]) -> None:
        """The inverse of `as_json`; before tasks had several sorts of shares, a site's was text alone."""
        pairs = {site: (held, "") if isinstance(held, str) else held for site, held in told.items()}
        self.sites = {site: received(base64.b64decode(text), self.size) for site, (text, _) in pairs.items()}
        self.sorts = {site: sort for site, (_, sort) in pairs.items()}
