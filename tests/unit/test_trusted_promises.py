"""Promises of trusted tasks hold at the edges: for people without a value, odd labels, and whoever reads a model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Aggregator, Setting
from thebes.testing.transcripts import Transcript

PEOPLE = 40
X = {"x": {"type": "range", "low": 0.0, "high": 10.0}}


def aggregator(document: dict[str, Any], *, seed: int | None = None, simulated: bool = True) -> Aggregator:
    source = randomness.system() if seed is None else randomness.seeded_for_simulation(seed)
    checked = registry.check({"featurizer": "SELECT x AS x FROM t.a", "min_count": PEOPLE, "epsilon": 2.0, **document})
    return registry.aggregator(checked, Setting(unit=Unit.DEVICE, randomness=source, simulated=simulated))


def released(document: dict[str, Any], columns: dict[str, Any], **setting: Any) -> Any:
    made = aggregator(document, **setting)
    made.accept(Contributions(made.part, PEOPLE, {name: np.asarray(values) for name, values in columns.items()}))
    made.advance(datetime(2030, 1, 1, tzinfo=UTC))
    return made.release()


def model(labels: list[Any] | None, **more: Any) -> dict[str, Any]:
    bounds: dict[str, Any] = dict(X)
    if labels is not None:
        bounds["y"] = {"type": "set", "values": labels}
    own = {"type": "integrated", "model": "GaussianNB", "inputs": ["x"], "output": "y", "bounds": bounds}
    return {**own, "featurizer": "SELECT x AS x, y AS y FROM t.a", **more}


@pytest.mark.parametrize("labels", [[0.0, 0.5], [1, 2.5], [1, "a"], ["a", "b", "c"], [True, False]])
@pytest.mark.parametrize("present", [0, 1, PEOPLE])
def test_whether_a_model_is_made_never_depends_on_who_has_which_label(labels: list[Any], present: int) -> None:
    x = np.where(np.arange(PEOPLE) < present, 5.0, np.nan)
    for seen in range(2):
        y = np.where(np.isnan(x), np.nan, seen * (np.arange(PEOPLE) % 2))
        found = released(model(labels, missing="count"), {"x": x, "y": y})
        assert found.value is not None
        assert len(found.model.predict(np.array([[5.0]]))) == 1


@pytest.mark.parametrize("name", ["GaussianNB", "RandomForestClassifier"])
@pytest.mark.parametrize("absent", [0, 1, 30])
def test_a_model_of_people_who_may_be_absent_spends_the_whole_epsilon(name: str, absent: int) -> None:
    """Its noise is that of a model of as many people who are all there, but for the share that counts who is not."""
    x, y = np.full(PEOPLE, 5.0), np.arange(PEOPLE) % 2.0
    scales = []
    for missing, epsilon, there in (
        ("refuse", 2.0, x),
        ("count", 2.0 / 0.95, np.where(np.arange(40) < absent, None, x)),
    ):
        said = Transcript()
        setting = Setting(unit=Unit.DEVICE, randomness=said, simulated=True)
        checked = registry.check(
            {**model([0, 1], model=name, missing=missing), "epsilon": epsilon, "min_count": PEOPLE}
        )
        made = registry.aggregator(checked, setting)
        given = {"x": there.astype(float), "y": y}
        made.accept(Contributions(made.part, PEOPLE, given))
        made.advance(datetime(2030, 1, 1, tzinfo=UTC))
        assert made.release().value is not None
        scales.append([noise.scale for noise in said.noises])
    assert scales[1][1:] == pytest.approx(scales[0], rel=1e-6)


@pytest.mark.parametrize("labels", [[0, 1], None])
def test_people_without_a_value_do_not_pull_a_model_toward_the_middle(labels: list[Any] | None) -> None:
    many = 4000
    x, y = np.where(np.arange(many) % 2, 9.0, 7.0), np.arange(many) % 2.0
    x[: many // 2] = np.nan
    body = model(labels, model="LogisticRegression", missing="count", epsilon=9.0, delta=1e-5)
    made = aggregator({**body, "min_count": many}, seed=3)
    made.accept(Contributions(made.part, many, {"x": x, "y": y}))
    made.advance(datetime(2030, 1, 1, tzinfo=UTC))
    fitted = made.release().model
    assert 5 + 5 * float(fitted.centre_[0]) == pytest.approx(8, abs=0.2)
    assert fitted.predict(np.array([[6.9], [9.1]])).tolist() == [0, 1]


def test_a_model_carries_the_certificate_of_the_whole_task_and_no_other() -> None:
    x, y = np.full(PEOPLE, 5.0), np.arange(PEOPLE) % 2
    found = released(model([0, 1], missing="count"), {"x": x, "y": y})
    assert found.value["certificate"] == found.certificate.as_json()
    inside = found.model.certificate_
    assert (inside.epsilon, str(inside.adjacency), str(inside.unit)) == (2.0, "replace-one", "device")


def test_null_is_refused_where_the_number_of_values_counts_as_public() -> None:
    values = np.full(PEOPLE, 5.0)
    values[3] = np.nan
    document = {"type": "basic", "aggregator": "mean", "bounds": X}
    with pytest.raises(Mistake, match="must be a number"):
        released(document, {"x": values})
    with pytest.raises(Mistake, match="must be a number"):
        released(model([0, 1]), {"x": np.full(PEOPLE, 5.0), "y": np.where(values > 0, 1.0, np.nan)})
    assert released({**document, "missing": "count"}, {"x": values}).value is not None


def test_repeatable_noise_is_called_simulated_whatever_the_setting_says() -> None:
    columns = {"x": np.full(PEOPLE, 5.0)}
    document = {"type": "basic", "aggregator": "mean", "bounds": X}
    assert released(document, columns, seed=1, simulated=False).certificate.simulated
    assert not released(document, columns, simulated=False).certificate.simulated
    unseen = released(model(None), {**columns, "y": np.full(PEOPLE, 3.0)}, seed=1, simulated=False)
    assert unseen.value is None
    assert unseen.certificate.simulated


def test_a_person_is_told_of_everything_that_is_released_beside_the_answer() -> None:
    kind = registry.kind("basic")
    document = {
        "type": "basic",
        "aggregator": "mean",
        "bounds": X,
        "featurizer": "SELECT x AS x FROM t.a",
        "epsilon": 1,
    }
    plain = kind.explain(registry.check(document))
    full = kind.explain(registry.check({**document, "missing": "count", "diagnostics": 0.1}))
    assert "Released too" not in plain
    assert "how many people have no value" in full
    assert "on how many machines this query fails" in full


@pytest.mark.parametrize(("epsilon", "told"), [(1.0, "73.2 %"), (0.001, "50.1 %"), (0.1, "52.5 %"), (20.0, "almost")])
def test_the_best_guess_that_a_person_is_told_of_is_rounded_up(epsilon: float, told: str) -> None:
    document = {"type": "basic", "aggregator": "mean", "bounds": X, "featurizer": "SELECT x AS x FROM t.a"}
    assert told in registry.kind("basic").explain(registry.check({**document, "epsilon": epsilon}))
