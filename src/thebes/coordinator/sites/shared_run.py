"""The helper of a run whose sites split their totals: asked for a key before they are, and for its noised sum once all
have answered, in every phase.

What must stay true: which shares are added up is written down before the helper hears of it, so that whoever goes on
asks the same; a helper that is gone is waited for as long as a site is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thebes.coordinator.sites.helper_steps import HelperRefused, NotNow, taken
from thebes.coordinator.sites.links import Links
from thebes.privacy.faults import ThebesError
from thebes.tasks.aggregation.site_shares import HelperSum, SealedShare
from thebes.wire import helping

_MOST_SUM = 2**24  #: bytes of a sum: of more totals than any question has
_PAUSE = 0.5  #: before a helper that has too much to do is asked again


class RunHelper:
    """The helper of one task; `patience` tells for how many seconds it may be gone."""

    def __init__(self, task: str, name: str, links: Links, patience: Callable[[], float]) -> None:
        self._task, self._name, self._links, self._patience = task, name, links, patience

    async def opened(self, requestor: str, document: Mapping[str, Any]) -> dict[str, str]:
        """Have it open the task: its key as sites are shown it."""
        return helping.opened(await self._taken(helping.OPEN, {"requestor": requestor, "document": dict(document)}))

    async def summed(self, phase: int, shares: list[SealedShare]) -> HelperSum:
        """Have it add up a phase, once; asked the same again it says the same."""
        schemas, reports = list[dict[str, Any]](), list[list[Any]]()
        for share in shares:
            told = share.schema.as_json()
            if told not in schemas:
                schemas.append(told)
            sort = [share.sort] if share.sort else []
            reports.append([share.nonce.hex(), share.sealed.hex(), schemas.index(told), *sort])
        asked = {"phase": phase, "schemas": schemas, "reports": reports}
        answer = await self._taken(helping.ADD, asked)
        counted = helping.counted(answer, len(shares))
        return HelperSum(tuple(counted), np.array(helping.noised_sum(answer), dtype=np.uint64))

    async def _taken(self, step: str, more: Mapping[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._patience()):
                while True:
                    conversation = await self._links.back(self._name, self._patience())
                    if conversation is not None:
                        try:
                            return await taken(conversation, self._task, step, more, most=_MOST_SUM)
                        except NotNow:
                            pass
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            raise HelperRefused("did not answer in time") from None
        except ThebesError:
            raise HelperRefused("answered what cannot be read") from None
