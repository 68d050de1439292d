"""What grows: streams with a map of their blocks, pipelines with their attempts, and the models that were accepted."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.apps.pages.site import heat
from thebes.apps.pages.site.lodge import Lodge
from thebes.wire.refusals import NotFound

_LATEST = 60  #: blocks that are listed one by one


def routes(lodge: Lodge) -> APIRouter:
    made = lodge.routes()

    @made.get("/streams")
    async def streams(request: Request) -> Response:
        grow = [each for each in await lodge.told("datasets") if "growing" in each]
        return lodge.page(request, "streams.html", title="Streams", streams=grow, heat=heat, latest=_LATEST)

    @made.get("/pipelines")
    async def pipelines(request: Request) -> Response:
        told = await lodge.told("pipelines")
        return lodge.page(request, "pipelines.html", title="Pipelines", **told)

    @made.get("/models")
    async def models(request: Request) -> Response:
        return lodge.page(request, "models.html", title="Models", models=await lodge.told("models"))

    @made.get("/models/{name}")
    async def model(request: Request, name: str) -> Response:
        """Every version of one model, the newest whole."""
        found = await lodge.told("model", name=name)
        if found is None:
            raise NotFound("there is no model of that name; a pipeline publishes one when it is accepted")
        return lodge.page(request, "model.html", title=name, model=found)

    return made
