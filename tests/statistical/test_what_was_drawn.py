"""Certificates claim what was drawn: noise is judged by its scale and by what it was added to, without luck."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from thebes.curator.cache.smart.check import UNIT, Sought, SparseCheck
from thebes.curator.cache.synthesis.aim import Adaptive, _Fitting
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain
from thebes.data.rows import Rows
from thebes.privacy.accounting import gaussian
from thebes.privacy.mechanisms.sparse_vector import AboveThreshold
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.audit.case import Written
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.draw_discard import audit as draw_discard
from thebes.tasks.pipeline.audit import OF_SIZES
from thebes.tasks.protocols import Ask
from thebes.tasks.query.audit import SummedTable
from thebes.testing.audit import examine
from thebes.testing.transcripts import NoiseLoss, Repetition, Transcript, loss

ROOT = Path(__file__).parents[2]
#: a model of several attempts and steps, each with noise of its own
NAMELESS = {"drawn: pipeline, all attempts and sizes"}
WIDTH = 10.0  #: of the audited column
#: one person more, with as many rows as a person may have
ROWS = pd.DataFrame({"who": ["p", "q", "me", "me"], "x": ["no", "yes", "yes", "yes"], "y": ["no", "no", "yes", "yes"]})


@pytest.fixture(scope="module")
def audit():
    """The rooms of the audit, of this tree and no other."""
    patched = pytest.MonkeyPatch()
    patched.syspath_prepend(str(ROOT))
    for name in [n for n in sys.modules if n == "evidence.audit" or n.startswith("evidence.audit.")]:
        patched.delitem(sys.modules, name)
    yield lambda room: importlib.import_module(f"evidence.audit.{room}")
    patched.undo()


@pytest.fixture(scope="module")
def runs(audit):
    """Of every task: what was drawn, the certificate it made of it, and what the noise lets through."""
    found = []
    for task in audit("table").cases():
        if isinstance(task, Written) and not task.positive_control:
            said = Transcript(seeded_for_simulation(4))
            claim, again = task.run_a(said), Repetition(said)
            task.run_b(again)
            found.append((task, claim, said.noises, again.loss()))
    return found


@pytest.mark.slow
def test_no_task_lets_more_through_than_its_certificate_says_nor_much_less(runs):
    """Much less: a claim that the noise hardly shows would hide that there is too little of it."""
    shares = []
    for task, claim, _, through in runs:
        epsilon, delta = (task.epsilon, task.delta) if claim is None else (claim.epsilon, claim.delta)
        beside = OF_SIZES if task.name.startswith("drawn: pipeline") else 0.0
        assert through.epsilon(delta) <= (epsilon + beside) * (1 + 1e-9), task.name
        shares.append(through.epsilon(task.delta) / task.epsilon)
        assert shares[-1] >= task.used, task.name
    assert sum(share > 0.99 for share in shares) >= 35
    assert sum(claim is not None for _, claim, _, _ in runs) >= 30


@pytest.mark.slow
def test_certificates_name_the_noise_that_was_drawn_and_how_neighbours_differ(runs):
    for task, claim, noises, _ in runs:
        if claim is not None:
            assert claim.adjacency is task.adjacency, task.name
            assert claim.simulated, task.name
            said = f"{claim.mechanism} {claim.parameters}"
            named = {kind for kind in ("laplace", "gaussian") if kind in said}
            assert named <= {noise.kind for noise in noises}, task.name
            assert named or task.name in NAMELESS, task.name


def test_the_scale_on_a_query_s_certificate_is_the_scale_of_its_draws(runs):
    """In steps of the totals' grid, which is a power of two; of a sum in the column's own unit."""
    queries = [run for run in runs if run[0].name.startswith("drawn: query")]
    assert len(queries) >= 20
    for task, claim, noises, _ in queries:
        ((kind, scale),) = {(each["kind"], each["scale"]) for each in claim.parameters["noise"].values()}
        assert {each.kind for each in noises} == {kind}, task.name
        assert _same_but_for_the_grid(noises[0].scale, scale / (WIDTH if "query: sum" in task.name else 1)), task.name


def test_the_scales_on_a_model_s_certificate_are_those_of_its_draws(runs):
    """The first round's, every later one's, and those of sizes, losses and curvature: each was drawn, and no other."""
    models = [run for run in runs if run[0].name.startswith("drawn: train")]
    assert len(models) == 7
    for task, claim, noises, _ in models:
        stated = {float(scale) for name, scale in claim.parameters.items() if name.startswith("scale")}
        if task.name.startswith("drawn: train, noise"):  # nothing but the gradients in later rounds, clipped to 1
            assert claim.parameters["ratio"] == pytest.approx(claim.parameters["scale"], rel=1e-9), task.name
        drawn = {noise.scale for noise in noises}
        assert all(any(_same_but_for_the_grid(each, scale) for each in drawn) for scale in stated), task.name
        assert all(any(_same_but_for_the_grid(each, scale) for scale in stated) for each in drawn), task.name


def _same_but_for_the_grid(drawn, stated):
    bits = math.log2(drawn / stated)
    return bits == pytest.approx(round(bits), abs=1e-7)


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        ("laplace", {"epsilon": None, "epsilon_per_weight": 0.5}),
        ("laplace-l1", {}),
        ("gaussian", {"delta": 1e-2}),
    ],
)
def test_what_an_owner_draws_for_a_gradient_hides_two_clips(mechanism, more):
    """The scale in units of the clip, by the rule of the mechanism alone: 2 / epsilon, or the least analytic one."""
    body = {**draw_discard.DOCUMENT, "mechanism": mechanism, **more}
    document = registry.check({field: value for field, value in body.items() if value is not None})
    ask = Ask("a", "phase-0", 0, {"weights": draw_discard.DRAWN, "version": 0, "lane": 0})
    said, claim = Transcript(), RecordedClaim()
    rows = Rows.one_each({name: [value] for name, value in draw_discard.HERE.items()})
    registry.owner(document).contribute(document, ask, rows, claim, randomness=said)
    (noise,) = said.noises
    steps = {"gaussian": 2**16}.get(mechanism, 2**24)
    paid = float(claim.epsilon) / (2 if mechanism == "laplace" else 1)  # by weight, of which there are two
    least = 2 * gaussian.ratio_for(paid, float(claim.delta)) if mechanism == "gaussian" else 2 / paid
    finer = round(math.log2(noise.scale / steps / least))
    assert noise.scale / steps / 2.0**finer == pytest.approx(least, rel=1e-3)
    assert noise.scale / steps / 2.0**finer >= least * (1 - 1e-9)
    assert finer == 0 or mechanism == "gaussian"
    assert noise.before.size == len(draw_discard.DRAWN)


@pytest.mark.parametrize(("monotone", "moves"), [(False, 2), (True, 1)])
def test_a_threshold_and_the_question_that_passes_it_share_the_epsilon_of_an_opening(monotone, moves):
    """The threshold's noise is moved by what one unit moves, that of the yes by twice as much, or once."""
    said = Transcript()
    gate = AboveThreshold(5, epsilon=2, sensitivity=4, adjacency="add-remove-one", randomness=said, monotone=monotone)
    gate.above(1)
    threshold, question = said.noises
    assert 4 / threshold.scale + moves * 4 / question.scale == pytest.approx(2)


def test_a_check_of_guesses_is_a_sparse_vector_with_the_epsilon_it_was_paid():
    said, check = Transcript(), SparseCheck()
    check.begin("0.5", said)
    check.passes(Sought(3, 40, 0.1), 7, said)
    assert {noise.scale for noise in said.noises} == {3 * UNIT / 0.5}
    assert said.noises[-1].before.tolist() == [Sought(3, 40, 0.1).excess(7)]
    assert Sought(3, 40, 0.1).excess(7 + 3) - Sought(3, 40, 0.1).excess(7) == UNIT


class _Even:
    """Stands for AIM's inference: whatever was measured, it guesses every cell alike."""

    def __init__(self, domain):
        del domain

    def model(self, found):
        return found[0].counts.sum()

    def affordable(self, chosen, pairs, spent):
        return list(pairs)

    def marginal(self, model, places):
        return np.full((2, 2), model / 4)


def _real(domain):
    pytest.importorskip("mbi")
    return _Fitting(domain)


@pytest.mark.parametrize("fitting", [_Even, pytest.param(_real, marks=pytest.mark.slow)], ids=["even", "real"])
def test_the_rounds_of_aim_measure_with_nine_tenths_of_their_budget_and_no_more(fitting, audit):
    """Of two columns there is one pair, so that nothing is left to what is chosen; choices have the last tenth."""
    schema = audit("synthesis").SCHEMA
    columns = {name: column for name, column in schema.columns.items() if name in ("who", "x", "y")}
    two = schema.model_copy(update={"columns": columns})
    recipe = Adaptive(Domain.of(two, missing=False), SynthesisAllowance(1, 1e-6))
    tables = [SummedTable(frame, two) for frame in (ROWS, ROWS[ROWS.who != "me"])]
    through = loss(
        *(lambda source, t=t: recipe._histograms(fitting(recipe.domain), t, lambda: None, source) for t in tables)
    )
    rho = through.gaussian**2 / 2
    assert through.laplace == 0
    assert 0.85 * float(recipe._rho) <= rho <= 0.91 * float(recipe._rho)


# --- the judge itself ---


def _once(values, scale, kind="laplace"):
    return lambda source: getattr(source, kind)(np.asarray(values, dtype=np.int64), scale=scale)


def test_the_loss_of_laplace_noise_is_distance_over_scale():
    assert loss(_once([3, 0], 4.0), _once([1, 1], 4.0)).epsilon() == 0.75
    assert loss(_once([3, 0], 4.0), _once([3, 0], 4.0)).epsilon() == 0.0


def test_the_loss_of_gaussian_noise_is_the_least_epsilon_at_delta():
    found = loss(_once([0, 3], 10.0, "gaussian"), _once([4, 0], 10.0, "gaussian"))
    assert found.gaussian == pytest.approx(0.5)
    assert found.epsilon(1e-6) == pytest.approx(gaussian.epsilon_of(2.0, 1e-6), rel=1e-6)
    assert found.epsilon(0.0) == math.inf
    assert found.epsilon(0.5) == 0.0


def test_losses_of_all_rounds_add_up_and_earlier_noise_is_the_same_for_both():
    def steered(rows):
        def run(source):
            first = source.laplace(np.array([rows]), scale=2.0)
            source.laplace(first * 1000 + rows, scale=2.0)

        return run

    assert loss(steered(0), steered(1)).epsilon() == 1.0


def test_noise_that_depends_on_the_rows_tells_them_apart():
    for other in (_once([1], 5.0), _once([1, 1], 4.0), _once([1], 4.0, "gaussian"), lambda source: None):
        found = loss(_once([1], 4.0), other)
        assert found.epsilon(0.1) == math.inf
        assert found.advantage == 1.0
    assert loss(lambda source: None, _once([1], 4.0)).epsilon() == math.inf
    assert loss(_once([1], 0.0), _once([2], 0.0)).epsilon() == math.inf


def test_everybody_else_keeps_their_coins():
    here, there = [], []
    loss(lambda source: here.append(source.words(3)), lambda source: there.append(source.words(2)))
    assert here[0][:2].tolist() == there[0].tolist()


def test_what_is_gained_by_seeing_one_noise_is_less_than_the_claim_leaves():
    assert loss(_once([1000], 1000.0), _once([0], 1000.0)).advantage == pytest.approx(1 - math.exp(-0.5))
    assert NoiseLoss(0.0, 1.0).advantage == pytest.approx(0.3829, abs=1e-4)


def test_a_case_that_was_written_down_is_judged_like_any_other():
    def case(claimed, control=False):
        return Written("t", claimed, 0.0, Adjacency.ADD_REMOVE_ONE, _once([1], 2.0), _once([0], 2.0), control)

    verdicts = [examine(one, level=0.1).verdict for one in (case(0.5), case(0.4), case(0.4, True), case(0.5, True))]
    assert verdicts == ["holds", "CLAIM EXCEEDED", "caught", "NOT CAUGHT"]
