"""The contents of a draw-discard document: refusals that name the field, features, weights by name, the price."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from thebes.data.rows import Rows
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.draw_discard.features import DesignColumns, Encoded
from thebes.tasks.draw_discard.plan import plan

SET, RANGE = {"type": "set", "values": [1, 0]}, {"type": "range", "low": 0.0, "high": 4.0}
DOCUMENT = {
    "type": "draw-discard",
    "epsilon": 8.0,
    "featurizer": "SELECT b, e1, e2, d, i, o FROM app.event",
    "family": "logistic",
    "inputs": ["b", "e1", "e2", "d", "i"],
    "crosses": "pairwise",
    "output": "o",
    "bounds": {
        "b": SET,
        "e1": {"type": "set", "values": ["A", "B", "C"]},
        "e2": {"type": "set", "values": ["a", "b", "c", "d"]},
        "d": RANGE,
        "i": RANGE,
        "o": {"type": "set", "values": [0, 1]},
    },
}


def document(**more: object):
    return registry.check({k: v for k, v in {**DOCUMENT, **more}.items() if v is not None})


def test_the_seeds_model_of_five_predictors_and_their_crosses_has_33_weights() -> None:
    names = plan(document()).names
    assert len(names) == len(set(names)) == 33
    assert names[:9] == ("intercept", "b=1", "e1=A", "e1=B", "e2=a", "e2=b", "e2=c", "d", "i")
    assert {"b=1 x e1=A", "e1=B x e2=c", "b=1 x d", "d x i"} <= set(names)


@pytest.mark.parametrize(
    ("more", "rate", "decay"),
    [
        ({}, 0.046, 60_000),
        ({"epsilon": 2.0}, 0.012, 60_000),
        ({"clip": 0.1}, 0.46, 60_000),
        ({"mechanism": "none", "epsilon": 100.0}, 0.1, 60_000),
    ],
)
def test_a_document_that_names_no_rate_gets_one_that_suits_the_noise_and_falls(more, rate, decay) -> None:
    made = document(**more)
    assert (made.learning_rate, made.decay) == (rate, decay)
    assert f"a learning rate of {rate:g}, halved after {decay:,} updates" in registry.kind("draw-discard").explain(made)
    assert "it suits the noise" in registry.kind("draw-discard").explain(made)
    assert registry.check(made.as_json()).digest == made.digest


def test_a_document_that_names_a_rate_keeps_it_and_so_do_those_that_were_stored() -> None:
    for named in ({"learning_rate": 0.001}, {"learning_rate": [0.1, 0.2], "keep": 0.2}):
        made = document(**named)
        assert made.decay is None
        stored = made.as_json()
        assert "decay" not in stored
        assert registry.accepted_earlier(stored).digest == made.digest
        assert "the task names it" in registry.kind("draw-discard").explain(made)
    assert document(decay=500).decay == 500


def test_crosses_may_be_listed_or_left_out() -> None:
    assert plan(document(crosses=None)).weights == 9
    assert plan(document(crosses=[["d", "i"], ["b", "e1"]])).names[9:] == ("d x i", "b=1 x e1=A", "b=1 x e1=B")


def test_a_multinomial_has_weights_for_every_class() -> None:
    made = plan(document(family="multinomial", output="e2", inputs=["d"], crosses=None))
    assert made.names == tuple(f"e2={v}: {name}" for v in "abcd" for name in ("intercept", "d"))


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("crosses", {"crosses": [["d", "d"]]}),
        ("crosses", {"crosses": [["d", "i"], ["i", "d"]]}),
        ("crosses", {"crosses": [["d", "o"]]}),
        ("inputs", {"inputs": ["b", "nobody"]}),
        ("output", {"output": "b"}),
        ("output", {"family": "linear"}),
        ("output", {"family": "logistic", "output": "e1", "inputs": ["b"], "crosses": None}),
        ("output", {"family": "poisson"}),
        ("bounds", {"bounds": {"o": DOCUMENT["bounds"]["o"]}}),
        ("family", {"family": None}),
        ("family", {"model": "{}", "loss": "{}"}),
        ("epsilon_per_weight", {"mechanism": "laplace"}),
        ("epsilon_per_weight", {"epsilon_per_weight": 1.0}),
        ("epsilon", {"mechanism": "laplace", "epsilon_per_weight": 1.0}),
        ("epsilon_per_weight", {"mechanism": "laplace", "epsilon_per_weight": 1e6, "epsilon": None}),
        ("epsilon", {"max_participations": 10_000, "epsilon": 1e-6}),
        ("delta", {"mechanism": "gaussian"}),
        ("diagnostics", {"mechanism": "none", "diagnostics": 0.1}),
        ("start", {"start": [0.0]}),
        ("start", {"start": [1e9] * 33}),
        ("keep", {"keep": 0.5}),
        ("learning_rate", {"learning_rate": [0.1, 0.1]}),
        ("learning_rate", {"learning_rate": [0.1, -0.1]}),
        ("learning_rate", {"learning_rate": []}),
        ("target", {"target": {"moved": 0.1}}),
        ("instances", {"instances": 0}),
        ("decay", {"decay": 0.99}),
    ],
)
def test_what_cannot_work_is_refused_by_name(field, more) -> None:
    with pytest.raises(InvalidDocument) as refused:
        document(**more)
    assert field in [named.split(".")[0] for named, _ in refused.value.problems]


def test_a_task_holds_no_more_numbers_than_can_be_computed_with_for_everybody() -> None:
    large = {"inputs": ["b"], "crosses": None, "mechanism": "laplace-l1"}
    words = {"b": {"type": "set", "values": list(range(8409))}, "o": {"type": "set", "values": list("abcdef")}}
    assert plan(document(**large, family="multinomial", bounds=words)).weights == 50_454
    lanes = [0.1, 0.2, 0.3, 0.4, 0.5]
    with pytest.raises(InvalidDocument, match="instances"):
        document(**large, family="multinomial", bounds=words, learning_rate=lanes)
    digits = {**DOCUMENT["bounds"], "b": {"type": "set", "values": list(range(7850))}}
    assert document(**large, bounds=digits, instances=100)
    with pytest.raises(InvalidDocument, match="average"):
        document(**large, bounds=digits, instances=100, average="predictions")
    assert document(**large, bounds=digits, instances=33, average="predictions")


def test_a_poisson_output_starts_at_0_or_above() -> None:
    bounds = {**DOCUMENT["bounds"], "d": {"type": "range", "low": -1.0, "high": 4.0}}
    with pytest.raises(InvalidDocument, match="output"):
        document(family="poisson", output="d", inputs=["i"], crosses=None, bounds=bounds)


def test_by_weight_the_persons_price_is_weights_times_that_of_a_weight() -> None:
    checked = document(mechanism="laplace", epsilon=None, epsilon_per_weight=0.1, max_participations=3)
    assert checked.epsilon == 3.3  # exactly: a product of floats would be 3.3000000000000003
    assert registry.kind("draw-discard").price(checked).epsilon == Decimal("3.3")
    made = plan(checked)
    assert made.each is not None
    assert 33 * made.each <= made.epsilon <= Decimal("3.3") / 3
    assert made.each * 3 <= Decimal("0.1") < made.each * 3 + Decimal("1e-9")
    again = document(mechanism="laplace", epsilon=3.3, epsilon_per_weight=0.1, max_participations=3)
    assert again.digest == checked.digest


def test_two_weights_never_share_a_name() -> None:
    with pytest.raises(InvalidDocument, match="inputs"):
        document(
            featurizer='SELECT b, d AS "b=1", o FROM app.event',
            inputs=["b", "b=1"],
            crosses=None,
            bounds={"b": SET, "b=1": RANGE, "o": DOCUMENT["bounds"]["o"]},
        )


def rows(**columns: list[object]) -> Rows:
    return Rows.one_each({name: np.array(values, dtype=object) for name, values in columns.items()})


def test_a_design_has_intercept_references_scaled_ranges_and_products() -> None:
    made = DesignColumns(document(inputs=["b", "e1", "d"], crosses=[["e1", "d"], ["b", "e1"]]))
    read = Encoded(made, rows(b=[1, 0], e1=["B", "C"], d=[3.0, 9.0], o=[1, 0])).batch(np.array([1, 0]))
    lines = [dict(zip(made.names, line, strict=True)) for line in read.x[:, 0, :]]
    assert lines[1] == {
        "intercept": 1.0,
        "b=1": 1.0,
        "e1=A": 0.0,
        "e1=B": 1.0,
        "d": 0.75,
        "e1=A x d": 0.0,
        "e1=B x d": 0.75,
        "b=1 x e1=A": 0.0,
        "b=1 x e1=B": 1.0,
    }
    assert lines[0] == {name: {"intercept": 1.0, "d": 1.0}.get(name, 0.0) for name in made.names}
    assert read.y[:, 0].tolist() == [0.0, 1.0]


def test_missing_inputs_take_the_default_the_middle_or_the_reference_and_missing_outputs_do_not_count() -> None:
    bounds = {**DOCUMENT["bounds"], "i": {**RANGE, "default": 1.0}}
    made = DesignColumns(document(bounds=bounds, crosses=None))
    values = {"b": [None], "e1": ["no such"], "e2": [float("nan")], "d": [None], "i": ["text"], "o": [1]}
    line = dict(zip(made.names, Encoded(made, rows(**values)).batch(np.array([0])).x[0, 0], strict=True))
    assert line == {name: {"intercept": 1.0, "d": 0.5, "i": 0.25}.get(name, 0.0) for name in made.names}
    assert Encoded(made, rows(**{**values, "o": [None]})).batch(np.array([0])).share.tolist() == [[0.0]]


def test_the_rows_of_one_person_are_averaged_or_summed_over_those_with_an_output() -> None:
    table = Rows(
        {name: np.array(values, dtype=object) for name, values in {"d": [1, 2, 3, 4], "o": [1, None, 0, 1]}.items()},
        np.array([0, 0, 0, 2]),
        3,
        np.zeros(3, dtype=np.uint8),
    )
    for reduce, share in (("mean", 0.5), ("sum", 1.0)):
        made = DesignColumns(document(inputs=["d"], crosses=None, reduce=reduce))
        batch = Encoded(made, table).batch(np.arange(3))
        assert batch.share.tolist() == [[share, 0.0, share], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_an_explanation_says_that_nothing_can_be_taken_back() -> None:
    words = registry.kind("draw-discard").explain(document(max_participations=4))
    assert "cannot be taken back" in words
    assert "up to 4 times" in words
