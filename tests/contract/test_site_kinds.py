"""Every kind that institutions answer passes the same suite."""

from __future__ import annotations

import pytest

from tests.support.kind_cases import cases
from thebes.tasks import registry
from thebes.testing.site_kinds import CHECKS

SAMPLES = [sample for type_ in registry.site_types() for sample in registry.samples(type_)]


@pytest.mark.few(60)
@pytest.mark.parametrize(("check", "sample"), cases(SAMPLES, CHECKS))
def test_every_kind(check, sample) -> None:
    check(sample)


def test_every_kind_of_sites_has_samples() -> None:
    assert {sample.document["type"] for sample in SAMPLES} == set(registry.site_types())
