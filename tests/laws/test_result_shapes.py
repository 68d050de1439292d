"""Law of shapes: what the reader of a model knows of every operation without torch is what torch computes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.test_graph_operations import CASES, A, B, V, full
from thebes.learning.graph.document import DOCUMENT, Graph, Input, Node
from thebes.learning.graph.operations import OPERATIONS, Axes, Reference, TensorAxis, kernels
from thebes.learning.graph.shapes import inferred
from thebes.privacy.faults import Mistake

torch = pytest.importorskip("torch")

SHAPE = st.lists(st.integers(1, 4), max_size=5).map(tuple)
SIDES = st.sampled_from([1, 2, 3, 4, 6])


def changed(draw, value):
    """One shape or list of whole numbers, as it is or with something in it otherwise."""
    sides = list(value)
    match draw(st.sampled_from(["same", "same", "side", "more", "less", "swap", "any"])):
        case "side" if sides:
            sides[draw(st.integers(0, len(sides) - 1))] = draw(SIDES)
        case "more":
            sides.insert(draw(st.integers(0, len(sides))), draw(SIDES))
        case "less" if sides:
            sides.pop(draw(st.integers(0, len(sides) - 1)))
        case "swap":
            sides.reverse()
        case "any":
            return draw(SHAPE)
    return tuple(sides)


@st.composite
def nodes(draw):
    """One operation and its tensors' shapes: fitting ones, somewhat changed."""
    name = draw(st.sampled_from(sorted(CASES)))
    first, arguments, *others = CASES[name]
    shapes = {each: changed(draw, shape) for each, shape in zip((A, V, B), (first, *others), strict=False)}
    operation, given = OPERATIONS[full(name)], {}
    for key, parameter in {**operation.required, **operation.optional}.items():
        value = arguments.get(key)
        if key not in arguments and draw(st.booleans()):
            continue
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            value = list(changed(draw, value))
        elif value is None or (type(value) is int and draw(st.booleans())):
            value = draw(st.sampled_from([-7, -2, -1, 0, 1, 2, 3, True, False, 0.5, [1], [2, 1], [-1], [0], "same", A]))
        try:
            given[key] = parameter.read(value, set(shapes))
        except Exception:
            given.pop(key, None)
    return full(name), given, shapes


def by_torch(name, given, shapes):
    """The shape that torch computes, or None."""
    tensors = {each: torch.full(shape, 0.5) for each, shape in shapes.items()}

    def filled(value):
        if isinstance(value, Reference):
            return tensors[value.name]
        return [filled(each) for each in value] if isinstance(value, tuple) else value

    try:
        found = tuple(kernels()[name](**{key: filled(value) for key, value in given.items()}).shape)
    except Exception:
        return None
    return found if len(found) <= 6 and 0 not in found else None


def by_reader(name, given, shapes):
    inputs = tuple(Input(each, shape) for each, shape in shapes.items())
    try:
        return inferred(Graph(inputs, (), (Node("r", name, given),), "r"), DOCUMENT, "model")[0]
    except Mistake:
        return None


@given(nodes())
@examples(60)
def test_the_reader_knows_the_shape_that_torch_computes(node):
    name, given, shapes = node
    axes = any(isinstance(OPERATIONS[name].parameter(each), (TensorAxis, Axes)) for each in given)
    if not set(OPERATIONS[name].required) <= set(given) or (axes and not shapes[A]):
        return  # no reader gets that far, and no number has an axis here, while torch lets it have one
    assert by_reader(*node) == by_torch(*node)
