"""The choice on *Ask* of whom people must trust: what a kind offers or cannot have, and how far off each would be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import AGES, PETS, Front
from tests.support.forms import composing, filled, write
from thebes.tasks import registry
from thebes.web.coordinator.forms.draft import Draft
from thebes.web.coordinator.forms.fields import form_fields

COLUMNS = {"age": {"type": "float", "description": "years"}}
TOLD: dict[str, Any] = {"tables": {}, "groups": [], "sites": [], "datasets": {}, "helpers": [], "trusts": {}}
SPLIT = {**AGES, "aggregator": "mean", "server": "split", "helper": "ward", "expires_at": "2030-02-01T00:00:00+00:00"}
MEAN = {**AGES, "aggregator": "mean", "min_count": 500}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with composing(tmp_path / "home", "profile", "demographics", COLUMNS) as made:
        yield made


def form_of(front: Front, document: dict[str, Any]) -> str:
    """The form that means a document."""
    raw = {"kind": document["type"], "mode": "form", "was": "json", "raw": json.dumps(document)}
    return write(front, "/ask/fields", raw)


def radios(page: str) -> dict[str, str]:
    """Every trust that is offered, and how it stands."""
    found = re.findall(r'<input type="radio" name="trust" value="(\w+)"( checked| disabled)?>', page)
    return {name: state.strip() for name, state in found}


def test_a_kind_offers_what_it_can_have_and_says_why_it_has_no_other(front: Front) -> None:
    page = form_of(front, AGES)
    assert radios(page) == {"split": "disabled", "trusted": "checked"}
    assert "no institution is linked to this server" in page
    assert re.search(r"Not here: <strong>Nobody, mixed</strong>; ask a mean of a range", page)
    page = form_of(front, PETS)
    assert radios(page) == {"nobody": "checked", "mixed": "disabled"}
    assert "no group has been published here" in page
    assert "Whom people must trust" not in form_of(
        front, {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 1.0}
    )


def test_two_servers_are_asked_with_a_helper_and_posted_as_they_were_chosen(front: Front) -> None:
    page = form_of(front, SPLIT)
    assert radios(page)["split"] == "checked"
    body = filled(page)
    assert (body["trust"], body["helper"]) == ("split", "ward")
    draft = Draft.read(body)
    assert registry.check(draft.document()).digest == registry.check(SPLIT).digest
    turned = Draft.read({**body, "trust": "trusted"})
    assert "server" not in turned.document()
    assert "helper" not in turned.document()
    assert dict(turned.aside)["helper"] == "ward"  # kept for a change of mind


def test_a_median_by_two_servers_is_asked_for_its_bins(front: Front) -> None:
    page = form_of(front, {**SPLIT, "aggregator": "median", "bins": 40})
    assert filled(page)["bins"] == "40"
    told = write(front, "/ask/check", filled(form_of(front, {**SPLIT, "aggregator": "median"})))
    assert '<a href="#bins">Bins</a>' in told
    assert 'id="bins"' in page


def test_what_is_wrong_with_trust_leads_to_where_it_is_chosen(front: Front) -> None:
    told = write(front, "/ask/check", filled(form_of(front, {**SPLIT, "aggregator": "kurtosis", "subsets": 5})))
    assert '<a href="#trust">Whom people must trust</a>' in told
    told = write(front, "/ask/check", filled(form_of(front, {k: v for k, v in SPLIT.items() if k != "helper"})))
    assert "helper" in told or "second server" in told


def test_the_epsilon_that_is_promised_moves_with_the_trust_and_the_local_one_is_found() -> None:
    body = {"kind": "bounded", "mode": "form", "trust": "mixed", "epsilon": "0.5", "min_count": "10000"}
    draft = Draft.read({**body, "featurizer": "SELECT age FROM p.t"}).trusting("nobody").settled(TOLD)
    assert (draft.get("epsilon"), draft.get("mixed.epsilon")) == ("", "0.5")
    assert draft.document()["mixed"] == {"epsilon": 0.5}
    assert "epsilon" not in draft.document()
    back = Draft.read({**body, "trust": "nobody", "epsilon": "", "mixed.epsilon": "0.5"}).trusting("mixed")
    assert back.document()["epsilon"] == 0.5
    assert "mixed" not in back.document()
    still = Draft.read({**body, "epsilon": "2", "mixed.epsilon": "0.5"}).trusting("mixed")
    assert (still.get("epsilon"), still.get("mixed.epsilon")) == ("2", "0.5")


def test_every_trust_of_a_kind_can_be_read_back_from_its_document() -> None:
    for document, trust in ((SPLIT, "split"), (AGES, "trusted"), (PETS, "nobody")):
        assert Draft.of(document, TOLD).get("trust") == trust
        assert "server" not in Draft.of(document, TOLD).rest
    mixed = {**PETS, "anonymity": "token", "group": "town", "mixed": {"epsilon": 0.5, "delta": 0.001}}
    assert Draft.of(mixed, TOLD).get("trust") == "mixed"
    assert "trust" in form_fields("gradient")


def test_the_four_are_compared_and_one_is_taken_into_the_form(front: Front) -> None:
    page = form_of(front, MEAN)
    told = unescape(write(front, "/ask/trust", filled(page)))
    for title in ("Nobody", "Nobody, mixed", "Two servers", "This server"):
        assert title in told
    assert told.count("the mean of age") == 4
    assert told.count("Ask it so") == 3
    taken = write(front, "/ask/trust/take", {**filled(page), "chosen": "nobody"})
    assert radios(taken)["nobody"] == "checked"
    body = filled(taken)
    assert (body["kind"], body["epsilon"], body["min_count"]) == ("bounded", "1", "500")
    assert Draft.read(body).document()["bounds"] == MEAN["bounds"]
    mixed = filled(write(front, "/ask/trust/take", {**filled(page), "chosen": "mixed"}))
    assert (mixed["trust"], mixed["mixed.epsilon"], mixed["epsilon"], mixed.get("group", "")) == ("mixed", "1", "", "")
    same = write(front, "/ask/trust/take", {**filled(page), "chosen": "nonsense"})
    assert Draft.read(filled(same)).document() == Draft.read(filled(page)).document()


def test_what_cannot_be_compared_says_why_and_strangers_compare_nothing(front: Front) -> None:
    told = unescape(write(front, "/ask/trust", filled(form_of(front, AGES))))
    assert "Not compared: ask a mean of a range" in told
    assert "bins" in told
    front.client.cookies.clear()
    answer = front.client.post(
        "/ask/trust",
        json=filled(form_of(front, AGES)),
        headers={"origin": "http://testserver", "sec-fetch-site": "same-origin"},
    )
    assert "Sign in" in answer.text or answer.status_code in (401, 403)


def test_a_training_of_institutions_asks_for_its_helper_and_for_no_steps_of_their_own(front: Front) -> None:
    columns = {"inputs": ["age"], "output": "ill"}
    asked = {"type": "train", "dataset": "patients", "model": "LogisticRegression", **columns, "epsilon": 1.0}
    split = {**asked, "delta": 1e-6, "rounds": 5, "noise": "split", "helper": "ward"}
    page = form_of(front, split)
    assert filled(page)["helper"] == "ward"
    assert 'name="local_steps"' not in page
    assert Draft.read(filled(page)).document()["noise"] == "split"
    assert 'name="helper"' not in form_of(front, {**split, "noise": "site", "helper": None})
