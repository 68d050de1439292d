"""The synopses there are, by the kind that a data set's owner declares.

A package beside this file makes each: its `synopsis(schema, parameters, filter=, sizes=)` reads what was declared in
`[cache]` beside `kind` and `fresh_for`, or refuses it naming the parameter at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from thebes.curator.cache.synopsis import Sizes, Synopsis
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

KINDS = ("none", "exact", "smart", "pmw")
DEFAULT = "exact"
SYNOPSES = ("smart", "pmw")  #: kinds that answer from a synopsis


def checked(kind: object) -> str:
    """A kind of cache as it was named."""
    if kind not in KINDS:
        raise Mistake("cache", f"must be one of {', '.join(KINDS)}")
    return str(kind)


def synopsis_of(
    kind: str,
    schema: Schema,
    parameters: Mapping[str, Any],
    *,
    filter: str,
    sizes: Sizes | None = None,
) -> Synopsis | None:
    """A new synopsis with nothing in it; None for kinds that have none. `filter` is how the budget that
    pays counts; `sizes` tells how many rows blocks have, where that was bought for other purposes."""
    if kind not in SYNOPSES:
        if parameters:
            raise Mistake(
                f"cache.{next(iter(parameters))[:40]}", f"is not a parameter of the kind {kind}; leave it out"
            )
        return None
    made: Callable[..., Synopsis] = import_module(f"thebes.curator.cache.{kind}").synopsis
    return made(schema, parameters, filter=filter, sizes=sizes)
