"""Secrets of our own store: their names, their versions, and their sealed values (`ports.sealing`).

    set ──► sealed by control ──► put: version n takes the place of n - 1, whose value is erased; its record stays
    start of a run ──► sealed: the newest values of all names that it wants, in one question
    rotation ──► sealed_keys, rewrap: the small part alone

Invariant: the store gets and gives sealed bytes. A secret goes with its namespace, and with no job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, VersionConflict
from tickwise.ports.sealing import SealedParts
from tickwise.ports.store.definitions import StoredTask

MAX_SECRETS: Final = 1_000
"""The most secrets of one namespace."""
VERSIONS_KEPT: Final = 10
"""The records of so many versions of a secret are kept, the newest included."""
USES_LOOKED_AT: Final = 2_000
"""The one-time jobs with the name of one secret that one question looks at."""


class SecretPlace(NamedTuple):
    """A secret of a namespace."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """A version of a secret to store."""

    namespace: str
    name: str
    version: int
    """1, or one more than the version whose place it takes."""
    sealed: SealedParts
    by: str
    """The name of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    """A secret, without its value."""

    namespace: str
    name: str
    version: int
    key_id: bytes
    """The installation's key that wraps its data key (`ports.sealing.key_id_of`)."""
    created_at: float
    created_by: str
    changed_at: float
    """The time of its newest version."""
    changed_by: str
    jobs: int = 0
    """The number of jobs that stay (recurring, or on demand) and name it, as far as the query counts them."""


class SecretUse(NamedTuple):
    """A job whose task names a secret."""

    job_id: UUID
    name: str
    key: str | None
    labels: Mapping[str, str]


class SecretUses(NamedTuple):
    """The jobs and tasks that name a secret."""

    jobs: Sequence[SecretUse]
    """By id."""
    tasks: Sequence[StoredTask]
    """The newest versions that have the word `secret`, by task_id: the caller reads what they name."""
    more: bool
    """There are more than were asked for, or there may be: not all one-time jobs were looked at."""


class SecretVersion(NamedTuple):
    """The record of one version. Only the newest one has a value."""

    version: int
    set_at: float
    set_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretQuery:
    """Secrets by namespace and name; everything given must match."""

    namespace: str | None
    """None: of all namespaces."""
    name: str | None = None
    after: SecretPlace | None = None
    """Only those behind this place."""
    not_under: Collection[bytes] = ()
    """Only those that no key of these ids wraps."""
    jobs_most: int = 0
    """Jobs that name each of them are counted up to this number."""
    limit: int = 100


class SealedSecret(NamedTuple):
    """The newest value of a secret."""

    place: SecretPlace
    version: int
    sealed: SealedParts


class SealedKey(NamedTuple):
    """The sealed data key of a secret."""

    place: SecretPlace
    key: bytes


class Rewrapped(NamedTuple):
    """A data key that was wrapped anew."""

    place: SecretPlace
    old: bytes
    """The sealed key as it was read: one that is another by now is left as it is."""
    new: bytes


class SealedSecrets(Protocol):
    """The values of secrets, for starts of runs."""

    async def sealed(self, places: Sequence[SecretPlace]) -> Sequence[SealedSecret]:
        """The newest values of the secrets that are there, of these places. One question."""
        ...


class SecretStore(SealedSecrets, Protocol):
    """Secrets. A name is unique in its namespace."""

    async def put(self, secret: NewSecret, *, audit: AuditEntry | None = None) -> SecretRow:
        """Store a version, and erase the value of the one before. The same version with the same sealed bytes again
        changes nothing. Raises `VersionConflict` unless the newest version is the one before; `Conflict`, code
        `secrets_exhausted` or `namespace_closing`."""
        ...

    async def find(self, query: SecretQuery) -> Sequence[SecretRow]:
        """Secrets by namespace and name, by code point."""
        ...

    async def versions(self, place: SecretPlace) -> Sequence[SecretVersion]:
        """The records of the last `VERSIONS_KEPT` versions, the newest first. Empty: there is no such secret."""
        ...

    async def remove(self, place: SecretPlace, version: int | None, *, audit: AuditEntry | None = None) -> bool:
        """Remove a secret with all of its versions. False: there is none. `version`: only if that is its newest one;
        raises `VersionConflict` otherwise."""
        ...

    async def uses(self, place: SecretPlace, limit: int) -> SecretUses:
        """The lasting jobs (`placement`) of the namespace whose task names the secret, and the stored tasks that may,
        so many of each at most. A job that is cancelled is none of them. A one-time job is one while it has a timer or
        an unfinished run; `USES_LOOKED_AT` of them are looked at. The secret need not be there. The names are indexed,
        so no other job is read."""
        ...

    async def keys_used(self) -> Mapping[bytes, int]:
        """The number of secrets by the id of the key that wraps them, over all namespaces."""
        ...

    async def sealed_keys(self, query: SecretQuery) -> Sequence[SealedKey]:
        """The sealed data keys of the secrets of a query, in the order of `find`."""
        ...

    async def rewrap(self, keys: Sequence[Rewrapped], *, audit: AuditEntry | None = None) -> int:
        """Replace sealed data keys, each unless it was changed meanwhile; the number of those that were replaced. The
        entry is written if there is one."""
        ...

    async def trace_of(self, secret: NewSecret) -> str:
        """Store the first version of a secret, read all that is stored of it as text, and take it back: one
        transaction, of which nothing stays. For the proof that no value is stored as it is."""
        ...


def check_secret_room(count: int) -> None:
    """Raise `Conflict`, code `secrets_exhausted`, if a namespace with so many secrets takes no more."""
    if count >= MAX_SECRETS:
        raise Conflict(f"a namespace has at most {MAX_SECRETS} secrets: remove one", code="secrets_exhausted")


def secret_changed(place: SecretPlace) -> VersionConflict:
    """The refusal of a version that does not follow on the newest one."""
    return VersionConflict(f"the secret {place.name!r} was set by somebody else meanwhile: read it again, then decide")


def secret_context(place: SecretPlace, version: int) -> str:
    """The context in which the value of a version is sealed."""
    return f"secret/{place.namespace}/{place.name}/{version}"
