"""A comparison of a certificate that came over the network with the one that the same document gets in one process
(I6)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

import thebes
from thebes.privacy.faults import ThebesError

#: what of a certificate a document decides, and neither the data nor who took part
SAME = ("adjacency", "epsilon", "delta", "guarantee", "mechanism", "bounds", "trust")
_NEVER_ENDING = ("draw-discard", "pipeline")  # what they say depends on how long they went on


def differences(document: Mapping[str, Any], release: Mapping[str, Any], sites: str | None) -> Iterator[str]:
    """Fields of the two certificates that are not the same."""
    told = release.get("certificate") or {}
    if document["type"] in _NEVER_ENDING:
        return
    count = int(told.get("contributors") or 0)
    try:
        here = _simulated(json.dumps(document, sort_keys=True), count, sites)
    except ThebesError as error:
        yield f"one process cannot run it: {error}"
        return
    for name in SAME:
        if here[name] != told.get(name):
            yield f"the certificate says {name} {told.get(name)!r}, in one process it is {here[name]!r}"
    missing = sorted(set(here["parameters"]) - set(told.get("parameters") or {}))
    if missing:  # more there may be: what a cache or a ledger has to say
        yield f"the certificate does not say {', '.join(missing)}, which it does in one process"


@lru_cache(maxsize=256)
def _simulated(document: str, count: int, sites: str | None) -> dict[str, Any]:
    asked = json.loads(document)
    if sites is None:
        rows = {name: _values(bound, max(count, 1)) for name, bound in asked["bounds"].items()}
        release = thebes.simulate({**asked, "min_count": max(count, 1)}, rows, seed=1)
    else:
        schemas = json.loads(sites)["asked"]
        made = {site: {n: _values(c, 40) for n, c in schema["columns"].items()} for site, schema in schemas.items()}
        release = thebes.simulate(asked, made, seed=1, schema=schemas)
    told: dict[str, Any] = json.loads(json.dumps(release.certificate.as_json()))
    return told


def _values(bound: Mapping[str, Any], count: int) -> list[Any]:
    if bound.get("values"):
        return [bound["values"][place % len(bound["values"])] for place in range(count)]
    if bound.get("low") is None:
        return [f"somebody {place}" for place in range(count)]
    values = np.linspace(float(bound["low"]), float(bound["high"]), count)
    return [int(value) for value in values] if bound.get("type") == "integer" else values.tolist()
