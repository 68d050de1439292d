"""The card of a model says its data, price, worth, certificate and limits, in text and HTML, and nothing else."""

from __future__ import annotations

import html
import re
import warnings
from typing import Any

import pytest

import thebes
from tests.support.coordinator import AGES
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.model_card import card_of_bundle
from thebes.tasks.release_reader import release_from_json
from thebes.web.coordinator.result import shown

TITLES = [
    "Data", "Price", "What it is worth", "Certificate", "Intended use and limits", "How it was made",
]  # fmt: skip


def released(type_: str, name: str | None = None) -> Any:
    sample = next(each for each in registry.samples(type_) if name in (None, each.name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if type_ in registry.site_types():
            return sample, thebes.simulate(dict(sample.document), sample.sites, schema=sample.schema, seed=1)
        return sample, thebes.simulate(dict(sample.document), sample.people, seed=1)


@pytest.mark.few(3)
@pytest.mark.parametrize("type_", ["integrated", "ensemble", "train", "gradient", "draw-discard", "pipeline"])
def test_every_kind_of_model_has_a_card_of_the_same_parts(type_: str) -> None:
    sample, release = released(type_)
    if not release.answered:
        pytest.skip("this run of the sample released no model")
    card = release.card(sample.document)
    assert [section.title for section in card.sections] == TITLES
    lines = {(section.title, name): words for section in card.sections for name, words in section.lines}
    assert float(lines["Price", "epsilon"]) == release.certificate.epsilon
    assert lines["Certificate", "in words"] == release.certificate.text
    assert all(words for words in lines.values())
    assert "simulated" in card.text


def test_a_quality_that_was_bought_stands_with_its_interval_and_its_verdict() -> None:
    checked = next(
        (each, release)
        for each in ("ensemble-checked", "ensemble-odds")
        for _, release in [released("ensemble", each)]
        if release.quality is not None
    )
    _, release = checked
    worth = dict(next(s.lines for s in release.card().sections if s.title == "What it is worth"))
    quality = release.quality
    assert worth["verdict"] == str(quality.verdict)
    assert "95% interval" in worth[quality.metric]
    _, unchecked = released("gradient")
    assert "was not checked" in unchecked.card().text


def test_what_somebody_wrote_is_text_in_html_and_the_same_card_comes_of_what_was_stored() -> None:
    sample, release = released("integrated")
    document = {**sample.document, "name": "<script>alert(1)</script>", "purpose": "To <b>plan</b> & more."}
    card = release.card(document)
    assert "<script>" not in card.html
    assert "&lt;b&gt;plan&lt;/b&gt; &amp; more." in card.html
    assert re.sub(r"\s+", "", html.unescape(re.sub("<[^>]+>", "", card.html))).count("To<b>plan</b>&more.") == 1
    assert card._repr_html_() == card.html
    assert release_from_json(release.as_json()).card(document) == card


def test_the_page_of_a_result_shows_the_card_of_a_model_and_of_nothing_else() -> None:
    import json

    sample, release = released("integrated")
    page = shown(registry.check(dict(sample.document)), json.dumps(release.as_json()))
    assert page.card is not None
    assert page.card.sections[0].title == "Data"
    document = {**AGES, "aggregator": "count", "missing": "count"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count = thebes.simulate(document, {"age": [30.0] * 40}, seed=1)
    assert shown(registry.check(document), json.dumps(count.as_json())).card is None
    with pytest.raises(Mistake, match="is of models"):
        count.card()


def test_a_model_of_the_store_has_a_card() -> None:
    bundle = {
        "name": "own", "version": 2, "inputs": ["hour"], "output": "took", "confidence": 0.95,
        "published_at": "2026-01-01T00:00:00Z",
        "validation": [{"metric": "mse", "bound": 0.01}, {"metric": "more", "bound": None}],
        "lineage": {"stream": "rides", "developer": "dora", "attempts": 3, "blocks": ["a", "b"]},
        "certificate": {
            "epsilon": 1.0, "delta": 1e-6, "unit": "event", "guarantee": "approximate", "mechanism": "gaussian",
            "text": "If one event ...", "notes": [],
        },
    }  # fmt: skip
    card = card_of_bundle(bundle)
    assert [section.title for section in card.sections] == TITLES
    assert card.title == "own, version 2"
    assert "- mse: 0.01, with confidence 95 %" in card.text
    assert "- by: dora, in 3 attempts" in card.text
