"""Models of the institution on this machine, for whoever signs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.web import kept_models
from thebes.web.coordinator.layout import CoordinatorLayout
from thebes.wire.refusals import NotFound


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    kept_models.put_on(made, _Store(layout))
    return made


class _Store:
    """A login is asked for, as the interface does: the store also has what the institution made for itself."""

    def __init__(self, layout: CoordinatorLayout) -> None:
        self._hall = layout

    async def models(self, request: Request) -> list[dict[str, Any]]:
        await self._hall.somebody(request)
        return await self._hall.service.models()

    async def model(self, request: Request, name: str) -> dict[str, Any] | None:
        await self._hall.somebody(request)
        try:
            return await self._hall.service.model(name, None)
        except NotFound:
            return None

    async def page(self, request: Request, template: str, title: str, context: Mapping[str, Any]) -> Response:
        return await self._hall.page(request, template, title=title, **context)
