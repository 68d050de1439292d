"""The bodies about models of the institution, and what they predict."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from thebes.wire.request_body import RequestBody


class ModelSummary(BaseModel):
    """A model that was accepted: what it predicts from which columns, what it was shown to reach, what it cost."""

    name: str
    version: int
    kind: str | None
    inputs: list[str]
    output: str
    stream: str
    developer: str
    blocks: int
    confidence: float
    validation: list[dict[str, Any]]
    certificate: dict[str, Any]
    published_at: str
    versions: list[int]


class ModelBundle(BaseModel):
    """A model with all that is needed to use and to judge it."""

    name: str
    version: int
    versions: list[int]
    format: int
    origin: str
    model: Any
    features: list[dict[str, Any]]
    inputs: list[str]
    output: str
    validation: list[dict[str, Any]]
    confidence: float
    certificate: dict[str, Any]
    lineage: dict[str, Any]
    published_at: str


class Unseen(RequestBody):
    """Rows to say something of, each with all of a model's inputs; null is missing."""

    rows: list[dict[str, bool | int | float | str | None]] = Field(min_length=1, max_length=10_000)


class Predicted(BaseModel):
    model: str
    version: int
    predictions: list[float | None]
