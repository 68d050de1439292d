"""What an answer would cost a data set now, and what of it was released already.

What must stay true: everything here follows from released answers, the declaration and the blocks there are; no row is
read and nothing is charged.
"""

from __future__ import annotations

from typing import Any

from thebes.curator.cache.planner import Planner
from thebes.curator.streams import Stream
from thebes.data.schema import Schema
from thebes.site.planning import whole
from thebes.tasks import registry
from thebes.tasks.shape import Planned
from thebes.tasks.sites import SiteDocument


def quoted(
    document: SiteDocument, schema: Schema, planner: Planner | None, stream: Stream | None, requestor: str
) -> dict[str, Any]:
    """`cost` (epsilon, delta) and `source` of an answer now, where the document has a price; `made`, for which epsilon
    and delta the best answer was made that is there already; and whether a `synopsis` may answer."""
    owner = registry.site_owner(document)
    planned = owner.planned(document, None, schema) if isinstance(owner, Planned) else None
    bought = {"cost": [document.epsilon, document.delta], "source": "mechanism"} if document.priced else {}
    if planner is None or planned is None:
        return bought
    plan, wanted, _ = planned
    context = requestor if stream is not None and stream.terms.separate else ""
    view = () if stream is None else whole(stream, context)
    told: dict[str, Any] = {}
    made = planner.held(plan, view, context=context)
    if made is not None:
        told["made"] = [float(amount) for amount in made]
    if planner.covers(plan, context=context):
        told["synopsis"] = True
    if wanted is not None:
        price = planner.quote(plan, wanted, view, context=context)
        told |= {"cost": [float(amount) for amount in price.cost], "source": str(price.source)}
    return told
