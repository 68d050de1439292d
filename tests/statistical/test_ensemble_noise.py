"""An ensemble's packets as they are drawn: their scale, their share of epsilon, and the error theorem 2 expects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.tasks import registry
from thebes.tasks.ensemble import plan
from thebes.tasks.ensemble.bin_search import direction, margin
from thebes.tasks.ensemble.cells import cells_of, given
from thebes.tasks.ensemble.histogram import SupportHistogram
from thebes.tasks.protocols import Ask
from thebes.testing.statistics import LEVEL, assert_rate

BOUNDS = {
    "a": {"type": "set", "values": list(range(8)), "default": 0},
    "b": {"type": "range", "low": 0.0, "high": 1.0, "default": 0.0},
    "y": {"type": "set", "values": [0, 1], "default": 0},
}
DOCUMENT = {
    "type": "ensemble",
    "featurizer": "SELECT a, b, y FROM p.t",
    "label": "y",
    "bounds": BOUNDS,
    "bins": {"b": [0.5]},
}
PAYLOADS = (
    {"features": [{"column": "a", "groups": [[i] for i in range(8)]}]},
    {"features": [{"column": "b", "thresholds": [0.5]}]},
)


class RecordedClaim:
    def __init__(self) -> None:
        self.spent = Decimal(0)

    def consume(self, *, epsilon: Any, delta: Any) -> None:
        self.spent += epsilon


def sent(document: Any, packet: int, rows: Rows, claim: RecordedClaim) -> Any:
    ask = Ask("x", f"phase-{document.learning}.packet-{packet}", document.learning, PAYLOADS[packet])
    source = randomness.seeded_for_simulation(11 + packet)
    return registry.owner(document).contribute(document, ask, rows, claim, randomness=source).fields[plan.REPORT]


@pytest.mark.parametrize("packet", [0, 1])
def test_a_packet_is_perturbed_with_its_share_of_epsilon_and_no_other(packet: int) -> None:
    n, epsilon = 300_000, 3.0
    document = registry.check({**DOCUMENT, "epsilon": epsilon, "subsets": 2, "perturbation": "krr"})
    rows = Rows.one_each({"a": np.full(n, 3), "b": np.full(n, 0.9), "y": np.ones(n, dtype=np.int64)})
    claim = RecordedClaim()
    reports = sent(document, packet, rows, claim)
    size, true = (16, 7) if packet == 0 else (4, 3)
    assert claim.spent == Decimal("1.5")

    def truth(told: float) -> float:
        half = np.exp(told / 2)
        return float(half / (half + size - 1))

    assert_rate(int((reports == true).sum()), n, truth, epsilon)


def test_an_answer_about_a_threshold_has_the_whole_of_epsilon() -> None:
    n, epsilon = 300_000, 1.5
    document = registry.check({**DOCUMENT, "epsilon": epsilon, "subsets": 2, "bins": "median"})
    rows = Rows.one_each({"a": np.full(n, 3), "b": np.full(n, 0.9), "y": np.ones(n, dtype=np.int64)})
    ask = Ask("x", "phase-0", 0, {"question": {"column": "b", "at": 0.5}})
    given = registry.owner(document).contribute(
        document, ask, rows, RecordedClaim(), randomness=randomness.seeded_for_simulation(3)
    )
    yes = int(given.fields[plan.REPORT].sum())
    assert_rate(yes, n, lambda e: float(np.exp(e) / (1 + np.exp(e))), epsilon)


@pytest.mark.parametrize("votes", [[0, 0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1, 1, 1]])
def test_what_is_said_about_a_classifier_has_the_whole_of_epsilon_however_it_votes(votes: list[int]) -> None:
    n, epsilon = 300_000, 1.5
    document: Any = registry.check(
        {**DOCUMENT, "epsilon": epsilon, "subsets": 2, "scoring_share": 0.2, "perturbation": "krr"}
    )
    rows = Rows.one_each({"a": np.full(n, 3), "b": np.full(n, 0.9), "y": np.ones(n, dtype=np.int64)})
    phase, claim = document.learning + 1, RecordedClaim()
    ask = Ask("x", f"phase-{phase}", phase, {**PAYLOADS[0], "votes": votes})
    source = randomness.seeded_for_simulation(5)
    reports = registry.owner(document).contribute(document, ask, rows, claim, randomness=source).fields[plan.REPORT]
    true = votes[3] * 2 + 1
    assert claim.spent == Decimal("1.5")
    assert_rate(int((reports == true).sum()), n, lambda e: float(np.exp(e) / (np.exp(e) + 3)), epsilon)
    others = np.bincount(reports, minlength=4)[np.arange(4) != true]
    assert np.ptp(others) < 6.2 * np.sqrt(2 * n * float(np.exp(-epsilon)))  # and each lie is as likely as another


@pytest.mark.few(1)
@pytest.mark.parametrize("perturbation", ["krr", "rappor", "pq", "subset"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_error_of_a_histogram_is_that_of_theorem_2(perturbation: str, epsilon: float) -> None:
    """The mean squared distance over repeated histograms lies within 2 % of the formula, and so far from what 30 %
    more or less noise would give that neither could be taken for it."""
    peers, repeats = 500, 4000
    document = registry.check({**DOCUMENT, "epsilon": epsilon, "perturbation": perturbation})
    cells = cells_of(document, [given(document, "a")])
    mechanism: Any = plan.mechanism(document, cells.size, document.learning)
    true = np.arange(peers) % cells.size
    shares = np.bincount(true, minlength=cells.size) / peers
    reports = np.asarray(mechanism.perturb(np.tile(true, repeats), randomness.seeded_for_simulation(7)))
    distances = np.empty(repeats)
    for repeat in range(repeats):
        histogram = SupportHistogram.empty(cells, mechanism)
        histogram.hear(reports[repeat * peers : (repeat + 1) * peers].astype(np.int64))
        distances[repeat] = ((histogram.shares() - shares) ** 2).sum()
    expected = mechanism.expected_error(peers)
    assert distances.mean() == pytest.approx(expected, rel=0.02)
    error = distances.std() / np.sqrt(repeats)
    for wrong in (0.7**2, 1.3**2):  # of noise of another scale
        assert abs(distances.mean() - wrong * expected) / error > 6.2


def test_auto_is_the_mechanism_with_the_least_error_by_the_formula() -> None:
    for epsilon in (0.3, 1.0, 3.0, 6.0):
        for size in (2, 4, 12, 60):
            document = registry.check({**DOCUMENT, "epsilon": epsilon})
            auto: Any = plan.mechanism(document, size, document.learning)
            others: list[Any] = [
                plan.mechanism(registry.check({**DOCUMENT, "epsilon": epsilon, "perturbation": name}), size, 0)
                for name in plan.MECHANISMS
            ]
            assert auto.expected_error(100) == min(other.expected_error(100) for other in others)


def test_a_search_steps_the_wrong_way_as_rarely_as_its_margin_says() -> None:
    """At the median itself a step is a mistake: beyond one standard error on either side, as in 32 of 100."""
    from scipy.stats import binomtest, norm

    coin, told, trials = plan.question(Decimal(1)), 390, 20_000
    source = np.random.default_rng(5)
    yes = source.binomial(told, 0.5, trials)
    steps = [direction(told, int(each), 0.5, coin) for each in yes]
    wrong = int(np.count_nonzero(steps))
    # answers are whole numbers: the margin cuts between two of them
    cut = margin(told, coin) * float(coin.hold - coin.stray) * told
    rate = 2 * norm.sf((np.floor(cut) + 0.5) / np.sqrt(told / 4))
    assert binomtest(wrong, trials, float(rate)).pvalue > LEVEL
    for factor in (0.7, 1.3):
        other = 2 * norm.sf((np.floor(cut * factor) + 0.5) / np.sqrt(told / 4))
        assert binomtest(wrong, trials, float(other)).pvalue < LEVEL
