"""The noise that each of two servers adds to the sum of sites' shares."""

from __future__ import annotations

from collections.abc import Sequence

from thebes.curator.questions.noise import loosest, noise_for
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.query.kind import QueryDocument
from thebes.tasks.site_document import differing


def noises(document: QueryDocument, schemas: Sequence[Schema]) -> tuple[CoordinateNoise, ...]:
    """Choose it from the document and the sites' declarations alone: at both servers the same. Each suffices alone for
    the whole price, for somebody who may have as many rows as any of the sites lets one have.

    A Mistake where two declare a column differently: totals would not add up, and a declaration that a coordinator
    made up, of many rows within narrow bounds, would choose too little noise for those of the others."""
    for other in schemas:
        why = differing(schemas[0], other, document.reads)
        if why is not None:
            raise Mistake("schemas", f"do not fit together: of one site {why}")
    schema = loosest(schemas)
    plan = document.plan(schema)
    epsilon, delta = document.answering
    return (CoordinateNoise(noise_for(plan, schema, epsilon=epsilon, delta=delta), plan.size),)
