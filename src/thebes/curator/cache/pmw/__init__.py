"""PMW-Bypass: a guess at the rows that is trained by released answers, and checked by a sparse vector before it is used
in their place.

Source: Kostopoulou, Tholoniat, Cidon, Geambasu & Lécuyer 2023 (Turbo); Hardt & Rothblum 2010 for how a guess learns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.curator.cache.pmw.bypass import Pmw
from thebes.curator.cache.pmw.parameters import PmwParameters
from thebes.curator.cache.synopsis import Sizes
from thebes.data.schema import Schema

__all__ = ["Pmw", "PmwParameters", "synopsis"]


def synopsis(
    schema: Schema,
    parameters: Mapping[str, Any],
    *,
    filter: str,
    sizes: Sizes | None = None,
) -> Pmw:
    """The synopsis of a data set that declares this. Nothing that it buys needs a delta but an answer that has one, or
    what is declared with one."""
    return Pmw(schema, PmwParameters.of(parameters), filter, sizes)
