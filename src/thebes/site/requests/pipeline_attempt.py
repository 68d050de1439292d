"""Attempts for one task over a growing data set: under the rule that lets its requestor run pipelines there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from thebes.curator.pipelines.outcome import RunOutcome, outcome
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.validators import Verdict
from thebes.curator.pipelines.workspace import Workspace
from thebes.curator.streams.stream import Stream
from thebes.privacy.randomness import Randomness
from thebes.site.budget.pipeline_rights import PipelineRights
from thebes.site.home import SiteHome
from thebes.site.requests.response_store import SiteRequest

_WAITS = "no more of its blocks can pay under this site's budget and policy"


@dataclass(frozen=True, slots=True)
class TaskAttempts:
    """The attempts that a pipeline's half is handed for one task. `name` is nobody else's: a model that is accepted is
    kept under it, and the same task again finds what came of it."""

    home: SiteHome
    stream: Stream
    request: SiteRequest
    randomness: Callable[[], Randomness]

    @property
    def name(self) -> str:
        return f"task-{self.request.task}".lower()

    def run(self, pipeline: Pipeline) -> RunOutcome:
        with closing(Workspace(self.home.folder)) as workspace:
            rights = PipelineRights(self.home, self.stream, self.request.requestor, workspace.attempts)
            who, noise = self.request.requestor, self.randomness()
            runner = Runner(self.stream, workspace, who, rights, randomness=noise, bound=rights.context)
            made = outcome(runner, pipeline, source=f"task {self.request.digest}")
            # Why exactly stands in the journal of attempts, for the steward: it says how much is left.
            return replace(made, reason=_WAITS) if made.verdict == Verdict.RETRY else made
