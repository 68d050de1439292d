"""Quotes of what an answer would cost a data set now, and what of it was released already.

What must stay true: everything here follows from released answers, the declaration and the blocks there are; no row is
read and nothing is charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.planner import Planner
from thebes.curator.streams.stream import Context, Stream
from thebes.data.schema import Schema
from thebes.privacy.faults import Refusal
from thebes.site.requests.planned_question import whole
from thebes.tasks import registry
from thebes.tasks.protocols import Ask
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Planned


def quoted(
    document: SiteDocument,
    schema: Schema,
    planner: Planner | None,
    stream: Stream | None,
    context: Context,
    payload: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`cost` (epsilon, delta) and `source` of an answer now, where the document has a price; `made`, for which epsilon
    and delta the best answer was made that is there already; and what a `synopsis` costs at most, where it may answer
    what the `payload` of an ask would say."""
    owner = registry.site_owner(document)
    ask = Ask("", "", 0, payload or {}) if document.priced or payload else None
    planned = owner.planned(document, ask, schema) if isinstance(owner, Planned) else None
    bought = {"cost": [document.epsilon, document.delta], "source": "mechanism"} if document.priced else {}
    if planner is None or planned is None:
        return bought
    plan, wanted, _ = planned
    own = context if isinstance(context, str) else ""
    view = () if stream is None else whole(stream, context)
    told: dict[str, Any] = {}
    made = planner.held(plan, view, context=own)
    if made is not None:
        told["made"] = [float(amount) for amount in made]
    if wanted is None:
        return told
    try:
        price = planner.quote(plan, wanted, view, context=own)
    except Refusal:  # within that width nothing can be had for all that it may cost
        return told
    cost = [float(amount) for amount in price.cost]
    if document.priced:
        told |= {"cost": cost, "source": str(price.source)}
    elif price.source is AnswerSource.SYNOPSIS or (price.source is AnswerSource.CACHE and price.made is None):
        told["synopsis"] = cost
    return told
