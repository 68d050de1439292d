"""Groups whose members answer with tokens: what each publishes, and for operators making, filling and freezing them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.coordinator.auth.accounts import Somebody
from thebes.privacy.faults import Mistake, Refusal
from thebes.tokens.parameters import PRIVATE
from thebes.web.coordinator.layout import CoordinatorLayout, Visitor, sentence, text

#: changes something: a sentence of what happened, and the codes that are shown once
Work = Callable[[dict[str, Any], Somebody], Awaitable[tuple[str, dict[str, str]]]]


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    service = layout.service

    async def listed(visitor: Visitor, words: str = "", good: bool = False) -> dict[str, Any]:
        epochs = []
        for group in await service.groups.all():
            for epoch in group["epochs"]:
                told = group if epoch == group["epoch"] else await service.groups.group(group["name"], epoch)
                people = []
                if visitor.operates and visitor.somebody is not None and not told["frozen"]:
                    people = await service.groups.admitted(told["name"], epoch, visitor.somebody)
                epochs.append({**told, "people": people})
        return {"groups": epochs, "visitor": visitor, "words": words, "good": good, "codes": {}}

    async def done(request: Request, work: Work) -> Response:
        """Change something, then show the list again, with what happened above it."""
        body, asking = await layout.written(request), await layout.somebody(request)
        codes: dict[str, str] = {}
        try:
            told, codes = await work(body, asking)
            good = True
        except Mistake as mistake:
            told, good = f"{mistake.argument}: {mistake.message}", False
        except Refusal as refusal:
            told, good = sentence(str(refusal)), False
        shown = await listed(await layout.visitor(request), told, good)
        return layout.part("groups_list.html", **{**shown, "codes": codes})

    @made.get("/groups")
    async def show(request: Request) -> Response:
        """Every epoch of every group."""
        return await layout.page(request, "groups.html", title="Groups", **await listed(await layout.visitor(request)))

    @made.post("/groups")
    async def create(request: Request) -> Response:
        """A new group, or the next epoch of one."""

        async def work(body: dict[str, Any], asking: Somebody) -> tuple[str, dict[str, str]]:
            minimum, epoch = body.get("minimum"), text(body, "epoch") or None
            if not isinstance(minimum, int) or isinstance(minimum, bool):
                raise Mistake("minimum", "must be a whole number")
            names = text(body, "names") or PRIVATE
            record = await service.groups.create(text(body, "name"), minimum, epoch, asking, names=names)
            return f"The group {record.name} has the epoch {record.epoch} now. Admit its members.", {}

        return await done(request, work)

    @made.post("/groups/admit")
    async def admit(request: Request) -> Response:
        """Codes for people, shown once."""

        async def work(body: dict[str, Any], asking: Somebody) -> tuple[str, dict[str, str]]:
            people = [line.strip() for line in text(body, "people").splitlines() if line.strip()]
            name, epoch = text(body, "name"), text(body, "epoch")
            before = {each.identity for each in await service.groups.admitted(name, epoch, asking)}
            codes = await service.groups.admit(name, people, epoch, asking)
            again = ", ".join(identity for identity in codes if identity in before)
            ended = f" What was given before to {again} no longer works." if again else ""
            return f"Hand each code to that person only. They are not shown again.{ended}", codes

        return await done(request, work)

    @made.post("/groups/publish")
    async def publish(request: Request) -> Response:
        """Frozen from now on."""

        async def work(body: dict[str, Any], asking: Somebody) -> tuple[str, dict[str, str]]:
            record = await service.groups.publish(text(body, "name"), text(body, "epoch"), asking)
            return f"{record.name}, epoch {record.epoch}, is published with {record.size} members.", {}

        return await done(request, work)

    return made
