"""Documents: known by one digest however they are written, strict, and refused by name without repeating a value."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import rfc8785

from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument

MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "delta": 1e-5,
    "server": "trusted",
    "min_count": 100,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
}
BAYES = {
    "type": "integrated",
    "epsilon": 10.0,
    "server": "trusted",
    "min_count": 100,
    "featurizer": "SELECT x0, x1, y FROM profile.example",
    "model": "GaussianNB",
    "inputs": ["x0", "x1"],
    "output": "y",
}
PETS = {
    "type": "bounded",
    "epsilon": 1.0,
    "server": "untrusted",
    "min_count": 100,
    "featurizer": "SELECT species, age FROM profile.pets",
    "bounds": {
        "species": {"type": "set", "default": "dog", "values": ["cat", "dog"]},
        "age": {"type": "range", "low": 0.0, "high": 100.0},
    },
    "mechanism": "split",
}
PRINTED = [MEDIAN, BAYES, PETS]


def problems(document: object) -> list[str]:
    with pytest.raises(InvalidDocument) as refused:
        registry.check(document)  # type: ignore[arg-type]
    return [field for field, _ in refused.value.problems]


@pytest.mark.parametrize("document", PRINTED, ids=lambda d: d["type"])
def test_the_printed_examples_are_accepted_verbatim(document) -> None:
    checked = registry.check(document)
    price = registry.kind(checked.type).price(checked, unit=Unit.PERSON)
    assert (float(price.epsilon), float(price.delta)) == (document["epsilon"], document.get("delta", 0.0))
    assert str(document["min_count"]) in registry.kind(checked.type).explain(checked)


@pytest.mark.parametrize(
    ("epsilon", "odds"), [(1.0, "right at most 73.2 % of the time"), (20.0, "right almost always")]
)
def test_the_price_is_told_as_how_often_a_guess_is_right(epsilon: float, odds: str) -> None:
    told = registry.kind("bounded").explain(registry.check({**PETS, "epsilon": epsilon}))
    assert f"{odds} after seeing everything you send" in told


def test_the_printed_name_of_min_count_is_another_spelling() -> None:
    old = {("min_sample_size" if name == "min_count" else name): value for name, value in PETS.items()}
    assert registry.check(old).digest == registry.check(PETS).digest
    assert problems({**old, "min_count": 100}) == ["min_sample_size"]


def test_inputs_that_the_featurizer_does_not_give_are_refused_naming_the_column() -> None:
    with pytest.raises(InvalidDocument, match="'x0'") as refused:
        registry.check({**BAYES, "featurizer": "SELECT x1, x2, y FROM profile.example"})
    assert refused.value.problems[0][0] == "inputs"


@pytest.mark.parametrize("document", PRINTED, ids=lambda d: d["type"])
def test_the_digest_does_not_depend_on_how_a_document_is_written(document) -> None:
    digest = registry.check(document).digest
    draw = random.Random(0)

    def shuffled(tree):
        if isinstance(tree, dict):
            items = list(tree.items())
            draw.shuffle(items)
            return {key: shuffled(value) for key, value in items}
        return [shuffled(item) for item in tree] if isinstance(tree, list) else tree

    for _ in range(5):
        assert registry.check(shuffled(document)).digest == digest
    for spelling in ("1", "1.0", "1e0", "10E-1"):
        text = json.dumps({**document, "epsilon": "?", "min_count": 100}).replace('"?"', spelling)
        assert registry.check(json.loads(text)).digest == registry.check({**document, "epsilon": 1}).digest
    assert registry.check({**document, "version": 1, "anonymity": "none"}).digest == digest  # defaults written out
    assert registry.check({**document, "name": None}).digest == digest  # null says nothing
    assert registry.check(registry.check(document)).digest == digest


@pytest.mark.parametrize("document", PRINTED, ids=lambda d: d["type"])
def test_the_digest_is_the_sha256_of_the_canonical_form_after_defaults(document) -> None:
    checked = registry.check(document)
    body = checked.as_json()
    assert body["version"] == 1
    assert body["anonymity"] == "none"
    assert checked.digest == hashlib.sha256(rfc8785.dumps(body)).hexdigest()


def test_everything_that_means_something_changes_the_digest() -> None:
    changed = [
        {"epsilon": 1.0000001}, {"delta": 1.1e-5}, {"min_count": 101}, {"name": "ages"}, {"aggregator": "mean"},
        {"featurizer": "SELECT age  FROM profile.demographics"}, {"missing": "count"}, {"diagnostics": 0.1},
        {"bounds": {"age": {"type": "range", "low": 0, "high": 120}}}, {"expires_at": "2030-01-01T00:00:00+00:00"},
    ]  # fmt: skip
    digests = {registry.check({**MEDIAN, **change}).digest for change in ({}, *changed)}
    assert len(digests) == len(changed) + 1


def test_a_document_cannot_be_changed() -> None:
    checked = registry.check(MEDIAN)
    with pytest.raises(ValueError, match="frozen"):
        checked.epsilon = 100.0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": "median"}, "type"),
        ({"type": ["basic"]}, "type"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-7}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": 1e7}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": 10**400}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 1e-30}, "delta"),
        ({"min_count": 0}, "min_count"),
        ({"min_count": 1.5}, "min_count"),
        ({"min_count": True}, "min_count"),
        ({"max_count": 99}, "max_count"),
        ({"version": 2}, "version"),
        ({"anonymity": "some"}, "anonymity"),
        ({"anonymity": "token"}, "group"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": "x" * 50_000}, "expires_at"),
        ({"name": "n" * 201}, "name"),
        ({"diagnostics": 0.9}, "diagnostics"),
        ({"server": "untrusted"}, "server"),
        ({"featurizer": "DROP TABLE x"}, "featurizer"),
        ({"featurizer": "SELECT a, b FROM p.t"}, "featurizer"),
        ({"featurizer": "SELECT age AS failure FROM p.t", "diagnostics": 0.1}, "featurizer"),
        ({"aggregator": "eval"}, "aggregator"),
        ({"quantile": 0.5}, "quantile"),
        ({"aggregator": "quantile"}, "quantile"),
        ({"bins": 4}, "bins"),
        ({"subsets": 10}, "subsets"),
        ({"aggregator": "histogram", "delta": 0}, "bounds"),
        ({"aggregator": "histogram", "bounds": {"age": {"type": "range", "low": 0, "high": 1}}}, "bins"),
        ({"bounds": {"height": {"type": "range", "low": 0, "high": 1}}}, "bounds"),
        ({"bounds": {"age": {"type": "range", "low": 1, "high": 1}}}, "bounds.age.low"),
        *(
            ({"bounds": {"age": {"type": "range", "low": low, "high": high}}}, "bounds.age.low")
            for low, high in ((-1.7e308, 1.7e308), (0, 1e200), (0, 5e-324), (1e16, 1e16 + 2))
        ),
        ({"aggregator": "sum", "bounds": {"age": {"type": "range", "low": 1, "high": 1.000001}}}, "bounds.age"),
        ({"bounds": {"age": {"type": "range", "low": 0, "high": 1, "default": 2}}}, "bounds.age.default"),
        ({"bounds": {"age": {"type": "span", "low": 0, "high": 1}}}, "bounds.age.type"),
        ({"bounds": {"age": {"type": "range", "low": 0}}}, "bounds.age.high"),
        ({"bounds": {"age": {"type": "range", "low": 0, "high": 1, "values": []}}}, "bounds.age.values"),
        ({"bounds": {"age": {"type": "set", "values": ["a"]}}}, "bounds.age.values"),
        ({"bounds": {"age": {"type": "set", "values": ["a", "a"]}}}, "bounds.age.values"),
        ({"bounds": {"age": {"type": "set", "values": [1, "1"]}}}, "bounds.age.values"),
        ({"bounds": {"age": {"type": "set", "values": ["a", ["b"]]}}}, "bounds.age.values"),
        ({"bounds": {"age": {"type": "set", "values": ["a", "b"], "default": "c"}}}, "bounds.age.default"),
        ({"surprise": 1}, "surprise"),
        ({"Epsilon": 1}, "Epsilon"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(change, field) -> None:
    assert any(name.startswith(field) for name in problems({**MEDIAN, **change}))


@pytest.mark.parametrize("document", [None, 1, "basic", [], [MEDIAN], {}, {1: 2}, {"type": None}])
def test_what_is_no_document_at_all_is_refused(document) -> None:
    assert problems(document)


@pytest.mark.few(3)
@pytest.mark.parametrize("place", ["bounds", "featurizer", "name", "epsilon", "surprise"])
@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}], ids=["lists", "objects"])
def test_deep_json_is_refused_and_nothing_breaks(place, wrap) -> None:
    deep: object = 1
    for _ in range(50_000):
        deep = wrap(deep)
    assert any(field.startswith(place) or field == "document" for field in problems({**MEDIAN, place: deep}))


@pytest.mark.parametrize("secret", ["hunter2-" * 3, "hunter2" * 5000])
@pytest.mark.parametrize("document", PRINTED, ids=lambda d: d["type"])
def test_no_refusal_repeats_a_value(document, secret: str) -> None:
    for field in [*registry.check(document).as_json(), "expires_at", "name", "group", "max_count", "diagnostics"]:
        said = ""
        try:
            registry.check({**document, field: secret})
        except InvalidDocument as refused:
            said = str(refused)
        if field == "output":  # a column's name may be shown, shortened: it is no value of anybody's
            said = said.replace(secret[:40], "")
        assert "hunter2" not in said
        assert len(said) < 1000


def test_several_problems_are_all_named_and_survive_a_process_border() -> None:
    with pytest.raises(InvalidDocument) as refused:
        registry.check({**MEDIAN, "epsilon": -1, "min_count": 0, "surprise": 1})
    again = pickle.loads(pickle.dumps(refused.value))
    assert {f for f, _ in again.problems} == {"epsilon", "min_count", "surprise"}
    assert str(again) == str(refused.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"inputs": ["x0", "x0"]}, "inputs"),
        ({"inputs": []}, "inputs"),
        ({"inputs": "x0"}, "inputs"),
        ({"inputs": ["x0", "y"]}, "output"),
        ({"output": "w"}, "output"),
        ({"model": "SVC"}, "model"),
        ({"model": "LogisticRegression"}, "delta"),
        ({"model": "LinearRegression"}, "delta"),
        ({"bounds": {"x0": {"type": "set", "values": [0, 1]}}}, "bounds.x0"),
        ({"bounds": {"y": {"type": "range", "low": 0, "high": 1}}}, "bounds.y"),
    ],
)
def test_an_integrated_document_that_cannot_work_names_what_to_change(change, field) -> None:
    assert field in problems({**BAYES, **change})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"server": "trusted"}, "server"),
        ({"bounds": {"species": PETS["bounds"]["species"]}}, "bounds.age"),
        ({"bounds": None}, "bounds"),
        ({"mechanism": "laplace"}, "mechanism"),
        (
            {
                "mechanism": "privunit",
                "epsilon": 1e-6,
                "bounds": {**PETS["bounds"], "age": {"type": "set", "values": list(range(99))}},
            },
            "epsilon",
        ),
        ({"featurizer": 'SELECT species, age AS "age.present" FROM profile.pets'}, "bounds"),
        ({"bounds": {**PETS["bounds"], "species": {"type": "set", "values": ["cat", "missing"]}}}, "bounds.species"),
    ],
)
def test_a_bounded_document_that_cannot_work_names_what_to_change(change, field) -> None:
    assert field in problems({**PETS, **change})


def test_gradient_documents_that_cannot_work_name_what_to_change() -> None:
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    good = {
        "type": "gradient",
        "epsilon": 4.0,
        "featurizer": "SELECT x0, x1, y FROM profile.example",
        "inputs": ["x0", "x1"],
        "outputs": ["y"],
        "model": model,
        "loss": loss,
    }
    registry.check(good)
    for change, field in [
        ({"inputs": ["x0"]}, "inputs"),
        ({"inputs": ["x0", "x9"]}, "inputs"),
        ({"outputs": ["x0"]}, "outputs"),
        ({"model": "{}"}, "model"),
        ({"model": '{"a":' * 20_000}, "model"),
        ({"loss": "return 1"}, "loss"),
        ({"clip": 0}, "clip"),
        ({"rounds": 2, "rounds_per_owner": 3}, "rounds_per_owner"),
        ({"mechanism": "gaussian"}, "delta"),
        ({"momentum": 1}, "momentum"),
        ({"backbone": "../../etc/passwd"}, "backbone"),
        ({"backbone": "0" * 64}, "backbone"),
    ]:
        assert any(name.startswith(field) for name in problems({**good, **change})), (change, field)


@pytest.mark.parametrize("inside", [None, "", "KIND = nothing"])
def test_a_broken_kind_of_another_package_takes_no_other_along(
    inside: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "broken_by_somebody"
    if inside is not None:
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "kind.py").write_text(inside)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, f"{package.name}.kind", raising=False)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    point = EntryPoint(name="broken", value=package.name, group="thebes.kinds")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    registry.packages.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="'broken' cannot be used .* mend or uninstall"):
            assert "broken" not in registry.types()
        assert "basic" in registry.people_types()
    finally:
        registry.packages.cache_clear()


def test_every_fault_of_a_document_is_explained_and_not_only_the_first() -> None:
    from thebes.tasks.document import InvalidDocument

    faults = [("epsilon", "must be at least 1e-06"), ("bounds.age", "is missing"), ("name", "is too long")]
    said = str(InvalidDocument(faults))
    assert all(f"{field}" in said and message in said for field, message in faults)
    assert "(and 2 more: bounds.age is missing; name is too long)" in said
