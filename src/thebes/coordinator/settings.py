"""The settings that an operator decides, in HOME/coordinator.toml; everything has a default and an unknown name is
refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from thebes.coordinator.auth.identity_provider import OidcSettings
from thebes.privacy.faults import Mistake
from thebes.tasks.document import SERVER_FLOOR
from thebes.tasks.field_errors import in_words

FILE = "coordinator.toml"


class CoordinatorSettings(BaseModel):
    """The policy of one coordinator."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: the least `min_count` a document may have; a group of friends who know each other may want less
    min_count_floor: int = Field(default=SERVER_FLOOR, ge=1)
    #: who runs this coordinator, as people are told before they give it anything; and how to reach them
    operator: str | None = Field(default=None, min_length=1, max_length=200)
    contact: str | None = Field(default=None, min_length=1, max_length=200)
    #: whether what people are asked must say what for, whom to ask and until when
    require_purpose: bool = False
    #: the largest body of one request, in bytes
    largest_body: int = Field(default=64 * 2**20, ge=1024)
    #: so many logins may wait for their turn
    waiting_logins: int = Field(default=64, ge=1)
    #: so many tasks of one requestor may be under way at the same time; of an operator any number
    tasks_under_way: int = Field(default=200, ge=1)
    #: the most that one question may cost somebody whose rows lie at all of its sites; no limit where nothing is said
    most_epsilon_in_all: float | None = Field(default=None, gt=0, le=1e6)
    most_delta_in_all: float | None = Field(default=None, ge=0, le=1)
    #: every so many seconds a linked site is asked whether it is there
    site_ping: float = Field(default=10.0, ge=0.1, le=600)
    #: the link of a site that said nothing for so many seconds is cut
    site_silence: float = Field(default=30.0, ge=0.5, le=3600)
    #: names by which sites reach this machine, besides its own and the address it listens on
    site_hosts: list[str] = Field(default=[], max_length=20)
    #: who may read `/metrics`: everybody, operators and auditors, or nobody
    metrics: Literal["everybody", "operators", "nobody"] = "everybody"
    #: where users may sign in at their institution's identity provider, besides with a password
    oidc: OidcSettings | None = None


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
