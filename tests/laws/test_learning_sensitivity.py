"""Neighbouring tables never move a released sum further than its noise was calibrated for; and shares add up.

Every release of a fit is recorded before its noise. The neighbour's fit hears the same noisy answers, so both walk the
same path, and the exact integer sums can be compared step by step.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thebes.learning as learning
from tests.support.examples import examples
from thebes.learning.budget import _summed_of_classes
from thebes.learning.rows import WHOLE, WholeRows, blocks, lengths, scores, whole_weights
from thebes.privacy.accounting.gaussian import delta_of, together
from thebes.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.testing.recorder import Recorder

FITS = [
    ("GaussianNB", {"mechanism": "gaussian"}),
    ("GaussianNB", {"mechanism": "laplace"}),
    ("GaussianNB", {"delta": 0}),
    ("LogisticRegression", {"steps": 3, "learning_rate": 20.0, "clip": 0.4}),
    ("LogisticRegression", {"steps": 2, "clip": 50.0}),
    ("LogisticRegression", {"steps": 2, "clip": 1e-6}),
    ("LinearRegression", {"method": "moments"}),
    ("LinearRegression", {"method": "descent", "steps": 3}),
    ("Ridge", {"method": "moments"}),
    ("RandomForestClassifier", {"n_estimators": 3, "max_depth": 2}),
    ("RandomForestClassifier", {"n_estimators": 3, "max_depth": 2, "delta": 0}),
    ("RandomForestClassifier", {"n_estimators": 3, "max_depth": 2, "delta": 0, "rows": "disjoint"}),
    ("DecisionTreeClassifier", {"max_depth": 2}),
    ("RandomForestRegressor", {"n_estimators": 3, "max_depth": 2}),
    ("RandomForestRegressor", {"delta": 0}),
    ("KMeans", {"n_clusters": 2, "steps": 3}),
    ("KMeans", {"n_clusters": 2, "steps": 3, "delta": 0}),
    ("StandardScaler", {}),
    ("StandardScaler", {"delta": 0}),
    ("PCA", {}),
]
#: what no labels are for, and what nobody tests
ALONE = ("KMeans", "PCA", "StandardScaler")


def fit(name, options, X, y, adjacency, recorder, epsilon):
    classes = {} if name in ("LinearRegression", "RandomForestRegressor", "Ridge", *ALONE) else {"classes": [0, 1, 2]}
    settings = {"epsilon": epsilon, "delta": 1e-5, "bounds": {"*": (-1.0, 1.0), "y": (0.0, 2.0)}, **classes, **options}
    model = getattr(learning, name)(adjacency=adjacency, random_state=recorder, **settings)
    return model.fit(X, y)


#: Corners and edges, where sensitivities are reached, and anything in between or outside.
VALUE = st.one_of(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, -9.0, 9.0]), st.floats(-1, 1, width=32))


@st.composite
def neighbours(draw):
    width, count = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    X = np.array(draw(st.lists(st.lists(VALUE, min_size=width, max_size=width), min_size=count, max_size=count)))
    y = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    place = draw(st.integers(0, count - 1))
    row, label = np.array(draw(st.lists(VALUE, min_size=width, max_size=width))), draw(st.integers(0, 2))
    return X, y, place, row, label, draw(st.integers(0, 2**20))


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "options"), FITS, ids=[f"{n}-{'-'.join(map(str, o.values()))}" for n, o in FITS])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
@examples(15)
@given(case=neighbours(), epsilon=st.sampled_from([0.5, 8.0, 200.0]))
def test_no_neighbour_moves_a_sum_further_than_its_noise_allows(name, options, adjacency, case, epsilon):
    X, y, place, row, label, seed = case
    if adjacency == "replace-one":
        other_X, other_y = X.copy(), y.copy()
        other_X[place], other_y[place] = row, label
    elif options.get("rows") == "disjoint":
        other_X, other_y = X[:-1], y[:-1]  # each row draws its own tree: the last one's leaving shifts no other
    else:
        other_X, other_y = np.delete(X, place, axis=0), np.delete(y, place)
    first = Recorder(seed)
    model = fit(name, options, X, y, adjacency, first, epsilon)
    second = Recorder(seed, script=first.answers)
    twin = fit(name, options, other_X, other_y, adjacency, second, epsilon)

    assert model.events_ == twin.events_
    assert first.scales == second.scales
    assert len(first.sums) == len(model.events_)
    for event, kind, scale, ours, theirs in zip(
        model.events_, first.kinds, first.scales, first.sums, second.sums, strict=True
    ):
        moved = (ours - theirs).astype(object)
        if kind == "gaussian":
            assert isinstance(event, GaussianEvent)
            distance = math.sqrt(int((moved * moved).sum()))
        else:
            assert isinstance(event, LaplaceEvent)
            distance = float(np.abs(moved).sum())
        assert distance * event.ratio <= scale * (1 + 1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "options"), [(name, options) for name, options in FITS if name not in ALONE])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
@examples(15)
@given(case=neighbours(), epsilon=st.sampled_from([0.5, 8.0]), times=st.integers(1, 4))
def test_a_neighbour_moves_the_training_or_the_test_and_never_both(name, options, adjacency, case, epsilon, times):
    X, y, place, row, label, seed = case
    X, y = np.tile(X, (times, 1)), np.tile(y, times)
    other_X, other_y = X.copy(), y.astype(np.float64)
    if adjacency == "replace-one":
        other_X[place], other_y[place] = row, label
    else:
        other_y[-1] = np.nan  # as if it were not there, but that chance goes on as before: each row has its own coin
    first = Recorder(seed)
    asked = {**options, "quality": True}
    model = fit(name, asked, X, y, adjacency, first, epsilon)
    second = Recorder(seed, script=first.answers)
    twin = fit(name, asked, other_X, other_y, adjacency, second, epsilon)

    assert model.quality_ == twin.quality_
    assert first.scales == second.scales
    moved = [np.abs((ours - theirs).astype(object)).sum() for ours, theirs in zip(first.sums, second.sums, strict=True)]
    assert first.kinds[-1] == "laplace"
    assert moved[-1] <= epsilon * first.scales[-1]
    assert not moved[-1] or not any(moved[:-1])


@pytest.mark.parametrize(("name", "options"), FITS, ids=[f"{n}-{'-'.join(map(str, o.values()))}" for n, o in FITS])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-5), (32.0, 1e-5), (500.0, 1e-6)])
def test_releases_of_a_fit_cost_what_was_declared_and_no_more(name, options, adjacency, epsilon, delta):
    generator = np.random.default_rng(4)
    X, y = generator.uniform(-1, 1, size=(40, 3)), np.arange(40) % 3
    changes = {"delta": delta, **options}
    model = fit(name, changes, X, y, adjacency, seeded_for_simulation(5), epsilon)
    gaussian = [event for event in model.events_ if isinstance(event, GaussianEvent)]
    pure = [event for event in model.events_ if not isinstance(event, GaussianEvent)]
    assert not (gaussian and pure)
    if gaussian:
        spent = delta_of(together(event.ratio for event in gaussian), epsilon)
        slack = sum(event.slack for event in gaussian)
        assert spent + slack <= delta
        assert spent >= 0.97 * delta
        assert slack <= 0.01 * delta
        assert model.certificate_.guarantee == "approximate"
    else:
        spent = sum(1 / event.ratio for event in pure)
        assert 0.999 * epsilon <= spent <= epsilon
        assert (model.certificate_.guarantee, model.certificate_.delta) == ("pure", 0)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
def test_bought_bounds_are_paid_out_of_the_same_epsilon(adjacency):
    X = np.random.default_rng(6).uniform(1, 2, size=(4000, 2))
    y = np.arange(4000) % 2
    for name, delta in (("GaussianNB", 0), ("LogisticRegression", 1e-5)):
        model = getattr(learning, name)(
            epsilon=3, delta=delta, adjacency=adjacency, bounds="estimate", classes=[0, 1], random_state=1
        ).fit(X, y)
        pure = sum(float(e.epsilon) for e in model.events_ if isinstance(e, PureEvent))
        laplace = sum(1 / e.ratio for e in model.events_ if isinstance(e, LaplaceEvent))
        ratios = [e.ratio for e in model.events_ if isinstance(e, GaussianEvent)]
        assert pure == pytest.approx(0.3)
        assert pure + laplace <= 3
        if ratios:
            assert delta_of(together(ratios), 3 - pure) <= delta


@examples(20)
@given(count=st.integers(1, 300), width=st.integers(1, 7), outputs=st.integers(1, 4), seed=st.integers(0, 2**20))
def test_a_row_computes_to_the_same_bits_in_any_company(count, width, outputs, seed):
    from thebes.learning.logistic import _binary_residual, _softmax_residual
    from thebes.learning.rows import shortened
    from thebes.learning.scaler import Scaling

    generator = np.random.default_rng(seed)
    X, labels = generator.normal(size=(count, width)), generator.integers(0, max(outputs, 2), size=count)
    own = (labels[:, None] if outputs == 1 else labels[:, None] == np.arange(outputs)).astype(np.float64)
    weights = generator.normal(size=(width, outputs)) * 5
    scaling = Scaling(generator.normal(size=width) / 5, generator.uniform(0.1, 1, size=width))

    def build(rows, own):
        logits = scores(rows, weights)
        pulls = (_binary_residual if outputs == 1 else _softmax_residual)(logits, own)
        return np.hstack([logits, pulls, lengths(rows), shortened(rows, 0.7), scaling.standardised(rows, 1.1)])

    together_rows = np.vstack(list(blocks(build, X, own)))
    chosen = generator.permutation(count)[: max(1, count // 3)]
    alone = np.vstack(list(blocks(build, X[chosen], own[chosen])))
    assert np.array_equal(together_rows[chosen], alone)


@examples(20)
@given(
    count=st.integers(1, 300),
    width=st.sampled_from([1, 2, 7, 8, 9, 65]),
    outputs=st.integers(1, 10),
    wild=st.sampled_from([0.0, 1e-9, 1.0, 1e6, 1e300, math.inf, math.nan]),
    seed=st.integers(0, 2**20),
)
def test_products_of_whole_rows_are_exact(count, width, outputs, wild, seed):
    """Against Python's whole numbers, at the largest values there can be."""
    generator = np.random.default_rng(seed)
    X = generator.choice([-9.0, -1.0, 1.0, 0.3, math.nan, math.inf], size=(count, width))
    weights = generator.choice([wild, -wild, 0.7], size=(width, outputs))
    pulls = generator.choice([-WHOLE, WHOLE, 1, 0], size=(count, outputs)).astype(float)
    (rows,) = WholeRows.of(X, np.zeros(count), 1.0, np.asarray)
    whole, unit = whole_weights(weights)
    assert np.isfinite(whole).all()
    told = rows.numbers.astype(int).astype(object)
    assert int(np.abs(told).max()) <= WHOLE
    # every partial sum is at most the sum of the sizes, whatever is added first
    sizes = np.abs(told) @ np.abs(whole).astype(int).astype(object)
    assert max(sizes.reshape(-1)) < 2**53
    exact = told @ whole.astype(int).astype(object)
    assert np.array_equal(rows.scores(whole, unit), exact.astype(float) * (rows.step * unit))
    padded = np.zeros((len(rows.numbers), outputs))
    padded[:count] = pulls
    padded[count:] = WHOLE  # what fills the last lane counts for nothing
    assert np.array_equal(rows.pulled(padded), told[:count].T @ pulls.astype(int).astype(object))


@examples(20)
@given(count=st.integers(0, 200), classes=st.integers(1, 4), large=st.integers(0, 60), seed=st.integers(0, 2**20))
def test_sums_of_rows_by_class_are_exact_however_fine_their_steps_are(count, classes, large, seed):
    """Against Python's whole numbers, on both sides of what floats add exactly."""
    generator = np.random.default_rng(seed)
    rows = np.rint(generator.uniform(-1, 1, size=(count, 3)) * 2.0**large)
    own = generator.integers(0, classes, size=count)
    parts = ((rows[start : start + 70] / 4, own[start : start + 70]) for start in range(0, count, 70))
    exact = [sum(int(row[j]) for row in rows[own == c]) for c in range(classes) for j in range(3)]
    within = [max(-LARGEST_TOTAL, min(LARGEST_TOTAL, each)) for each in exact]
    assert _summed_of_classes(parts, classes, 3, 0.25).tolist() == within


def test_the_largest_block_of_whole_rows_is_exact_too():
    generator = np.random.default_rng(1)
    X, weights = generator.choice([-1.0, 1.0], size=(8192, 3)), np.array([[1e6], [-1e6], [0.1]])
    (rows,) = WholeRows.of(X, np.zeros(8192), 1.0, np.asarray)
    assert rows.pulled(np.full((8192, 1), float(WHOLE)))[:, 0].tolist() == (X.sum(axis=0) * 2.0**30).tolist()
    turned = generator.permutation(8192)
    (other,) = WholeRows.of(X[turned], np.zeros(8192), 1.0, np.asarray)
    whole, unit = whole_weights(weights)
    assert np.array_equal(rows.scores(whole, unit)[turned], other.scores(whole, unit))
