"""Aggregators of reports in shares: what is the same at the leader of two servers and where a simulation plays both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.measurement import Floats
from thebes.sharing import Elements, context_of
from thebes.tasks.aggregation.people import Gathering, PeopleDocumentType
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.aggregation.split_servers import Splitting, totals
from thebes.tasks.contributions import Layout
from thebes.tasks.protocols import Setting
from thebes.tasks.split_reports import layout_of


class SplitGathering(Gathering[PeopleDocumentType]):
    """Hears reports in shares. A kind says how they are verified and noised, and concludes from `opened`."""

    def __init__(self, document: PeopleDocumentType, setting: Setting) -> None:
        super().__init__(document, setting)
        self._context = context_of(bytes.fromhex(document.digest), self.part)
        self._prio = self.splitting.make(self._context)

    @cached_property
    @abstractmethod
    def splitting(self) -> Splitting:
        """Everything about the document that both halves need."""

    @property
    @abstractmethod
    def servers(self) -> Sequence[str]:
        """Name the two servers, of which one must keep its word."""

    @property
    def of_servers(self) -> dict[str, Any]:
        """Say of the two, and of what a liar could do, what stands on the certificate."""
        return {"servers": list(self.servers), "influence": self.splitting.influence}

    @abstractmethod
    def noised(self) -> Sequence[Elements]:
        """Return the sum of each server, with its noise."""

    def opened(self) -> Floats:
        """Open the noised sums."""
        return totals(self.noised(), self.splitting.noises)

    def layout(self, part: str, partition: int = 0) -> Layout:
        return layout_of(self._prio)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        """Return nothing: there is one phase, and what was heard in it is heard again or ends with it."""
        return {}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Remember nothing."""
