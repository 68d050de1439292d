"""The process in which a requestor's graph meets an owner's rows: forked by `child_server`, or, where the system forks
none, `python -m thebes.learning.graph.child`.

It confines itself before it hears anything, then answers requests on its two pipes until they close. It says only one
byte of success or a gradient of the size that was asked for; why something failed never leaves it.
"""

from __future__ import annotations

import numpy as np

from thebes.confinement.calls import die_with_parent
from thebes.confinement.inside import hear, live, say
from thebes.learning.graph.pipe import APART, DOCUMENTS, DONE, EACH, FAILED, MEAN, REQUEST, SAID, START


def prepare() -> None:
    """Load all that a task needs and nothing of any: torch is ours, needs files and memory to load, and starts no
    thread while the variables stand that this process was begun with."""
    import torch
    from torch.func import grad, vmap

    import thebes.learning.graph.interpret
    import thebes.learning.graph.lanes
    import thebes.learning.graph.shapes  # noqa: F401

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # numbers next to 0 take no longer than others

    def loss_of(weight: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.mse_loss.default(torch.ops.aten.linear.default(row, weight), row[..., :1])

    # What torch loads on first use for one gradient, which is of our own here.
    vmap(grad(loss_of), in_dims=(None, 0))(torch.ones(1, 2), torch.ones(2, 1, 2))


def serve(source: int, sink: int) -> None:
    """Answer requests from the file descriptor `source` on `sink`."""
    from thebes.confinement.measures import MEASURES, confine
    from thebes.learning.graph.document import BACKBONE, SITE, read_loss, read_model
    from thebes.learning.graph.interpret import mean_gradient, outputs_of, per_example_gradients
    from thebes.learning.graph.lanes import gradients_and_losses, outputs

    memory_bytes, cpu_seconds = START.unpack(hear(source, START.size))
    achieved = confine(memory_bytes=memory_bytes, cpu_seconds=cpu_seconds)
    say(sink, bytes([sum(1 << place for place, measure in enumerate(MEASURES) if measure in achieved)]))

    lengths = DOCUMENTS.unpack(hear(source, DOCUMENTS.size))
    texts = [hear(source, length).decode("ascii") for length in lengths]
    model = read_model(texts[0], limits=SITE)  # the owner read it too, perhaps with a lower limit
    loss = read_loss(texts[1], model)
    backbone = read_model(texts[2], limits=BACKBONE) if texts[2] else None
    say(sink, DONE)

    parameters, truths = model.graph.parameter_count, loss.targets.columns
    columns = (backbone or model).input.columns
    ways = {EACH: per_example_gradients, MEAN: mean_gradient, APART: gradients_and_losses, SAID: outputs}
    while True:
        rows, wanted = REQUEST.unpack(hear(source, REQUEST.size))
        weights = np.frombuffer(hear(source, 4 * parameters), dtype="<f4").copy()
        inputs = np.frombuffer(hear(source, 4 * rows * columns), dtype="<f4").reshape(rows, columns)
        targets = np.frombuffer(hear(source, 4 * rows * truths), dtype="<f4").reshape(rows, truths)
        try:
            if backbone is not None:
                inputs = outputs_of(backbone, backbone.initial, inputs)
            answer = np.ascontiguousarray(ways[wanted](model, loss, weights, inputs, targets), dtype="<f4")
        except Exception:
            say(sink, FAILED)
            continue
        say(sink, DONE)
        say(sink, answer.tobytes())


def _alone(source: int, sink: int) -> None:
    prepare()
    serve(source, sink)


if __name__ == "__main__":
    die_with_parent()
    live(_alone)
