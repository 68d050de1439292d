"""A site's half of a query: the totals over its own rows, with noise unless the document leaves that to somebody else.

Must stay true: what is spent is spent before any noise is drawn, and nothing but totals leaves.
"""

from __future__ import annotations

from thebes.curator.cache.answer import Answered
from thebes.curator.cache.requirement import Wanted
from thebes.curator.questions.noise import delta_of, noise_for
from thebes.curator.questions.plans import QuestionPlan
from thebes.data.schema import Schema
from thebes.data.table import KeyedTable, Table
from thebes.privacy.randomness import Randomness
from thebes.tasks.aggregation import site_shares
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Claim
from thebes.tasks.query import found_keys
from thebes.tasks.query.kind import KIND, QueryDocument
from thebes.tasks.query.totals import halves, layout_of, noised


class QueryOwner:
    def __init__(self, *, simulated: bool = False) -> None:
        self._simulated = simulated

    def contribute(
        self, document: QueryDocument, ask: Ask, table: Table, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """The totals. Exact ones cost what the noise is calibrated to that the coordinator promises to add, or each of
        two servers that get them in shares."""
        KIND.fits(document, table.schema)
        if document.phases == 1:
            return self._answered(document, ask, table, claim, randomness)
        if ask.phase == found_keys.FINDING:
            keys = found_keys.found(document, table, claim, randomness=randomness)
            return Contributions(ask.part, 1, keys, ask.partition)
        assert isinstance(table, KeyedTable)  # noqa: S101  # else it found none
        with table.declaring(document.undeclared(table.schema), found_keys.asked(ask.payload)) as declared:
            return self._answered(document, ask, declared, claim, randomness)

    def _answered(
        self, document: QueryDocument, ask: Ask, table: Table, claim: Claim, randomness: Randomness
    ) -> Contributions:
        schema = table.schema
        plan = document.plan(schema)
        if document.privacy == "none":
            return Contributions(ask.part, 1, halves(plan.totals(table)), ask.partition)
        KIND.paid(document)  # without a planner every answer is paid as the document says
        epsilon, delta = document.answering
        noise = noise_for(plan, schema, epsilon=epsilon, delta=delta)
        made = (float(epsilon), delta_of([noise], delta))
        key = self._helper_key(document, ask) if document.noise == "split" else b""
        claim.consume(epsilon=epsilon, delta=made[1])
        totals = plan.totals(table)
        if document.noise == "split":
            context = site_shares.context_at(document, ask.part, ask.task)
            shares = site_shares.shared_totals(document, context, schema, totals, key, randomness)
            return Contributions(ask.part, 1, shares, ask.partition)
        if document.exact:
            return Contributions(ask.part, 1, halves(totals), ask.partition)
        return Contributions(ask.part, 1, noised(noise.add(totals, randomness), made=made, bound=None), ask.partition)

    def _helper_key(self, document: QueryDocument, ask: Ask) -> bytes:
        """Return the key that the helper which the document names signed for it, before anything is paid; in a
        simulation the one that the ask names."""
        if self._simulated:
            return bytes.fromhex(ask.payload["helper_key"])
        return site_shares.helper_key(document, ask)

    def planned(
        self, document: QueryDocument, ask: Ask | None, schema: Schema
    ) -> tuple[QuestionPlan, Wanted | None, str | None] | None:
        """The question as a data set's planner takes it; None where noise is added elsewhere, or nowhere."""
        if document.exact or not document.reusable:
            return None
        KIND.fits(document, schema)
        wanted = None if ask is None else document.wanted(ask.payload)
        return document.plan(schema), wanted, None if document.statistics else document.question.text

    def told(self, document: QueryDocument, ask: Ask, answered: Answered) -> Contributions:
        """Write what a planner answered, as it travels."""
        return Contributions(
            ask.part, 1, noised(answered.totals, made=answered.made, bound=answered.bound), ask.partition
        )

    def layout(self, document: QueryDocument, ask: Ask, schema: Schema) -> Layout:
        if document.phases > 1:
            if ask.phase == found_keys.FINDING:
                return found_keys.LAYOUT
            schema = document.declared(schema, found_keys.asked(ask.payload))
        return layout_of(document, document.plan(schema))


OWNER = QueryOwner()
SIMULATED = QueryOwner(simulated=True)
