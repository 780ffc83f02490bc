"""The checks of other issuers' tokens, made from the settings."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from tickwise.config import SETTINGS, Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock

if TYPE_CHECKING:
    from tickwise.adapters.oidc.federated import FederatedTokens


def federated_tokens(settings: Settings, clock: Clock) -> FederatedTokens:
    """Checks tokens of issuers that federations name. Raises `Misconfigured`."""
    from tickwise.adapters.oidc.federated import FederatedTokens
    from tickwise.adapters.oidc.requests import OutgoingWay

    try:
        return FederatedTokens(clock, allow=settings.federation_allow, way=OutgoingWay(tls=_trust(settings)))
    except Misconfigured as wrong:
        variable = SETTINGS["federation_allow"].variable
        raise Misconfigured(wrong.detail.replace("http_allow", variable)) from None


def _trust(settings: Settings) -> ssl.SSLContext | None:
    file = settings.federation_ca_file
    if file is None:
        return None
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        variable = SETTINGS["federation_ca_file"].variable
        raise Misconfigured(f"{variable} names {file}, which cannot be read as certificates (PEM): {error}") from None
