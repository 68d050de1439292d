"""The noise of every kind, seen from outside through documents: the declared scale fits, 30 % more or less does not."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binomtest

import thebes
from thebes.data.rows import FAILURES, Rows
from thebes.privacy import randomness
from thebes.privacy.accounting import gaussian
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.privacy.mechanisms.mean import mean
from thebes.privacy.mechanisms.quantile import iqr, quantile
from thebes.privacy.mechanisms.sample_aggregate import sample_and_aggregate
from thebes.privacy.mechanisms.variance import std, variance
from thebes.privacy.promise import Unit
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.basic.statistics import count_of, histogram_of
from thebes.tasks.bounded.encoder import plan, vector
from thebes.tasks.document import FAILURE
from thebes.tasks.missing_values import EpsilonShares
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.trusted_columns import COUNT_SHARE
from thebes.testing.statistics import LEVEL, assert_rate, assert_scale, assert_size, gaussian_cdf, laplace_cdf

AGES = np.linspace(20.0, 80.0, 40)
LOW, HIGH = 0.0, 100.0


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def basic(aggregator: str, **more: object):
    document = {
        "type": "basic",
        "epsilon": 0.5,
        "featurizer": "SELECT age FROM p.t",
        "aggregator": aggregator,
        "bounds": {"age": {"type": "range", "low": LOW, "high": HIGH}},
        **more,
    }
    return registry.check(document)


def releases(document, count: int, table=None):
    people = people_of({"age": AGES} if table is None else table)
    return [thebes.simulate(document, people, seed=seed) for seed in range(count)]


# --- basic ------------------------------------------------------------------------------------------------

#: by statistic: the truth, and the distance that one person's replacement can move it
ADDITIVE = {
    "sum": (AGES.sum(), HIGH - LOW),
    "mean": (AGES.mean(), (HIGH - LOW) / len(AGES)),
}
EPSILON = 0.1  # small, so that whole numbers look continuous
COUNTED = 1 - COUNT_SHARE  #: of epsilon is the answer's, where missing values are counted beside it: of a sum


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", ADDITIVE)
def test_laplace_noise_of_a_statistic_has_its_scale(aggregator) -> None:
    truth, sensitivity = ADDITIVE[aggregator]
    if aggregator == "mean":  # many people, so that the mean does not reach the ends of its range
        ages = np.tile(AGES, 100)
        noise = [r.value - ages.mean() for r in releases(basic(aggregator, epsilon=EPSILON), 1700, {"age": ages})]
        sensitivity /= 100
    else:
        noise = [r.value - truth for r in releases(basic(aggregator, epsilon=EPSILON), 1700)]
        sensitivity /= COUNTED
    assert_size(noise, "laplace", sensitivity / EPSILON)


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", ["sum", "mean"])
def test_gaussian_noise_of_a_statistic_has_its_scale(aggregator) -> None:
    # delta so large that Gaussian noise is the smaller one
    document = basic(aggregator, delta=0.1)
    ages = np.tile(AGES, 100)
    found = releases(document, 1200, {"age": ages})
    assert all("gaussian" in r.certificate.mechanism and r.certificate.delta == 0.1 for r in found)
    truth, sensitivity = (ages.sum(), 100.0) if aggregator == "sum" else (ages.mean(), 100.0 / len(ages))
    epsilon = 0.5 * (COUNTED if aggregator == "sum" else 1)
    assert_size([r.value - truth for r in found], "gaussian", gaussian.ratio_for(epsilon, 0.1) * sensitivity)


def test_a_histogram_replaces_one_person_in_two_bins() -> None:
    document = basic("histogram", epsilon=EPSILON, bins=1000)
    counts = np.bincount((AGES / HIGH * 1000).astype(int), minlength=1000)
    noise = np.concatenate([np.array(list(r.value.values())) - counts for r in releases(document, 8)])
    assert_scale(noise, lambda s: laplace_cdf(s), 2 / EPSILON)


YES_OR_NO = {"featurizer": "SELECT said FROM p.t", "bounds": {"said": {"type": "set", "values": ["no", "yes"]}}}
SAID = np.repeat([np.nan, 1.0, 0.0], [5, 20, 75])  #: the places of what they said among the values
NOBODY = np.isnan(SAID)


def answers(document, take, *given, count: int = 8000):
    """Answer columns as the aggregator does, with the share of epsilon that it gives the answer."""
    source, epsilon = randomness.seeded_for_simulation(3), EpsilonShares.of(document).answer
    return [take(document, *given, epsilon, source) for _ in range(count)]


@pytest.mark.slow
def test_of_two_counts_that_add_up_to_everybody_one_is_noised() -> None:
    bounds = {"said": {**YES_OR_NO["bounds"]["said"], "default": "no"}}
    document = basic("histogram", epsilon=EPSILON / 4, **{**YES_OR_NO, "bounds": bounds})
    found = answers(document, histogram_of, np.nan_to_num(SAID), ~NOBODY & NOBODY)
    counts = np.array([list(answer.value.values()) for answer in found])
    assert (counts.sum(axis=1) == len(SAID)).all()
    assert_scale(counts[:, 1] - 20, laplace_cdf, 4 / EPSILON)
    for answer in found[:10]:
        bar = answer.intervals[0.95]
        assert (bar.high - bar.low == bar.high[0] - bar.low[0]).all()


@pytest.mark.slow
def test_missing_values_are_a_cell_of_a_histogram_and_cost_nothing() -> None:
    document = basic("histogram", epsilon=EPSILON, missing="count", **YES_OR_NO)
    found = answers(document, histogram_of, SAID, NOBODY)
    told = np.array([[*answer.value.values(), answer.missing["value"]] for answer in found])
    for place, truth in enumerate((75, 20, 5)):
        assert_scale(told[:, place] - truth, laplace_cdf, 2 / EPSILON)
    ends = [answer.missing["interval"] for answer in found]
    inside = sum(bar["low"] <= 5 <= bar["high"] for bar in ends)
    assert binomtest(inside, len(found), 0.95, alternative="less").pvalue > LEVEL


@pytest.mark.slow
def test_a_count_says_how_many_have_no_value_for_the_same_price() -> None:
    document = basic("count", epsilon=EPSILON / 4, missing="count", **YES_OR_NO)
    found = answers(document, count_of, NOBODY)
    assert_scale(np.array([answer.value for answer in found]) - 95, laplace_cdf, 4 / EPSILON)
    for answer in found[:50]:
        without, bar = answer.missing, answer.intervals[0.95]
        assert without["value"] == len(SAID) - answer.value
        assert (without["interval"]["low"], without["interval"]["high"]) == (len(SAID) - bar.high, len(SAID) - bar.low)


def test_system_entropy_gives_the_same_scale_as_a_seed() -> None:
    document, people = basic("histogram", epsilon=EPSILON, bins=1000), people_of({"age": AGES})
    counts = np.bincount((AGES / HIGH * 1000).astype(int), minlength=1000)
    found = [thebes.simulate(document, people) for _ in range(8)]
    assert_scale(np.concatenate([np.array(list(r.value.values())) - counts for r in found]), laplace_cdf, 2 / EPSILON)
    assert found[0].value != found[1].value


COMMON = {"bounds": (LOW, HIGH), "adjacency": "replace-one"}
ORDERED = {**COMMON, "n": len(AGES), "bits": 12, "level": 0.95}
EXACTLY = {
    "mean": lambda e, s: mean(AGES, **COMMON, epsilon=e, n=len(AGES), randomness=s),
    "variance": lambda e, s: variance(AGES, **COMMON, epsilon=e, n=len(AGES), randomness=s),
    "std": lambda e, s: std(AGES, **COMMON, epsilon=e, n=len(AGES), randomness=s),
    "median": lambda e, s: quantile(AGES, **ORDERED, alpha=0.5, epsilon=e, randomness=s),
    "quantile": lambda e, s: quantile(AGES, **ORDERED, alpha=0.9, epsilon=e, randomness=s),
    "iqr": lambda e, s: iqr(AGES, **ORDERED, epsilon=e, randomness=s),
    "mad": lambda e, s: sample_and_aggregate(
        AGES, function="mad", blocks=6, bounds=(0, 50), epsilon=e, adjacency="replace-one", randomness=s, level=0.95
    ),
}


@pytest.mark.parametrize("aggregator", EXACTLY)
def test_a_statistic_is_its_mechanism_with_the_whole_epsilon(aggregator) -> None:
    document = basic(aggregator, **({"quantile": 0.9} if aggregator == "quantile" else {}))
    for seed, release in enumerate(releases(document, 5)):
        source = randomness.seeded_for_simulation(seed)
        measured = EXACTLY[aggregator](Decimal("0.5"), source)
        assert release.value == measured.value
        assert (release.interval().low, release.interval().high) == (measured.interval().low, measured.interval().high)


@pytest.mark.parametrize("aggregator", ["std", "iqr"])
def test_a_spread_over_subsets_is_what_it_was(aggregator) -> None:
    (release,) = releases(basic(aggregator, subsets=6), 1)
    top = (HIGH - LOW) / (2 if aggregator == "std" else 1)
    measured = sample_and_aggregate(
        AGES, function=aggregator, blocks=6, bounds=(0, top), epsilon=Decimal("0.5"), adjacency="replace-one",
        randomness=randomness.seeded_for_simulation(0), level=0.95,
    )  # fmt: skip
    assert (release.value, release.certificate.mechanism) == (measured.value, "sample and aggregate")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "truth", "tight"),
    [
        (basic("sum"), AGES.sum(), True),
        (basic("mean", epsilon=2), AGES.mean(), True),
        (basic("sum", delta=0.1), AGES.sum(), True),
        (basic("median", epsilon=2), float(np.median(AGES)), False),
        (basic("quantile", epsilon=2, quantile=0.25), float(np.quantile(AGES, 0.25)), False),
        (basic("variance", epsilon=2), float(np.var(AGES)), False),
        (basic("count", epsilon=2, missing="count"), 40.0, True),
        (basic("sum", epsilon=2, diagnostics=0.2), AGES.sum(), True),
    ],
    ids=lambda v: f"{v.aggregator}-{v.missing}-{v.delta}" if hasattr(v, "aggregator") else "",
)
def test_intervals_hold_the_truth_as_often_as_they_say(document, truth, tight) -> None:
    found = releases(document, 250 if document.aggregator == "variance" else 500)
    for level in (0.5, 0.95):
        inside = sum(r.interval(level).low <= truth <= r.interval(level).high for r in found)
        assert binomtest(inside, len(found), level, alternative="less").pvalue > LEVEL
    if tight:
        half = sum(abs(r.value - truth) <= (r.interval(0.95).high - r.interval(0.95).low) / 4 for r in found)
        assert binomtest(half, len(found), 0.95, alternative="less").pvalue < LEVEL, "an interval is needlessly wide"


# --- bounded ----------------------------------------------------------------------------------------------

PETS = {
    "type": "bounded",
    "mechanism": "split",
    "epsilon": 2.0,
    "featurizer": "SELECT kind, age FROM p.t",
    "bounds": {
        "kind": {"type": "set", "values": ["cat", "dog", "eel"], "default": "dog"},
        "age": {"type": "range", "low": 0.0, "high": 20.0, "default": 5.0},
    },
}
N = 12_000
ONE_KIND = {"kind": np.array(["eel"] * N), "age": np.full(N, 7.0)}


def test_a_split_range_has_laplace_noise_for_its_share() -> None:
    rows = thebes.simulate(PETS, ONE_KIND, seed=1).rows
    assert_scale(rows["age"] - 7.0, laplace_cdf, 20 / 1.0)  # two columns share epsilon 2


def test_a_split_range_has_gaussian_noise_for_its_share() -> None:
    release = thebes.simulate({**PETS, "delta": 0.2}, ONE_KIND, seed=2)
    assert release.certificate.parameters["parts"]["age"]["mechanism"] == "local-gaussian"
    assert_scale(release.rows["age"] - 7.0, gaussian_cdf, 20 * gaussian.ratio_for(1.0, 0.1))


def test_a_split_set_is_told_truly_with_the_odds_of_its_share() -> None:
    rows = thebes.simulate(PETS, ONE_KIND, seed=3).rows
    assert_rate(int((rows["kind"] == "eel").sum()), N, lambda e: math.exp(e) / (math.exp(e) + 2), 1.0)
    assert set(rows["kind"]) == {"cat", "dog", "eel"}


def test_a_split_set_uses_the_delta_of_its_share() -> None:
    rows = thebes.simulate({**PETS, "delta": 0.2}, ONE_KIND, seed=4).rows
    hold = lambda e: (math.exp(e) + 0.1 * 2) / (math.exp(e) + 2)  # noqa: E731 - Tiresias, eq. 4.10
    assert_rate(int((rows["kind"] == "eel").sum()), N, hold, 1.0)


def test_whether_a_range_had_a_value_is_told_with_a_tenth_of_epsilon() -> None:
    bounds = {**PETS["bounds"], "age": {"type": "range", "low": 0.0, "high": 20.0}}
    document = {**PETS, "epsilon": 10.0, "bounds": bounds, "default_is_meant": True}
    rows = thebes.simulate(document, {"kind": ["cat"] * N, "age": np.full(N, np.nan)}, seed=5).rows
    assert_rate(int((~rows["age.present"]).sum()), N, lambda e: 1 / (1 + math.exp(-e)), 1.0)
    assert np.isfinite(rows["age"]).all()
    assert_scale(rows["age"] - 10.0, laplace_cdf, 20 / 4.5)


def test_the_class_of_a_failing_featurizer_is_told_with_its_share() -> None:
    document = registry.check({**PETS, "epsilon": 8.0, "diagnostics": 0.25})
    failures = np.full(N, 3, dtype=np.uint8)
    rows = Rows({"kind": np.full(N, None, dtype=object), "age": np.full(N, np.nan)}, np.arange(N), N, failures)
    given, _ = contributed(document, rows, seed=6)
    told = given.fields[FAILURE]
    assert_rate(int((told == 3).sum()), N, lambda e: math.exp(e) / (math.exp(e) + len(FAILURES)), 2.0)


@pytest.mark.parametrize("mechanism", ["split", "privunit", "auto"])
@pytest.mark.parametrize("extra", [{}, {"delta": 1e-3}, {"diagnostics": 0.3}])
def test_the_parts_of_a_row_never_cost_more_than_the_document(mechanism, extra) -> None:
    for defaults in (True, False):
        bounds = {c: {k: v for k, v in b.items() if defaults or k != "default"} for c, b in PETS["bounds"].items()}
        document = registry.check({**PETS, **extra, "epsilon": 1.1, "mechanism": mechanism, "bounds": bounds})
        spent = plan(document)
        assert spent.epsilon() <= Decimal("1.1")
        assert spent.epsilon() > Decimal("1.0999999999")  # and nothing is wasted
        assert spent.delta() <= Decimal(str(document.delta))
        certified = thebes.simulate(document, {"kind": ["cat"] * 20, "age": [1.0] * 20}, seed=0).certificate
        parts = certified.parameters["parts"]
        assert math.fsum(p["epsilon"] for p in parts.values()) <= 1.1 + 1e-12
        assert certified.epsilon == 1.1
        assert certified.delta == float(spent.delta())
        assert certified.guarantee == ("approximate" if spent.delta() else "pure")


def assert_direction(mechanism: PrivUnit, reports, own) -> None:
    """Reports lean toward their owner as far as this epsilon says, and not as far as one 30 % off."""
    unit = np.append(own, 0.0) / np.linalg.norm(own)
    along = mechanism.directions(reports) @ unit

    def distance(factor: float) -> float:
        other = PrivUnit(mechanism.dimension, mechanism.epsilon * Decimal(str(factor)), aim=mechanism.aim)
        return abs(along.mean() - other.m) / (math.sqrt(other.s - other.m**2) / math.sqrt(len(along)))

    assert distance(1.0) < 6.2  # p > 1e-9, two-sided
    assert distance(0.7) > 6.2
    assert distance(1.3) > 6.2


def test_a_whole_row_report_leans_toward_its_owner_as_far_as_epsilon_allows() -> None:
    bounds = {c: {"type": "range", "low": -1.0, "high": 1.0, "default": 0.0} for c in ("a", "b", "c")}
    document = {
        "type": "bounded",
        "epsilon": 3.0,
        "featurizer": "SELECT a, b, c FROM p.t",
        "bounds": bounds,
        "mechanism": "privunit",
    }
    own = np.array([1.0, -1.0, 1.0])  # as long as the public radius
    release = thebes.simulate(document, {c: np.full(N, v) for c, v in zip("abc", own, strict=True)}, seed=7)
    whole = plan(registry.check(document)).whole
    assert whole is not None
    assert whole.epsilon == 3
    assert_direction(whole, release.reports, own)


FAR_OUT = {"hours": (9.0, 10.0), "steps": (0.0, 100.0), "rooms": (0.0, 1.0)}  #: values that lie near a range's end


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["split", "privunit", "auto"])
def test_bars_hold_what_they_say_of_rows_at_the_ends_of_their_ranges(mechanism) -> None:
    """Each column and each share by itself, over 400 draws; a bar that holds 90 % of the time fails."""
    people, draws = 400, 400
    rng = np.random.default_rng(1)
    kinds = np.where(np.arange(people) < 380, "cat", "dog")
    table = {c: rng.uniform(*ends, people) for c, ends in FAR_OUT.items()}
    document = registry.check(
        {
            "type": "bounded",
            "epsilon": 4.0,
            "featurizer": "SELECT hours, steps, rooms, kind FROM p.t",
            "mechanism": mechanism,
            "bounds": {
                "hours": {"type": "range", "low": 0, "high": 10, "default": 5},
                "steps": {"type": "range", "low": 0, "high": 2000, "default": 0},
                "rooms": {"type": "range", "low": 0, "high": 20, "default": 0},
                "kind": {"type": "set", "values": ["cat", "dog"], "default": "cat"},
            },
        }
    )
    held: dict[str, int] = dict.fromkeys(document.gives, 0)
    for release in releases(document, draws, {**table, "kind": kinds}):
        for column in FAR_OUT:
            bar = release.mean(column)[1]
            held[column] += bar.low <= table[column].mean() <= bar.high
        ends = release.frequency_interval("kind")
        held["kind"] += ends.low[0] <= 0.95 <= ends.high[0]
    for column, count in held.items():
        assert count / draws > 0.915, (column, count)


def wide(ranges: int, sets: int, **more: object):
    """Rows of so many ranges and sets of three values, and what they hold as vectors."""
    rng, people = np.random.default_rng(2), 500
    table = {f"x{i}": np.clip(rng.normal(0, 0.45, people), -1, 1) for i in range(ranges)}
    table |= {f"g{i}": np.array(["a", "b", "c"])[rng.integers(0, 3, people)] for i in range(sets)}
    bounds = {f"x{i}": {"type": "range", "low": -1, "high": 1, "default": 0} for i in range(ranges)}
    bounds |= {f"g{i}": {"type": "set", "values": ["a", "b", "c"], "default": "a"} for i in range(sets)}
    document = registry.check(
        {"type": "bounded", "featurizer": f"SELECT {', '.join(bounds)} FROM p.t", "bounds": bounds, **more}
    )
    own = {c: values if c[0] == "x" else np.searchsorted(["a", "b", "c"], values) for c, values in table.items()}
    return document, table, vector(document, own)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("ranges", "sets", "epsilon"),
    [(1, 0, 2), (1, 0, 8), (2, 0, 8), (3, 0, 1), (8, 0, 4), (0, 1, 1), (0, 2, 8), (0, 3, 2), (1, 2, 0.5), (2, 1, 8)],
)
def test_auto_takes_what_errs_less_in_the_second_moment(ranges, sets, epsilon) -> None:
    errors = {}
    for mechanism in ("split", "privunit"):
        document, table, vectors = wide(ranges, sets, epsilon=epsilon, mechanism=mechanism)
        true = vectors.T @ vectors / len(vectors)
        found = [release.moments.second for release in releases(document, 40, table)]
        errors[mechanism] = len(vectors) * float(np.mean([(second - true) ** 2 for second in found]))
        whole = plan(document).whole
        if whole is not None:  # what it is chosen by is what it errs
            expected = whole.second_moment_error(float(np.mean(np.sum(vectors**2, axis=1))))
            assert errors[mechanism] == pytest.approx(expected, rel=0.5)
    taken = plan(wide(ranges, sets, epsilon=epsilon, mechanism="auto")[0]).mechanism
    assert errors[taken] <= 1.1 * min(errors.values())


# --- gradient ---------------------------------------------------------------------------------------------


def linear(columns: int, **more: object):
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(columns, 1), torch.nn.MSELoss())
    names = [f"x{i}" for i in range(columns)]
    return registry.check(
        {
            "type": "gradient",
            "epsilon": 3.0,
            "featurizer": f"SELECT {', '.join(names)}, y FROM p.t",
            "inputs": names,
            "outputs": ["y"],
            "model": model,
            "loss": loss,
            "clip": 0.5,
            **more,
        }
    )


def contributed(document, rows: Rows, seed: int):
    source = randomness.seeded_for_simulation(seed)
    aggregator = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=source, simulated=True))
    aggregator.expect(rows.people)
    ask, claim = aggregator.ask("s"), RecordedClaim()
    assert isinstance(ask, Ask)
    given = registry.owner(document, simulated=True).contribute(document, ask, rows, claim, randomness=source)
    aggregator.accept(given)
    return given, claim


SAME = {"x0": np.full(N, 3.0), "x1": np.full(N, -4.0), "y": np.full(N, 1000.0)}  # its gradient is longer than clip


def _own_gradient() -> np.ndarray:
    length = math.sqrt(3.0**2 + 4.0**2 + 1)
    return -np.array([3.0, -4.0, 1.0]) / length  # (weights, bias) against a target far above


def test_a_gradient_has_gaussian_noise_for_two_clipped_gradients() -> None:
    document = linear(2, delta=1e-3, mechanism="gaussian")
    given, claim = contributed(document, Rows.one_each(SAME), seed=8)
    noise = np.asarray(given.fields["report"])[:4000] * 0.5 - 0.5 * _own_gradient()
    assert_scale(noise.ravel(), gaussian_cdf, gaussian.ratio_for(3.0, 1e-3) * 2 * 0.5)
    assert (claim.epsilon, claim.delta) == (Decimal("3.0"), Decimal("0.001"))


def test_rounds_and_diagnostics_share_the_epsilon_of_a_gradient() -> None:
    shared = {"epsilon": 12.0, "rounds": 4, "rounds_per_owner": 2, "diagnostics": 0.2}
    document = linear(2, delta=1e-3, mechanism="gaussian", **shared)
    given, claim = contributed(document, Rows.one_each(SAME), seed=9)
    noise = np.asarray(given.fields["report"])[:4000] * 0.5 - 0.5 * _own_gradient()
    assert_scale(noise.ravel(), gaussian_cdf, gaussian.ratio_for(4.8, 5e-4) * 2 * 0.5)
    assert_rate(int((given.fields[FAILURE] == 0).sum()), N, lambda e: math.exp(e) / (math.exp(e) + len(FAILURES)), 1.2)
    assert claim.epsilon * 2 <= 12


def test_a_gradient_report_leans_toward_its_owners_gradient_as_far_as_epsilon_allows() -> None:
    document = linear(2)
    given, _ = contributed(document, Rows.one_each(SAME), seed=10)
    assert_direction(PrivUnit(3, Decimal(3), radius=0.5), given.fields["report"], _own_gradient())


def test_the_released_gradient_is_the_mean_of_the_clipped_ones_up_to_that_noise() -> None:
    for more in ({"mechanism": "privunit"}, {"mechanism": "gaussian", "delta": 1e-3}):
        document = linear(2, epsilon=8.0, **more)
        release = thebes.simulate(document, SAME, seed=11)
        error = math.sqrt(
            PrivUnit(3, Decimal(8), radius=0.5).expected_error(N)
            if more["mechanism"] == "privunit"
            else 3 * (gaussian.ratio_for(8.0, 1e-3)) ** 2 / N
        )
        assert np.linalg.norm(release.gradient - 0.5 * _own_gradient()) < 5 * error


# --- diagnostics and missing values through the same door -------------------------------------------------


def _rows_with_failures(columns: dict, failing: dict[int, int]) -> Rows:
    size = len(next(iter(columns.values())))
    failures = np.zeros(size, dtype=np.uint8)
    for person, kind in failing.items():
        failures[person] = kind
    return Rows({k: np.asarray(v, dtype=object) for k, v in columns.items()}, np.arange(size), size, failures)


@pytest.mark.parametrize("kind", ["basic", "bounded", "gradient"])
def test_diagnostics_count_failures_by_class_for_trusted_and_local_kinds(kind) -> None:
    n, failing = 3000, {i: 1 + FAILURES.index("wrong type") for i in range(1200)}
    document = {
        "basic": lambda: basic("mean", epsilon=20, diagnostics=0.5),
        "bounded": lambda: registry.check({**PETS, "epsilon": 20.0, "diagnostics": 0.5}),
        "gradient": lambda: linear(2, epsilon=20.0, diagnostics=0.5),
    }[kind]()
    columns = {c: [None] * n for c in document.gives}
    rows = _rows_with_failures(columns, failing)
    source = randomness.seeded_for_simulation(1)
    aggregator = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=source, simulated=True))
    owner = registry.owner(document, simulated=True)
    able = np.flatnonzero(owner.able(document, rows))
    aggregator.expect(len(able))
    given = owner.contribute(document, aggregator.ask("s"), rows.select(able), RecordedClaim(), randomness=source)
    aggregator.accept(given)
    import datetime

    aggregator.advance(datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC))
    counts = aggregator.release().extra["diagnostics"]
    assert set(counts) == {"worked", *FAILURES}
    assert counts["wrong type"] == pytest.approx(1200, abs=60)
    # who has no value and no failure is told so by a trusted kind, and sends nothing; elsewhere nothing of it counted
    assert counts["no usable value"] == pytest.approx(0 if kind == "basic" else 1800, abs=60)
    assert counts["worked"] == pytest.approx(0, abs=60)
    assert "featurizers: " in str(aggregator.release())
