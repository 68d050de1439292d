"""A run: attempts with more data or more budget until there is a verdict: reserve, train, validate, publish.

What must stay true: an attempt is charged to every one of its blocks, or to none, before a row is read; a process that
is killed at any point leaves nothing charged for nothing but the attempt it was in, and no half of a model; whatever
happens a run comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from thebes.curator.pipelines.adaptation import Next, Offered, PastAttempt, eta_of, next_attempt
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.attempt_store import Attempt, AttemptState, PipelineRun, RunState, key_of
from thebes.curator.pipelines.bundles import written
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.pipeline import Pipeline, Trial, seconds
from thebes.curator.pipelines.prices import AttemptPrice, ever_paid, price
from thebes.curator.pipelines.run_certificate import certificate_of
from thebes.curator.pipelines.run_reasons import failure_of, metrics_missed, what_helps
from thebes.curator.pipelines.run_stream import RunStream, SpendingRights
from thebes.curator.pipelines.scheduler import Turns
from thebes.curator.pipelines.time_limit import OutOfTime, finished
from thebes.curator.pipelines.validators import Validation, Verdict, together
from thebes.curator.pipelines.workspace import Workspace
from thebes.curator.streams.terms import DEVELOPER, Context
from thebes.ledger import BudgetExceeded, LedgerClaim
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.randomness import Randomness, system


@dataclass
class Runner:
    """Runs pipelines of one developer over one stream. `rights` is asked before every attempt; `told` hears of each
    that has ended. `turns` says whose turn it is among pipelines that want the same blocks; None: whoever is first.
    It is for budgets that all share. `bound` says for whom a pipeline works that names a context, or none; without it
    only for whom it names, and where everybody has a budget of their own for its developer."""

    stream: RunStream
    workspace: Workspace
    developer: str
    rights: SpendingRights
    randomness: Randomness | None = None
    told: Callable[[Attempt], None] | None = None
    turns: Turns | None = None
    bound: Callable[[str | None], Context] | None = None

    def run(self, pipeline: Pipeline, *, source: str = "", wait: Callable[[], None] | None = None) -> PipelineRun:
        """One run, or the rest of one that was begun on the same terms: until it has ended or, without `wait`, until
        it would have to wait for data or budget (then its verdict so far is RETRY). `wait` is called, and should take
        its time, before every new look. `source` names the code that is run; other code is another run."""
        pipeline.check()
        if pipeline.stream != self.stream.name:
            raise Mistake("stream", f"of {pipeline.name!r} is {pipeline.stream!r}, this is {self.stream.name!r}")
        if self.stream.terms.separate == DEVELOPER and pipeline.context not in (None, self.developer):
            raise Mistake("context", f"is not {self.developer}: everybody has a budget of their own here; leave it out")
        self._context(pipeline)
        pipeline.fits(self.stream.schema)
        self._possible(pipeline)
        with self.workspace.alone(pipeline.name):
            run = self._begun(pipeline, source)
            if self.turns is not None:
                self.turns.arrive(pipeline.name)
            while run.state is RunState.OPEN:
                if not self._further(run, pipeline) and self.workspace.attempts.run(run.id).state is RunState.OPEN:
                    if wait is None:
                        break
                    wait()
                run = self.workspace.attempts.run(run.id)
            run = self.workspace.attempts.run(run.id)
            if self.turns is not None and run.state is not RunState.OPEN:
                self.turns.leave(pipeline.name)
            return run

    def _possible(self, pipeline: Pipeline) -> None:
        """Refuse what no block of this stream could ever pay, so that nobody waits for it."""
        limits, terms = pipeline.limits, self.stream.terms
        loss = price(pipeline, limits.start, limits.delta_for(limits.start), terms.filter).loss
        if not ever_paid(loss, epsilon=terms.epsilon, delta=terms.delta, filter=terms.filter):
            raise Mistake(
                "epsilon" if terms.delta or not limits.delta else "delta",
                f"of {pipeline.name!r} is more at its first attempt than a block of {self.stream.name!r} has at all "
                f"(epsilon {terms.epsilon}, delta {terms.delta}, counted with the {terms.filter} filter)",
            )

    # --- the beginning -----------------------------------------------------------------------------------

    def _begun(self, pipeline: Pipeline, source: str) -> PipelineRun:
        """The run that is open, once what a process left undone is settled, or a new one."""
        journal, bundles = self.workspace.attempts, self.workspace.bundles
        left = journal.open_run(pipeline.name)
        if left is not None:
            self._settle(left)
            left = journal.run(left.id)
            if left.state is not RunState.OPEN:
                return left  # it had its verdict already
        if left is not None and self._too_late(left):
            left = None
        newest = bundles.newest(pipeline.name)
        reached = {one["metric"]: one.get("bound") for one in newest["validation"]} if newest else None
        terms = {**pipeline.terms(pipeline.aims(reached)), "filter": self.stream.terms.filter, "source": source}
        if left is not None:
            if (left.terms, left.stream, left.spender) == (terms, self.stream.name, self.developer):
                return left
            journal.end(left.id, state=RunState.ENDED, verdict=Verdict.RETRY, reason="begun anew on other terms")
        return journal.begin(pipeline.name, stream=self.stream.name, spender=self.developer, terms=terms)

    def _settle(self, run: PipelineRun) -> None:
        """Settle what a process that ended left undone: a claim that was only reserved goes back, what was charged and
        has no verdict is lost, what was accepted is published."""
        journal = self.workspace.attempts
        for attempt in journal.attempts(run.id):
            if attempt.state is AttemptState.PLANNED:
                claim = self._claim(run, attempt)
                if claim is not None and claim.state.open:
                    claim.release()
                paid = claim is not None and claim.state == "closed"
                state = AttemptState.LOST if paid else AttemptState.GIVEN_BACK
                journal.ended(attempt, state, claim=claim.id if claim is not None else None)
            elif attempt.state is AttemptState.CHARGED:
                journal.ended(attempt, AttemptState.LOST)
            elif attempt.state is AttemptState.JUDGED:
                self._conclude(run, attempt)

    def _too_late(self, run: PipelineRun) -> bool:
        """Return whether the time of a run is over; it has ended then."""
        over = self._over(run)
        if over:
            reason = f"not good enough within {run.terms['timeout']}"
            self.workspace.attempts.end(run.id, state=RunState.ENDED, verdict=Verdict.TIMEOUT, reason=reason)
        return over

    def _over(self, run: PipelineRun) -> bool:
        return self.workspace.clock() >= run.started_at + seconds(run.terms["timeout"], "timeout")

    def _claim(self, run: PipelineRun, attempt: Attempt) -> LedgerClaim | None:
        return self.stream.ledger.claimed(_key(run, attempt))

    # --- one attempt ---------------------------------------------------------------------------------------

    def _further(self, run: PipelineRun, pipeline: Pipeline) -> bool:
        """One attempt more; False where it has to wait for data or budget, or has come to its end."""
        journal = self.workspace.attempts
        if self._too_late(run):
            return False
        attempts = [one for one in journal.attempts(run.id) if one.state.paid]
        past = [_past(one) for one in attempts]
        beyond: dict[str, str] = {}
        found = next_attempt(pipeline.limits, past, self._offered(pipeline, beyond))
        if found is None:
            why = f" (of {len(beyond)} the last says: {list(beyond.values())[-1]})" if beyond else ""
            journal.said(
                run.id, verdict=Verdict.RETRY, reason=f"waits until more blocks can pay{why}{what_helps(attempts)}"
            )
            return False
        cost = price(pipeline, found.epsilon, found.delta, self.stream.terms.filter)
        if self.turns is not None and not self.turns.due(pipeline.name, found.blocks, cost.loss):
            journal.said(run.id, verdict=Verdict.RETRY, reason="waits for its turn: others want the same blocks")
            return False
        attempt = journal.plan(run.id, epsilon=found.epsilon, delta=found.delta, blocks=found.blocks)
        try:
            return self._attempted(run, pipeline, attempt, found, cost)
        finally:
            if self.told is not None:
                self.told(next(one for one in journal.attempts(run.id) if one.number == attempt.number))

    def _offered(self, pipeline: Pipeline, beyond: dict[str, str]) -> Offered:
        """Return what can pay, by its own budget and by the developer's rights. `beyond` is told why others cannot."""
        since = None
        if pipeline.window is not None:
            moment = self.workspace.clock() - seconds(pipeline.window, "window")
            since = datetime.fromtimestamp(moment, tz=UTC)
        limits, filter, context = pipeline.limits, self.stream.terms.filter, self._context(pipeline)

        @cache
        def offered(epsilon: Decimal) -> tuple[str, ...]:
            delta = limits.delta_for(epsilon)
            loss = price(pipeline, epsilon, delta, filter).loss
            blocks = self.stream.offered(since=since, loss=loss, context=context)
            names = tuple(block.name for block in blocks if allowed(block.name, epsilon, delta))
            return names if self.turns is None else self.turns.offered(pipeline.name, names, loss)

        def allowed(name: str, epsilon: Decimal, delta: Decimal) -> bool:
            try:
                self.rights((name,), epsilon, delta)
            except BudgetExceeded as exceeded:
                beyond[name] = str(exceeded)
                return False
            return True

        return offered

    def _context(self, pipeline: Pipeline) -> Context:
        """For whom it works: whose budget pays, or whose rows are read."""
        if self.bound is not None:
            return self.bound(pipeline.context)
        return self.developer if self.stream.terms.separate == DEVELOPER else pipeline.context

    def _attempted(
        self, run: PipelineRun, pipeline: Pipeline, attempt: Attempt, found: Next, cost: AttemptPrice
    ) -> bool:
        journal = self.workspace.attempts
        try:
            with self.workspace.deciding():
                self.rights(found.blocks, found.epsilon, found.delta)
                claim = self.stream.reserve(
                    found.blocks,
                    loss=cost.loss,
                    purpose=f"pipeline {pipeline.name}",
                    spender=self.developer,
                    key=_key(run, attempt),
                    context=self._context(pipeline),
                )
        except Refusal as refusal:
            journal.ended(attempt, AttemptState.GIVEN_BACK)
            journal.said(run.id, verdict=Verdict.RETRY, reason=str(refusal))
            if isinstance(refusal, BudgetExceeded):  # others were quicker, or a rule has too little left
                return False
            raise
        claim.consume()
        if self.turns is not None:
            self.turns.spent(pipeline.name, found.blocks, cost.loss)
        size = self.stream.size(found.blocks)
        journal.charged(attempt, claim=claim.id, rows=size)

        def made() -> tuple[list[Validation], Callable[[], str]]:
            with closing(self.stream.rows(found.blocks)) as rows:
                data = Data(rows, size, randomness=self.randomness or system())
                return self._made(run, pipeline, attempt, cost, data, claim)

        try:
            said, kept = finished(made, late=lambda: self._over(run))
        except OutOfTime:
            journal.ended(attempt, AttemptState.LOST)
            self._too_late(run)
            return False
        except Exception as error:
            reason = failure_of(error)
            journal.ended(attempt, AttemptState.FAILED)
            journal.end(run.id, state=RunState.FAILED, verdict=None, reason=reason)
            return False
        except BaseException:
            journal.ended(attempt, AttemptState.LOST)
            raise
        verdict = together(said)
        validation = {"metrics": [one.as_json() for one in said]}
        bundle = kept() if verdict is Verdict.ACCEPT else None
        journal.judged(attempt, verdict=str(verdict), validation=validation, bundle=bundle)
        judged = next(one for one in journal.attempts(run.id) if one.number == attempt.number)
        self._conclude(run, judged)
        return True

    def _made(
        self, run: PipelineRun, pipeline: Pipeline, attempt: Attempt, cost: AttemptPrice, data: Data, claim: LedgerClaim
    ) -> tuple[list[Validation], Callable[[], str]]:
        """The developer's three steps; a way to write the bundle down if what they made is good enough."""
        ready = pipeline.preprocess(data, Allowance(*cost.preprocess))
        if not isinstance(ready, Data):
            raise Mistake("preprocess", "must give the data back, with features or without")
        model = pipeline.train(ready.part("train", pipeline.train_share), Allowance(*cost.train))
        document = model.as_json()
        written(document)  # a model with numbers that are none is found out before more is paid for
        eta, doubted = eta_of(attempt.number, pipeline.eta), metrics_missed(self._paid(run))
        trial = Trial(*cost.validate, run.terms["targets"], eta, cost.rho, doubted)
        found = pipeline.validate(model, ready.part("test", pipeline.train_share), trial)
        said = [found] if isinstance(found, Validation) else list(found)
        if not said or not all(isinstance(one, Validation) for one in said):
            raise Mistake("validate", "must give a validation, or one for each target")
        if missing := set(trial.targets) - {one.metric for one in said}:
            raise Mistake("validate", f"says nothing about {', '.join(sorted(missing))}")

        def kept() -> str:
            return written(self._bundle(run, pipeline, attempt, document, ready, said, claim))

        return said, kept

    def _bundle(
        self,
        run: PipelineRun,
        pipeline: Pipeline,
        attempt: Attempt,
        model: dict[str, Any],
        data: Data,
        said: list[Validation],
        claim: LedgerClaim,
    ) -> dict[str, Any]:
        paid = self._paid(run)
        return {
            "model": model,
            "features": [dict(one.as_json()) for one in data.features],
            "inputs": list(pipeline.inputs),
            "output": pipeline.output,
            "validation": [one.as_json() for one in said],
            "confidence": pipeline.confidence,
            "certificate": certificate_of(self.stream, pipeline, run, paid, self.simulated).as_json(),
            "lineage": {
                "stream": self.stream.name,
                "blocks": list(attempt.blocks),
                "claims": [one.claim for one in paid if one.claim is not None],
                "claim": claim.id,
                "ledger": self.stream.ledger.id,
                "run": run.id,
                "attempts": len(paid),
                "developer": self.developer,
                "source": run.terms["source"],
            },
            "published_at": datetime.fromtimestamp(self.workspace.clock(), tz=UTC).isoformat(timespec="seconds"),
        }

    @property
    def simulated(self) -> bool:
        """Return whether the noise of its attempts is none that protects anybody."""
        return self.randomness is not None and self.randomness.simulated

    def certificate(self, pipeline: Pipeline, run: PipelineRun) -> Certificate:
        """Certify what a run cost so far, over all its attempts."""
        return certificate_of(self.stream, pipeline, run, self._paid(run), self.simulated)

    def _paid(self, run: PipelineRun) -> list[Attempt]:
        return [one for one in self.workspace.attempts.attempts(run.id) if one.state.paid]

    def _conclude(self, run: PipelineRun, attempt: Attempt) -> None:
        """Do what follows from a verdict."""
        journal = self.workspace.attempts
        if attempt.verdict == Verdict.ACCEPT and attempt.kept:
            body = journal.bundle(attempt)
            version = self.workspace.bundles.publish(run.pipeline, body, origin=f"{run.key}/{attempt.number}")
            journal.end(run.id, state=RunState.ENDED, verdict=Verdict.ACCEPT, version=version)
        elif attempt.verdict == Verdict.REJECT:
            reason = "no model of this kind meets the targets"
            journal.end(run.id, state=RunState.ENDED, verdict=Verdict.REJECT, reason=reason)


def _key(run: PipelineRun, attempt: Attempt) -> str:
    return key_of(run.pipeline, run.key, attempt.number)


def _past(attempt: Attempt) -> PastAttempt:
    return PastAttempt(attempt.epsilon, attempt.blocks, failed=attempt.verdict is not None)
