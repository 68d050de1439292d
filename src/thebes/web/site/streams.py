"""Pages of what grows: streams with a map of their blocks, pipelines with their attempts, and the models that were
accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.ledger.filters import charging_events
from thebes.web import kept_models
from thebes.web.site import block_map
from thebes.web.site.layout import SiteLayout

_LATEST = 60  #: blocks that are listed one by one


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/streams")
    async def streams(request: Request) -> Response:
        grow = [each for each in await layout.told("datasets") if "growing" in each]
        told = {"streams": grow, "charging_events": charging_events(), "heat": block_map, "latest": _LATEST}
        return layout.page(request, "streams.html", title="Streams", **told)

    @made.get("/pipelines")
    async def pipelines(request: Request) -> Response:
        told = await layout.told("pipelines")
        return layout.page(request, "pipelines.html", title="Pipelines", **told)

    kept_models.put_on(made, _Store(layout))
    return made


class _Store:
    """The models of this site's home, as the process with the rows tells of them."""

    def __init__(self, layout: SiteLayout) -> None:
        self._lodge = layout

    async def models(self, request: Request) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._lodge.told("models")
        return found

    async def model(self, request: Request, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._lodge.told("model", name=name)
        return found

    async def page(self, request: Request, template: str, title: str, context: Mapping[str, Any]) -> Response:
        return self._lodge.page(request, template, title=title, **context)
