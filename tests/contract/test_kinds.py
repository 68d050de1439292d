"""Every kind passes the same suite; the example kind `tally` shows that adding one touches nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from thebes.tasks import registry
from thebes.testing.kinds import CHECKS

sys.path.insert(0, str(Path(__file__).parent))
from tally.samples import samples as tally_samples


@pytest.fixture(autouse=True)
def _tally(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example kind is known here only: other tests ask which kinds Thebes ships."""
    monkeypatch.setitem(registry.packages(), "tally", "tally")


SAMPLES = [*(sample for type_ in registry.people_types() for sample in registry.samples(type_)), *tally_samples()]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_every_kind(check, sample) -> None:
    check(sample)


def test_every_kind_of_people_has_samples() -> None:
    assert {sample.document["type"] for sample in SAMPLES} >= set(registry.people_types())
