"""A requestor's model and, after an empty line, its loss: text that a coordinator and every owner read."""

from __future__ import annotations

from thebes.learning.graph import read_loss, read_model
from thebes.learning.graph.document import write_model


def one(data: bytes) -> None:
    first, _, second = data.decode("latin-1").partition("\n\n")
    model = read_model(first)
    again = read_model(write_model(model.graph, model.values))
    assert again.graph.digest == model.graph.digest
    if second:
        read_loss(second, model)
