"""Models of the institution on a coordinator's own machine: told and asked over HTTP, by whoever logs in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import Front
from tests.support.forms import HERE
from thebes.curator.pipelines.bundles import Bundles

BUNDLE: dict[str, Any] = {
    "model": {"kind": "StatisticsModel", "column": "hour", "numbers": {"0": 0.5, "1": 0.25}},
    "features": [],
    "inputs": ["hour"],
    "output": "took",
    "validation": [{"metric": "absolute_error", "target": 0.1, "bound": 0.08}],
    "confidence": 0.95,
    "certificate": {"epsilon": 1.0, "delta": 0.0, "text": "So much."},
    "lineage": {"stream": "rides", "blocks": ["rides/2026-01-01"], "developer": "ana", "attempts": 2},
    "published_at": "2026-01-02T00:00:00+00:00",
}
ROWS = {"rows": [{"hour": 1}, {"hour": 9}]}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    store = Bundles(tmp_path / "models")
    store.publish("speed", BUNDLE, origin="a/1")
    store.publish("speed", {**BUNDLE, "confidence": 0.99}, origin="b/1")
    store.publish("own", {**BUNDLE, "model": {"kind": "line", "slope": 2}}, origin="c/1")
    with Front(tmp_path) as made:
        yield made


def test_models_are_told_and_given_whole(front: Front) -> None:
    told = front.client.get("/api/model", headers=front.admin).json()
    assert [(each["name"], each["version"], each["kind"]) for each in told] == [
        ("own", 1, "line"),
        ("speed", 2, "StatisticsModel"),
    ]
    newest = front.client.get("/api/model/speed", headers=front.admin).json()
    assert (newest["version"], newest["versions"], newest["confidence"]) == (2, [1, 2], 0.99)
    first = front.client.get("/api/model/speed?version=1", headers=front.admin).json()
    assert first == {"format": 1, "name": "speed", "version": 1, "origin": "a/1", "versions": [1, 2], **BUNDLE}


def test_a_model_is_asked(front: Front) -> None:
    answer = front.client.post("/api/model/speed/predict", json=ROWS, headers=front.admin)
    assert answer.json() == {"model": "speed", "version": 2, "predictions": [0.25, None]}
    older = front.client.post("/api/model/speed/predict?version=1", json=ROWS, headers=front.admin)
    assert older.json()["version"] == 1


@pytest.mark.parametrize("path", ["/api/model", "/api/model/speed", "/api/model/speed/predict"])
def test_nobody_asks_without_a_login(front: Front, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = front.client.request("POST" if "predict" in path else "GET", path, json=ROWS, headers=headers)
        assert answer.status_code == 401


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("none/predict", ROWS, 404, "no model of that name"),
        ("speed/predict?version=3", ROWS, 404, "no such version"),
        ("speed/predict?version=0", ROWS, 422, "version"),
        ("NO/predict", ROWS, 422, "name"),
        ("own/predict", ROWS, 403, "download"),
        ("speed/predict", {"rows": [{"hours": 1}]}, 422, "'hours' is not a column of this model, which has hour"),
        ("speed/predict", {"rows": [{}]}, 422, "row 1 has no 'hour'"),
        ("speed/predict", {"rows": [{"hour": [1]}]}, 422, "rows"),
        ("speed/predict", {"rows": []}, 422, "rows"),
        ("speed/predict", {"rows": [{"hour": 1}] * 10_001}, 422, "rows"),
        ("speed/predict", {"rows": [{"hour": 1}], "more": 1}, 422, "more"),
        ("speed/predict", [], 422, "body"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(
    front: Front, path: str, body: Any, status: int, words: str
) -> None:
    answer = front.client.post(f"/api/model/{path}", json=body, headers=front.admin)
    assert answer.status_code == status, answer.text
    assert words in answer.text
    assert "Traceback" not in answer.text


def test_a_home_without_models_has_none(tmp_path: Path) -> None:
    with Front(tmp_path) as front:
        assert front.client.get("/api/model", headers=front.admin).json() == []
        assert front.client.get("/api/model/speed", headers=front.admin).status_code == 404


def test_whoever_signs_in_is_shown_the_models_on_the_pages_of_the_site(front: Front) -> None:
    for path in ("/models", "/models/speed", "/models/speed/model.json"):
        assert front.client.get(path).status_code == 401
    assert 'href="/models"' not in front.client.get("/").text
    front.client.post("/sign-in", json={"token": front.admin_token}, headers=HERE)
    assert 'href="/models"' in front.client.get("/").text
    listed = front.client.get("/models").text
    for words in ('href="/models/own"', "took from hour", "absolute_error 0.08", "epsilon 1"):
        assert words in listed
    page = front.client.get("/models/speed").text
    for words in (
        "Version 2",
        "with confidence 99 %",
        "1 block of rides",
        "thebes model predict speed ROWS.csv",
        "1, 2",
        "So much.",
    ):
        assert words in page
    whole = front.client.get("/api/model/speed", headers=front.admin).json()
    assert front.client.get("/models/speed/model.json").json() == whole
    assert front.client.get("/models/none").status_code == 404
    assert front.client.get("/models/No").status_code == 422


def test_a_coordinator_without_models_says_so(tmp_path: Path) -> None:
    with Front(tmp_path) as front:
        front.client.post("/sign-in", json={"token": front.admin_token}, headers=HERE)
        assert "No model has been accepted yet" in front.client.get("/models").text
