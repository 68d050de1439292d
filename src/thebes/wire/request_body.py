"""Bodies of requests: exactly the fields that are named, each of its own type."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


class RequestBody(BaseModel):
    """A body as it was sent. A field too many, or one of another type, is refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]  #: 2.0 is 2, as JSON does not tell them apart
