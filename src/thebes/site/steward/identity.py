"""The identity provider at which stewards sign in to a site's page, named in HOME/oidc.toml.

What must stay true: nobody without a group that the file names comes in by it; a file that cannot be read exactly as
written lets the site not start, so that nobody takes a misspelt one for a closed door.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from thebes.privacy.faults import Mistake
from thebes.privacy.field_errors import in_words
from thebes.wire.identity_provider import ProviderSettings

FILE = "oidc.toml"
STEWARD = "steward"
SESSION_SECONDS = 8 * 3600.0  #: groups are read at each sign-in, so that one that was lost counts until then


class StewardsProvider(ProviderSettings):
    """The provider of stewards: a site has no other role."""

    @classmethod
    def ranks(cls) -> Sequence[str]:
        return [STEWARD]


def stewards_provider(home: Path) -> StewardsProvider | None:
    """Read the provider that a home names; None where it names none."""
    try:
        text = (home / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return StewardsProvider.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Mistake(FILE, f"is not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join([FILE, *map(str, first["loc"])])
        raise Mistake(where, in_words(first)) from None
