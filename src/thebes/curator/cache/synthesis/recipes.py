"""The ways to learn a distribution that there are."""

from __future__ import annotations

from collections.abc import Mapping

from thebes.curator.cache.synthesis.aim import Adaptive
from thebes.curator.cache.synthesis.recipe import Independent, Recipe, SpanningTree
from thebes.privacy.faults import Mistake

RECIPES: Mapping[str, type[Recipe]] = {made.name: made for made in (Independent, SpanningTree, Adaptive)}


def recipe(name: str) -> type[Recipe]:
    """The one of that name."""
    if name not in RECIPES:
        raise Mistake("method", f"must be one of {', '.join(RECIPES)}")
    return RECIPES[name]
