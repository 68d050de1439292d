"""Keys that only the data knows: the threshold by exact odds, the odds that are drawn, both phases of a question."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.key_selection import KeySelection
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask
from thebes.tasks.query.found_keys import KEYS
from thebes.testing.statistics import assert_rate

PRICES = [(0.5, 1e-6), (1.0, 1e-6), (3.0, 1e-6), (0.1, 1e-9), (0.5, 0.05), (1e-3, 0.3)]
MANY = (1, 2, 5, 10, 100)


def tail(selection: KeySelection, people: int) -> float:
    """P(people + noise >= least), added up from the distribution that is drawn."""
    noise = selection.noise
    start = (selection.least - people) * noise.finer
    if noise.kind == "laplace":
        q = math.exp(-1 / noise.drawn_scale)
        return q**start / (1 + q) if start > 0 else 1 - q ** (1 - start) / (1 + q)
    beyond, below = half(noise.drawn_scale), 0.0
    if start <= 0:
        below, start = 1.0 + beyond[:-start].sum(), 1
    return float((below + beyond[start - 1 :].sum()) / (1 + 2 * beyond.sum()))


@functools.lru_cache(maxsize=1)
def half(scale: float) -> np.ndarray:
    """The weights of 1, 2, ... by discrete Gaussian noise, where that of 0 is 1; past twelve scales they are below
    1e-31."""
    steps = np.arange(1, int(12 * scale) + 2, dtype=np.float64)
    return np.asarray(np.exp(-(steps**2) / (2 * scale**2)))


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
@pytest.mark.parametrize("keys", MANY)
def test_a_key_of_one_person_is_said_within_delta_and_the_threshold_is_the_least_such(
    epsilon: float, delta: float, keys: int
) -> None:
    selection = KeySelection.calibrated(epsilon=epsilon, delta=delta, keys=keys)
    laplace = selection.noise.kind == "laplace"
    for_own = delta if laplace else delta / 2
    assert 1 - (1 - tail(selection, 1)) ** keys <= for_own * (1 + 1e-12)
    assert tail(selection, 1) <= selection.odds() * (1 + 1e-9) <= tail(selection, 1) * 1.01
    if selection.least > 2:
        assert 1 - (1 - tail(selection, 2)) ** keys > for_own * (0.5 if laplace else 0.9)
        assert keys * tail(selection, 2) > for_own * 0.99
    assert selection.noise.scale >= (keys / epsilon if laplace else math.sqrt(keys) * selection.noise.event.ratio)


def test_thresholds_are_those_that_were_reckoned_beforehand() -> None:
    found = {
        keys: [KeySelection.calibrated(epsilon=e, delta=1e-6, keys=keys).least for e in (0.5, 1, 3)]
        for keys in (1, 2, 5, 10)
    }
    assert found == {1: [28, 15, 6], 2: [57, 30, 11], 5: [99, 52, 20], 10: [142, 75, 28]}


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_whatever_is_said_stays_within_epsilon_and_delta_of_a_world_without_the_person(keys: int) -> None:
    """Exact odds of every set of keys that is said, with j shared and i own keys, both ways."""
    epsilon, delta = 1.0, 0.02
    selection = KeySelection.calibrated(epsilon=epsilon, delta=delta, keys=keys)
    for own in range(keys + 1):
        for count in (1, selection.least - 1, selection.least):
            with_, without = [1] * own + [count + 1] * (keys - own), [0] * own + [count] * (keys - own)
            one, other = outcomes(selection, with_), outcomes(selection, without)
            for p, q in ((one, other), (other, one)):
                assert sum(max(0.0, p[s] - math.exp(epsilon) * q[s]) for s in p) <= delta * (1 + 1e-9)


def outcomes(selection: KeySelection, people: list[int]) -> dict[tuple[bool, ...], float]:
    odds = [tail(selection, count) if count else 0.0 for count in people]  # what nobody has is never said
    return {
        said: math.prod(p if one else 1 - p for p, one in zip(odds, said, strict=True))
        for said in product((False, True), repeat=len(odds))
    }


@pytest.mark.parametrize("keys", [1, 10])
def test_keys_are_said_as_often_as_noise_of_the_scale_that_is_paid_for_says_them(keys: int) -> None:
    """30 % less or more noise at the same threshold is rejected."""
    selection = KeySelection.calibrated(epsilon=0.5, delta=1e-3, keys=keys)
    near = max(1, selection.least - round(2 * selection.noise.scale))
    trials = 60_000
    said = selection.said(np.full(trials, near, dtype=np.int64), system())

    def rate(epsilon: float) -> float:
        scale = selection.noise.scale * 0.5 / epsilon
        far = selection.least - near
        if selection.noise.kind == "laplace":
            return math.exp(-far / scale) / (1 + math.exp(-1 / scale))
        from scipy.stats import norm

        return float(norm.sf(far - 0.5 / selection.noise.finer, scale=scale))

    assert_rate(int(said.sum()), trials, rate, 0.5)


SCHEMA: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 4,
    "columns": {
        "who": {"type": "string", "key": True},
        "drug": {"type": "string"},
        "sex": {"type": "string", "values": ["f", "m"]},
        "dose": {"type": "float", "low": 0, "high": 10},
    },
}
DOCUMENT: dict[str, Any] = {
    "type": "query",
    "dataset": "d",
    "statistic": "count",
    "by": "drug",
    "epsilon": 2.0,
    "delta": 1e-6,
    "max_groups_per_person": 2,
}


def rows(people: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": [f"{seed}.{n // 2}" for n in range(2 * people)],
            "drug": [f"d{min(n, 99)}" for n in draw.zipf(1.5, 2 * people)],
            "sex": draw.choice(["f", "m"], 2 * people),
            "dose": draw.random(2 * people) * 10,
        }
    )


def test_half_of_the_price_finds_and_half_answers() -> None:
    from thebes.data.engines.source import frame_table
    from thebes.data.schema import schema_of

    document = registry.check(DOCUMENT)
    owner, table = registry.site_owner(document), frame_table(schema_of(SCHEMA), rows(2000, 1))
    paid = []
    for phase, payload in ((0, {}), (1, {KEYS: ["d1", "d2"]})):
        claim = RecordedClaim()
        ask = Ask("any", f"phase-{phase}", phase, payload)
        given = owner.contribute(document, ask, table, claim, randomness=seeded_for_simulation(1))
        paid.append((claim.epsilon, claim.delta))
    assert paid[0] == (Decimal("1"), Decimal("5e-7"))
    assert paid[1] == (Decimal("1"), Decimal("0"))  # by Laplace noise
    assert given.fields["made_epsilon"][0] == 1.0
    assert Fraction(registry.site_kind(document).event(document, table.schema).epsilon) == 1


def test_over_sites_all_answer_about_what_any_has_found_and_the_bars_hold() -> None:
    sites = {"a": rows(3000, 1), "b": rows(1500, 2), "c": rows(1500, 3)}
    everybody = pd.concat(sites.values())
    truth = everybody.drug.value_counts()
    held = tries = 0
    for seed in range(25):
        release = thebes.simulate(DOCUMENT, sites, schema=SCHEMA, seed=seed)
        bar = release.interval(0.9)
        for place, key in enumerate(release.value):
            tries += 1
            held += bar.low[place] <= truth[key] <= bar.high[place]
    assert release.threshold == 31  # of delta 5e-7
    assert next(iter(release.value)) == "d1"
    assert truth["d1"] > 1000
    assert tries > 100
    from scipy.stats import binom

    assert held >= binom.ppf(1e-6, tries, 0.9)


def test_a_person_with_very_many_keys_counts_with_few_and_alike_on_every_engine(tmp_path: Any) -> None:
    from thebes.data.engines.source import frame_table, table_of
    from thebes.data.schema import schema_of

    frame = pd.DataFrame(
        {"who": ["me"] * 50 + ["you"] * 2, "drug": [f"k{n}" for n in range(50)] + ["k1", "k1"], "sex": "f", "dose": 1.0}
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    schema = schema_of(SCHEMA)
    tables = [frame_table(schema, frame), table_of(schema, {"kind": "csv", "path": "rows.csv"}, folder=tmp_path)]
    for most in (1, 3, 60):
        found = [table.occurring("drug", most=most, longest=200) for table in tables]
        assert found[0] == found[1]
        assert sum(found[0].values()) == min(most, 50) + 1
    assert tables[0].occurring("drug", most=60, longest=2) == {f"k{n}": 1 + (n == 1) for n in range(10)}
    with pytest.raises(Mistake, match="does not hold texts"):
        tables[0].occurring("dose", most=1, longest=200)
    tables[1].close()


def test_an_unsayable_key_is_never_said_and_an_ask_or_answer_with_one_is_refused() -> None:
    from thebes.tasks.query import found_keys

    frame = pd.DataFrame(
        {"who": [str(n) for n in range(900)], "drug": ["a\nb", "x" * 201, "good"] * 300, "sex": "f", "dose": 1.0}
    )
    release = thebes.simulate(DOCUMENT, {"a": frame}, schema=SCHEMA, seed=1)
    assert list(release.value) == ["good"]
    for told in ('["a", "a"]', '["a\\nb"]', "[1]", "{}", "[", '["' + "x" * 201 + '"]'):
        with pytest.raises(Mistake):
            found_keys.read({KEYS: np.array([told])})
    for payload in ({}, {KEYS: []}, {KEYS: "a"}, {KEYS: ["\x00"]}):
        with pytest.raises(Mistake):
            found_keys.asked(payload)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"delta": 0.0}, "costs a delta"),
        ({"by": None}, "by"),
        ({"noise": "coordinator"}, "own noise"),
        ({"epsilon": 1e-6}, "half of it"),
        ({"by": "sex"}, "declares all of them"),
        ({"by": ["drug", "who"]}, "does not offer"),
        ({"by": ["dose"]}, "groups would be people"),
    ],
)
def test_what_cannot_be_found_is_refused_in_words(change: dict[str, Any], said: str) -> None:
    asked = {name: value for name, value in {**DOCUMENT, **change}.items() if value is not None}
    with pytest.raises(Mistake, match=said):
        thebes.simulate(asked, {"a": rows(200, 1)}, schema=SCHEMA, seed=1)
