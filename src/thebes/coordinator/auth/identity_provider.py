"""The identity provider of a coordinator's users, and the roles that its groups have here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thebes.coordinator.clock import Clock
from thebes.wire.identity_provider import IdentityProvider, ProviderSettings, secret_of


class OidcSettings(ProviderSettings):
    """The provider of users: which of its groups are operators, requestors and auditors."""

    @classmethod
    def ranks(cls) -> Sequence[str]:
        from thebes.coordinator.auth.accounts import Role

        return [str(role) for role in (Role.OPERATOR, Role.REQUESTOR, Role.AUDITOR)]


def provider_of(settings: OidcSettings | None, folder: Path, clock: Clock) -> IdentityProvider | None:
    """Return the provider that an operator named; None without one."""
    if settings is None:
        return None
    return IdentityProvider(settings, secret_of(settings, folder), lambda: clock.now().timestamp())
