"""Table 2 of Sage in small: tests without statistics or without their correction let bad models pass, ours do not."""

from __future__ import annotations

import numpy as np
import pytest

from thebes.experiments.registry import experiments
from thebes.experiments.sage.table_2 import ATTEMPTS, METHODS, Models, violations


@pytest.mark.parametrize(("method", "high"), [("chernoff", 0.05), ("binomial", 0.25)])
def test_only_tests_that_account_for_noise_hold_what_they_say(method: str, high: float) -> None:
    """Models that become a little better with each attempt, by losses of all or nothing."""
    draw = np.random.default_rng(0)
    losses = [(draw.random(50_000) < high * (1 - number / 20)).astype(np.float64) for number in range(ATTEMPTS)]
    rates = dict(zip(METHODS, violations(Models("made up", losses, method, reach=1.5), 0.05, 0.05, 30, 0), strict=True))
    assert rates["no SLA"] > 0.2
    assert rates["UC DP SLA"] > 0.05
    assert rates["NP SLA"] <= 0.1
    assert rates["Sage SLA"] <= 0.05


def test_the_table_is_among_the_experiments() -> None:
    assert "sage-table-2" in experiments()
