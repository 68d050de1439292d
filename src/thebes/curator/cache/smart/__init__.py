"""A synopsis of made-up rows that are weighed until they answer as the released answers did (SmartCache).

The seed's idea on sound ground: rows are made from noised marginals over declared cells, only released values move
their weights, and every look at the data is paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.curator.cache.smart.guesses import Smart
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.synopsis import Sizes, Synopsis
from thebes.data.schema import Schema


def synopsis(
    schema: Schema,
    parameters: Mapping[str, Any],
    *,
    filter: str,
    sizes: Sizes | None = None,
) -> Synopsis:
    """A new one by what was declared; refused naming the parameter at fault. What rows are made of needs no delta
    unless one is declared for it, and says how many there are."""
    return Smart(schema, SmartParameters.of(parameters), filter=filter)
