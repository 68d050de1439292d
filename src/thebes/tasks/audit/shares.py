"""Attacks on totals of sites in two shares: all that a coordinator is left with where the other sites are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.privacy.randomness import Randomness
from thebes.sharing import SealingKey, elements
from thebes.sharing.field import multiply
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import LeaderShares, context_at, helper_sum
from thebes.tasks.aggregation.split_servers import totals
from thebes.tasks.protocols import Ask
from thebes.tasks.split_noise_document import SplitNoiseDocument

SITE = "s"


def left(
    document: SplitNoiseDocument,
    ask: Ask,
    fields: Mapping[str, NDArray[np.generic]],
    *,
    size: int,
    schema: Schema,
    key: SealingKey,
    randomness: Randomness,
    sort: str = "",
    noised_for: Schema | None = None,
) -> list[float]:
    """Return both shares' sum with the helper's noise, and none of the coordinator's. `noised_for`: other rows than the
    share was sealed for, by which the helper chooses its noise."""
    mine = LeaderShares(size)
    mine.sites[SITE], mine.sorts[SITE] = mine.read(fields), sort
    shares = mine.shown({SITE: schema})
    noises = registry.noises(document, shares if noised_for is None else mine.shown({SITE: noised_for}))
    said = helper_sum(document, context_at(document, ask.part, ask.task), shares, noises, key, randomness)
    finer = np.concatenate([np.full(drawn.count, drawn.noise.finer) for drawn in noises])
    own = multiply(mine.sites[SITE].share, elements(finer))
    found: list[float] = totals([own, said.total], noises).tolist()
    return found


def payload_of(key: SealingKey, **more: Any) -> dict[str, Any]:
    """Return what a simulated site is asked with."""
    return {**more, "helper_key": key.public.hex()}
