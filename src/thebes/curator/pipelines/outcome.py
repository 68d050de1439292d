"""The outcome of a pipeline that is run once, for somebody who waits for the answer: the verdict, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.curator.pipelines.attempt_store import Attempt, PipelineRun, RunState
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.validators import Verdict
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Refusal


class NotRun(Refusal):
    """The pipeline's own code, or what it made, could not be used; what its blocks paid stays paid."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """`bundle` is the model as it is in the store, where it was accepted."""

    verdict: str
    reason: str
    attempts: tuple[Attempt, ...]
    certificate: Certificate
    bundle: Mapping[str, Any] | None


def outcome(runner: Runner, pipeline: Pipeline, *, source: str) -> RunOutcome:
    """Run a pipeline whose name nobody else uses: as many attempts as can be paid now. Again gives the same, so that
    whoever was interrupted can ask again: a run that has ended is not begun anew."""
    journal = runner.workspace.attempts
    known = journal.runs(pipeline=pipeline.name, most=1)
    run = known[0] if known and known[0].state is not RunState.OPEN else runner.run(pipeline, source=source)
    if run.state is RunState.OPEN:
        journal.end(run.id, state=RunState.ENDED, verdict=Verdict.RETRY, reason=run.reason)
        run = journal.run(run.id)
    if run.state is RunState.FAILED:
        raise NotRun("the pipeline could not be run on these rows; what its blocks paid for the attempt stays paid")
    return RunOutcome(
        verdict=str(run.verdict),
        reason=run.reason,
        attempts=tuple(one for one in journal.attempts(run.id) if one.state.paid),
        certificate=runner.certificate(pipeline, run),
        bundle=_published(runner, run),
    )


def _published(runner: Runner, run: PipelineRun) -> Mapping[str, Any] | None:
    return None if run.version is None else runner.workspace.bundles.get(run.pipeline, run.version)
