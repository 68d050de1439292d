"""Sample documents of tasks that train over sites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thebes.tasks.samples import FEATURES, SiteSample, of_hospitals


def samples() -> list[SiteSample]:
    """With steps of a site's own, with sampled rows, with the noise at each site, once, and at two servers; by other
    rules, and from columns that are made of others."""
    return [
        _sample(),
        _sample(noise="coordinator", loss_share=0.2),
        _sample(noise="split", loss_share=0.2),
        _sample(local_steps=2, loss_share=0.1, momentum=0.5),
        _sample(batch=0.3, model="LinearRegression", inputs=["age", "sex"], output="weight"),
        _sample(batch=0.5, noise="coordinator", reduce="sum"),
        _derived("adam", learning_rate=0.2),
        _derived("newton", noise="coordinator"),
        _derived("newton", loss_share=0.2),
        _derived("newton", noise="split"),
    ]


def _sample(**more: Any) -> SiteSample:
    document = {
        "type": "train",
        "model": "LogisticRegression",
        "inputs": ["age", "visits"],
        "output": "sex",
        "rounds": 3,
        "delta": 1e-5,
        **more,
    }
    return of_hospitals("-".join(["train", *(f"{field}={value}" for field, value in more.items())]), document)


def _derived(update: str, **more: Any) -> SiteSample:
    columns = {"inputs": ["age", "burden", "man"], "output": "weight", "features": FEATURES}
    made = _sample(model="LinearRegression", rounds=2, update=update, **columns, **more)
    return replace(made, name="-".join(["train", update, *(f"{field}={value}" for field, value in more.items())]))
