"""A model no better than guessing does not look like any other: simulations say what guessing gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.cli.demo.scenes import site_scenes
from thebes.simulation import visits
from thebes.simulation.guess import MOST_ROWS
from thebes.simulation.patients import DATASET, SCHEMA, hospital
from thebes.tasks.gradient.scene import LOSS, MODEL
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpHospitals

N = 1500
DRAW = np.random.Generator(np.random.PCG64(1))
X, Z = DRAW.uniform(-2, 2, N), DRAW.uniform(-2, 2, N)
#: a label and a number that the inputs tell, the same shuffled so that they tell nothing; 70 % of the labels are 1
LABEL = (Z > -0.8).astype(int)
NUMBER = Z + DRAW.normal(0, 0.3, N)
SHUFFLED = DRAW.permutation(N)
RANGE = {"type": "range", "low": -2.0, "high": 2.0}
WIDE = {"type": "range", "low": -3.0, "high": 3.0}
SET = {"type": "set", "values": [0, 1]}

LABELS: dict[str, dict[str, Any]] = {
    "naive Bayes": {"type": "integrated", "epsilon": 20.0, "model": "GaussianNB", "inputs": ["x", "z"], "output": "y"},
    "logistic": {
        "type": "integrated", "epsilon": 20.0, "delta": 1e-6, "model": "LogisticRegression", "inputs": ["x", "z"],
        "output": "y",
    },
    "ensemble": {"type": "ensemble", "epsilon": 30.0, "label": "y", "bins": {"z": [-0.8]}, "partitions": 1},
    "draw-discard": {
        "type": "draw-discard", "epsilon": 60.0, "family": "logistic", "inputs": ["x", "z"], "output": "y",
        "instances": 2, "learning_rate": 2.0, "decay": 20,
    },
    "network": {
        "type": "gradient", "epsilon": 40.0, "inputs": ["x", "z"], "outputs": ["y"], "model": MODEL, "loss": LOSS,
        "learning_rate": 4.0,
    },
}  # fmt: skip
NUMBERS: dict[str, dict[str, Any]] = {
    "linear": {
        "type": "integrated", "epsilon": 20.0, "delta": 1e-6, "model": "LinearRegression", "inputs": ["x", "z"],
        "output": "y",
    },
    "draw-discard": {
        "type": "draw-discard", "epsilon": 60.0, "family": "linear", "inputs": ["x", "z"], "output": "y",
        "instances": 2, "learning_rate": 1.0, "decay": 20,
    },
}  # fmt: skip


def simulated(document: dict[str, Any], rows: Any, schema: Any = None, aside: Any = None) -> tuple[Release, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = thebes.simulate(document, rows, seed=1, schema=schema, aside=aside)
    return release, [str(w.message) for w in caught if "guessing" in str(w.message)]


def asked(kind: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
    bounds = {**dict.fromkeys(kind.get("bins", ("x", "z")), RANGE), "y": output}
    return {**kind, "featurizer": f"SELECT {', '.join(bounds)} FROM p.t", "bounds": bounds}


@pytest.mark.parametrize("kind", LABELS)
def test_a_classifier_of_people_says_what_the_most_frequent_label_gives(kind: str) -> None:
    document, rows = asked(LABELS[kind], SET), {"x": X, "z": Z, "y": LABEL}
    release, warned = simulated(document, rows)
    told = release.extra["beside_guess"]
    assert (told["column"], told["measure"], told["rows"]) == ("y", "right", N)
    assert told["guessing"] == pytest.approx(max(LABEL.mean(), 1 - LABEL.mean()))
    said = np.asarray(release.model.predict({n: rows[n] for n in document["bounds"] if n != "y"}))  # type: ignore[attr-defined]
    assert told["reached"] == pytest.approx(np.mean(said == LABEL))
    assert (told["aside"], told["better"], warned) == (False, None, [])
    assert "the most frequent value alone gets 0.682; only rows kept aside can show" in str(release)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", LABELS)
def test_a_classifier_is_called_better_over_rows_kept_aside_only(kind: str) -> None:
    document, half = asked(LABELS[kind], SET), N // 2
    learned = {"x": X[:half], "z": Z[:half], "y": LABEL[:half]}
    kept = {"x": X[half:], "z": Z[half:], "y": LABEL[half:]}
    release, warned = simulated(document, learned, aside=kept)
    told = release.extra["beside_guess"]
    assert (told["aside"], told["better"], told["rows"], told["level"], warned) == (True, True, half, 0.01, [])
    said = np.asarray(release.model.predict({n: kept[n] for n in document["bounds"] if n != "y"}))  # type: ignore[attr-defined]
    assert told["reached"] == pytest.approx(np.mean(said == kept["y"]))
    assert told["guessing"] == pytest.approx(max(kept["y"].mean(), 1 - kept["y"].mean()))
    assert "rows kept aside, y: the model gets" in str(release)
    assert str(release).count("so it is better than guessing") == 1
    strange = {**kept, "y": DRAW.permutation(kept["y"])}
    release, (line,) = simulated(document, learned, aside=strange)
    assert release.extra["beside_guess"]["better"] is False
    assert f"of {half} rows that it did not learn from it gets " in line


@pytest.mark.parametrize("kind", ["naive Bayes", "logistic"])
def test_a_classifier_that_learns_something_is_not_warned_of_and_one_of_nothing_is(kind: str) -> None:
    document = asked(LABELS[kind], SET)
    assert simulated(document, {"x": X, "z": Z, "y": LABEL})[1] == []
    (line,) = simulated({**document, "epsilon": 0.05}, {"x": X, "z": Z, "y": LABEL[SHUFFLED]})[1]
    assert line.startswith("the model is no better than guessing: of 1,500 rows that it learned from it gets ")
    assert "of y right, and the most frequent value alone 68.2 %" in line


def test_what_luck_explains_of_rows_that_were_learned_from_is_a_warning_too() -> None:
    """Labels by the throw of a coin: naive Bayes tells a few more of its own rows right than a guess."""
    document, coin = asked({**LABELS["naive Bayes"], "epsilon": 1e5}, SET), np.random.default_rng(2).integers(0, 2, N)
    release, (line,) = simulated(document, {"x": X, "z": Z, "y": coin})
    told = release.extra["beside_guess"]
    assert told["reached"] > told["guessing"]
    assert line.startswith("the model is not shown to be better than guessing: of ")
    assert line.endswith("which luck explains")
    assert told["better"] is False


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_regression_of_people_says_what_the_mean_gives(kind: str) -> None:
    document = asked(NUMBERS[kind], WIDE)
    release, warned = simulated(document, {"x": X, "z": Z, "y": NUMBER})
    told, cut = release.extra["beside_guess"], np.clip(NUMBER, -3, 3)
    assert (told["measure"], told["guessing"]) == ("squared error", pytest.approx(cut.var()))
    said = release.model.predict({"x": X, "z": Z})  # type: ignore[attr-defined]
    assert told["reached"] == pytest.approx(np.mean((said - cut) ** 2))
    assert told["reached"] < told["guessing"]
    assert (told["better"], warned) == (None, [])
    (line,) = simulated({**document, "epsilon": 0.05}, {"x": X, "z": Z, "y": NUMBER[SHUFFLED]})[1]
    assert line.startswith("the model is no better than guessing: over 1,500 rows that it learned from its mean ")
    aside = {"x": X[:500], "z": Z[:500], "y": NUMBER[:500]}
    release, warned = simulated(document, {"x": X[500:], "z": Z[500:], "y": NUMBER[500:]}, aside=aside)
    assert (release.extra["beside_guess"]["better"], warned) == (True, [])


def test_only_whole_rows_are_judged_and_at_most_so_many() -> None:
    many = {name: np.tile(values, 8) for name, values in {"x": X, "z": Z, "y": LABEL}.items()}
    document = asked(LABELS["naive Bayes"], SET)
    assert simulated(document, many)[0].extra["beside_guess"]["rows"] == MOST_ROWS
    holes = {"x": [None if i % 3 == 0 else x for i, x in enumerate(X)], "z": Z, "y": LABEL}
    document["bounds"]["x"] = {**RANGE, "default": 0.0}
    assert simulated(document, holes)[0].extra["beside_guess"]["rows"] == N - N // 3


def test_a_statistic_is_no_model() -> None:
    document = {
        "type": "basic", "epsilon": 1.0, "aggregator": "mean", "featurizer": "SELECT x FROM p.t", "bounds": {"x": RANGE}
    }  # fmt: skip
    assert "beside_guess" not in simulated(document, {"x": X})[0].extra


PATIENTS = {name: pd.DataFrame(hospital(number, 7)) for number, name in enumerate(("north", "south"))}
ALL = pd.concat(PATIENTS.values())
SCENES = {
    scene.document.get("update", scene.document["type"]): scene.document
    for scene in site_scenes(
        MadeUpHospitals(DATASET, visits.DATASET, ("north", "south"), None, visits.visits(7), {}, {})
    )
}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["train", "newton"])
def test_a_model_of_sites_says_what_guessing_gives(kind: str) -> None:
    release, warned = simulated(SCENES[kind], PATIENTS, SCHEMA)
    told = release.extra["beside_guess"]
    frequent = max(ALL["diabetes"].mean(), 1 - ALL["diabetes"].mean())
    assert (told["measure"], told["rows"], warned) == ("right", len(ALL), [])
    assert told["guessing"] == pytest.approx(frequent)
    inputs = {name: ALL[name].to_numpy() for name in ("age", "bmi", "glucose")}
    inputs["load"] = inputs["bmi"] * inputs["glucose"] / 100
    said = release.model.predict({n: inputs[n] for n in release.model.inputs})  # type: ignore[attr-defined]
    assert told["reached"] == pytest.approx(np.mean(said == ALL["diabetes"]), abs=0.005)  # columns are kept to bounds
    assert told["better"] is None
    fresh = {"hill": pd.DataFrame(hospital(3, 8))}
    judged = simulated(SCENES[kind], PATIENTS, SCHEMA, aside=fresh)[0].extra["beside_guess"]
    assert (judged["aside"], judged["better"], judged["rows"]) == (True, True, len(fresh["hill"]))
    strangers = {name: rows.assign(diabetes=DRAW.permutation(rows["diabetes"])) for name, rows in PATIENTS.items()}
    (line,) = simulated({**SCENES[kind], "epsilon": 0.2}, strangers, SCHEMA)[1]
    assert line.startswith("the model is no")
    assert f"better than guessing: of {len(ALL):,} rows that it learned from it gets " in line


def test_a_condition_says_of_whom_a_model_of_sites_is_judged() -> None:
    release, _ = simulated({**SCENES["train"], "where": "age > 60"}, PATIENTS, SCHEMA)
    assert release.extra["beside_guess"]["rows"] == int((ALL["age"] > 60).sum())


@pytest.mark.slow
def test_a_pipeline_says_what_the_mean_gives() -> None:
    seen = visits.visits(7)
    release, warned = simulated(SCENES["pipeline"], {"north": visits.frame(seen)}, visits.SCHEMA)
    told = release.extra["beside_guess"]
    assert (told["measure"], warned) == ("squared error", [])
    assert told["guessing"] == pytest.approx(seen["minutes"].var(), rel=0.1)  # of 10,000 rows of them
    assert told["reached"] < told["guessing"]
    assert told["better"] is None
    aside = visits.frame(visits.visits(8))
    judged = simulated(SCENES["pipeline"], {"north": visits.frame(seen)}, visits.SCHEMA, aside={"north": aside})[0]
    assert (judged.extra["beside_guess"]["aside"], judged.extra["beside_guess"]["better"]) == (True, True)
