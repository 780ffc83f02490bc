"""The settings of sign-in by a provider. `Settings` has them as its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tickwise.config.facts import declared_field
from tickwise.domain.accounts.role_mapping import read_role_mapping
from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.domain.networks import is_loopback


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `OidcSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


def _issuer(text: str) -> None:
    parts = urlsplit(text)
    local = parts.hostname == "localhost" or is_loopback(parts.hostname or "")
    if not parts.hostname or parts.query or parts.fragment or parts.scheme not in ("https", "http"):
        raise Invalid("this is no issuer")
    if parts.scheme == "http" and not local:
        raise Invalid("an issuer on another machine has https")


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """The provider that signs people in, and what its claims give."""

    oidc_issuer: str | None = _setting(
        None,
        "The OpenID Connect provider that signs people in, exactly as it names itself, such as "
        "`https://sso.example.com/realms/main`. Needs `oidc_client_id` and `public_url`; the address to register there "
        "is `public_url` with `/login/provider/callback` (`docs/how-to/sign-in-with-a-provider.md`). Unset: people "
        "sign in with passwords alone.",
        check=_issuer,
        form="an address with https, or with http on this machine",
    )
    oidc_client_id: str | None = _setting(None, "The name of this installation as a client of `oidc_issuer`.")
    oidc_client_secret: str | None = _setting(
        None, "The secret of `oidc_client_id`. Unset: see `oidc_client_secret_file`.", secret=True
    )
    oidc_client_secret_file: Path | None = _setting(
        None,
        "The file with the secret of `oidc_client_id`. Only its owner may read it, or, of a file of root, its group. "
        "With neither of the two, the client is a public one.",
    )
    oidc_scopes: tuple[str, ...] = _setting(
        ("openid", "profile", "email"),
        "The scopes that the provider is asked for; `openid` is one of them. Some give groups only with a scope of "
        "their own, such as `groups`.",
    )
    oidc_button: str = _setting("Sign in with your organisation", "The text of the button on the sign-in page.")
    oidc_groups_claim: str = _setting("groups", "The claim that has a person's groups.")
    oidc_name_claim: str = _setting(
        "preferred_username", "The claim that a new person's name is taken from. Of an e-mail, the part before the @."
    )
    oidc_email_claim: str = _setting(
        "email", "The claim with the e-mail. It is kept only if the provider says that it is verified."
    )
    oidc_roles: str | None = _setting(
        None,
        "The roles that groups and claims give: `ops=admin@*; dev=developer@team-a; claim:department:finance=viewer; "
        "*=viewer`. Without `@`, the namespace is `default`; `@*` is the whole installation; a `*` on the left is "
        "everybody. Unset: none.",
        check=read_role_mapping,
        form="entries such as dev=developer@team-a, with semicolons between",
    )
    oidc_new_users: str = _setting(
        "on",
        "Whether a person that signs in for the first time is added: `on`, if a role follows from `oidc_roles`; or "
        "`off`: an administrator adds people, and ties each to the provider (`tickwise users link`).",
        choices=("on", "off"),
    )
    oidc_roles_follow: str = _setting(
        "on",
        "Whether roles follow the provider: `on`: at each sign-in a person has the roles of `oidc_roles` and no "
        "others, and sessions of before end if they change; or `off`: they count at the first sign-in, and "
        "administrators change them then.",
        choices=("on", "off"),
    )
    oidc_email_domains: tuple[str, ...] = _setting(
        (), "The domains of verified e-mails that may sign in, such as `example.com`. Unset: any, also none."
    )
    oidc_leeway_seconds: float = _setting(
        60.0, "The difference between the provider's clock and ours that is allowed.", least=0, most=300
    )
    oidc_timeout_seconds: float = _setting(
        10.0, "The longest that one request to the provider may take.", least=0.1, most=60
    )
    oidc_ca_file: Path | None = _setting(
        None, "The authorities, PEM, whose certificates the provider may have. Unset: those of the system."
    )
    oidc_proxy: str | None = _setting(
        None,
        "The proxy for requests to the provider, such as `http://proxy:3128`. Unset: it is reached directly.",
        schemes=("http", "https"),
        secret=True,
    )
    password_sign_in: str = _setting(
        "on",
        "Who signs in with a password: `on`: everybody that has one; `admins`: administrators of the installation, "
        "for the day on which the provider is away; or `off`: nobody. Keys and `tickwise open` work in any case.",
        choices=("on", "admins", "off"),
    )


def check_oidc(settings: Any, variables: Mapping[str, str]) -> None:
    """Check rules over several of these settings; `settings` has `public_url`, too. `variables`: the name of each
    setting in the environment. Raises `Misconfigured`."""
    if settings.oidc_issuer is None:
        if settings.password_sign_in == "off" and not settings.proxy_sign_in_from:
            raise Misconfigured(
                "password_sign_in is off, and neither a provider nor a proxy signs people in: nobody could. Set "
                f"{variables['oidc_issuer']}, or leave {variables['password_sign_in']} at on."
            )
        return
    for name in ("oidc_client_id", "public_url"):
        if getattr(settings, name) is None:
            raise Misconfigured(f"oidc_issuer is set, and a sign-in needs {name}: set {variables[name]} too.")
    if settings.oidc_client_secret is not None and settings.oidc_client_secret_file is not None:
        raise Misconfigured("oidc_client_secret and oidc_client_secret_file are both set: keep one of them.")
    if "openid" not in settings.oidc_scopes:
        raise Misconfigured(
            f"oidc_scopes lacks openid, without which there is no sign-in: add it to {variables['oidc_scopes']}."
        )
