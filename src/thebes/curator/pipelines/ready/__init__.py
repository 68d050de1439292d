"""Pipelines that are ready to run: a document says which, on what, and what it has to reach.

Nothing of a document is code; features follow from the stream's schema, which is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.curator.pipelines.ready.linear import LinearRegression
from thebes.curator.pipelines.ready.logistic import LogisticRegression
from thebes.curator.pipelines.ready.network import NeuralNetwork
from thebes.curator.pipelines.ready.pipeline import Ready
from thebes.curator.pipelines.ready.statistics import GroupMeans, Histogram
from thebes.privacy.faults import Mistake

MODELS: Mapping[str, type[Ready]] = {
    made.__name__: made for made in (LinearRegression, LogisticRegression, NeuralNetwork, GroupMeans, Histogram)
}


def of(document: Mapping[str, Any]) -> Ready:
    """The pipeline a document describes; a Mistake names the field that cannot be."""
    model = document.get("model")
    if not isinstance(model, str) or model not in MODELS:
        raise Mistake("model", f"must be one of {', '.join(MODELS)}")
    fields = {name: value for name, value in document.items() if name not in ("type", "model", "version")}
    if "target" in fields:
        fields["targets"] = fields.pop("target")
    made = MODELS[model]
    unknown = sorted(set(fields) - made.fields())
    if unknown:
        raise Mistake(unknown[0][:63], f"is not a field of a {model}, which has {', '.join(sorted(made.fields()))}")
    for name in ("stream", "epsilon", "targets", "inputs"):
        if name not in fields:
            raise Mistake("target" if name == "targets" else name, "is missing")
    pipeline = made(**fields)
    pipeline.check()
    return pipeline


__all__ = [
    "MODELS",
    "GroupMeans",
    "Histogram",
    "LinearRegression",
    "LogisticRegression",
    "NeuralNetwork",
    "Ready",
    "of",
]
