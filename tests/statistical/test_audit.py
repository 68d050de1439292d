"""The audit attacks everything and catches what is broken; its bounds are bounds."""

import importlib
import math
import pkgutil
import sys
from concurrent.futures.process import BrokenProcessPool
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from thebes import learning
from thebes.privacy import mechanisms
from thebes.privacy.accounting import gaussian
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.tasks import registry
from thebes.tasks.audit.case import Audited, Enumerated, repeatedly
from thebes.testing.audit import (
    Finding,
    audit,
    certified,
    certified_epsilon,
    exact_advantage,
    exact_epsilon,
    fineness,
)

ROOT = Path(__file__).parents[2]
ADD = Adjacency.ADD_REMOVE_ONE


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    for name in [n for n in sys.modules if n == "evidence.audit" or n.startswith("evidence.audit.")]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("evidence.audit.table")


@pytest.mark.slow
def test_no_claim_is_exceeded_and_every_broken_mechanism_is_caught(table):
    findings = table.everything(effort=0.1)
    assert len(findings) == len(table.cases())
    assert [(f.name, str(f.adjacency), f.lower_bound) for f in findings if not f.good] == []
    assert sum(f.positive_control for f in findings) >= 15


@pytest.mark.slow
def test_processes_that_cannot_learn_of_a_kind_end_the_audit(table, monkeypatch):
    assert table.cases()
    monkeypatch.setattr(table.registry, "packages", lambda: {"strange": "there.is.no.such"})
    with pytest.raises(BrokenProcessPool):
        table.everything(effort=0.01)


def test_every_mechanism_and_estimator_has_a_place_in_the_audit():
    files = [*(ROOT / "evidence" / "audit").glob("*.py"), *(ROOT / "src" / "thebes" / "tasks").glob("*/audit.py")]
    rooms = "\n".join(path.read_text() for path in files)
    missing = [name for name in [*_released_by(mechanisms), *learning.__all__] if f"{name}" not in rooms]
    assert missing == ["from_json"], "a loader of released models releases nothing; everything else belongs here"


@pytest.mark.few(1)
@pytest.mark.parametrize("type_", registry.types())
def test_every_kind_has_a_row_that_holds_and_one_that_must_be_caught(table, type_):
    own = {case.name for case in registry.audit(type_)}
    rows = [case for case in table.cases() if case.name.removesuffix(", half of it") in own]
    assert {case.positive_control for case in rows} == {False, True}, f"{type_}/audit.py lists too little"


def _released_by(package):
    """Public functions that need `randomness`, and public classes that perturb, in every file of `package`."""
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(found.name)
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                continue
            notes = getattr(thing, "__annotations__", {})
            function = (
                not isinstance(thing, type) and "randomness" in notes and "Measurement" in str(notes.get("return"))
            )
            local = isinstance(thing, type) and isinstance(vars(thing).get("name"), str)
            if (function and name != "released") or local:
                yield name


def _laplace(total, scale, seed):
    stream = seeded_for_simulation(seed)
    return lambda n: stream.laplace(np.full(n, total, dtype=np.int64), scale=scale)


def test_the_bound_on_an_honest_mechanism_comes_close_and_stays_below():
    found = certified_epsilon(_laplace(0, 1.0, 1), _laplace(1, 1.0, 2), delta=0.0, draws=100_000, level=1e-9)
    assert 0.9 < found <= 1.0


def test_what_an_attack_gains_comes_close_to_what_can_be_gained_and_stays_below():
    """Of continuous Laplace noise on neighbours nobody gains more than 1 - e^(-1/2); seeded."""
    _, gained = certified(_laplace(0, 1000.0, 5), _laplace(1000, 1000.0, 6), delta=0.0, draws=100_000, level=1e-9)
    assert 0.36 < gained <= 1 - math.exp(-0.5)


def test_the_gain_of_exact_odds_is_their_distance():
    told = {"yes": Fraction(3, 4), "no": Fraction(1, 4)}
    assert exact_advantage(told, {"yes": Fraction(1, 4), "no": Fraction(3, 4)}) == 0.5
    assert exact_advantage(told, told) == 0
    assert exact_advantage(told, {"maybe": Fraction(1)}) == 1


def test_a_gain_beyond_what_a_claim_leaves_is_caught_by_itself():
    """Randomised response of epsilon 1 reaches the most that epsilon 1 leaves to anybody, and any more is too much."""

    def finding(gained, positive_control=False):
        return Finding("one coin", ADD, 1.0, 0.0, 0.5, False, positive_control, gained)

    honest = math.tanh(0.5)
    assert finding(honest).most_advantage == pytest.approx(honest)
    assert finding(honest).good
    assert not finding(honest + 1e-3).good
    assert finding(honest + 1e-3, positive_control=True).verdict == "caught"


def test_noise_thirty_percent_too_small_is_caught():
    found = certified_epsilon(_laplace(0, 0.7, 3), _laplace(1, 0.7, 4), delta=0.0, draws=100_000, level=1e-9)
    assert 1.25 < found <= 1 / 0.7


def test_gaussian_noise_thirty_percent_too_small_is_caught_and_enough_is_not():
    for factor, caught in ((1.0, False), (0.7, True)):
        a, b = (_gaussian(at, 1000 * factor * gaussian.ratio_for(4.0, 1e-2), 9 + at) for at in (0, 1000))
        assert (certified_epsilon(a, b, delta=1e-2, draws=200_000, level=1e-9) > 4.0) == caught


def _gaussian(total, scale, seed):
    stream = seeded_for_simulation(seed)
    return lambda n: stream.gaussian(np.full(n, total, dtype=np.int64), scale=scale)


def test_bounds_are_wrong_no_more_often_than_their_level():
    # At level 0.2 about a tenth of all bounds may exceed the truth; certainly not a third.
    truth, wrong = 0.3, 0
    for seed in range(60):
        a, b = _laplace(0, 1 / truth, 100 + seed), _laplace(1, 1 / truth, 500 + seed)
        wrong += certified_epsilon(a, b, delta=0.0, draws=1000, level=0.2) > truth
    assert wrong < 20


def test_equal_distributions_prove_nothing():
    assert certified_epsilon(_laplace(0, 1.0, 5), _laplace(0, 1.0, 6), delta=0.0, draws=5000, level=1e-9) == 0.0


def test_a_difference_that_only_pairs_of_numbers_show_is_found():
    def reused(first):
        def draw(n):
            noise = system().laplace(np.zeros(n, dtype=np.int64), scale=50.0)
            return np.stack([first + noise, noise]).T

        return draw

    assert certified_epsilon(reused(0), reused(1), delta=0.0, draws=2000, level=1e-9) > 3


def test_fineness_is_the_lowest_bit_that_is_set():
    assert fineness(np.array([1.0, 0.5, 0.75, 6.0, -0.375])).tolist() == [0, -1, -2, 1, -3]
    assert fineness(np.array([0.0]))[0] > 1000


def test_exact_odds_are_exact():
    keep = Fraction(3, 4)
    a, b = {0: keep, 1: 1 - keep}, {0: 1 - keep, 1: keep}
    assert exact_epsilon(a, b, delta=0.0) == pytest.approx(math.log(3))
    assert exact_epsilon(a, b, delta=0.25) == pytest.approx(math.log(2))
    assert exact_epsilon(a, b, delta=0.5) == 0.0
    assert exact_epsilon({0: 1}, {0: Fraction(1, 2), 1: Fraction(1, 2)}, delta=0.0) == math.inf
    assert exact_epsilon({0: 1}, {0: Fraction(1, 2), 1: Fraction(1, 2)}, delta=0.5) == 0.0


def test_exact_odds_match_a_scan_over_epsilon():
    stream = np.random.default_rng(3)
    for _ in range(20):
        p, q = stream.dirichlet(np.ones(5)), stream.dirichlet(np.ones(5))
        a, b = dict(enumerate(p.tolist())), dict(enumerate(q.tolist()))
        found = exact_epsilon(a, b, delta=0.05)
        for there, here in ((p, q), (q, p)):
            assert np.maximum(there - math.exp(found) * here, 0).sum() <= 0.05 + 1e-9
        if found > 0:
            assert any(
                np.maximum(there - math.exp(found * 0.999) * here, 0).sum() > 0.05 for there, here in ((p, q), (q, p))
            )


def test_an_audit_judges_claims_and_controls():
    half = {0: Fraction(1, 2), 1: Fraction(1, 2)}
    sure = {0: Fraction(9, 10), 1: Fraction(1, 10)}
    honest, lying = (Enumerated("response", e, 0.0, ADD, sure, half) for e in (2.0, 0.1))
    control = Enumerated("broken", 0.1, 0.0, ADD, sure, half, positive_control=True)
    missed = Audited("missed", 5.0, 0.0, ADD, _laplace(0, 1.0, 7), _laplace(1, 1.0, 8), positive_control=True)
    verdicts = [finding.verdict for finding in audit([honest, lying, control, missed])]
    assert verdicts == ["holds", "CLAIM EXCEEDED", "caught", "NOT CAUGHT"]
    assert [finding.good for finding in audit([honest, lying, control])] == [True, False, True]


def test_what_cannot_be_audited_is_refused_by_name():
    with pytest.raises(Mistake) as refused:
        audit([])
    assert refused.value.argument == "cases"
    with pytest.raises(Mistake) as refused:
        exact_epsilon({0: 0.5}, {0: 1.0}, delta=0.0)
    assert refused.value.argument == "pmf_a"
    good = repeatedly(lambda: 1.0)
    for bad in (lambda n: [1.0], lambda n: np.full(n, np.nan), lambda n: np.zeros((n, 2, 2))):
        with pytest.raises(Mistake) as refused:
            certified_epsilon(bad, good, delta=0.0, draws=200, level=1e-9)
        assert refused.value.argument == "draw"
    with pytest.raises(Mistake) as refused:
        certified_epsilon(good, good, delta=0.0, draws=200, level=0.0)
    assert refused.value.argument == "level"
