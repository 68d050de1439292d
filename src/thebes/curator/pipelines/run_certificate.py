"""The certificate of a pipeline's run: what its attempts cost whoever is in the block that paid most."""

from __future__ import annotations

from collections.abc import Sequence

from thebes.curator.pipelines.attempt_store import Attempt, PipelineRun
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.prices import dearest, price
from thebes.curator.pipelines.run_stream import RunStream
from thebes.curator.streams.terms import beside
from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import filter_of
from thebes.privacy.certificate import ROWS_UNTOLD, Certificate
from thebes.privacy.faults import Refusal
from thebes.privacy.losses import Approximate, Loss
from thebes.privacy.promise import Adjacency, Unit


def certificate_of(
    stream: RunStream, pipeline: Pipeline, run: PipelineRun, paid: Sequence[Attempt], simulated: bool
) -> Certificate:
    """Certify what a run cost so far whoever is in the block that paid most, over all its attempts: each told
    something.

    Each attempt is (epsilon, delta) private by itself, whatever its blocks count in; of that sum and what the
    blocks' own losses come to, both proved, the smaller is said. The attempts tell the noisy sizes of their blocks
    and follow from them; these were paid beside, for whoever asks, so it is said what they cost.
    """
    filter = stream.terms.filter
    if not paid:
        raise Refusal(run.reason or "no block of this data set can pay for this now")
    attempt = paid[-1]
    whole = pipeline.limits.delta or stream.terms.delta  # at which other losses are converted
    losses: dict[str, list[Loss]] = {}
    plain: dict[str, list[Loss]] = {}
    for one in paid:
        for block in one.blocks:
            losses.setdefault(block, []).append(price(pipeline, one.epsilon, one.delta, filter).loss)
            plain.setdefault(block, []).append(Approximate(one.epsilon, one.delta))
    own, summed = dearest(losses, whole), dearest(plain, whole)
    epsilon, delta = min(own, summed)
    known = "approximate" if delta else "pure"
    sizes = stream.earlier(losses)
    counting = filter_of(filter)
    guarantee = counting.guarantee if isinstance(counting, EventFilter) and delta and own < summed else known
    return Certificate(
        unit=Unit(stream.schema.unit),
        adjacency=Adjacency.ADD_REMOVE_ONE,
        epsilon=float(epsilon),
        delta=float(delta),
        guarantee=guarantee,
        mechanism=f"pipeline {type(pipeline).__name__}",
        parameters={
            "attempts": len(paid),
            "blocks": len(attempt.blocks),
            "attempt": {"epsilon": float(attempt.epsilon), "delta": float(attempt.delta)},
            "filter": filter,
            "sizes": sizes.as_json() if sizes.delta else {"epsilon": float(sizes.epsilon)},
        },
        trust="site",
        simulated=simulated,
        notes=(
            "The price is the sum over all attempts of this run; what other runs cost the same rows is in the ledger.",
            "That its steps spend no more than they were allowed is the promise of the pipeline's developer.",
            beside(sizes),
            ROWS_UNTOLD,
            stream.assumption,
        ),
        beside_earlier=True,
    )
