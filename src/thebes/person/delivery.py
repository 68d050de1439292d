"""The place where collectors deliver: rows together with how far the collector has come, taken as one or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path
from pydantic import BaseModel, ConfigDict, Field

from thebes.data.store.declaration import MOST_RELEASE
from thebes.data.store.delivery import ID, KEY
from thebes.person import rest_schema
from thebes.person.home import Person
from thebes.privacy.faults import Mistake
from thebes.wire.refusals import NotFound

Name = Annotated[str, Path(pattern=rest_schema.NAME)]
_Table = Annotated[str, Field(pattern=rest_schema.NAME)]
_Key = Annotated[str, Field(pattern=KEY)]
#: said of an object whose names follow a pattern: no others are taken
_NAMED_SO: dict[str, Any] = {"additionalProperties": False}


class Deliver(BaseModel):
    """One part of a delivery. `delivery` is drawn anew for each run, `after` is the number of the last accepted one,
    `keys` are for rows that are accepted once only, `state` comes with the last part."""

    model_config = ConfigDict(strict=True, extra="forbid")

    delivery: str = Field(pattern=ID)
    after: int = Field(ge=0, le=2**53)
    part: int = Field(ge=0, le=2**31)
    rows: dict[_Table, list[dict[str, Any]]] = Field(json_schema_extra=_NAMED_SO)
    keys: dict[_Table, list[_Key]] = Field(default_factory=dict, json_schema_extra=_NAMED_SO)
    last: bool = False
    release: int = Field(default=0, ge=0, le=MOST_RELEASE)
    state: dict[str, Any] | None = None


def deliveries(api: FastAPI, person: Person) -> None:
    """Puts the two addresses for collectors' deliveries onto the interface."""

    @api.post("/app/{app_name}/delivery")
    def deliver(app_name: Name, body: Deliver) -> dict[str, int]:
        """Take a part; with the last one all rows and the state are stored as one. The same again changes nothing."""
        with _known_here():
            return person.deliver(app_name, body.model_dump())

    @api.get("/app/{app_name}/delivery")
    def progress(app_name: Name) -> dict[str, Any]:
        """The last accepted delivery: its number, and the state that came with it."""
        with _known_here():
            return person.progress(app_name)


@contextmanager
def _known_here() -> Iterator[None]:
    try:
        yield
    except Mistake as error:
        if error.argument != "app":
            raise
        raise NotFound(f"the collector {error.message}") from None
