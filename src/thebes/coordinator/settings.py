"""The settings that an operator decides, in HOME/coordinator.toml; everything has a default and an unknown name is
refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from thebes.coordinator.auth.identity_provider import OidcSettings
from thebes.privacy.faults import Mistake
from thebes.privacy.field_errors import in_words
from thebes.tasks.document import SERVER_FLOOR

FILE = "coordinator.toml"


class CoordinatorSettings(BaseModel):
    """The policy of one coordinator."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    min_count_floor: int = Field(
        default=SERVER_FLOOR,
        ge=1,
        description="the least `min_count` that a document may have; a group of friends may want less",
    )
    operator: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="who runs this coordinator, as people are told. Until it is set, their pages say that nobody "
        "has said who does",
    )
    contact: str | None = Field(default=None, min_length=1, max_length=200, description="how to reach the operator")
    require_purpose: bool = Field(
        default=False,
        description="every question to people must have `purpose`, `contact` and `expires_at`; a refusal names what "
        "is missing",
    )
    largest_body: int = Field(
        default=64 * 2**20,
        ge=1024,
        description="the largest request, in bytes. From whoever shows no token, at most 1 MiB; a submission may "
        "be no longer than one to its task can be",
    )
    waiting_logins: int = Field(
        default=64,
        ge=1,
        description="how many people may wait for their turn to log in. Two passwords are checked at a time, with 64 "
        "MiB each, and after all other work; whoever comes on top is told after a second that there are too many",
    )
    tasks_under_way: int = Field(
        default=200,
        ge=1,
        description="how many tasks of one requestor may be open or running; an operator may have any number",
    )
    most_epsilon_in_all: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="the most that one question may cost somebody whose rows lie at all of the sites that it asks",
    )
    most_delta_in_all: float | None = Field(default=None, ge=0, le=1, description="likewise, of delta")
    site_ping: float = Field(
        default=10.0, ge=0.1, le=600, description="how often, in seconds, a linked site is asked whether it is there"
    )
    site_silence: float = Field(
        default=30.0, ge=0.5, le=3600, description="after how many seconds of silence the link of a site is cut"
    )
    site_hosts: list[str] = Field(
        default=[],
        max_length=20,
        description="names by which sites reach this machine, besides its own and `--host`: they go into the "
        "certificate of the port for sites",
    )
    metrics: Literal["everybody", "operators", "nobody"] = Field(
        default="everybody",
        description="who may read `GET /metrics`: everybody; operators and auditors with their token, and whoever has "
        "`figures.token`; or nobody",
    )
    oidc: OidcSettings | None = Field(
        default=None,
        description="where users can sign in at their institution's identity provider, not only with a password",
    )


def read(home: Path) -> CoordinatorSettings:
    """The settings of a home, or a Mistake naming the one that is wrong."""
    file = home / FILE
    try:
        return CoordinatorSettings.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return CoordinatorSettings()
    except (OSError, UnicodeDecodeError):
        raise Mistake(FILE, "cannot be read as text") from None
    except tomllib.TOMLDecodeError as error:
        raise Mistake(FILE, f"is not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Mistake(f"{FILE} {'.'.join(map(str, first['loc']))}", in_words(first)) from None
