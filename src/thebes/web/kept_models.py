"""The models of one home: a list, one of them, and its bundle as a file. A site shows its own, a coordinator those of
the institution on its machine; neither has a page that the other has not."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from thebes.curator.pipelines.bundles import checked
from thebes.privacy.figures import spaced
from thebes.tasks.model_card import card_of_bundle
from thebes.wire.refusals import NotFound


class ModelsPage(Protocol):
    """The place where models are shown: who may look is decided there."""

    async def models(self, request: Request) -> list[dict[str, Any]]:
        """The newest version of every model, without the model itself."""
        ...

    async def model(self, request: Request, name: str) -> dict[str, Any] | None:
        """The newest version of one, whole; None where there is none."""
        ...

    def page(self, request: Request, template: str, title: str, context: Mapping[str, Any]) -> Awaitable[Response]:
        """A whole page in the frame of the place."""
        ...


def put_on(made: APIRouter, shelf: ModelsPage) -> None:
    """Put the pages onto the routes of a place."""

    @made.get("/models")
    async def models(request: Request) -> Response:
        told = {"models": await shelf.models(request), "reached": reached}
        return await shelf.page(request, "models.html", "Models", told)

    @made.get("/models/{name}")
    async def model(request: Request, name: str) -> Response:
        """The newest version, and which others there are."""
        found = await whole(request, name)
        return await shelf.page(
            request, "model.html", name, {"model": found, "reached": reached, "card": card_of_bundle(found)}
        )

    @made.get("/models/{name}/model.json")
    async def bundle(request: Request, name: str) -> Response:
        """The newest version as a file."""
        return JSONResponse(await whole(request, name))

    async def whole(request: Request, name: str) -> dict[str, Any]:
        found = await shelf.model(request, checked(name))
        if found is None:
            raise NotFound("there is no model of that name; a pipeline publishes one when it is accepted")
        return found


def reached(validation: list[Mapping[str, Any]]) -> str:
    """Say what a model was shown to reach."""
    return "; ".join(
        f"{each['metric']} {spaced(each['bound'])}" for each in validation if each.get("bound") is not None
    )
