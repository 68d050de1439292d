"""The words of `thebes dataset show` on a cache: what it saved, and when a synopsis would start to pay."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import typer

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.web.site.savings_words import own_purchases

if TYPE_CHECKING:
    from thebes.site.home import SiteHome


def forecasts_of(place: SiteHome, name: str) -> dict[str, dict[str, Any] | None]:
    """The questions so far, asked again of a synopsis of each kind; None where too little was asked to tell."""
    from thebes.site.caches import Caches
    from thebes.site.dataset import DataSets

    dataset = DataSets(place).get(name)
    if dataset is None:
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    with closing(Caches(place)) as caches:
        found = caches.forecasts(dataset)
    return {kind: None if one is None else one.as_json() for kind, one in found.items()}


def tell_savings(cache: dict[str, Any]) -> None:
    """In words."""
    if cache["kind"] == "none":
        typer.echo("Answers are not used again.")
        return
    if "own" in cache:
        typer.echo(own_purchases(cache["own"]))
    if not cache["answers"]:
        typer.echo(f"Answers are used again ({cache['kind']}); nothing was asked so far.")
        return
    free = cache["answers"] - cache["sources"].get("mechanism", 0)
    typer.echo(
        f"Of {cache['answers']} answer{'s' * (cache['answers'] > 1)} {free} came from what was released before "
        f"({cache['kind']}): all of them cost epsilon {figure(cache['epsilon'], 4)}, instead of "
        f"{figure(cache['worth'], 4)} each by itself."
    )
    for one in cache["next"]:
        delta = f", delta {figure(one['delta'])}" if one["delta"] else ""
        within = f" within {figure(one['within'])}" if "within" in one else ""
        typer.echo(
            f"  {one['question']}{within}: now epsilon {figure(one['epsilon'], 4)}{delta}, from the {one['source']}"
        )
