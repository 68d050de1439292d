"""A trained network: its layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.tasks.answer_view import AnswerTable, Cells, Section
from thebes.tasks.document import PeopleDocument
from thebes.tasks.release import Release


def sections(release: Release, document: PeopleDocument) -> list[Section]:
    head, rows = table(release)
    count = sum(row[2] for row in rows)
    words = f"{count} weights over {', '.join(release.extra['inputs'])}, as data. Download the release to use them."
    return [Section("Network", words, table=AnswerTable.of(head, rows))]


def table(release: Release) -> Cells:
    from thebes.learning.graph import read_model
    from thebes.learning.graph.weights import named

    graph = read_model(release.value["model"]).graph
    model: Any = release.model
    trained = named(graph, np.asarray(model.weights))
    last = named(graph, np.asarray(release.gradient, dtype=np.float32))  # type: ignore[attr-defined]
    head = ("layer", "shape", "weights", "length", "largest", "length of the last step's mean gradient")
    return head, [
        (
            name,
            " × ".join(map(str, array.shape)),
            array.size,
            float(np.linalg.norm(array)),
            float(np.abs(array).max(initial=0.0)),
            float(np.linalg.norm(last[name])),
        )
        for name, array in trained.items()
    ]
