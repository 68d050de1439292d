"""The release of a pipeline: the verdict with every attempt, and the model where it was accepted."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks.release import Release


class PipelineRelease(Release):
    """`value` is the model as data, or None where none was good enough; `model` predicts."""

    form = "pipeline"

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
