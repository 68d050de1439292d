"""The release of an ensemble task: an ordinary classifier, as data."""

from __future__ import annotations

from functools import cached_property

from thebes.privacy.figures import figure
from thebes.tasks.ensemble.model import EnsembleModel
from thebes.tasks.release import OF_MODEL, Release


class EnsembleRelease(Release):
    """`value` is the model as JSON; `model` predicts. `extra["base_rate"]` holds the labels' shares with error bars,
    `extra["thresholds"]` where ranges were cut."""

    form = "ensemble"
    no_interval = OF_MODEL

    @cached_property
    def model(self) -> EnsembleModel:
        """The classifier, with `predict`, `predict_proba` and `classes_`."""
        return EnsembleModel(self.value)

    def _lines(self) -> list[str]:
        told = self.extra["base_rate"]
        bars = told["interval"]
        lines = [f"a classifier of {len(self.value['members'])} members; shares of the labels:"]
        for label, share in told["value"].items():
            low, high = bars["low"][label], bars["high"][label]
            lines.append(
                f"{label}: {figure(share, 4)}  ({bars['level']:.0%} interval {figure(low, 4)} to {figure(high, 4)})"
            )
        for column, thresholds in self.extra["thresholds"].items():
            lines.append(f"{column} was cut at {', '.join(figure(t) for t in thresholds)}")
        return lines
