"""The proxies that sign people in before the pages, made from the settings."""

from __future__ import annotations

from tickwise.config import Settings
from tickwise.control.people.sso.proxy import EMAIL_CLAIM, GROUPS_CLAIM, NAME_CLAIM, ProxyConfig
from tickwise.control.people.sso.rules import ProviderRules
from tickwise.domain.accounts.role_mapping import read_role_mapping


def proxy_config(settings: Settings) -> ProxyConfig | None:
    """The way in which they sign people in; None: none does."""
    if not settings.proxy_sign_in_from:
        return None
    rules = ProviderRules(
        public_url=(settings.public_url or "").rstrip("/"),
        roles=read_role_mapping(settings.proxy_roles),
        groups_claim=GROUPS_CLAIM,
        name_claim=NAME_CLAIM,
        email_claim=EMAIL_CLAIM,
        adds_people=settings.proxy_new_users == "on",
        roles_follow=settings.proxy_roles is not None,
    )
    return ProxyConfig(rules, settings.proxy_sign_out_url)
