"""The provider that signs people in, made from the settings."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

from tickwise.adapters.oidc.provider import ClientConfig, OidcProvider
from tickwise.adapters.oidc.requests import IssuerRequests, OutgoingWay
from tickwise.config import Settings
from tickwise.control.people.sso.rules import ProviderRules, SsoConfig
from tickwise.control.people.sso.service import CALLBACK
from tickwise.domain.accounts.role_mapping import read_role_mapping
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.wiring.private_files import read_private


@contextlib.asynccontextmanager
async def open_provider(settings: Settings, clock: Clock) -> AsyncIterator[SsoConfig | None]:
    """The provider of the settings; None: there is none. Nothing is asked of it yet: it may be away. Raises
    `Misconfigured`."""
    config = make_provider(settings, clock)
    try:
        yield config
    finally:
        if config is not None:
            await config.provider.close()


def make_provider(settings: Settings, clock: Clock) -> SsoConfig | None:
    """As `open_provider`; the caller closes it."""
    if settings.oidc_issuer is None or settings.oidc_client_id is None or settings.public_url is None:
        return None
    public_url = settings.public_url.rstrip("/")
    client = ClientConfig(
        client_id=settings.oidc_client_id,
        client_secret=_secret(settings),
        redirect_uri=public_url + CALLBACK,
        scopes=settings.oidc_scopes,
        leeway_seconds=settings.oidc_leeway_seconds,
    )
    provider = OidcProvider(settings.oidc_issuer, client, IssuerRequests(outgoing_way(settings)), clock)
    rules = ProviderRules(
        public_url=public_url,
        button=settings.oidc_button,
        roles=read_role_mapping(settings.oidc_roles),
        groups_claim=settings.oidc_groups_claim,
        name_claim=settings.oidc_name_claim,
        email_claim=settings.oidc_email_claim,
        adds_people=settings.oidc_new_users == "on",
        roles_follow=settings.oidc_roles_follow == "on",
        email_domains=frozenset(each.lower().removeprefix("@") for each in settings.oidc_email_domains),
    )
    return SsoConfig(provider, rules)


def outgoing_way(settings: Settings) -> OutgoingWay:
    """The way to issuers. Raises `Misconfigured` for a file of authorities that is none."""
    tls = None
    if settings.oidc_ca_file is not None:
        try:
            tls = ssl.create_default_context(cafile=str(settings.oidc_ca_file))
        except (OSError, ssl.SSLError) as failure:
            raise Misconfigured(
                f"oidc_ca_file {settings.oidc_ca_file} has no certificates in PEM that can be read: {failure}"
            ) from failure
    return OutgoingWay(timeout_seconds=settings.oidc_timeout_seconds, tls=tls, proxy=settings.oidc_proxy)


def _secret(settings: Settings) -> str | None:
    file = settings.oidc_client_secret_file
    if file is None:
        return settings.oidc_client_secret
    secret = read_private(file, "the secret of the OIDC client").decode(errors="replace").strip()
    if not secret:
        raise Misconfigured(f"oidc_client_secret_file {file} is empty")
    return secret
