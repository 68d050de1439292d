"""The coordinator's pages of tasks that institutions answer: how one goes, and its answer."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.cli.demo.scenes import site_scenes
from thebes.simulation import visits
from thebes.simulation.patients import NAMES, SCHEMA, hospital
from thebes.tasks import registry
from thebes.tasks.answer_view import one_number
from thebes.tasks.scene import MadeUpHospitals
from thebes.web.coordinator import result, words
from thebes.web.coordinator.sites import bounds, course, history

ROUNDS = [{"round": 0, "update": 1.5, "loss": 0.7, "sites": 2}, {"round": 1, "update": 0.5, "loss": 0.6, "sites": 2}]
SECONDS = {
    "total": {"compute": 0.31, "transfer": 0.02, "aggregation": 0.004},
    "phases": [
        {"phase": 0, "compute": 0.3, "transfer": 0.01, "aggregation": 0.002},
        {"phase": 1, "compute": 0.01, "transfer": 0.01, "aggregation": 0.002},
    ],
}
GOING: dict[str, Any] = {
    "phase": 2,
    "phases": 10,
    "needed": 2,
    "asked": ["hill", "north", "south"],
    "left_out": {"river": "its schema does not fit"},
    "answered": ["north"],
    "missing": {"hill": "is not linked"},
    "reasons": {"hill": "gone"},
    "rounds": ROUNDS,
    "seconds": SECONDS,
}


def told(**more: Any) -> dict[str, Any]:
    return {"contributions": 1, "lanes": [], "sites": {**GOING, **more}}


def test_every_site_has_its_word_and_who_is_missing_a_reason() -> None:
    seats = {seat.site: (seat.word, seat.why) for seat in course(told(), over=False).seats}
    assert seats == {
        "hill": ("missing", "it was not linked (gone); is not linked"),
        "north": ("answered", ""),
        "south": ("is asked", ""),
        "river": ("not asked", "its data set does not fit (schema); its schema does not fit"),
    }
    assert {s.site: s.word for s in course(told(), over=True).seats}["south"] == "did not answer"


def test_the_curve_is_the_loss_where_it_was_bought_and_else_the_updates() -> None:
    drawn = course(told(), over=False)
    assert (drawn.phase, drawn.phases, drawn.measure) == (2, 10, "Mean loss")
    assert drawn.latest == "Round 2: loss 0.6, update 0.5; 2 sites answered."
    assert drawn.time is not None
    assert drawn.seconds == "0.31 s at the slowest site, 0.02 s on the way, 0.004 s here"
    without = [{name: value for name, value in each.items() if name != "loss"} for each in ROUNDS]
    assert course(told(rounds=without), over=False).measure == "Size of the update"


def test_before_anything_is_over_there_is_nothing_to_draw() -> None:
    bare = {"answered": [], "missing": {}, "asked": ["north"], "left_out": {}}
    drawn = course({"contributions": 0, "lanes": [], "sites": bare}, over=False)
    assert (drawn.curve, drawn.time, drawn.phase, drawn.phases) == (None, None, 0, 1)
    assert history({"sites": bare})[1] == []


def test_rounds_download_as_a_table() -> None:
    head, rows = history(told())
    assert head[:4] == ("round", "sites", "loss", "update")
    assert rows[1] == (2, 2, 0.6, 0.5, 0.01, 0.01, 0.002)


@pytest.mark.parametrize(
    ("asked", "title", "seen"),
    [
        ({"statistic": "mean", "column": "age", "by": ["ward"]}, "Mean of age by ward", "By group"),
        ({"statistic": "count", "by": ["ward"]}, "Count of rows in patients by ward", "Counts"),
        ({"statistic": "count"}, "Count of rows in patients", "Error bar"),
        ({"statistic": "histogram", "column": "glucose", "bins": 4}, "Histogram of glucose", "Counts"),
        (
            {"type": "train", "model": "LogisticRegression", "inputs": ["age"], "output": "diabetes", "delta": 1e-6},
            "LogisticRegression for diabetes",
            "Weights",
        ),
    ],
)
def test_an_answer_of_sites_is_drawn_with_who_is_in_it(asked: dict[str, Any], title: str, seen: str) -> None:
    document = registry.check({"type": "query", "dataset": "patients", "epsilon": 2.0, **asked})
    tables = {name: hospital(number, 7) for number, name in enumerate(NAMES[:2])}
    release = thebes.simulate(document, tables, schema=SCHEMA, seed=1)
    body = release.as_json()
    body["coverage"] = {**body["coverage"], "missing": {"hill": "is not linked"}}
    shown = result.shown(document, json.dumps(body))  # type: ignore[arg-type]
    titles = {section.title: section for section in shown.sections}
    assert {seen, "Who is in it"} <= set(titles)
    assert titles["Who is in it"].words.startswith("2 of 3 sites are in it.")
    table = titles["Who is in it"].table
    assert table is not None
    assert table.rows[-1] == ("hill", "missing", "is not linked")
    assert (shown.answer is not None) == (seen == "Error bar")
    assert words.subject(document.as_json()) == title
    assert words.trust(document.as_json()) == "each site is trusted with its own rows"
    lines = result.table_of(document, json.dumps(body)).splitlines()  # type: ignore[arg-type]
    assert len(lines) > 1
    assert np.all([line.count(",") >= 1 for line in lines])


@pytest.mark.slow
def test_a_pipeline_without_a_model_downloads_its_verdicts() -> None:
    seen = visits.visits(7, days=6)
    others: Any = ({}, {})
    asked = next(
        scene.document
        for scene in site_scenes(MadeUpHospitals("patients", visits.DATASET, ("north",), None, seen, *others))
        if scene.document["type"] == "pipeline"
    )
    out_of_reach = {**asked, "target": {"mse": 1.0}, "largest": {"mse": 5000.0}}
    release = thebes.simulate(out_of_reach, {"north": visits.frame(seen)}, schema=visits.SCHEMA, seed=1)
    assert release.value is None
    document: Any = registry.check(out_of_reach)
    body = json.dumps(release.as_json())
    assert result.shown(document, body).nothing == ""
    head, *lines = csv.reader(io.StringIO(result.table_of(document, body)))
    assert (head[0], head[-1], len(lines)) == ("attempt", "verdict", len(release.extra["attempts"]))
    assert {line[-1] for line in lines} <= {"REJECT", "RETRY", ""}
    never = {**json.loads(body), "attempts": [{**release.extra["attempts"][0], "rows": None, "verdict": None}]}
    assert next(csv.reader(io.StringIO(result.table_of(document, json.dumps(never)).splitlines()[1])))[2] == ""


@pytest.mark.parametrize(
    ("value", "low", "high", "read"),
    [(1.0, 0.0, 2.0, (1.0, True)), (1.0, -math.inf, 2.0, (1.0, False)), (math.inf, 0.0, 2.0, None)],
)
def test_a_number_and_its_bar_are_read_alike_on_every_page(value: float, low: float, high: float, read: Any) -> None:
    question = {"type": "query", "dataset": "patients", "epsilon": 2.0, "statistic": "count"}
    release = thebes.simulate(question, {"north": hospital(0, 7)}, schema=SCHEMA, seed=1)
    bar = next(iter(release.intervals.values()))
    changed = replace(release, value=value, intervals={0.95: replace(bar, low=low, high=high)})
    found = one_number(changed)
    assert (None if found is None else (found[0], found[1] is not None)) == read


def test_noise_at_the_coordinator_asks_for_trust_in_it() -> None:
    document = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 1.0, "noise": "coordinator"}
    assert words.trusting(registry.check(document).as_json())
    assert words.trust(registry.check(document).as_json()) == "this server is trusted"


def test_a_question_that_sites_did_not_answer_is_not_said_to_have_run_out_of_time() -> None:
    of_sites, of_people = {"document": {"dataset": "patients"}}, {"document": {"type": "basic"}}
    assert words.ending({**of_sites, "status": "expired"}) == "no answer"
    assert words.ending({**of_people, "status": "expired"}) == "expired"
    assert words.ending({**of_sites, "status": "done"}) == "done"


def test_what_a_column_may_hold_is_said_shortly() -> None:
    assert bounds({"type": "integer", "low": 18.0, "high": 98.0}) == "18 to 98"
    assert bounds({"type": "string", "values": [str(n) for n in range(10)]}).endswith("and 2 more")
    assert "conditions" in bounds({"type": "string"})
