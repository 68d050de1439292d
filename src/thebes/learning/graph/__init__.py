"""Models as data: a requestor's network and loss as an allow-listed graph, run at an owner in a confined process.

Nothing that is received is unpickled, evaluated or looked up by its own word. torch is imported on first use.
"""

from thebes.learning.graph.document import Graph, GraphLoss, Model, read_loss, read_model
from thebes.learning.graph.gradient_clip import clip_rows, finite
from thebes.learning.graph.sandbox import GradientWorker

__all__ = ["GradientWorker", "Graph", "GraphLoss", "Model", "clip_rows", "finite", "read_loss", "read_model"]
