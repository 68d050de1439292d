"""The noise that each of two servers adds to the sum of sites' shares."""

from __future__ import annotations

from collections.abc import Sequence

from thebes.curator.questions.noise import loosest, noise_for
from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.site_shares import SealedShare, fitting_together
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.query.kind import QueryDocument


def noises(document: QueryDocument, shares: Sequence[SealedShare]) -> tuple[CoordinateNoise, ...]:
    """Choose it from the document and the sites' declarations alone: at both servers the same. Each suffices alone for
    the whole price, for somebody who may have as many rows as any of the sites lets one have.

    A Mistake where two declare a column differently."""
    if any(share.sort for share in shares):
        raise Mistake("reports", "are of a sort that no question has")
    schema = loosest(fitting_together(document, shares))
    plan = document.plan(schema)
    epsilon, delta = document.answering
    return (CoordinateNoise(noise_for(plan, schema, epsilon=epsilon, delta=delta), plan.size),)
