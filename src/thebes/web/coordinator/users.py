"""The page of who may sign in: for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.coordinator.auth.accounts import SHORTEST_PASSWORD, Role, Somebody
from thebes.privacy.faults import Mistake, Refusal
from thebes.web.coordinator.layout import CoordinatorLayout, sentence, text

ROLES = {
    Role.REQUESTOR: "puts tasks up and cancels their own",
    Role.OPERATOR: "may do everything, users and schemas too",
    Role.AUDITOR: "is known by name and changes nothing",
}
Work = Callable[[dict[str, Any], Somebody], Awaitable[str]]


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    service = layout.service

    async def listed(asking: Somebody, words: str = "", good: bool = False, typed: str = "") -> dict[str, Any]:
        users = await service.auth.users(asking)
        may = await service.auth.capabilities(asking)
        told = {"users": users, "roles": ROLES, "shortest": SHORTEST_PASSWORD, "may": may}
        return {**told, "words": words, "good": good, "typed": typed}

    async def done(request: Request, work: Work) -> Response:
        """Change something, then show the list again, with what happened above it."""
        body, asking = await layout.written(request), await layout.somebody(request)
        try:
            told, good = await work(body, asking), True
        except Mistake as mistake:
            told, good = f"{mistake.argument}: {mistake.message}", False
        except Refusal as refusal:
            told, good = sentence(str(refusal)), False
        typed = "" if good or "password" not in body else text(body, "name")
        return layout.part("users_list.html", **await listed(asking, told, good, typed))

    @made.get("/users")
    async def show(request: Request) -> Response:
        """Everybody, and a form for somebody new."""
        return await layout.page(request, "users.html", title="Users", **await listed(await layout.somebody(request)))

    @made.post("/users")
    async def add(request: Request) -> Response:
        """Somebody new."""

        async def work(body: dict[str, Any], asking: Somebody) -> str:
            name, password = text(body, "name"), body.get("password")
            await service.auth.add(name, password if isinstance(password, str) else "", role_of(body), asking)
            return f"{name} may sign in now."

        return await done(request, work)

    @made.post("/users/role")
    async def grant(request: Request) -> Response:
        """Another role, or in again."""

        async def work(body: dict[str, Any], asking: Somebody) -> str:
            await service.auth.grant(text(body, "name"), role_of(body), asking)
            return f"{text(body, 'name')} is {role_of(body)} now."

        return await done(request, work)

    @made.post("/users/disable")
    async def disable(request: Request) -> Response:
        """Not in any more."""

        async def work(body: dict[str, Any], asking: Somebody) -> str:
            await service.auth.disable(text(body, "name"), asking)
            return f"{text(body, 'name')} may no longer sign in; their token does not count any more."

        return await done(request, work)

    return made


def role_of(body: dict[str, Any]) -> Role:
    try:
        return Role(text(body, "role"))
    except ValueError:
        raise Mistake("role", f"must be one of {', '.join(Role)}") from None
