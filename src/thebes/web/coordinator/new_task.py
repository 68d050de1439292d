"""Asking: a form over the published schemas, checked while one types, rehearsed with made-up people, put up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks import registry
from thebes.tasks.document import Document, InvalidDocument
from thebes.tasks.rehearsal import learned_by
from thebes.web.coordinator import rehearsal, words
from thebes.web.coordinator.forms.cautions import cautions
from thebes.web.coordinator.forms.draft import Draft, Told, kinds
from thebes.web.coordinator.forms.people_data import tables_of
from thebes.web.coordinator.forms.site_data import SiteData, datasets_of
from thebes.web.coordinator.layout import Hall, sentence
from thebes.web.coordinator.task import abridged
from thebes.wire.refused_sites import together, verdict


def routes(hall: Hall) -> APIRouter:
    made = hall.routes()
    reception = hall.reception

    async def published() -> Told:
        groups, sites = await reception.groups.published(), await reception.sites()
        return {
            "kinds": kinds(),
            "tables": tables_of(await reception.schemas()),
            "groups": groups,
            "sites": sites,
            "datasets": datasets_of(sites),
        }

    async def written(request: Request) -> tuple[Draft, Told]:
        told = await published()
        return Draft.read(await hall.written(request)).seen(told), told

    @made.get("/ask")
    async def show(request: Request, like: str = "", kind: str = "", dataset: str = "", site: str = "") -> Response:
        """The form: empty, of a kind, like a task there is, or about a data set of a site."""
        told = await published()
        draft = Draft.empty(kind)
        if dataset and not isinstance(draft.data, SiteData):
            draft = Draft.empty(next(type_ for type_ in told["kinds"] if type_ in registry.site_types()))
        if dataset:
            draft = replace(draft, data=SiteData(dataset, (site,) if site else ()))
        draft = draft.settled(told)
        if like:
            task, _ = await hall.task(like)
            draft = form_of(task["document"], told)
        return await hall.page(request, "ask.html", title="Ask a question", d=draft, **told)

    @made.post("/ask/fields")
    async def fields(request: Request) -> HTMLResponse:
        """The form after its structure changed."""
        draft, told = await written(request)
        was_json = (await hall.written(request)).get("was") == "json"
        answer = hall.part("fields.html", d=turned(draft, told, was_json=was_json), **told)
        answer.headers["HX-Trigger"] = "recheck"
        return answer

    @made.post("/ask/check")
    async def check(request: Request) -> HTMLResponse:
        """Show what is wrong with a draft, field by field; or what people would be told."""
        draft, told = await written(request)
        visitor = await hall.visitor(request)
        found = await examined(draft)
        rehearsed, careful = "", []
        if not found["problems"]:
            checked = await asyncio.to_thread(registry.check, found["document"])
            rehearsed = _not_rehearsed(checked)
            careful = cautions(checked, draft, told)
        return hall.part(
            "verdict.html",
            found=found,
            document=abridged(found.get("document", {})),
            visitor=visitor,
            words=words,
            not_rehearsed=rehearsed,
            cautions=careful,
        )

    @made.post("/ask/rehearse")
    async def rehearse(request: Request) -> HTMLResponse:
        """Show how far noise would move the answer, with made-up people: for who is signed in."""
        draft, _ = await written(request)
        try:
            await hall.somebody(request)
            checked = await asyncio.to_thread(reception.acceptance.checked, draft.document())
            told = await asyncio.to_thread(rehearsal.rehearse, checked)
        except (Mistake, Refusal) as error:
            return hall.told(error)
        kept = -(-int(100 * rehearsal.SHARE) * told["repeats"] // 100)
        return hall.part("rehearsal.html", told=told, kept=kept, leaning=learned_by(checked))

    @made.post("/ask/quote")
    async def quote(request: Request) -> HTMLResponse:
        """Ask the sites what they say of it beforehand, for who is signed in."""
        draft, _ = await written(request)
        try:
            told = await reception.quote(draft.document(), await hall.somebody(request))
        except (Mistake, Refusal) as error:
            return hall.told(error)
        verdicts = {site: verdict(one) for site, one in told.get("verdicts", {}).items()}
        said = [one["allowed"] for one in told.get("verdicts", {}).values()]
        whole = together(told.get("allowed"), said, told.get("needed"))
        return hall.part("quote.html", verdicts=verdicts, together=whole, told=told)

    @made.post("/ask")
    async def put_up(request: Request) -> Response:
        """Put it up, and lead to its page."""
        draft, _ = await written(request)
        try:
            task_id, _ = await reception.post(draft.document(), await hall.somebody(request))
        except (Mistake, Refusal) as error:
            return hall.told(error)
        return Response(headers={"HX-Redirect": f"/task/{task_id}"})

    async def examined(draft: Draft) -> dict[str, Any]:
        try:
            found = await reception.examined(draft.document())
        except InvalidDocument as refused:
            found = {"problems": [{"field": f, "message": m} for f, m in refused.problems]}
        found["problems"] = [told_plainly(problem, draft) for problem in found["problems"]]
        return found

    return made


def turned(draft: Draft, told: Told, *, was_json: bool) -> Draft:
    """Between form and JSON where somebody changed over; what was composed so far comes along."""
    if draft.written and not was_json:
        form = replace(draft, written=False).settled(told)
        return replace(form, written=True, raw=form.as_far())
    if not draft.written and was_json:
        try:
            return Draft.of(replace(draft, written=True).document(), told)
        except InvalidDocument as refused:
            return replace(draft, written=True, note=f"Not possible yet. {refused.argument}: {refused.message}")
    return draft if draft.written else draft.settled(told)


def form_of(document: Mapping[str, Any], told: Told) -> Draft:
    """A form that means this document; where there is none, its JSON."""
    try:
        return Draft.of(document, told)
    except InvalidDocument:
        return replace(Draft.empty(), written=True, raw=json.dumps(document, indent=2, ensure_ascii=False))


def told_plainly(problem: Mapping[str, str], draft: Draft) -> dict[str, str]:
    """A problem in words, with the place in the form where it can be mended."""
    label, anchor = draft.place(problem["field"])
    message = re.sub(r"^(Input|String|Tuple|List|Value|Dictionary) should", "must", problem["message"])
    return {"field": problem["field"], "label": label, "message": message, "anchor": anchor}


def _not_rehearsed(checked: Document) -> str:
    """Say why there is no rehearsal of a task; nothing where there is one."""
    try:
        rehearsal.rehearsable(checked)
    except Refusal as refusal:
        return sentence(str(refusal))
    return ""
