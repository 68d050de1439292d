"""Rehearsals with made-up people: what they say, what they refuse, and what the parent never loads."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from tests.support.coordinator import AGES, PETS
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.simulation.rehearsal import rehearsed as in_this_process
from thebes.tasks import registry
from thebes.tasks.pipeline.rehearsal import PipelineRehearsal
from thebes.tasks.pipeline.samples import GROWING
from thebes.tasks.rehearsal import ERROR, FOUND, MOST_PEERS, RIGHT, Rehearsal
from thebes.tasks.samples import NETWORK
from thebes.web.coordinator import rehearsal
from thebes.wire.refusals import Busy


def rehearsed(**changed: Any) -> dict[str, Any]:
    document: Any = registry.check({**AGES, **changed})
    return rehearsal.rehearse(document)


@pytest.mark.slow
def test_the_expected_error_is_that_of_the_noise() -> None:
    """A count over n people has integer noise of a known law: 95 of 100 lie within ln(20)/epsilon or one more."""
    told = rehearsed(aggregator="count", missing="count", epsilon=0.1, min_count=500)
    assert (told["people"], told["repeats"], told["unanswered"]) == (500, 100, 0)
    assert [quantity["what"] for quantity in told["quantities"]] == ["the answer"]
    assert 15 <= told["quantities"][0]["within"] <= 60  # 30; one hundred repeats miss this once in a million


@pytest.mark.slow
def test_more_people_and_more_epsilon_come_closer() -> None:
    far = rehearsed(aggregator="mean", min_count=50)["quantities"][0]["within"]
    assert rehearsed(aggregator="mean", min_count=5000)["quantities"][0]["within"] < far / 10
    assert rehearsed(aggregator="mean", min_count=50, epsilon=50.0)["quantities"][0]["within"] < far / 10


@pytest.mark.slow
def test_every_quantity_of_an_answer_has_its_own_error() -> None:
    bounds = {"species": PETS["bounds"]["species"], "age": {"type": "range", "low": 0, "high": 30, "default": 3}}
    document: Any = registry.check(
        {
            **PETS,
            "min_count": 400,
            "featurizer": "SELECT lower(species) AS species, age FROM profile.pets",
            "bounds": bounds,
        }
    )
    told = rehearsal.rehearse(document)
    within = {quantity["what"]: quantity["within"] for quantity in told["quantities"]}
    assert set(within) == {"each value's share of species", "the mean of age"}
    assert 0 < within["each value's share of species"] < 1
    assert 0 < within["the mean of age"] < 30


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bounds": {}}, "declare bounds of 'age'"),
        ({"aggregator": "median", "bounds": {}}, "declare bounds of 'age'"),
    ],
)
def test_what_made_up_people_say_nothing_about_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(rehearsal.NotRehearsed, match=words):
        rehearsed(**changed)


def test_a_kind_that_says_nothing_of_rehearsals_needs_bounds_for_columns_that_its_sample_lacks() -> None:
    plain: Rehearsal[Any] = Rehearsal(registry.samples("basic")[0])
    assert plain.refused(registry.check({**AGES, "bounds": None})) == ""
    two = {
        **AGES,
        "aggregator": "correlation",
        "featurizer": "SELECT age, age AS b FROM profile.pets",
        "missing": "count",
        "bounds": None,
    }
    assert "declare bounds of 'age'" in plain.refused(registry.check(two))


def test_one_rehearsal_at_a_time() -> None:
    with rehearsal._one_at_a_time, pytest.raises(Busy):
        rehearsed()


def test_a_rehearsal_that_takes_too_long_is_ended_and_another_one_can_begin() -> None:
    begun = time.monotonic()
    for _ in range(2):
        with pytest.raises(rehearsal.NotRehearsed, match="came to no end"):
            rehearsal.rehearse(registry.check(AGES), seconds=0.2)  # type: ignore[arg-type]
    assert time.monotonic() - begun < 60


@pytest.mark.slow
def test_a_coordinator_with_its_pages_never_loads_an_owners_half_nor_a_simulation() -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tempfile import mkdtemp\n"
        "from tests.support.coordinator import AGES, Front\n"
        "from thebes.web.coordinator import rehearsal\n"
        "from thebes.tasks import registry\n"
        "with Front(Path(mkdtemp()) / 'home') as front:\n"
        "    task_id = front.post(AGES)\n"
        "    assert front.client.get(f'/task/{task_id}').status_code == 200\n"
        "    assert front.client.get('/ask').status_code == 200\n"
        "    rehearsal.rehearse(registry.check(AGES))\n"
        "print([n for n in sys.modules if n.startswith('thebes.simulation') or n.endswith('.owner')])\n"
    )
    heard = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert heard.stdout.strip() == "[]"


ENSEMBLE: dict[str, Any] = {
    "type": "ensemble",
    "epsilon": 4.0,
    "min_count": 2000,
    "partitions": 2,
    "featurizer": "SELECT age, sex, income FROM census.person",
    "label": "income",
    "bounds": {
        "age": {"type": "range", "low": 17, "high": 90},
        "sex": {"type": "set", "values": ["Female", "Male"]},
        "income": {"type": "set", "values": ["<=50K", ">50K"]},
    },
    "bins": {"age": [53.5]},
}


def classified(**changed: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a rehearsal of an ensemble says of the labels told right, and of how frequent they are."""
    document: Any = registry.check({**ENSEMBLE, **changed})
    told = rehearsal.rehearse(document, repeats=20)
    right, shares = told["quantities"]
    assert right["what"] == RIGHT
    assert shares["what"] == "each value's share of income"
    return right, shares


@pytest.mark.slow
def test_an_ensemble_is_rehearsed_with_people_whose_columns_go_with_the_label() -> None:
    """Half of them have a column that goes with their label, the others' is chance: one column tells 3 of 4 right."""
    right, shares = classified()
    assert right["exact"] == pytest.approx(0.75, abs=0.03)
    assert right["guessed"] == 0.5
    assert right["exact"] - 0.05 < right["least"] <= right["exact"] + 0.05  # so many votes and so much epsilon find it
    assert 0 < shares["within"] < 0.2
    assert right["least"] > classified(epsilon=0.1, min_count=100)[0]["least"]


@pytest.mark.slow
def test_a_rehearsal_counts_the_people_who_find_thresholds_too_and_takes_no_more_than_it_can() -> None:
    found: Any = registry.check({**ENSEMBLE, "bins": "median", "method": "odds", "min_count": 200})
    assert rehearsal.rehearse(found, repeats=3)["people"] == sum(map(found.least_in, range(found.phases))) > 200
    crowd: Any = registry.check({**ENSEMBLE, "method": "odds", "min_count": 10**6})
    assert rehearsal.rehearse(crowd, repeats=3)["people"] == MOST_PEERS


def test_what_adds_no_noise_has_nothing_to_rehearse() -> None:
    with pytest.raises(rehearsal.NotRehearsed, match="adds no noise"):
        classified(perturbation="none")


LASTING: dict[str, Any] = {
    "type": "draw-discard",
    "epsilon": 8.0,
    "min_count": 2000,
    "featurizer": ENSEMBLE["featurizer"],
    "family": "logistic",
    "inputs": ["age", "sex"],
    "output": "income",
    "bounds": ENSEMBLE["bounds"],
    "learning_rate": 0.1,
    "instances": 5,
}


def lasting(**changed: Any) -> dict[str, Any]:
    """Return what a rehearsal of a model that keeps learning says of the labels told right."""
    document: Any = registry.check({**LASTING, **changed})
    (right,) = rehearsal.rehearse(document, repeats=5)["quantities"]
    assert right["what"] == RIGHT
    return dict(right)


@pytest.mark.slow
def test_what_keeps_learning_is_rehearsed_against_the_same_without_noise() -> None:
    right = lasting()
    assert right["guessed"] == 0.5
    assert right["exact"] > 0.7  # a column that goes with the label for half of them tells 3 of 4
    assert 0.5 < right["least"] <= right["exact"] + 0.03
    assert right["least"] > lasting(epsilon=0.2)["least"]


@pytest.mark.slow
def test_what_keeps_learning_is_rehearsed_with_as_many_as_it_takes() -> None:
    weights = {name: value for name, value in LASTING.items() if name != "epsilon"}
    document: Any = registry.check({**weights, "mechanism": "laplace", "epsilon_per_weight": 3, "max_count": 2500})
    assert rehearsal.rehearse(document, repeats=3)["people"] == 2500


INTEGRATED: dict[str, Any] = {
    "type": "integrated",
    "epsilon": 4.0,
    "min_count": 1000,
    "featurizer": "SELECT age, hours, income FROM census.person",
    "model": "GaussianNB",
    "inputs": ["age", "hours"],
    "output": "income",
    "bounds": {
        "age": {"type": "range", "low": 17, "high": 90},
        "hours": {"type": "range", "low": 0, "high": 80},
        "income": {"type": "set", "values": ["<=50K", ">50K"]},
    },
}


def beside_guess(**changed: Any) -> dict[str, Any]:
    """Return what a rehearsal says of a model, which it says first."""
    document: Any = registry.check({**INTEGRATED, **changed})
    return dict(rehearsal.rehearse(document, repeats=10)["quantities"][0])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["GaussianNB", "LogisticRegression"])
def test_a_model_is_rehearsed_beside_a_guess(model: str) -> None:
    told = beside_guess(model=model, delta=1e-6)
    assert (told["what"], told["guessed"], told["poor"]) == (RIGHT, 0.5, False)
    assert told["exact"] > 0.7  # a column that goes with the label for half of them tells 3 of 4
    assert 0.6 < told["least"] <= told["exact"] + 0.03
    poor = beside_guess(model=model, delta=1e-6, epsilon=0.01, min_count=51)
    assert (poor["guessed"], poor["poor"]) == (0.5, True)
    assert poor["least"] <= 0.5


@pytest.mark.slow
def test_a_forest_is_rehearsed_beside_a_guess() -> None:
    told = beside_guess(model="RandomForestClassifier")
    assert (told["what"], told["guessed"], told["poor"]) == (RIGHT, 0.5, False)
    assert 0.65 < told["least"] <= told["exact"] + 0.03


@pytest.mark.slow
def test_a_number_that_is_told_is_rehearsed_beside_the_mean() -> None:
    changed = {"model": "LinearRegression", "delta": 1e-6, "output": "hours", "inputs": ["age"], "epsilon": 4.0}
    told = beside_guess(**changed, featurizer="SELECT age, hours FROM census.person", bounds={
        name: INTEGRATED["bounds"][name] for name in ("age", "hours")
    })  # fmt: skip
    assert (told["what"], told["poor"]) == (ERROR, False)
    assert told["guessed"] == pytest.approx(80**2 / 12, rel=0.1)
    assert told["exact"] == pytest.approx(0.75 * told["guessed"], rel=0.1)  # a correlation of a half
    assert told["exact"] <= told["most"] < told["guessed"]


@pytest.mark.slow
def test_a_number_that_is_learned_one_after_another_is_rehearsed_beside_the_mean() -> None:
    asked = {**LASTING, "family": "linear", "output": "age", "inputs": ["sex", "income"], "min_count": 300}
    (told,) = rehearsal.rehearse(registry.check(asked), repeats=3)["quantities"]  # type: ignore[arg-type]
    assert told["what"] == ERROR
    assert told["guessed"] == pytest.approx((90 - 17) ** 2 / 12, rel=0.1)


NETWORKED: dict[str, Any] = {
    "type": "gradient",
    "epsilon": 8.0,
    "delta": 1e-6,
    "min_count": 400,
    "featurizer": "SELECT x0, x1, z FROM profile.example",
    "inputs": ["x0", "x1"],
    "outputs": ["z"],
    "bounds": {name: {"type": "range", "low": 0.0, "high": 1.0} for name in ("x0", "x1", "z")},
    **NETWORK,
}


@pytest.mark.slow
def test_a_network_is_rehearsed_beside_the_mean() -> None:
    (told,) = rehearsal.rehearse(registry.check(NETWORKED), repeats=3)["quantities"]  # type: ignore[arg-type]
    assert told["what"] == ERROR
    assert told["guessed"] == pytest.approx(1 / 12, rel=0.1)
    assert told["exact"] <= told["most"]


def test_a_network_of_several_outputs_is_not_rehearsed() -> None:
    with pytest.raises(rehearsal.NotRehearsed, match="rows of your own"):
        rehearsal.rehearsable(registry.check(NETWORKED).model_copy(update={"inputs": ("x0",), "outputs": ("x1", "z")}))


OPEN: dict[str, Any] = {
    "type": "basic",
    "epsilon": 1.0,
    "delta": 1e-6,
    "min_count": 500,
    "featurizer": "SELECT city FROM profile.home",
    "aggregator": "histogram",
}


def test_values_that_nobody_declared_are_made_up_and_one_that_stays_unsaid_counts_as_none() -> None:
    """Of 500 made-up people 17 have each of the rarest two values, which at this price nobody learns of."""
    told = rehearsed_here(OPEN)
    assert (told["finds"], told["lent"]) == (["city"], [])
    (each,) = told["quantities"]
    assert each["what"] == "each count"
    rarest = 500 * min(FOUND.values()) / sum(FOUND.values())
    assert rarest / 2 <= each["within"] <= 3 * rarest
    assert rehearsed_here({**OPEN, "epsilon": 50.0})["quantities"][0]["within"] <= 1


def test_groups_that_nobody_declared_are_rehearsed_over_the_schema_of_a_site() -> None:
    columns = {"drug": {"type": "string"}, "age": {"type": "float", "low": 0, "high": 100}}
    schemas = {"north": schema_of({"unit": "person", "columns": columns})}
    asked: dict[str, Any] = {"type": "query", "dataset": "x", "epsilon": 1.0, "delta": 1e-6, "by": ["drug"]}
    asked |= {"max_groups_per_person": 1}
    counts = rehearsed_here({**asked, "statistic": "count"}, schemas)
    assert counts["finds"] == ["drug"]
    assert 5 <= counts["quantities"][0]["within"] <= 100  # the rarest have 34 rows of 1,000
    means = rehearsed_here({**asked, "statistic": "mean", "column": "age"}, schemas)
    assert 0 < means["quantities"][0]["within"] < 100


def rehearsed_here(document: dict[str, Any], schemas: Any = None) -> dict[str, Any]:
    """Rehearse a document in this process, as `server.curve` does on a requestor's machine."""
    checked = registry.check(document)
    return in_this_process(checked, registry.rehearsal(checked.type), repeats=10, seconds=30, schemas=schemas)


RIDES = {"a": schema_of(GROWING)}
PIPELINE: dict[str, Any] = {"type": "pipeline", "stream": "rides", "sites": ["a"], "epsilon": 4.0}
BINNED = {"model": "Histogram", "inputs": ["km"], "bins": {"km": 3}, "target": {"absolute_error": 0.2}}


@pytest.mark.slow
def test_a_pipeline_is_rehearsed_over_a_stream_that_follows_its_schema() -> None:
    document, kind = registry.check({**PIPELINE, **BINNED}), registry.rehearsal("pipeline")
    told = in_this_process(document, kind, repeats=3, seconds=0, schemas=RIDES, rows_about=3000)
    (each,) = told["quantities"]
    assert (told["people"], told["unanswered"], each["what"]) == (3000, 0, "each number")
    assert 0 < each["within"] < 0.2


@pytest.mark.slow
def test_a_pipeline_whose_target_is_beyond_made_up_rows_says_what_to_do() -> None:
    document, kind = registry.check({**PIPELINE, **BINNED, "target": {"absolute_error": 1e-6}}), PipelineRehearsal()
    with pytest.raises(Mistake, match="ask for less"):
        in_this_process(document, kind, repeats=3, seconds=0, schemas=RIDES, rows_about=200)
    with pytest.raises(Mistake, match="has 'a', which is not there"):
        in_this_process(document, kind, repeats=3, seconds=0, schemas={"b": RIDES["a"]})


def test_a_page_rehearses_no_pipeline_and_says_where_it_can_be() -> None:
    with pytest.raises(rehearsal.NotRehearsed, match=r"server\.curve"):
        rehearsal.rehearsable(registry.check({**PIPELINE, **BINNED}))
