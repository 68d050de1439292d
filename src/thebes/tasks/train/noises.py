"""The noise that each of two servers adds to the sum of sites' shares of a round, or of a test.

Promise: to whoever lacks one of the two noises, a round costs one person at most `StepBudget.event`, by which ledgers
price it. With noise at the coordinator a round is one Gaussian release of everything that is told, each part by its
share of rho (`StepShares`; Bun & Steinke 2016, proposition 1.6 and lemma 2.3). Here the same parts have that same noise
from each server, except for the number of people, to which the site adds its own: the same Gaussian vector again. A
person moves the shared sums by what they move their site's, so one server's noise suffices, and that of the other is
post-processing (`split_servers`). Weights follow from what earlier rounds told: rho, or the Renyi curve of a sampled
step, adds up under such adaptive composition.

What must stay true: the first round of a site, in which it tells how many people it has, leaves less of rho for the
rest than later ones; a test has noise of another unit than a round. So each share is sealed for its sort, and opens as
no other. A coordinator that calls a first round a later one, for less noise, or a round a test, is told nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.site_shares import SealedShare, fitting_together
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.train import trial
from thebes.tasks.train.kind import TrainDocument
from thebes.tasks.train.plan import plan_of

FIRST, LATER, TEST = "first round", "round", "test"  #: the sorts of what a site shares


def sort_of(*, trying: bool, buying: bool) -> str:
    """Name what a site shares: in a test, in the round in which it tells how many people it has, or in another."""
    return TEST if trying else FIRST if buying else LATER


def noises(document: TrainDocument, shares: Sequence[SealedShare]) -> tuple[CoordinateNoise, ...]:
    """Choose it from the document and what the shares were sealed for: at both servers the same."""
    sorts = {share.sort for share in shares}
    plan = plan_of(document.descent, fitting_together(document, shares)[0])
    if sorts == {TEST} and document.quality:
        return (CoordinateNoise(trial.noise_on(plan), trial.cells(plan)),)
    if not sorts <= {FIRST, LATER}:
        raise Mistake("reports", "are neither all of a round of this training nor all of its test")
    drawn = plan.noises(buying=FIRST in sorts)
    each = [(drawn.sums, plan.weights)]
    if drawn.curvature is not None:
        each.append((drawn.curvature, plan.curvature.coordinates))
    if drawn.loss is not None:
        each.append((drawn.loss, 1))
    return tuple(CoordinateNoise(noise, count) for noise, count in each)
