"""Every answer says of what its interval is, or why it has none, in print, JSON and notebooks."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import thebes
from thebes.tasks import registry
from thebes.tasks.release import OF_EACH, OF_MODEL, OF_WHAT
from thebes.tasks.release_reader import release_from_json

AGE = np.random.default_rng(0).integers(18, 90, 300).astype(float)


def asked(aggregator: str, **more: object) -> dict:
    bounds = {"age": {"type": "range", "low": 0, "high": 120}}
    fields = {"type": "basic", "epsilon": 4, "min_count": 11, "featurizer": "SELECT age FROM p.t", "bounds": bounds}
    return {**fields, "aggregator": aggregator, **more}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (asked("mean"), OF_WHAT),
        (asked("histogram", bins=4), OF_EACH),
        (asked("mad"), "the mad of everybody may lie outside it"),
        (asked("std", subsets=20), "the std of everybody may lie outside it"),
        (asked("iqr", bounds=None, epsilon=60), "No interval: the range of"),
    ],
)
def test_a_statistic_says_of_what_its_interval_is(document, said) -> None:
    release = thebes.simulate(document, {"age": AGE}, seed=1)
    assert said in release.interval_note
    assert said in str(release)
    back = release_from_json(json.loads(json.dumps(release.as_json())))
    assert back.interval_note == release.interval_note
    assert (release.as_json()["interval"] is None) is said.startswith("No interval")


@pytest.mark.parametrize("type_", registry.types())
def test_an_answer_of_any_kind_without_an_interval_says_why(type_) -> None:
    sample = registry.samples(type_)[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if type_ in registry.site_types():
            release = thebes.simulate(sample.document, sample.sites, schema=sample.schema, seed=1)
        else:
            release = thebes.simulate(sample.document, sample.people, seed=1)
    body = release.as_json()
    if body["interval"] is None and release.answered:
        assert body["interval_note"].startswith("No interval")
        assert body["interval_note"] in str(release)
    else:
        assert release.interval_note


def test_a_model_points_to_what_it_is_worth() -> None:
    assert "quality" in OF_MODEL
