"""The settings of sign-in by a proxy before the pages. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from tickwise.config.facts import declared_field
from tickwise.domain.accounts.role_mapping import read_role_mapping


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `ProxySignInSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


def _networks(entries: tuple[str, ...]) -> None:
    for entry in entries:
        if ip_network(entry).prefixlen == 0:
            raise ValueError("every address there is")


@dataclass(frozen=True, kw_only=True)
class ProxySignInSettings:
    """The proxy that signs people in, and what its headers give."""

    proxy_sign_in_from: tuple[str, ...] = _setting(
        (),
        "The networks or addresses of proxies that sign people in before the pages (oauth2-proxy, Authelia, your own): "
        "the header `proxy_user_header` counts on connections from there alone, and is refused from elsewhere. "
        "The proxy must replace that header in each request. Unset: no header signs anybody in.",
        check=_networks,
        form="networks (10.0.0.0/8) or addresses (127.0.0.1), and not all there are",
    )
    proxy_user_header: str = _setting(
        "Remote-User", "The header in which the proxies of `proxy_sign_in_from` name the person."
    )
    proxy_email_header: str = _setting(
        "Remote-Email", "The header with the person's e-mail, which the proxy has verified."
    )
    proxy_groups_header: str = _setting("Remote-Groups", "The header with the person's groups, with commas between.")
    proxy_roles: str | None = _setting(
        None,
        "The roles that groups give, written as in `oidc_roles`: `ops=admin@*; *=viewer`. Unset: none.",
        check=read_role_mapping,
        form="entries such as dev=developer@team-a, with semicolons between",
    )
    proxy_new_users: str = _setting(
        "on",
        "Whether a person that a proxy names for the first time is added: `on`, if a role follows from `proxy_roles`; "
        "or `off`: an administrator ties accounts to names (`tickwise users link --issuer proxy`).",
        choices=("on", "off"),
    )
    proxy_sign_out_url: str | None = _setting(
        None,
        "The address at which a person signs out at the proxy, such as `/oauth2/sign_out`. The page after a sign-out "
        "leads there.",
    )
