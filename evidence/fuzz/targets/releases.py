"""A release as a coordinator tells it to whoever asked."""

from __future__ import annotations

import json

from thebes.tasks.release_reader import release_from_json


def one(data: bytes) -> None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return  # the connection says so
    release_from_json(body)
