"""Every kind passes the same suite; the example kinds `tally` and `daily` show that adding one touches nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tests.support.kind_cases import cases
from thebes.data.rows import Rows
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import protocols, registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Setting
from thebes.testing.kinds import CHECKS

sys.path.insert(0, str(Path(__file__).parent))
from daily.samples import samples as daily_samples
from tally.samples import samples as tally_samples


@pytest.fixture(autouse=True)
def _examples() -> Iterator[None]:
    """The example kinds are known here only: other tests ask which kinds Thebes ships."""
    with ExitStack() as examples:
        for name in ("tally", "daily"):
            if name not in registry.types():  # it may lie beside the others, or be installed
                examples.enter_context(registry.registered(name))
        yield


SHIPPED = [sample for type_ in registry.people_types() for sample in registry.samples(type_)]
SAMPLES = [*SHIPPED, *tally_samples(), *daily_samples()]


@pytest.mark.few(60)
@pytest.mark.parametrize(("check", "sample"), cases(SAMPLES, CHECKS))
def test_every_kind(check, sample) -> None:
    check(sample)


def test_the_example_that_teaches_the_protocols_runs() -> None:
    """As it stands in the header of the file that an author reads first."""
    example = [line[4:] for line in (protocols.__doc__ or "").splitlines() if line.startswith("    ")]
    randomness = seeded_for_simulation(1)
    known = {
        "registry": registry,
        "told": {**tally_samples()[0].document, "min_count": 1},
        "setting": Setting(unit=Unit.DEVICE, randomness=randomness),
        "rows": Rows.one_each({"y": np.ones(1)}),
        "claim": RecordedClaim(),
        "randomness": randomness,
        "now": datetime(2030, 1, 1, tzinfo=UTC),
    }
    exec("\n".join(example), known)
    assert len(example) == 9
    assert known["claim"].epsilon == known["price"].epsilon
    assert known["release"].certificate.contributors == 1


def test_every_kind_of_people_has_samples() -> None:
    assert {sample.document["type"] for sample in SAMPLES} >= set(registry.people_types())
