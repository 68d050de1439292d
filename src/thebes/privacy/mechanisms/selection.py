"""The selection of which counts are the largest, without releasing any count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.events import ExponentialEvent, Repeated
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.columns import integers, whole
from thebes.privacy.mechanisms.exponential import draw, part_of, permute_and_flip, rate_of, shortfall, utility_spread
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness


def noisy_max(
    counts: ArrayLike,
    *,
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    sensitivity: int = 1,
) -> Measurement:
    """The index of a largest count; pure epsilon-DP.

    One unit may change every count by up to `sensitivity`, for example because it belongs to many categories. One more
    unit only raises counts, so under add-remove-one the utilities are monotone and noise is halved; under
    replace-one it may raise one and lower another. Proof: `exponential.permute_and_flip`.
    """
    chosen = permute_and_flip(
        integers("counts", counts),
        sensitivity=sensitivity,
        epsilon=epsilon,
        adjacency=adjacency,
        randomness=randomness,
        monotone=adjacency_of(adjacency) is Adjacency.ADD_REMOVE_ONE,
    )
    return replace(chosen, mechanism="noisy max")


def top_k(
    counts: ArrayLike,
    *,
    k: int,
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    sensitivity: int = 1,
) -> Measurement:
    """The indices of k large counts, the likely largest first; epsilon-DP together.

    The exponential mechanism k times, each on what is left and with an equal share of epsilon (Durfee & Rogers 2019,
    lemma 4.1, shows that one batch of Gumbel noise does the same). Under zCDP k peels cost epsilon^2/(8 k).
    """
    scores = integers("counts", counts)
    amount = whole("k", k, least=1, most=scores.size)
    change = whole("sensitivity", sensitivity, least=1, most=2**53)
    promise, e = adjacency_of(adjacency), exact.epsilon(epsilon)
    share = part_of(e, amount)
    rate = rate_of(share, utility_spread(change, promise is Adjacency.ADD_REMOVE_ONE, promise))
    left = np.arange(scores.size)
    chosen: list[int] = []
    for _ in range(amount):
        behind = scores[left].max() - scores[left]
        place, _ = draw(behind, np.ones_like(behind), rate=rate, randomness=randomness)
        chosen.append(int(left[place]))
        left = np.delete(left, place)
    return Measurement(
        value=chosen,
        event=Repeated(ExponentialEvent(share), amount),
        adjacency=promise,
        mechanism="top k by peeling",
        parameters={
            "candidates": int(scores.size),
            "k": amount,
            "sensitivity": change,
            "count_shortfall_95": shortfall(int(scores.size), rate, 1 - 0.05 / amount),
        },
        simulated=randomness.simulated,
    )
