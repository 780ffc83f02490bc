"""The rules of sign-in by a provider, as the installation sets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tickwise.domain.accounts.role_mapping import RoleMapping
from tickwise.ports.identity.oidc import IdentityProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRules:
    """The rules by which claims of a provider give names, e-mails and roles."""

    public_url: str
    """The address of the pages, without a slash at its end."""
    button: str = "Sign in with your organisation"
    roles: RoleMapping = field(default_factory=RoleMapping)
    groups_claim: str = "groups"
    name_claim: str = "preferred_username"
    email_claim: str = "email"
    adds_people: bool = True
    """A person that is unknown is added at the first sign-in, if a role follows."""
    roles_follow: bool = True
    """At each sign-in a person has the roles that follow, and no others."""
    email_domains: frozenset[str] = frozenset()
    """Of verified e-mails, in small letters; none: any person may sign in."""

    @property
    def wanted(self) -> frozenset[str]:
        """The claims that are looked at."""
        email = {self.email_claim, "email_verified"} if self.email_domains else set()
        return self.roles.claims(self.groups_claim) | email | {self.name_claim}


class SsoConfig(NamedTuple):
    """A provider, with the rules for its people."""

    provider: IdentityProvider
    rules: ProviderRules
