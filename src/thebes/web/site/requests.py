"""Everything that was asked of this site: by whom, when, what was decided, what it cost; and one request whole."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.figures import figure
from thebes.web.site import words
from thebes.web.site.layout import SiteLayout
from thebes.wire.refusals import NotFound

_MOST_ENTRIES = 100


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/requests")
    async def requests(request: Request) -> Response:
        return layout.page(request, "requests.html", title="Requests", requests=await layout.told("requests"))

    @made.get("/requests/{task}")
    async def one(request: Request, task: str) -> Response:
        """One request, with what the log says of it."""
        found = next((each for each in await layout.told("requests") if each["task"] == task), None)
        if found is None:
            raise NotFound("there is no such request, or it was long ago; the audit log has them all")
        entries = [e for e in (await layout.told("audit"))["entries"] if e["facts"].get("task") == task]
        books, _ = await layout.attempt("ledger")
        declared, _ = await layout.attempt("datasets")
        shown = {"standing": _standing(found, books or {}), "contexts": contexts_to_choose(found, declared or [])}
        return layout.page(
            request,
            "request.html",
            title=words.called(found),
            request_=found,
            entries=entries[:_MOST_ENTRIES],
            price=(found.get("document") or {}).get("epsilon"),
            **shown,
        )

    return made


def _standing(request: dict[str, Any], books: dict[str, Any]) -> str:
    """Say what is spent and left of the rule that the request went by, and of the data set itself."""
    said = []
    rule = next((each for each in books.get("rules", ()) if each["rule"] == request["rule"]), None)
    spent = None if rule is None else rule["spent"].get(request["dataset"])
    if rule is not None and spent is not None:
        had = f"{figure(spent['epsilon'])} of {figure(rule['epsilon'])}"
        said.append(f"Of rule {rule['rule']}, epsilon {had} is spent or set aside.")
    for block in books.get("blocks", ()):
        if block["block"] in request["datasets"]:
            left = f"{figure(block['remaining']['epsilon'])} of {figure(block['epsilon'])}"
            said.append(f"Of {block['block']} itself, epsilon {left} is left.")
    return " ".join(said)


def contexts_to_choose(request: dict[str, Any], declared: list[dict[str, Any]]) -> dict[str, bool]:
    """Return the contexts that the data set keeps apart, each with whether the request's own condition names it; none
    where it keeps none."""
    found = next((each for each in declared if each["name"] == request["dataset"]), {})
    where = str((request.get("document") or {}).get("where") or "")
    kept = (found.get("growing") or {}).get("contexts") or []
    return {name: f"'{name}'" in where or f'"{name}"' in where for name in kept}
