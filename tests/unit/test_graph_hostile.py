"""Hostile texts in place of a model or a loss: every one is a Mistake, and nothing of it is executed.

Run as a program, this file reads the whole corpus under an audit hook and prints what Python was made to do.
"""

import base64
import copy
import json
import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from thebes.learning.graph import read_loss, read_model
from thebes.learning.graph.document import DOCUMENT, Graph, Input, Node, Weight, write_model
from thebes.learning.graph.operations import Reference
from thebes.privacy.faults import Mistake


def valid() -> str:
    """A linear model on two columns with three outputs."""
    arguments = {"input": Reference("x"), "weight": Reference("w"), "bias": Reference("b")}
    nodes = (Node("n0", "aten.linear.default", arguments), Node("n1", "aten.tanh.default", {"self": Reference("n0")}))
    graph = Graph((Input("x", (1, 2)),), (Weight("w", (3, 2)), Weight("b", (3,))), nodes, "n1")
    return write_model(graph, {"w": np.ones((3, 2), np.float32), "b": np.zeros(3, np.float32)})


def valid_loss() -> str:
    call = {"self": Reference("outputs"), "target": Reference("targets")}
    node = Node("n0", "aten.cross_entropy_loss.default", call)
    return Graph((Input("outputs", (1, 3)), Input("targets", (1, 3), "class")), (), (node,), "n0").text


def changed(change) -> str:
    line, weights = valid().split("\n")
    content = json.loads(line)
    content = change(content) or content
    return json.dumps(content) + "\n" + weights


def node(operation: str, arguments: dict, **more):
    """The valid model with one more node before its output is taken."""

    def change(content):
        content["nodes"].append({"name": "last", "operation": operation, "arguments": arguments, **more})
        content["output"] = "last"

    return changed(change)


def weighed(raw: bytes) -> str:
    return valid().split("\n")[0] + "\n" + base64.b64encode(raw).decode()


def safetensors(header: object, data: bytes = b"\0" * 36) -> bytes:
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(written)) + written + data


def entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


class Runs:
    """Unpickling this would leave a trace: a directory named in the environment of the audited process."""

    def __reduce__(self):
        return (os.mkdir, (os.environ.get("TRACE", "/nonexistent/trace"),))


def shaped(shape) -> str:
    def change(content):
        content["inputs"][0]["shape"] = shape

    return changed(change)


def field(name, value):
    def change(content):
        content[name] = value

    return changed(change)


def picture(operation: str, arguments: dict, weight=(4, 3, 3, 3), shape=(1, 3, 8, 8)) -> str:
    graph = Graph((Input("x", shape),), (Weight("w", weight),), (Node("n", "aten.tanh.default", {}),), "n")
    content = json.loads(graph.text)
    content["nodes"][0] |= {"operation": operation, "arguments": arguments}
    raw = write_model(Graph((), (Weight("w", weight),), (), ""), {"w": np.zeros(weight, np.float32)}).split("\n")[1]
    return json.dumps(content) + "\n" + raw


def recurrent(steps: int, gates: int = 4, nodes: int = 1) -> str:
    """A recurrent layer of four hidden numbers over a sequence."""
    weights = {"w": (4 * gates, 4), "h": (16, 4)}
    call = {"input": Reference("x"), "weight_ih": Reference("w"), "weight_hh": Reference("h")}
    chain = [Node("n0", "thebes.lstm", call)]
    for place in range(1, nodes):
        chain.append(Node(f"n{place}", "thebes.lstm", {**call, "input": Reference(f"n{place - 1}")}))
    graph = Graph((Input("x", (1, steps, 4)),), tuple(Weight(*each) for each in weights.items()), tuple(chain), "n0")
    return write_model(graph, {name: np.zeros(shape, np.float32) for name, shape in weights.items()})


def looked_up(rows: int, wide: int, places: int) -> str:
    """An embedding of so many places from a table of rows."""
    call = {"weight": Reference("w"), "indices": Reference("x")}
    graph = Graph((Input("x", (1, places)),), (Weight("w", (rows, wide)),), (Node("n", "thebes.embedding", call),), "n")
    return write_model(graph, {"w": np.zeros((rows, wide), np.float32)})


FORBIDDEN = [
    *("aten.from_file.default", "aten.set_.source_Storage", "aten.as_strided.default", "aten.resize_.default"),
    *("aten.rand.default", "aten.bernoulli.default", "aten.dropout.default", "aten.embedding.default"),
    *("aten.index.Tensor", "aten.gather.default", "aten.relu_.default", "aten.empty.memory_format"),
    *("aten._unsafe_view.default", "aten.native_batch_norm.default", "aten.item.default", "aten.detach.default"),
    *("prims.add.default", "torch.os.system", "os.system", "builtins.eval", "__import__", "aten.linear", ""),
    *("aten.linear.default ", "ATEN.linear.default", "aten.linear.__class__", "higher_order.cond"),
]
DEEP = "[" * 100_000 + "]" * 100_000


def corpus() -> dict[str, str]:
    line, weights = valid().split("\n")
    texts: dict[str, str] = {f"operation {name!r}": node(name, {"self": "n1"}) for name in FORBIDDEN}
    texts |= {
        "nothing": "",
        "a word": "hello",
        "not ascii": valid().replace("tanh", "t\u00e4nh"),
        "a lone surrogate": "\ud800" + valid(),
        "a pickle": base64.b64encode(pickle.dumps(Runs())).decode(),
        "raw pickle": pickle.dumps(Runs(), protocol=0).decode("ascii"),
        "a zip": "PK\x03\x04" + "0" * 100,
        "deep lists": DEEP + "\n" + weights,
        "deep lists inside": line.replace('"arguments":{', '"arguments":{"z":' + DEEP + ",", 1) + "\n" + weights,
        "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
        "a long number": line.replace('"version":1', '"version":' + "9" * 4000) + "\n" + weights,
        "a longer number": line.replace('"version":1', '"version":' + "9" * 5000) + "\n" + weights,
        "NaN": node("aten.clamp_min.default", {"self": "n1", "min": float("nan")}),
        "infinity": node("aten.clamp_min.default", {"self": "n1", "min": float("inf")}),
        "1e999": node("aten.clamp_min.default", {"self": "n1", "min": 7}).replace('"min": 7', '"min": 1e999'),
        "a huge constant": node("aten.clamp_min.default", {"self": "n1", "min": 1e30}),
        "a huge whole constant": node("aten.clamp_min.default", {"self": "n1", "min": 10**3999}),
        "a truth for a number": node("aten.clamp_min.default", {"self": "n1", "min": True}),
        "text for a number": node("aten.clamp_min.default", {"self": "n1", "min": "__import__('os')"}),
        "an unknown word": node("aten.gelu.default", {"self": "n1", "approximate": "eval"}),
        "a null": node("aten.clamp.default", {"self": "n1", "min": None}),
        "a number for a tensor": node("aten.tanh.default", {"self": 3}),
        "a list for a tensor": node("aten.tanh.default", {"self": ["n1"]}),
        "an object for a tensor": node("aten.tanh.default", {"self": {"ref": "n1"}}),
        "a missing argument": node("aten.linear.default", {"input": "n1"}),
        "an unknown argument": node("aten.tanh.default", {"self": "n1", "out": "n0"}),
        "arguments in a list": node("aten.tanh.default", ["n1"]),
        "a forward reference": changed(lambda c: c["nodes"].reverse()),
        "a reference to itself": node("aten.tanh.default", {"self": "last"}),
        "an unknown reference": node("aten.tanh.default", {"self": "__class__"}),
        "twice the same node": changed(lambda c: c["nodes"].append(copy.deepcopy(c["nodes"][0]))),
        "a node named as a weight": changed(lambda c: c["nodes"][1].update(name="w")),
        "a name with a path": changed(lambda c: c["inputs"][0].update(name="../x")),
        "a repeated key": line.replace('"version":1', '"version":1,"version":1') + "\n" + weights,
        "an unknown field": field("code", "import os"),
        "an unknown field of a node": node("aten.tanh.default", {"self": "n1"}, module="os"),
        "an unknown field of a weight": changed(lambda c: c["weights"][0].update(dtype="O")),
        "another version": field("version", 2),
        "a version that is true": field("version", True),
        "another format": field("format", "pt2"),
        "no nodes": changed(lambda c: c.update(nodes=[], output="x")),
        "an output that is a weight": field("output", "w"),
        "a list": json.dumps([1, 2]),
        "two inputs": changed(lambda c: c["inputs"].append({"name": "y", "shape": [1]})),
        "no input": changed(lambda c: c.update(inputs=[])),
        "a class as input": changed(lambda c: c["inputs"][0].update(kind="class")),
        "too many nodes": changed(lambda c: c["nodes"].extend([{}] * (DOCUMENT.nodes + 1))),
        "too many weights": changed(lambda c: c["weights"].append({"name": "z", "shape": [5_000_001]})),
        "a negative side": shaped([1, -2]),
        "no side": shaped([1, 0]),
        "a side that is a fraction": shaped([1, 2.0]),
        "a huge side": shaped([1, 2**62]),
        "sides that multiply": shaped([1, 2**20, 2**20]),
        "too many sides": shaped([1] * 7),
        "a batch": shaped([2, 2]),
        "another width": shaped([1, 5]),
        "no weights": line,
        "no base64": line + "\n" + "!" * 40,
        "base64 in lines": valid()[:-10] + "\n" + valid()[-10:],
        "cut weights": valid()[:-8],
        "more weights than needed": valid() + "A" * 2**21,
        "pickle for weights": weighed(pickle.dumps(Runs())),
        "header too long": weighed(struct.pack("<Q", 2**62) + b"{}"),
        "header of a gigabyte": weighed(struct.pack("<Q", 2**30) + b"{" * 1000),
        "deep header": weighed(safetensors(DEEP.encode()[:200_000])),
        "empty header": weighed(safetensors(b"")),
        "header not ascii": weighed(safetensors("{\u00e4}".encode())),
        "header a list": weighed(safetensors([])),
        "header with metadata": weighed(
            safetensors({"__metadata__": {"a": "b"}, "w": entry([3, 2], 0, 24), "b": entry([3], 24, 36)})
        ),
        "overlapping weights": weighed(safetensors({"w": entry([3, 2], 0, 24), "b": entry([3], 12, 24)})),
        "gap between weights": weighed(safetensors({"w": entry([3, 2], 0, 24), "b": entry([3], 28, 40)})),
        "weights of another type": weighed(safetensors({"w": entry([3, 2], 0, 24, "I32"), "b": entry([3], 24, 36)})),
        "weights of another shape": weighed(safetensors({"w": entry([2, 3], 0, 24), "b": entry([3], 24, 36)})),
        "weights that are NaN": weighed(
            safetensors({"w": entry([3, 2], 0, 24), "b": entry([3], 24, 36)}, b"\xff\xff\xff\x7f" * 9)
        ),
        "a shape that grows": node("aten.reshape.default", {"self": "n1", "shape": [1, -1, -1]}),
        "an axis too far": node("aten.softmax.int", {"self": "n1", "dim": 5}),
        "an axis without end": node("aten.softmax.int", {"self": "n1", "dim": 2**63}),
        "an empty slice": node("aten.slice.Tensor", {"self": "n1", "dim": 1, "start": 3}),
        "a concatenation without end": bomb(),
        "an outer product": outer(),
        "no kernel": picture("aten.max_pool2d.default", {"self": "x", "kernel_size": [0, 0]}),
        "no stride": picture("aten.conv2d.default", {"input": "x", "weight": "w", "stride": [0, 1]}),
        "endless padding": picture("aten.conv2d.default", {"input": "x", "weight": "w", "padding": [100_000] * 2}),
        "no groups": picture("aten.conv2d.default", {"input": "x", "weight": "w", "groups": 0}),
        "a kernel wider than the picture": picture("aten.conv2d.default", {"input": "x", "weight": "w"}, (4, 3, 9, 9)),
        "a division by no group": picture("aten.group_norm.default", {"input": "x", "num_groups": 0}),
        "groups that do not divide": picture("aten.group_norm.default", {"input": "x", "num_groups": 2}),
        "a sequence without end": recurrent(129),
        "gates that do not fit": recurrent(8, gates=3),
        "a sequence that is none": node("thebes.lstm", {"input": "n1", "weight_ih": "w", "weight_hh": "w"}),
        "a table too wide for its places": looked_up(500_000, 1, 200),
        "a table that is none": node("thebes.embedding", {"weight": "b", "indices": "n1"}),
        "a padding that is no place": node("thebes.embedding", {"weight": "w", "indices": "n1", "padding_idx": -7}),
        "places for attention that do not fit": node("thebes.attention", {"query": "n1", "key": "w", "value": "w"}),
        "a mask from data": node("thebes.attention", {"query": "n1", "key": "n1", "value": "n1", "attn_mask": "n1"}),
        "too much work": picture(
            "aten.conv2d.default", {"input": "x", "weight": "w", "padding": "same"}, (64, 64, 15, 15), (1, 64, 500, 500)
        ).replace("conv2d.default", "conv2d.padding"),
    }
    return texts


def bomb() -> str:
    """Each node is sixteen times as wide as the one before."""

    def change(content):
        last = "n1"
        for step in range(12):
            cat = {"tensors": [last] * 16, "dim": 1}
            content["nodes"].append({"name": f"c{step}", "operation": "aten.cat.default", "arguments": cat})
            last = f"c{step}"
        content["output"] = last

    return changed(change)


def outer() -> str:
    """A column of a million against a row of a million."""
    return picture("aten.add.Tensor", {"self": "x", "other": "w"}, (1, 1_000_000), (1, 1_000_000, 1))


HOSTILE = corpus()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_model_is_refused_by_name(name):
    with pytest.raises(Mistake) as caught:
        read_model(HOSTILE[name])
    assert caught.value.argument == "model"
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["list"], {"format": "thebes-graph"}])
def test_what_is_no_string_is_refused(wrong):
    model = read_model(valid())
    with pytest.raises(Mistake, match=r"^model"):
        read_model(wrong)
    with pytest.raises(Mistake, match=r"^loss"):
        read_loss(wrong, model)


def test_the_valid_pair_is_read():
    model = read_model(valid())
    loss = read_loss(valid_loss(), model)
    assert (model.graph.parameter_count, model.input.columns, loss.targets.columns) == (9, 2, 1)


LOSSES = {
    "a model": valid(),
    "weights": valid_loss() + "\nAAAA",
    "other outputs": valid_loss().replace("[1,3]", "[1,4]"),
    "no targets": valid_loss().replace('{"kind":"class","name":"targets","shape":[1,3]}', "").replace("},]", "}]"),
    "a class of one": valid_loss().replace('"targets","shape":[1,3]', '"targets","shape":[1,1]'),
    "many numbers": valid_loss()
    .replace('"target":"targets"', "")
    .replace(",}", "}")
    .replace("cross_entropy_loss", "tanh")
    .replace('"self":"outputs",', '"self":"outputs"'),
    "no reduction": valid_loss().replace('{"self"', '{"reduction":0,"self"'),
    "a forbidden operation": valid_loss().replace("cross_entropy_loss", "nll_loss_nd"),
    **{name: HOSTILE[name] for name in ("deep lists", "a pickle", "raw pickle", "nothing", "a list")},
}


@pytest.mark.parametrize("name", LOSSES)
def test_hostile_loss_is_refused_by_name(name):
    model = read_model(valid())
    assert LOSSES[name] != valid_loss()
    with pytest.raises(Mistake) as caught:
        read_loss(LOSSES[name], model)
    assert caught.value.argument == "loss"


def test_an_unknown_field_or_operation_is_named_in_the_message():
    for name, word in (
        ("an unknown field", "'code'"),
        ("an unknown field of a node", "'module'"),
        ("an unknown argument", "'out'"),
        ("operation 'aten.from_file.default'", "'aten.from_file.default'"),
    ):
        with pytest.raises(Mistake, match=word):
            read_model(HOSTILE[name])


@pytest.mark.slow
def test_reading_hostile_texts_touches_nothing(tmp_path):
    """Under an audit hook in a fresh process: no unpickling, no code, no socket, no process, no file to write."""
    trace = tmp_path / "trace"
    found = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRACE": str(trace)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    report = json.loads(found.stdout)
    assert report["refused"] == len(HOSTILE) + len(LOSSES)
    assert report["events"] == []
    assert report["control"], "the hook must see an unpickling when there is one"
    assert trace.exists(), "the control runs the corpus's own pickle, and nothing else did before it"


FORBIDDEN_EVENTS = ("pickle", "socket", "subprocess", "os.", "exec", "compile", "ctypes", "shutil", "marshal", "code.")


def audited() -> None:
    events: list[str] = []
    watching = False

    def hook(event: str, arguments: tuple) -> None:
        if not watching:
            return
        if event == "open":
            mode, flags = arguments[1], arguments[2]
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & 3):
                events.append(f"{event} {arguments}")
            return
        if event.startswith(FORBIDDEN_EVENTS):
            events.append(event)

    model = read_model(valid())
    read_loss(valid_loss(), model)
    trace = os.environ["TRACE"]
    sys.addaudithook(hook)
    watching, refused = True, 0
    for text in HOSTILE.values():
        try:
            read_model(text)
        except Mistake:
            refused += 1
    for text in LOSSES.values():
        try:
            read_loss(text, model)
        except Mistake:
            refused += 1
    watching = False
    seen, before = list(events), os.path.exists(trace)
    watching = True
    pickle.loads(base64.b64decode(HOSTILE["a pickle"]))
    watching = False
    report = {"refused": refused, "events": seen + ["trace"] * before, "control": "pickle.find_class" in events}
    print(json.dumps(report))


if __name__ == "__main__":
    audited()
