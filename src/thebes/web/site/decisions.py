"""A steward's decisions in the browser: what one would change is shown first, then confirmed, and can be undone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response
from pydantic import ValidationError

from thebes.privacy.faults import Mistake
from thebes.privacy.field_errors import in_words
from thebes.site.steward.rest import PolicyDecision
from thebes.web.site.layout import SiteLayout
from thebes.wire.refusals import Conflict

#: fields of a form as its labels call them
_LABELS = {"epsilon": "epsilon at most", "reason": "the reason"}


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.post("/policy/preview")
    async def preview(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Show what a decision would change, and ask for a yes."""
        decision = _decision(body)
        told = await layout.told("preview", **decision)
        return layout.part("decision_preview.html", asked=decision, **told)

    @made.post("/policy/decide")
    async def decide(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Take a decision that was previewed."""
        told = await layout.told("decide", **_decision(body), by=layout.door.who(request.headers))
        if "stale" in told:
            raise Conflict(told["stale"])
        return layout.part("decision_taken.html", **told)

    return made


def _decision(body: dict[str, Any]) -> dict[str, Any]:
    """Read a form as a decision; what was left empty is not in it."""
    given = {name: value for name, value in body.items() if value not in ("", None)}
    if "contexts" in body:  # an empty one comes along, so that choosing none is seen
        told = body["contexts"] if isinstance(body["contexts"], list) else [body["contexts"]]
        given["contexts"] = [name for name in told if name != ""]
        if not given["contexts"]:
            raise Mistake("contexts", "must be chosen: whose rows this is about")
    try:
        return PolicyDecision.model_validate(given).model_dump(exclude_none=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = str(first["loc"][0]) if first["loc"] else "decision"
        raise Mistake(_LABELS.get(field, field), in_words(first)) from None
