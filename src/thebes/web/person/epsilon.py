"""The page that says in plain words what epsilon is, a click away from every number."""

from __future__ import annotations

import math

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.accounting.odds import meaning
from thebes.privacy.figures import figure
from thebes.tasks import drawings
from thebes.tasks.answer_view import Bars
from thebes.web.person.layout import PersonLayout

SHOWN = (0.1, 0.5, 1.0, 3.0)  #: of which it is told how often a guess is right


def routes(layout: PersonLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/epsilon")
    def epsilon(request: Request) -> Response:
        bars = {"no answer": 50.0, **{f"epsilon {figure(shown)}": float(times_in_hundred(shown)) for shown in SHOWN}}
        picture = drawings.chart(Bars(bars, title="How often of 100 times a guess is right at most", most=100.0))
        times = {shown: times_in_hundred(shown) for shown in SHOWN}
        return layout.page(request, "epsilon.html", title="What is epsilon?", times=times, picture=picture)

    return made


def times_in_hundred(epsilon: float) -> int:
    """Return how often of 100 times at most somebody guesses right who knows all the rest; rounded up."""
    return math.ceil(round(100 * meaning(epsilon).best_guess, 9))
