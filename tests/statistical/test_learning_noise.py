"""The noise on released sums has the scale that the promise asks for, under either adjacency: not 30 % more or less."""

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import ClassifierMixin

import thebes.learning as learning
from thebes.learning.budget import FitBudget, Reach
from thebes.privacy.accounting.gaussian import ratio_for
from thebes.privacy.faults import Fault
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system
from thebes.testing.statistics import assert_scale, gaussian_cdf, laplace_cdf

SOURCES = {"system": system, "seeded": lambda: seeded_for_simulation(11)}
ADJACENCIES = ["replace-one", "add-remove-one"]
EPSILON, DELTA, WIDTH = 3.0, 1e-5, 40


def spy_rows():
    """Rows whose exact sums are known: 300 columns, all values on a coarse binary grid."""
    return np.tile(np.array([[0.5, -0.25, 1.0], [0.25, 0.75, -1.0]]), (50, 100)), np.tile([37.5, 25.0, 0.0], 100)


@pytest.mark.few(2)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_sums_get_the_stated_noise(source, adjacency, kind):
    rows, exact = spy_rows()
    length, distance, share, releases = 2.0, 3.5, Fraction(2, 3), 40
    moved = distance if adjacency == "replace-one" else length
    noise = []
    budget = FitBudget(epsilon=EPSILON, delta=DELTA, adjacency=adjacency, randomness=SOURCES[source]())
    for _ in range(releases):
        released = getattr(budget, kind)([rows], width=300, reach=Reach(length, distance), share=share / releases)
        noise.extend(released.value - exact)
    if kind == "laplace":
        assert_scale(noise, laplace_cdf, moved * releases / (EPSILON * float(share)))
    else:
        assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) * math.sqrt(releases / float(share)))


@pytest.mark.parametrize("unit", [2.0**-27, 0.3])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_sums_in_rounds_get_the_stated_noise_each(source, adjacency, unit):
    """Drawn at once or not, on a grid as fine as asked or finer; and every round's noise is its own."""
    length, distance, share, rounds = 2.0, 3.5, Fraction(2, 3), 40
    moved = distance if adjacency == "replace-one" else length
    budget = FitBudget(epsilon=EPSILON, delta=DELTA, adjacency=adjacency, randomness=SOURCES[source]())
    release = budget.gaussian_rounds(width=300, times=rounds, reach=Reach(length, distance), share=share, unit=unit)
    sums = [np.arange(300, dtype=np.int64) * turn for turn in range(rounds)]
    noise = np.array([release(each) - each * unit for each in sums])
    assert_scale(noise.reshape(-1), gaussian_cdf, moved * ratio_for(EPSILON, DELTA) * math.sqrt(rounds / float(share)))
    assert len(np.unique(noise)) > 0.99 * noise.size  # on a grid two draws may be alike, and no round is like another
    assert len(budget.events) == rounds
    with pytest.raises(Fault):
        budget.gaussian([np.zeros((1, 1))], width=1, reach=Reach(1, 1), share=Fraction(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_noise_that_is_drawn_at_once_reaches_the_weights_in_its_scale(adjacency):
    """One step from 0 over rows without any signal: the weights are its noise times what is public, or nearly so."""
    count, noise = 3200, []
    X, y = np.zeros((count, WIDTH)), np.arange(count) % 2
    for seed in range(100):
        model = learning.LogisticRegression(
            epsilon=EPSILON, delta=DELTA, adjacency=adjacency, bounds={"*": (-1, 1)}, classes=[0, 1],
            random_state=seed, steps=1, learning_rate=1.0, clip=20.0,
        ).fit(X, y)  # fmt: skip
        noise.extend(model.weights_[:, 0] * count * WIDTH / 2)
    longest = math.sqrt(WIDTH + 1)
    moved = 2 * longest if adjacency == "replace-one" else longest
    assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) / math.sqrt(0.75 * rest(adjacency)))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("kind", ["laplace_counts", "gaussian_counts"])
def test_counts_get_the_stated_noise(adjacency, kind):
    counts, reach = np.arange(12_000, dtype=np.int64), Reach(3, 5)
    moved = reach.distance if adjacency == "replace-one" else reach.length
    budget = FitBudget(epsilon=0.01, delta=DELTA, adjacency=adjacency, randomness=system())
    noise = getattr(budget, kind)(counts, reach=reach, share=Fraction(1, 2)).value - counts
    if kind == "laplace_counts":
        assert_scale(noise, laplace_cdf, moved / 0.005)
    else:
        assert_scale(noise, gaussian_cdf, moved * ratio_for(0.01, DELTA) * math.sqrt(2))


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_the_number_of_rows_is_exact_where_public_and_noisy_where_private(source):
    public = FitBudget(epsilon=1, delta=0, adjacency="replace-one", randomness=SOURCES[source]())
    assert public.row_count(1000, Fraction(1, 2)) == 1000
    assert public.events == []
    assert not public.bought_count
    private = FitBudget(epsilon=100, delta=0, adjacency="add-remove-one", randomness=SOURCES[source]())
    noise = [private.row_count(10**6, Fraction(1, 10_000)) - 10**6 for _ in range(10_000)]
    assert_scale(noise, laplace_cdf, 100)
    assert private.bought_count


class Spy(Randomness):
    """Draws from a seed and writes down every release: exact sums and the noise on them."""

    def __init__(self, seed):
        self.source, self.releases = seeded_for_simulation(seed), []

    def words(self, count):
        return self.source.words(count)

    def laplace(self, values, *, scale):
        answer = self.source.laplace(values, scale=scale)
        self.releases.append((values, answer - values))
        return answer

    def gaussian(self, values, *, scale):
        answer = self.source.gaussian(values, scale=scale)
        self.releases.append((values, answer - values))
        return answer


def noise_of(name, adjacency, *, release, step, repeats, **options):
    """The noise of one release of many fits on 64 rows of zeros, half of them labelled 1, in the sums' own unit.

    `step(values)` tells what one step of the grid is worth, from a coordinate whose exact sum is known.
    """
    X, y = np.zeros((64, WIDTH)), np.arange(64) % 2
    found = []
    for seed in range(repeats):
        spy = Spy(seed)
        settings = {"epsilon": EPSILON, "delta": DELTA, "bounds": {"*": (-1.0, 1.0), "y": (-1.0, 1.0)}, **options}
        settings |= {"classes": [0, 1]} if issubclass(getattr(learning, name), ClassifierMixin) else {}
        getattr(learning, name)(adjacency=adjacency, random_state=spy, **settings).fit(X, y)
        values, noise = spy.releases[release]
        found.extend(noise * step(values))
    return np.array(found)


def rest(adjacency):
    """The part of the budget that is left after the number of rows."""
    return 1.0 if adjacency == "replace-one" else 0.98


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_naive_bayes_noise_has_the_derived_scale(adjacency):
    replace = adjacency == "replace-one"
    # Gaussian: rows of length C = sqrt(width), a count weighs sqrt(3/4) C: two rows 2 C apart, one of length sqrt(2) C.
    # So few rows that no centres are bought.
    length = math.sqrt(WIDTH)
    noise = noise_of(
        "GaussianNB",
        adjacency,
        release=-1,
        step=lambda values: 32 * math.sqrt(0.75) * length / values[0],
        repeats=80,
        mechanism="gaussian",
    )
    moved = 2 * length if replace else math.sqrt(2) * length
    assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) / math.sqrt(rest(adjacency)))
    # Laplace: 2 per column and twice the count's weight (width / 10) apart; alone 1.5 per column and that weight.
    noise = noise_of(
        "GaussianNB",
        adjacency,
        release=-1,
        step=lambda values: 32 * WIDTH / 10 / values[0],
        repeats=80,
        mechanism="laplace",
        epsilon=60.0,
    )
    moved = 2.2 * WIDTH if replace else 1.6 * WIDTH
    assert_scale(noise, laplace_cdf, moved / (60.0 * rest(adjacency)))


@pytest.mark.slow
def test_naive_bayes_noise_is_of_the_columns_that_were_asked_for():
    """Of 40 columns 4, as 64 rows at this epsilon bear no more; a count then weighs .4."""
    noise = noise_of(
        "GaussianNB", "replace-one", release=-1, step=lambda values: 32 * 0.4 / values[0], repeats=800, delta=0.0
    )
    assert len(noise) == 800 * (2 * 5 + 4)
    assert_scale(noise, laplace_cdf, (2 * 4 + 2 * 0.4) / EPSILON)


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_scaling_noise_has_the_derived_scale(adjacency):
    # Sums and squares of columns in [-1, 1]; of zeros all are 0, so bounds are moved to make every row (1, ..., 1).
    replace = adjacency == "replace-one"
    noise = noise_of(
        "LogisticRegression",
        adjacency,
        release=0 if replace else 1,
        step=lambda values: 64 / values[0],
        repeats=120,
        bounds={"*": (-1.0, 0.0)},
        steps=1,
    )
    moved = 2 * math.sqrt(WIDTH) if replace else math.sqrt(WIDTH * (1 + 1.66**2))
    assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) / math.sqrt(0.25 * rest(adjacency)))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_gradient_noise_has_the_derived_scale(adjacency):
    # The first gradient is residual times (row, 1), never clipped here; all labels are 0, so 32 at the intercept.
    X, y, noise = np.zeros((64, WIDTH)), np.zeros(64, dtype=int), []
    for seed in range(250):
        spy = Spy(seed)
        learning.LogisticRegression(
            epsilon=EPSILON,
            delta=DELTA,
            adjacency=adjacency,
            bounds={"*": (-1, 1)},
            classes=[0, 1],
            random_state=spy,
            steps=2,
            clip=20.0,
        ).fit(X, y)
        values, added = spy.releases[1 if adjacency == "replace-one" else 2]
        noise.extend(added * 32 / values[-1])
    longest = math.sqrt(WIDTH + 1)
    moved = 2 * longest if adjacency == "replace-one" else longest
    assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) * math.sqrt(2 / (0.75 * rest(adjacency))))


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_forest_noise_has_the_derived_scale(adjacency):
    """So few rows for the noise that no centres are bought, but where epsilon is large: these cost a quarter."""
    replace = adjacency == "replace-one"
    for trees, delta, epsilon, part in ((9, DELTA, EPSILON, 1), (9, 0.0, 0.5, 1), (40, DELTA, 30.0, 0.75)):
        noise = noise_of(
            "RandomForestClassifier",
            adjacency,
            release=-1,
            step=lambda values, trees=trees: 64 * trees / values.sum(),
            repeats=45,
            n_estimators=trees,
            max_depth=4,
            delta=delta,
            epsilon=epsilon,
        )
        share = part * rest(adjacency)
        if delta:
            moved = math.sqrt((2 if replace else 1) * trees)
            assert_scale(noise, gaussian_cdf, moved * ratio_for(epsilon, DELTA) / math.sqrt(share))
        else:
            assert_scale(noise, laplace_cdf, (2 if replace else 1) * trees / (epsilon * share))


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [DELTA, 0.0])
def test_forest_noise_on_shares_of_a_target_has_the_derived_scale(adjacency, delta):
    """A row counts as one, in parts: two rows may put all of it into two cells of every tree. So few rows for the noise
    that no centres are bought."""
    replace, trees, epsilon = adjacency == "replace-one", 9, 0.5
    noise = noise_of(
        "RandomForestRegressor",
        adjacency,
        release=-1,
        step=lambda values: 64 * trees / values.sum(),
        repeats=45,
        n_estimators=trees,
        max_depth=4,
        delta=delta,
        epsilon=epsilon,
    )
    if delta:
        moved = math.sqrt(2 * trees) if replace else math.sqrt(trees)
        assert_scale(noise, gaussian_cdf, moved * ratio_for(epsilon, delta) / math.sqrt(rest(adjacency)))
    else:
        assert_scale(noise, laplace_cdf, (2 if replace else 1) * trees / (epsilon * rest(adjacency)))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_second_moment_noise_has_the_derived_scale(adjacency):
    replace = adjacency == "replace-one"
    noise = noise_of(
        "LinearRegression",
        adjacency,
        release=-1,
        # the product of 1 and 1 is the last but two of the upper triangle; rows are short, so it sums to 64
        step=lambda values: 64 / values[-3],
        repeats=20,
        epsilon=5000.0,
        method="moments",
    )
    square = 0.81 * (1.69 * WIDTH + 1)
    moved = math.sqrt(2) * square if replace else square
    assert_scale(noise, gaussian_cdf, moved * ratio_for(5000.0, DELTA) / math.sqrt(0.75 * rest(adjacency)))


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_noise_on_the_boxes_and_steps_of_k_means_has_the_derived_scale(adjacency, delta):
    """Boxes: one row is in one of them at each level. Steps: a row and its weight in one of two clusters."""
    replace, counted = adjacency == "replace-one", 0 if adjacency == "replace-one" else 1
    X = np.random.default_rng(6).uniform(-1, 1, size=(20_000, 2))
    noise, levels = [], 0
    for seed in range(100):
        spy = Spy(seed)
        learning.KMeans(
            epsilon=0.3, delta=delta, adjacency=adjacency, bounds={"*": (-1, 1)}, n_clusters=2, random_state=spy
        ).fit(X)
        boxes = spy.releases[counted:-1]
        levels = len(boxes)
        for values, added in boxes:
            assert values.sum() % len(X) == 0  # each level counts everybody once
            noise.extend(added / (values.sum() // len(X)))
    assert levels > 3
    share = rest(adjacency) / 2
    if delta:
        moved = math.sqrt(2) if replace else 1.0
        assert_scale(noise, gaussian_cdf, moved * ratio_for(0.3, DELTA) * math.sqrt(levels / share))
    else:
        assert_scale(noise, laplace_cdf, (2 if replace else 1) * levels / (0.3 * share))

    weight = math.sqrt(WIDTH) / 2 if delta else 1.0
    epsilon = EPSILON * 20  # enough for clusters of 64 rows
    noise = noise_of(
        "KMeans",
        adjacency,
        release=-1,
        step=lambda values: 64 * weight / (values[0] + values[WIDTH + 1]),
        repeats=80,
        epsilon=epsilon,
        delta=delta,
        n_clusters=2,
    )
    if delta:
        moved = 2 * math.sqrt(WIDTH) if replace else math.sqrt(1.25 * WIDTH)
        assert_scale(noise, gaussian_cdf, moved * ratio_for(epsilon, DELTA) / math.sqrt(share))
    else:
        assert_scale(noise, laplace_cdf, (2 if replace else 1) * (1 + WIDTH) / (epsilon * share))


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_noise_on_the_middle_that_k_means_buys_for_hopeless_clusters_has_the_derived_scale(adjacency, delta):
    """One row moves one count and one sum; the middle has all that the number of rows left."""
    replace, epsilon = adjacency == "replace-one", 0.5
    weight = math.sqrt(WIDTH) / 2 if delta else 1.0
    noise = noise_of(
        "KMeans",
        adjacency,
        release=-1,
        step=lambda values: 64 * weight / values[0],
        repeats=160,
        epsilon=epsilon,
        delta=delta,
        n_clusters=4,
    )
    if delta:
        moved = 2 * math.sqrt(WIDTH) if replace else math.sqrt(1.25 * WIDTH)
        assert_scale(noise, gaussian_cdf, moved * ratio_for(epsilon, DELTA) / math.sqrt(rest(adjacency)))
    else:
        assert_scale(noise, laplace_cdf, (2 if replace else 1) * (1 + WIDTH) / (epsilon * rest(adjacency)))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_noise_on_the_sums_of_a_scaler_has_the_derived_scale(adjacency, delta):
    """One release has it all: values, and their squares times a weight that makes them cost nothing beside."""
    X, noise = np.full((64, WIDTH), 0.5), []
    for seed in range(60):
        spy = Spy(seed)
        bounds = {"*": (-1.0, 1.0)}
        learning.StandardScaler(epsilon=EPSILON, delta=delta, adjacency=adjacency, bounds=bounds, random_state=spy).fit(
            X
        )
        values, added = spy.releases[-1]
        noise.extend(added * 32 / values[0])
    replace, share = adjacency == "replace-one", rest(adjacency)
    if delta:
        moved = 2 * math.sqrt(WIDTH) if replace else math.sqrt(WIDTH * (1 + 1.66**2))
        assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) / math.sqrt(share))
    else:
        assert_scale(noise, laplace_cdf, (2 if replace else 1.5) * WIDTH / (EPSILON * share))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_noise_on_the_products_of_components_has_the_derived_scale(adjacency):
    """Rows of which every column is half a unit from the middle: their spread is known, and so is the longest row."""
    rows, width, noise = 20_000, 5, []
    X = np.where(np.arange(rows) % 2, 0.5, -0.5)[:, None] * np.ones(width)
    for seed in range(300):
        spy = Spy(seed)
        learning.PCA(
            epsilon=EPSILON, delta=DELTA, adjacency=adjacency, bounds={"*": (-1.0, 1.0)}, random_state=spy
        ).fit(X)
        values, added = spy.releases[-1]
        noise.extend(added * rows / 4 / values[0])
    longest = 1.5**2 * width / 4
    moved = math.sqrt(2) * longest if adjacency == "replace-one" else longest
    share = 0.75 * rest(adjacency)
    assert_scale(noise, gaussian_cdf, moved * ratio_for(EPSILON, DELTA) / math.sqrt(share))
