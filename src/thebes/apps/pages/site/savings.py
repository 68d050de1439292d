"""What answers that were given again have saved: over time, how often, and what the latest questions would cost now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from thebes.apps.pages.charts import curves
from thebes.apps.pages.site.lodge import Lodge

MOST_DAYS = 14  #: that are drawn; what was before them is in the first


def routes(lodge: Lodge) -> APIRouter:
    made = lodge.routes()

    @made.get("/savings")
    async def savings(request: Request) -> Response:
        found = [each for each in await lodge.told("datasets") if "cache" in each]
        return lodge.page(request, "savings.html", title="Savings", datasets=found, drawn=drawn)

    return made


def drawn(name: str, days: list[Mapping[str, Any]]) -> Markup:
    """What answers cost and would have cost, added up day by day."""
    before = {key: sum(day[key] for day in days[:-MOST_DAYS]) for key in ("epsilon", "worth")}
    sums: dict[str, list[tuple[float, float, float | None]]] = {"each by itself": [], "as it was": []}
    for number, day in enumerate(days[-MOST_DAYS:], 1):
        for key, curve in (("worth", "each by itself"), ("epsilon", "as it was")):
            before[key] += day[key]
            sums[curve].append((float(number), before[key], None))
    title = f"What all answers about {name} have cost, and would have cost each by itself"
    return curves(sums, title=title, across=f"day with questions, up to {days[-1]['day']}")
