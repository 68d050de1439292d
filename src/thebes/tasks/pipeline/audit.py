"""The audit's row of pipelines: all attempts together, and the sizes of blocks that they look at. The statistics that
ready pipelines begin with are attacked by themselves, beside the data sets that grow."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from thebes.curator.pipelines.simulated_attempts import simulated_attempts
from thebes.data.schema import schema_of
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness
from thebes.tasks import registry
from thebes.tasks.audit.case import Case, Written
from thebes.tasks.pipeline.kind import KIND
from thebes.tasks.protocols import Ask, Setting

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
_HOURS = 48
RIDES = schema_of(
    {
        "unit": "event",
        "time": "at",
        "columns": {
            "at": {"type": "timestamp"},
            "hour": {"type": "integer", "values": [0, 1, 2]},
            "took": {"type": "float", "low": 0, "high": 1},
        },
    }
)
DOCUMENT: dict[str, Any] = {
    "type": "pipeline", "stream": "s", "sites": ["a"], "epsilon": 1.0, "model": "GroupMeans",
    "inputs": ["hour"], "output": "took", "target": {"absolute_error": 1e-4},
}  # fmt: skip
#: what blocks are charged for their sizes beside what the document claims, as a share of it
OF_SIZES = 0.055


def cases() -> list[Case]:
    """List the noise of all attempts: the row in question lies in the oldest block, and a target out of reach makes it
    pay for each. Half of it must not do."""
    name, claimed = "drawn: pipeline, all attempts and sizes", 1.0 + OF_SIZES
    one, other = (partial(_attempted, mine) for mine in (True, False))
    return [Written(name, claimed, 0.0, Adjacency.ADD_REMOVE_ONE, one, other, used=0.8)]


@cache
def _rides(mine: bool) -> pd.DataFrame:
    at = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(_HOURS), unit="h")
    frame = pd.DataFrame({"at": at, "hour": np.arange(_HOURS) % 2, "took": 0.0})
    own = pd.DataFrame({"at": [pd.Timestamp("2026-01-01T00:30")], "hour": [2], "took": [1.0]})
    return pd.concat([frame, own], ignore_index=True) if mine else frame


def _attempted(mine: bool, randomness: Randomness) -> Certificate:
    """Run all attempts. Of whether a row is trained or tested on, both runs toss the same for everybody else."""
    document = KIND.check(DOCUMENT)
    setting = Setting(unit=Unit.EVENT, randomness=randomness, simulated=True, sites={"a": RIDES})
    aggregator = registry.aggregator(document, setting)
    epsilon, delta, rows = document.epsilon, document.delta, _rides(mine)
    with simulated_attempts(document.dataset, rows, RIDES, epsilon=epsilon, delta=delta, source=randomness) as attempts:
        ask = aggregator.ask("a")
        assert isinstance(ask, Ask)  # noqa: S101
        given = registry.stream_owner(document).attempt(document, ask, attempts)
    aggregator.accept(given)
    aggregator.advance(_NOON)
    release = aggregator.release()
    assert release is not None  # noqa: S101
    return release.certificate
