"""Federations: trust in the tokens of other issuers, for programs that store no key.

    pipeline ──its token──► exchange: of_issuer ──► check ──► use (once) ──► access token of the federation's key

A federation is a key whose secret nobody has, and a rule that says which tokens stand in its place. So its
permissions, its namespaces, its owner and its end are those of the key (`ports.identity.keys`). It ends with the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.accounts.federations import Federation
from tickwise.domain.audit import AuditEntry
from tickwise.ports.identity.keys import KeyRow, NewKey


class FederationRow(NamedTuple):
    """A federation with its key."""

    federation: Federation
    key: KeyRow


class FederationStore(Protocol):
    """Federations. All methods may be called again after an `InDoubt`."""

    async def add(self, federation: Federation, key: NewKey, *, audit: Sequence[AuditEntry] = ()) -> None:
        """Keep a federation and its key, both or none. The same one again changes nothing. Raises `Conflict`, code
        `keys_exhausted`, as `Keys.add`."""
        ...

    async def of_issuer(self, issuer: str) -> Sequence[Federation]:
        """The federations of an issuer whose keys are good, the oldest first."""
        ...

    async def get(self, key_id: UUID) -> FederationRow | None:
        """A federation, also one whose key is over; None: no federation has this key."""
        ...

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[FederationRow]:
        """Federations whose keys have this namespace as their home, or work there by its name (None: all), and were not
        revoked, the newest id first; those below `before`."""
        ...

    async def use(self, digest: bytes, *, exchange_id: UUID, seconds: float) -> bool:
        """Remember for `seconds` that a token was taken, and forget those whose time is over. False: another exchange
        has taken it. The same exchange again is True."""
        ...


class TrustedIssuer(NamedTuple):
    """The issuer whose token is expected."""

    issuer: str
    audience: str
    key_set: str | None
    """Its public keys as a JWKS; None: those that its discovery names."""


class AssertionVerifier(Protocol):
    """Checks tokens of other issuers."""

    async def claims(self, assertion: str, trusted: TrustedIssuer) -> Mapping[str, Any]:
        """The claims of a token whose signature, issuer, audience and times are right. Raises `Unauthenticated` with
        the reason, and `Unavailable` while the keys of the issuer cannot be had."""
        ...
