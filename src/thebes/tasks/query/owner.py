"""A site's half of a query: the totals over its own rows, with noise unless the document leaves that to somebody else.

Must stay true: what is spent is spent before any noise is drawn, and nothing but totals leaves.
"""

from __future__ import annotations

from thebes.curator.noise import delta_of, noise_for
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.query.kind import KIND, QueryDocument
from thebes.tasks.query.totals import halves, layout_of, noised
from thebes.tasks.shape import Ask, Claim


class QueryOwner:
    def contribute(
        self, document: QueryDocument, ask: Ask, table: Table, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """The totals. Exact ones cost what the noise is calibrated to that the coordinator promises to add."""
        schema = table.schema
        KIND.fits(document, schema)
        plan = document.plan(schema)
        if document.privacy == "none":
            return Contributions(ask.part, 1, halves(plan.totals(table)), ask.partition)
        noise = noise_for(plan, schema, epsilon=document.epsilon, delta=document.delta)
        claim.consume(epsilon=document.epsilon, delta=delta_of([noise], document.delta))
        totals = plan.totals(table)
        if document.exact:
            return Contributions(ask.part, 1, halves(totals), ask.partition)
        made = (document.epsilon, delta_of([noise], document.delta))
        return Contributions(ask.part, 1, noised(noise.add(totals, randomness), made=made, bound=None), ask.partition)

    def layout(self, document: QueryDocument, ask: Ask, schema: Schema) -> Layout:
        return layout_of(document, document.plan(schema))


OWNER = QueryOwner()
