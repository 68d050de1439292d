"""Every kind has a form that is made from its document's schema: what stands in it means the document it came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.forms import filled
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.form import Form, Hint, PartChoice
from thebes.tasks.samples import SiteSample
from thebes.tasks.trust_models import TITLES
from thebes.web.coordinator.forms.draft import Draft, kinds
from thebes.web.coordinator.forms.fields import Field, form_fields
from thebes.web.coordinator.forms.site_data import datasets_of, helpers_of
from thebes.web.frame import PageFrame

sys.path.insert(0, str(Path(__file__).parent))
from daily.samples import samples as daily_samples
from tally.samples import samples as tally_samples

SHIPPED = registry.types()
SAMPLES = [*(sample for type_ in SHIPPED for sample in registry.samples(type_)), *tally_samples(), *daily_samples()]
TYPES = [*SHIPPED, "tally", "daily"]


@pytest.fixture(autouse=True)
def _examples() -> Iterator[None]:
    """The example kinds, which give no hints, are known here only."""
    with registry.registered("tally"), registry.registered("daily"):
        yield


def published(sample: Any) -> dict[str, Any]:
    """Return what is published where a sample can be answered."""
    sites: list[dict[str, Any]] = []
    if isinstance(sample, SiteSample):
        dataset = sample.document.get("dataset") or sample.document["stream"]
        held = {dataset: {"schema": sample.schema}}
        sites = [{"name": name, "state": "connected", "datasets": held} for name in sample.sites]
    published = {"kinds": kinds(), "tables": {}, "groups": [], "sites": sites, "datasets": datasets_of(sites)}
    return {**published, "helpers": helpers_of(sites), "trusts": TITLES}


def page(draft: Draft, told: dict[str, Any]) -> str:
    return bytes(PageFrame("test", ()).part("coordinator/fields.html", d=draft, **told).body).decode()


@pytest.mark.few(11, slow=60)
@pytest.mark.parametrize("stored", [False, True], ids=["as written", "as stored"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_form_filled_with_a_document_posts_back_that_document(sample: Any, stored: bool) -> None:
    told, checked = published(sample), registry.check(sample.document)
    drawn = page(Draft.of(checked.as_json() if stored else sample.document, told), told)
    again = registry.check(Draft.read(filled(drawn)).seen(told).document())
    follows = {  # from what the sites say of their prices, when it is put up
        name: checked.as_json()[name]
        for name, each in form_fields(checked.type).items()
        if isinstance(each, Field) and each.hint.derived and getattr(checked, "by_accuracy", False)
    }
    assert registry.check({**again.as_json(), **follows}).digest == checked.digest


@pytest.mark.parametrize("type_", TYPES)
def test_every_field_of_a_document_has_a_place_and_every_hint_a_field(type_: str) -> None:
    fields, hinted = form_fields(type_), registry.form(type_).fields
    tops = {each.top for each in fields.values() if isinstance(each, Field)}
    fixed = {"type", "version", "server", "featurizer", "bounds", "group", "epoch", "anonymity", "sites", "dataset"}
    assert tops == set(registry.kind(type_).document.model_fields) - fixed
    assert set(hinted) <= set(fields)
    for name, choice in fields.items():
        if isinstance(choice, PartChoice):
            assert choice.parts.keys() == choice.told.keys(), name
            for part in filter(None, choice.parts.values()):
                assert any(f"{path}.".startswith(f"{part}.") for path in fields), part


@pytest.mark.few(15, slow=40)
@pytest.mark.parametrize(
    "nonsense", ["\x00", "[{", "= = =\n=", "1e999", "\u202e,;", "x" * 5000, ["a", "b"], {"a": 1}, 7, None]
)
@pytest.mark.parametrize("type_", TYPES)
def test_nonsense_in_every_field_is_refused_in_words_and_drawn_again(type_: str, nonsense: Any) -> None:
    sample = next(sample for sample in SAMPLES if sample.document["type"] == type_)
    told = published(sample)
    body = filled(page(Draft.of(sample.document, told), told))
    body = {**dict.fromkeys(body, nonsense), "kind": type_, "mode": "form", "was": "form"}
    draft = Draft.read(body).seen(told)
    with pytest.raises(InvalidDocument) as refused:
        registry.check(draft.document())
    assert all(message for _, message in refused.value.problems)
    assert 'id="epsilon"' in page(draft.settled(told), told)


@pytest.mark.slow
def test_a_problem_of_any_field_leads_to_where_it_is_drawn() -> None:
    for sample in SAMPLES:
        told = published(sample)
        draft = Draft.of(sample.document, told)
        drawn = page(draft, told)
        for name in draft.shown:
            label, anchor = draft.place(name)
            assert label
            assert f'id="{anchor}"' in drawn, name


def test_a_kind_that_gives_no_hints_asks_plainly_for_what_it_needs_and_has_the_rest_for_experts() -> None:
    assert registry.form("tally").fields == {}
    body = {"kind": "tally", "mode": "form", "was": "form", "featurizer": "SELECT y FROM profile.example"}
    told = published(tally_samples()[0])
    draft = Draft.read(body).settled(told)
    assert (draft.get("epsilon"), draft.get("min_count")) == ("1", "100")
    assert registry.check(draft.document()).type == "tally"
    assert "How many say yes" in page(draft, told)


def test_a_hint_adds_to_what_is_said_of_every_document() -> None:
    general = Hint(label="Epsilon", help="a price", first="1")
    assert Hint(help="another", expert=True).over(general) == Hint(
        label="Epsilon", help="another", first="1", expert=True
    )
    assert Form().fields == {}
