"""The issuer of identity tokens, made from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwise.config import Settings
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import IdentityKeyStore
from tickwise.ports.sealing import EnvelopeSealer

if TYPE_CHECKING:
    from tickwise.adapters.identity.issuer import JwtIssuer


def make_issuer(settings: Settings, store: IdentityKeyStore, sealer: EnvelopeSealer, clock: Clock) -> JwtIssuer:
    """The issuer of this process. Without an address it refuses each token, and says why."""
    from tickwise.adapters.identity.issuer import IssuerSettings, JwtIssuer

    address = settings.identity_issuer or settings.public_url
    return JwtIssuer(
        IssuerSettings(
            issuer=None if address is None else address.rstrip("/"),
            seconds=settings.identity_token_seconds,
            key_days=settings.identity_key_days,
            namespaces=settings.identity_namespaces,
        ),
        store=store,
        sealer=sealer,
        clock=clock,
    )
