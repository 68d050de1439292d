"""A target for what an owner submits, against layouts as the kinds have them: a digit that chooses one, `j` or `f`, and
JSON or a frame."""

from __future__ import annotations

import json

from pydantic import ValidationError

from thebes.coordinator.api.bodies import Submitted
from thebes.tasks.contributions import Layout, Slot, read_payloads
from thebes.wire import frames

LAYOUTS: tuple[Layout, ...] = (
    {"value": Slot("number", -5.0, 5.0)},
    {"value": Slot("number", nullable=True), "failure": Slot("integer", 0, 6)},
    {"counts": Slot("integer", 0, 2**40, length=70), "name": Slot("text", length=12)},
    {"weights": Slot("number", -1e6, 1e6, length=70)},
    {"weights": Slot("number", -10.0, 10.0, length=70, packed=True), "lane": Slot("integer", 0, 3)},
    {"cells": Slot("number", length=3, nullable=True), "cell": Slot("integer", nullable=True)},
)


def one(data: bytes) -> None:
    layout, form, body = LAYOUTS[(data[:1] or b"0")[0] % len(LAYOUTS)], data[1:2], data[2:]
    try:
        if form == b"f":
            read = Submitted.model_validate(frames.read(body, most_bytes=2**20).message(arrays=True))
        else:
            read = Submitted.model_validate_json(body)
    except ValidationError:
        return  # answered as 422, with the field's name
    batch = read_payloads(layout, "1", [frames.arrayed(read.payload)])
    (payload,) = batch.payloads(layout)
    travelled = json.loads(json.dumps(payload, allow_nan=False))
    (again,) = read_payloads(layout, "1", [travelled]).payloads(layout)
    assert again == payload
