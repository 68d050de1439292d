"""Words that are said of a cache, the same on a terminal and on a page."""

from __future__ import annotations

from typing import Any

from thebes.privacy.figures import figure


def own_purchases(own: dict[str, Any]) -> str:
    """Say what a synopsis has cost by itself, and may cost."""
    spent, allowed = (_percent(own[name]) for name in ("spent", "share"))
    said = f"To make its synopsis {spent} of the budget was spent so far; up to {allowed} may be (own_share)"
    if own["short"]:
        return f"{said}. What it lacks would make that {_percent(own['needs'])}, so it is not bought."
    return f"{said}."


def _percent(share: float) -> str:
    return f"{figure(100 * share, 3)} %"


def foreseen(forecasts: dict[str, dict[str, Any] | None]) -> list[str]:
    """Say what each kind of synopsis would have done, in one sentence each; where nothing can be told of any, one
    sentence says so."""
    told = [_foreseen(kind, forecast) for kind, forecast in forecasts.items() if forecast is not None]
    return told or ["The questions so far do not tell when a synopsis would start to save budget."]


def _foreseen(kind: str, forecast: dict[str, Any]) -> str:
    said = (
        f"Over the last {forecast['questions']} questions {kind} would have answered {forecast['hits']} and cost "
        f"{forecast['measure']} {figure(forecast['synopsis'], 4)}, where exact reuse costs "
        f"{figure(forecast['exact'], 4)}: "
    )
    if forecast["pays_from"] is None:
        return said + "nothing says yet that it would pay."
    if forecast["seen"]:
        return said + f"it pays from question {forecast['pays_from']} on."
    return said + f"if it goes on like this, it would pay from about {forecast['pays_from']} questions on."
