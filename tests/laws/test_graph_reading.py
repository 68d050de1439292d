"""Laws of the reader of models: whatever text arrives, it is a model or a Mistake."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.learning.graph import Model, read_loss, read_model
from thebes.learning.graph.document import Graph, Input, Node, Weight, write_model
from thebes.learning.graph.operations import OPERATIONS, Reference
from thebes.learning.graph.weights import unpack
from thebes.privacy.faults import Mistake


def picture() -> str:
    nodes = (
        Node("c", "aten.conv2d.default", {"input": Reference("x"), "weight": Reference("w"), "padding": (1, 1)}),
        Node("p", "aten.max_pool2d.default", {"self": Reference("c"), "kernel_size": (2, 2), "ceil_mode": True}),
        Node("s", "aten.cat.default", {"tensors": (Reference("p"), Reference("p")), "dim": 1}),
        Node("m", "aten.mean.dim", {"self": Reference("s"), "dim": (2, 3)}),
        Node("out", "aten.gelu.default", {"self": Reference("m"), "approximate": "tanh"}),
    )
    graph = Graph((Input("x", (1, 2, 6, 6)),), (Weight("w", (2, 2, 3, 3)),), nodes, "out")
    return write_model(graph, {"w": np.ones((2, 2, 3, 3), np.float32)})


VALID = picture()
LINE, WEIGHTS = VALID.split("\n")
ODD = st.sampled_from(
    [*OPERATIONS, "x", "w", "c", "p", "out", "__class__", "aten.from_file.default", "same", "class", "number", ""]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**63, 10**400, 1e-320, 1e308])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | ODD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | ODD, inner, max_size=4),
    max_leaves=8,
)


def accepted_or_mistake(text: object, argument: str = "model") -> None:
    found: object
    try:
        found = read_model(text)
    except Mistake as mistake:
        found = mistake
    assert isinstance(found, Model) or found.argument == argument


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.slow
@given(st.sampled_from([p for p in places(json.loads(LINE)) if p]), JSON)
@examples(80)
def test_any_value_at_any_place_is_read_or_refused(path, value):
    content = replaced(json.loads(LINE), path, value)
    accepted_or_mistake(json.dumps(content) + "\n" + WEIGHTS)


@pytest.mark.slow
@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.dictionaries(
        st.sampled_from(
            ["self", "input", "weight", "other", "dim", "shape", "kernel_size", "stride", "padding", "groups", "sizes"]
        ),
        st.sampled_from(["x", "w", "c", "m"])
        | st.integers(-7, 70)
        | st.lists(st.integers(-2, 70), max_size=4)
        | st.floats(-10, 10),
        max_size=6,
    ),
)
@examples(80)
def test_any_operation_with_any_arguments_is_read_or_refused(operation, arguments):
    content = json.loads(LINE)
    known = OPERATIONS[operation]
    needed = {name: arguments.get(name, "m") for name in known.required}
    more = {name: value for name, value in arguments.items() if name in known.optional}
    content["nodes"].append({"name": "new", "operation": operation, "arguments": needed | more})
    content["output"] = "new"
    accepted_or_mistake(json.dumps(content) + "\n" + WEIGHTS)


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
@examples(40)
def test_any_text_is_refused(text):
    with pytest.raises(Mistake, match=r"^model"):
        read_model(text)


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 127)), min_size=1, max_size=6))
@examples(60)
def test_any_changed_bytes_are_read_or_refused(changes):
    text = list(VALID)
    for place, code in changes:
        text[place] = chr(code)
    accepted_or_mistake("".join(text))


@given(st.integers(0, len(VALID)), st.integers(0, len(VALID)))
@examples(40)
def test_any_cut_is_read_or_refused(start, end):
    accepted_or_mistake(VALID[:start] + VALID[end:])


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=5))
@examples(40)
def test_any_weights_are_read_or_refused(more, changes):
    good = bytearray(base64.b64decode(WEIGHTS))
    for place, byte in changes:
        if place < len(good):
            good[place] = byte
    for raw in (more, bytes(good), bytes(good) + more, more + bytes(good)):
        values, refused = {}, None
        try:
            values = unpack(raw, (Weight("w", (2, 2, 3, 3)),), argument="weights")
        except Mistake as mistake:
            refused = mistake.argument
        assert refused == "weights" or np.isfinite(values["w"]).all()


@pytest.mark.slow
@given(JSON)
@examples(40)
def test_any_loss_is_refused_by_its_name(value):
    with pytest.raises(Mistake, match=r"^loss"):
        read_loss(json.dumps(value), read_model(VALID))


@given(st.sampled_from([VALID]))
@examples(1)
def test_reading_and_writing_are_inverse(text):
    model = read_model(text)
    assert write_model(model.graph, model.values) == text
