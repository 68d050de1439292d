"""The last phase of a training that is tested: each site tells, with noise, how well the model does on people that it
was not made from.

*Price.* As much as one more round, for everybody: the table is one more noised vector of the same ratio (over samples:
of people whom the same coin of a round chose), to which each person adds a length of at most 1. That nobody is in both
parts would allow the larger of two prices; but ledgers count phases, whoever was in them, and rows may change between
rounds. So the sum is charged, and no promise rests on the coin that keeps people apart (`held_out.ContentCoins`).

Must stay true: what a person adds depends on its own rows and the weights in the ask alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.held_out import PRIVATE_SHARE
from thebes.privacy.loss_quality import of_losses
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.summed_noise import together
from thebes.privacy.model_quality import Quality, of_table
from thebes.privacy.randomness import Randomness
from thebes.privacy.transformations.counts import HistogramCounts
from thebes.privacy.transformations.losses import LossBesideGuess
from thebes.tasks.aggregation import site_shares
from thebes.tasks.contributions import Layout, Slot
from thebes.tasks.protocols import Ask
from thebes.tasks.train.local import PeopleRows
from thebes.tasks.train.plan import Floats, TrainingPlan

TRIAL, TABLE = "trial", "table"  #: of an ask, and of its answer
PEOPLE = "people that it was not made from"

_MOST = 2**60  #: no cell is larger, noise included


def is_asked(plan: TrainingPlan, ask: Ask) -> bool:
    """Return whether an ask is for a test, and not for a round."""
    return bool(plan.descent.quality) and ask.payload.get(TRIAL) is True


def cells(plan: TrainingPlan) -> int:
    """The numbers of a site's table."""
    return 4 if plan.encoding.classes is None else 2 * len(plan.encoding.classes)


def layout(plan: TrainingPlan) -> Layout:
    """Return the layout of what a site sends."""
    if plan.descent.noise == "split":
        return site_shares.layout_of(cells(plan))
    return {TABLE: Slot("integer" if plan.descent.exact else "number", -_MOST, _MOST, length=cells(plan))}


def contributed(
    plan: TrainingPlan, people: Iterable[PeopleRows], outputs: Callable[[Floats], Floats], randomness: Randomness
) -> dict[str, NDArray[np.generic]]:
    """Test on one row of each of these people, by what the model says of them: the table, with noise unless somebody
    else adds it."""
    total = np.zeros(cells(plan), dtype=np.int64)
    for some in people:
        inputs, targets = some.one_each()
        coin = plan.budget.coin
        if coin is not None:
            taking = randomness.toss(coin, len(inputs))
            inputs, targets = inputs[taking], targets[taking]
        if len(inputs):
            total += _counted(plan, outputs(plan.encoding.fed(inputs)), targets)
    told = total if plan.descent.exact else noise_on(plan).add(total, randomness)
    return {TABLE: np.clip(told, -_MOST, _MOST)[None, :]}


def judged(plan: TrainingPlan, table: NDArray[Any], noises: int, randomness: Randomness | None) -> Quality:
    """Read the figure off all sites' tables together: with so many noises already, or with one now, from
    `randomness`."""
    noise = noise_on(plan)
    noisy: Any = table if randomness is None else noise.add(table, randomness)
    hidden = noise if randomness is not None else together([noise] * noises)
    share = PRIVATE_SHARE * plan.budget.rate
    told: dict[str, Any] = {"share": share, "epsilon": plan.budget.spent(1), "of": PEOPLE}
    if plan.encoding.classes is not None:
        return of_table(noisy, hidden, **told)
    low, high = plan.encoding.ends
    return of_losses(noisy, hidden, steps=LossBesideGuess().steps, width=high - low, **told)


def scale(plan: TrainingPlan) -> float:
    """Return the scale of a table's noise, in people, or in losses of 1."""
    return noise_on(plan).scale / (LossBesideGuess().steps if plan.encoding.classes is None else 1)


def noise_on(plan: TrainingPlan) -> Additive:
    """Return noise for all that a round's steps may spend. Over samples a step's ratio is that of its own coin, so a
    table has one step's."""
    sums = LossBesideGuess() if plan.encoding.classes is None else HistogramCounts(cells(plan))
    return plan.budget.noise(sums, Decimal(plan.descent.local_steps if plan.budget.coin is None else 1))


def _counted(plan: TrainingPlan, said: Floats, targets: Floats) -> NDArray[np.int64]:
    if plan.encoding.classes is None:
        guess, truth = (np.clip(said[:, 0], -1, 1) + 1) / 2, (targets + 1) / 2
        return LossBesideGuess().total(np.column_stack([np.square(np.nan_to_num(guess) - truth), truth]))
    if said.shape[1] == 1:
        said = np.hstack([np.zeros_like(said), said])
    label = targets.astype(np.int64)
    return HistogramCounts(cells(plan)).total(2 * label + (np.nan_to_num(said).argmax(axis=1) != label))
