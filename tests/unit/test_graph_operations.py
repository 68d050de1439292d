"""Every allowed operation: functional by its schema, and its batched gradients equal those of one example at a time."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from thebes.learning.graph import read_loss, read_model
from thebes.learning.graph.document import Graph, Input, Node, Weight, write_model
from thebes.learning.graph.interpret import evaluate, per_example_gradients
from thebes.learning.graph.operations import OPERATIONS, Reference, kernels

FLAT = (1, 6)
SIGNAL = (1, 2, 8)
PICTURE = (1, 2, 6, 6)
STEPS = (1, 4, 6)
A, V, B = "a", "v", "b"

# operation -> (shape of the input, arguments; "a" is the scaled input, "v" and "b" are weights of the given shapes)
CASES: dict[str, tuple] = {
    "gelu.default": (FLAT, {"self": A, "approximate": "tanh"}),
    "elu.default": (FLAT, {"self": A, "alpha": 0.7, "scale": 1.5, "input_scale": 0.5}),
    "celu.default": (FLAT, {"self": A, "alpha": 0.7}),
    "leaky_relu.default": (FLAT, {"self": A, "negative_slope": 0.2}),
    "softplus.default": (FLAT, {"self": A, "beta": 2.0, "threshold": 20.0}),
    "hardtanh.default": (FLAT, {"self": A, "min_val": -0.5, "max_val": 0.9}),
    "clamp.default": (FLAT, {"self": A, "min": -0.5, "max": 0.9}),
    "clamp_min.default": (FLAT, {"self": A, "min": 0.6}),
    "pow.Tensor_Scalar": (FLAT, {"self": A, "exponent": 3}),
    "rsub.Scalar": (FLAT, {"self": A, "other": 2.0, "alpha": 0.5}),
    "prelu.default": (FLAT, {"self": A, "weight": V}, (1,)),
    "add.Tensor": (FLAT, {"self": A, "other": V, "alpha": 2.0}, (6,)),
    "sub.Tensor": (FLAT, {"self": A, "other": 1.5}),
    "mul.Tensor": (FLAT, {"self": A, "other": V}, (6,)),
    "div.Tensor": (FLAT, {"self": A, "other": V}, (6,)),
    "maximum.default": (FLAT, {"self": A, "other": V}, (1, 6)),
    "minimum.default": (FLAT, {"self": A, "other": V}, (1, 6)),
    "linear.default": (FLAT, {"input": A, "weight": V, "bias": B}, (3, 6), (3,)),
    "matmul.default": (FLAT, {"self": A, "other": V}, (6, 3)),
    "mm.default": (FLAT, {"self": A, "mat2": V}, (6, 3)),
    "bmm.default": ((1, 2, 6), {"self": A, "mat2": V}, (1, 6, 3)),
    "addmm.default": (FLAT, {"self": B, "mat1": A, "mat2": V, "beta": 0.5, "alpha": 2.0}, (6, 3), (3,)),
    "conv1d.default": (SIGNAL, {"input": A, "weight": V, "bias": B, "stride": [2], "padding": [1]}, (4, 2, 3), (4,)),
    "conv2d.default": (PICTURE, {"input": A, "weight": V, "bias": B, "groups": 2}, (4, 1, 3, 3), (4,)),
    "conv1d.padding": (SIGNAL, {"input": A, "weight": V, "padding": "same"}, (4, 2, 3)),
    "conv2d.padding": (PICTURE, {"input": A, "weight": V, "padding": "valid", "dilation": [2, 2]}, (4, 2, 3, 3)),
    "max_pool1d.default": (SIGNAL, {"self": A, "kernel_size": [3], "stride": [2], "ceil_mode": True}),
    "max_pool2d.default": (PICTURE, {"self": A, "kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}),
    "avg_pool1d.default": (SIGNAL, {"self": A, "kernel_size": [2], "stride": [2]}),
    "avg_pool2d.default": (PICTURE, {"self": A, "kernel_size": [2, 2], "padding": [1, 1], "count_include_pad": False}),
    "adaptive_avg_pool1d.default": (SIGNAL, {"self": A, "output_size": [3]}),
    "adaptive_avg_pool2d.default": (PICTURE, {"self": A, "output_size": [2, 2]}),
    "group_norm.default": (PICTURE, {"input": A, "num_groups": 2, "weight": V, "bias": B}, (2,), (2,)),
    "layer_norm.default": (FLAT, {"input": A, "normalized_shape": [6], "weight": V, "bias": B}, (6,), (6,)),
    "flatten.using_ints": (PICTURE, {"self": A, "start_dim": 1}),
    "unflatten.int": (FLAT, {"self": A, "dim": 1, "sizes": [2, 3]}),
    "reshape.default": (PICTURE, {"self": A, "shape": [1, -1]}),
    "permute.default": (PICTURE, {"self": A, "dims": [0, 2, 3, 1]}),
    "transpose.int": (SIGNAL, {"self": A, "dim0": 1, "dim1": 2}),
    "unsqueeze.default": (FLAT, {"self": A, "dim": 1}),
    "squeeze.dim": ((1, 1, 6), {"self": A, "dim": 1}),
    "select.int": (SIGNAL, {"self": A, "dim": 1, "index": -1}),
    "slice.Tensor": (FLAT, {"self": A, "dim": 1, "start": 1, "end": 5, "step": 2}),
    "cat.default": (FLAT, {"tensors": [A, A, V], "dim": 1}, (1, 6)),
    "mean.dim": (SIGNAL, {"self": A, "dim": [2], "keepdim": True}),
    "sum.dim_IntList": (SIGNAL, {"self": A, "dim": [1, 2]}),
    "logsumexp.default": (FLAT, {"self": A, "dim": [1], "keepdim": True}),
    "softmax.int": (FLAT, {"self": A, "dim": 1}),
    "log_softmax.int": (FLAT, {"self": A, "dim": 1}),
    "mse_loss.default": (FLAT, {"self": A, "target": V}, (1, 6)),
    "l1_loss.default": (FLAT, {"self": A, "target": V, "reduction": 2}, (1, 6)),
    "binary_cross_entropy_with_logits.default": (FLAT, {"self": A, "target": V}, (1, 6)),
    "huber_loss.default": (FLAT, {"self": A, "target": V, "delta": 0.3}, (1, 6)),
    "smooth_l1_loss.default": (FLAT, {"self": A, "target": V, "beta": 0.3}, (1, 6)),
    "cross_entropy_loss.default": (FLAT, {"self": A, "target": V, "label_smoothing": 0.1}, (1, 6)),
    "poisson_nll_loss.default": (
        FLAT,
        {"input": A, "target": V, "log_input": True, "full": True, "eps": 1e-8, "reduction": 1},
        (1, 6),
    ),
    "thebes.lstm": (STEPS, {"input": A, "weight_ih": V, "weight_hh": B}, (12, 6), (12, 3)),
    "thebes.gru": (STEPS, {"input": A, "weight_ih": V, "weight_hh": B, "reverse": True}, (9, 6), (9, 3)),
    "thebes.attention": (STEPS, {"query": A, "key": V, "value": A, "is_causal": True}, STEPS),
    "thebes.embedding": (FLAT, {"weight": V, "indices": A, "padding_idx": 1}, (3, 2)),
}
ONE_TENSOR = [
    *("relu", "relu6", "tanh", "sigmoid", "silu", "selu", "hardswish", "hardsigmoid", "mish", "log_sigmoid"),
    *("abs", "neg", "exp", "log", "log1p", "sqrt", "square", "sin", "cos", "erf", "reciprocal", "mean", "sum"),
    "trunc",
]
CASES |= {f"{name}.default": (FLAT, {"self": A}) for name in ONE_TENSOR}

LOSS = (
    '{"format":"thebes-graph","version":1,"inputs":[{"name":"outputs","shape":%s},{"name":"targets","shape":[1,1]}],'
    '"weights":[],"nodes":[{"name":"s","operation":"aten.square.default","arguments":{"self":"outputs"}},'
    '{"name":"l","operation":"aten.sum.default","arguments":{"self":"s"}}],"output":"l"}'
)


def full(name: str) -> str:
    return name if name.startswith("thebes.") else f"aten.{name}"


def model_of(name: str) -> str:
    shape, arguments, *others = CASES[name]
    weights = [
        Weight("w", shape),
        *(Weight(each, s, "target" not in arguments) for each, s in zip((V, B), others, strict=False)),
    ]

    def parsed(value):
        if isinstance(value, str) and value in (A, V, B):
            return Reference(value)
        return tuple(parsed(each) for each in value) if isinstance(value, list) else value

    nodes = [
        Node(A, "aten.mul.Tensor", {"self": Reference("x"), "other": Reference("w")}),
        Node("r", full(name), {key: parsed(value) for key, value in arguments.items()}),
        # a loss is a single number: give every case the batch axis that a model must keep
        Node("out", "aten.reshape.default", {"self": Reference("r"), "shape": (1, -1)}),
    ]
    draw = np.random.default_rng(5)
    values = {each.name: draw.uniform(0.5, 1.5, each.shape).astype(np.float32) for each in weights}
    return write_model(Graph((Input("x", shape),), tuple(weights), tuple(nodes), "out"), values)


def test_every_allowed_operation_has_a_case():
    assert {full(name) for name in CASES} == set(OPERATIONS)


@pytest.mark.few(39)
@pytest.mark.parametrize("name", sorted(CASES))
def test_batched_gradients_are_those_of_each_example_alone(name):
    model = read_model(model_of(name))
    loss = read_loss(LOSS % str(list(model.output_shape)), model)
    rows = np.random.default_rng(7).uniform(0.2, 1.7, (5, *CASES[name][0])).astype(np.float32)
    found = per_example_gradients(model, loss, model.initial, rows, np.zeros((5, 1)))
    for row, gradient in zip(rows, found, strict=True):
        weights = {n: torch.tensor(values) for n, values in model.values.items()}
        trained = [weights[each.name].requires_grad_() for each in model.graph.trained]
        said = evaluate(model.graph, {**weights, "x": torch.from_numpy(row)})
        assert tuple(said.shape) == model.output_shape
        parts = torch.autograd.grad(said.square().sum(), trained, allow_unused=True)
        alone = [torch.zeros_like(w) if part is None else part for w, part in zip(trained, parts, strict=True)]
        expected = torch.cat([part.reshape(-1) for part in alone]).numpy()
        assert np.abs(gradient - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


def torchs():
    return {name: kernel for name, kernel in kernels().items() if name.startswith("aten.")}


class Watched(TorchDispatchMode):
    """Keep every kernel that is called under it."""

    def __init__(self):
        super().__init__()
        self.called = []

    def __torch_dispatch__(self, kernel, _, positional=(), options=None):
        self.called.append(kernel)
        return kernel(*positional, **(options or {}))


@pytest.mark.parametrize("name", sorted(name for name in CASES if name.startswith("thebes.")))
def test_a_layer_of_our_own_follows_no_index_and_draws_nothing(name):
    model = read_model(model_of(name))
    weights = {n: torch.tensor(values) for n, values in model.values.items()}
    with Watched() as watched:
        evaluate(model.graph, {**weights, "x": torch.ones(CASES[name][0])})
    assert watched.called
    for kernel in watched.called:
        assert "index" not in str(kernel), kernel
        assert "embedding" not in str(kernel), kernel
        assert torch.Tag.nondeterministic_seeded not in kernel.tags, kernel
        assert torch.Tag.data_dependent_output not in kernel.tags, kernel


def test_no_allowed_operation_changes_its_arguments_or_draws_random_numbers():
    for name, kernel in torchs().items():
        assert not kernel._schema.is_mutable, name
        assert torch.Tag.nondeterministic_seeded not in kernel.tags, name
        assert torch.Tag.data_dependent_output not in kernel.tags, name


def test_every_argument_of_the_list_exists_in_torch():
    for name, kernel in torchs().items():
        operation = OPERATIONS[name]
        theirs = {argument.name: argument for argument in kernel._schema.arguments}
        assert set(operation.required) | set(operation.optional) <= set(theirs), name
        needed = {each for each, argument in theirs.items() if not argument.has_default_value()}
        assert needed <= set(operation.required) | {"stride"}, name
