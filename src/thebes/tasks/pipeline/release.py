"""The release of a pipeline: the verdict with every attempt, and the model where it was accepted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Interval
from thebes.privacy.model_quality import Quality
from thebes.tasks.release import OF_MODEL, Release

ROWS = "rows that it was not made from"


def quality_of(bundle: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the first of a model's tests bought, in the form that every release has: a bound on one side, which
    holds with the pipeline's confidence, and nothing about guessing. None of statistics, whose tests see no rows."""
    tests = [each for each in bundle["validation"] if None not in map(each.get, ("value", "bound", "rows"))]
    if not tests:
        return None
    first, level = tests[0], float(bundle["confidence"])
    cut = "" if first.get("clipped") is None else f", losses cut at {figure(first['clipped'], 4)}"
    low, high = (first["bound"], 1.0) if first["metric"] == "accuracy" else (0.0, first["bound"])
    found = Quality(
        metric=first["metric"],
        value=float(first["value"]),
        interval=Interval(level, float(low), float(high)),
        guessing=None,
        verdict=None,
        people=max(0, round(first["rows"])),
        share=None,
        epsilon=float(first["epsilon"]),
        of=f"{ROWS}{cut}",
    )
    return found.as_json()


class PipelineRelease(Release):
    """`value` is the model as data, or None where none was good enough; `model` predicts."""

    form = "pipeline"
    no_interval = OF_MODEL
    drawn = ("epsilon of each",)
    odds = True

    @property
    def answered(self) -> bool:
        """Return that there is an answer always: a verdict is one, too."""
        return True

    @property
    def verdict(self) -> str:
        """ACCEPT, REJECT (no model of this kind can meet the targets), RETRY (more data or budget is needed than there
        is now) or TIMEOUT."""
        return str(self.extra["verdict"])

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """Each with its blocks, its epsilon, and what its test found."""
        return list(self.extra["attempts"])

    @cached_property
    def model(self) -> Any:
        """The accepted model with its features: `predict` takes a table with the stream's own columns."""
        from thebes.curator.pipelines.served_model import Served

        if self.value is None:
            raise Mistake("model", f"is none: the verdict is {self.verdict}")
        return Served({"model": self.value, **self.extra})

    def _lines(self) -> list[str]:
        said = [f"{self.verdict} after {len(self.attempts)} attempts" + (f": {self._why}" if self._why else "")]
        for each in self.extra.get("validation", ()):
            bound = each.get("bound")
            if bound is not None:
                wanted = f"(wanted {figure(each['target'])})"
                said.append(f"{each['metric']} is shown to be no worse than {figure(bound, 4)} {wanted}")
        return said

    @property
    def _why(self) -> str:
        return str(self.extra.get("reason", ""))
