"""The page of what answers that were given again have saved: over time, how often, and what the latest questions would
cost now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from thebes.web.charts import Point, curves
from thebes.web.site.layout import SiteLayout
from thebes.web.site.savings_words import own_purchases

MOST_DAYS = 14  #: with questions that are drawn; what was before them is in the first
PAID, ALONE = "what they cost", "each by itself"


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/savings")
    async def savings(request: Request) -> Response:
        found = [each for each in await layout.told("datasets") if "cache" in each]
        told = {"datasets": found, "drawn": drawn, "own_purchases": own_purchases}
        return layout.page(request, "savings.html", title="Savings", **told)

    return made


def drawn(name: str, days: list[Mapping[str, Any]]) -> Markup:
    """Draw what answers cost and would have cost, added up day by day."""
    sums = {"epsilon": 0.0, "worth": 0.0}
    curve: dict[str, list[Point]] = {PAID: [], ALONE: []}
    last = date.fromisoformat(days[-1]["day"])
    if len(days) <= MOST_DAYS:  # from nothing, on the day before the first
        before = float((date.fromisoformat(days[0]["day"]) - last).days - 1)
        curve = {name: [(before, 0.0, None)] for name in curve}
    for place, day in enumerate(days):
        for key, name_of in (("epsilon", PAID), ("worth", ALONE)):
            sums[key] += day[key]
            if place >= len(days) - MOST_DAYS:
                curve[name_of].append((float((date.fromisoformat(day["day"]) - last).days), sums[key], None))
    title = f"What all answers about {name} have cost, and would have cost each by itself"
    return curves(curve, title=title, across=f"days before {days[-1]['day']}")
