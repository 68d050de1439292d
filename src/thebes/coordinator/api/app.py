"""The coordinator's application: the framework's own, with shortcuts before it, described as it answers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from thebes.coordinator.api import bodies as m
from thebes.coordinator.api.fast_path import Shortcuts, Straight
from thebes.coordinator.api.middleware import Front, RequestGuard
from thebes.wire.problems import MEDIA_TYPE

_SCHEMA = "#/components/schemas/{model}"


def says(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what else an address may answer, always as problem details."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    said = sorted({*statuses, 400, 422, 500, 503})
    return {s: {"description": "problem details", "content": {MEDIA_TYPE: schema}} for s in said}


class CoordinatorApp(FastAPI):
    """An application whose straight routes pass a guard within `limits`, and nothing of the framework."""

    def __init__(self, *, limits: dict[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self._limits = limits
        self.add_middleware(RequestGuard, **limits)

    def build_middleware_stack(self) -> ASGIApp:
        shortcuts = Shortcuts("/api/task")
        for route in self.router.routes:
            if isinstance(route, Straight):
                shortcuts.add(route)
        return Front(super().build_middleware_stack(), guard=RequestGuard(self, **self._limits), shortcuts=shortcuts)

    def openapi(self) -> dict[str, Any]:
        """Describe every error as a problem, as it is answered; the framework's own form of a 422 is not used here.
        Addresses are grouped by what they are about, for whoever makes a client of it."""
        if self.openapi_schema is None:
            found = super().openapi()
            schemas = found["components"]["schemas"]
            schemas["Problem"] = m.Problem.model_json_schema(ref_template=_SCHEMA)
            schemas |= schemas["Problem"].pop("$defs")
            for path, methods in found["paths"].items():
                for said in methods.values():
                    said["tags"] = [path.removeprefix("/api").split("/")[1]]
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            self.openapi_schema = found
        return self.openapi_schema
