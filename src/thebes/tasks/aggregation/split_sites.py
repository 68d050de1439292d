"""The aggregator of a document whose sites split their totals between this server and a helper.

What must stay true: this server's sum is opened only with its own noise and put together with the helper's, once in
each part; who is added up is settled before the helper is asked, and a share that the helper cannot open is in neither
sum.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from thebes.privacy.faults import Fault
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.sharing import SealingKey
from thebes.tasks.aggregation.site_shares import (
    SHOWN,
    UNOPENED,
    HelperSum,
    LeaderShares,
    SealedShare,
    context_at,
    helper_sum,
)
from thebes.tasks.aggregation.sites import Convening
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.protocols import Setting
from thebes.tasks.split_noise_document import SplitNoiseDocument

SplitNoiseDocumentType = TypeVar("SplitNoiseDocumentType", bound=SplitNoiseDocument)


class SplitSites(Convening[SplitNoiseDocumentType]):
    """The aggregator where the document says `"noise": "split"`. In a simulation it plays the helper, too."""

    def __init__(self, document: SplitNoiseDocumentType, setting: Setting) -> None:
        super().__init__(document, setting)
        self._shares = LeaderShares(0)
        self._noises: tuple[CoordinateNoise, ...] = ()
        self._shown: Mapping[str, Any] = setting.helper  #: what the helper said when it opened the task
        self._played = None  #: a simulation's helper has no secret, and the same key whenever it is begun again
        if setting.simulated and document.noise == "split":
            self._played = SealingKey.from_bytes(hashlib.sha256(document.digest.encode()).digest())

    @abstractmethod
    def noises(self, shares: Sequence[SealedShare]) -> tuple[CoordinateNoise, ...]:
        """Choose the noise of each of the two for these shares."""

    @property
    def of_servers(self) -> dict[str, Any]:
        """Say of the two what stands on the certificate."""
        if self.document.noise != "split":
            return {}
        if self._played is not None:
            return {"servers": ["the coordinator", "the helper"]}
        named = ["the coordinator", f"the helper {self.document.helper}"]
        return {"servers": named, "helper_key": self.document.helper_key}

    def shown_key(self) -> dict[str, Any]:
        """Return the helper's key, as sites are shown it."""
        if self._played is not None:
            return {"helper_key": self._played.public.hex()}
        if not self._shown.keys() >= {*SHOWN}:
            raise Fault("the helper of a task has not said what is needed")
        return {name: self._shown[name] for name in SHOWN}

    def to_helper(self) -> list[SealedShare]:
        """Return the shares that the helper is to add up: of everybody who has answered."""
        return self._shares.shown(self.setting.sites)

    def from_helper(self, said: HelperSum) -> None:
        """Take the helper's sum. Whose share it could not open has not answered."""
        self._noises = self.noises(self.to_helper())
        for site in self._shares.hear(said):
            self.answered.remove(site)
            self.excuse(site, UNOPENED)

    def without_helper(self, why: str) -> None:
        """End the phase without an answer of anybody: the helper will not add up."""
        for site in [*self.answered]:
            self.answered.remove(site)
            self.excuse(site, why)

    def opened(self) -> Floats:
        """Open the noised sum of both."""
        shares, self._shares = self._shares, LeaderShares(0)
        return shares.opened(self._noises, self.setting.randomness)

    def hear_share(self, site: str, size: int, fields: Mapping[str, Any], sort: str = "") -> None:
        self._shares.size = size
        self._shares.sites[site] = self._shares.read(fields)
        self._shares.sorts[site] = sort

    def shares_kept(self) -> dict[str, Any]:
        """Return the shares that are there, and the helper's key, which it says once for all phases."""
        shown = {name: self._shown[name] for name in SHOWN if name in self._shown}
        kept: dict[str, Any] = {"helper": shown} if shown and self.document.phases > 1 else {}
        return {**kept, "shares": self._shares.as_json()} if self._shares.sites else kept

    def remember_shares(self, facts: Mapping[str, Any], size: int) -> None:
        """The inverse of `shares_kept`."""
        self._shown = facts.get("helper", self._shown)
        self._shares = LeaderShares(size)
        self._shares.remember(facts.get("shares", {}))

    @property
    def each_noise(self) -> Additive:
        """The noise that each of the two draws, where all numbers are of one kind."""
        (drawn,) = self._noises
        return drawn.noise

    def play_helper(self) -> None:
        """In a simulation: add up as the helper would."""
        if self._played is not None and self._shares.sites:
            shares, source = self.to_helper(), self.setting.randomness
            noises = self.noises(shares)
            context = context_at(self.document, self.part, "")
            self.from_helper(helper_sum(self.document, context, shares, noises, self._played, source))
