"""API keys: each stands for a principal, may expire, and can be taken back.

    add / first / of_setting ──► good ──┬─ revoke, or another setting ──► revoked, for ever
                                ▲   │   └─ its time ────────────────────► expired
                                └───┘
                                rotate: another secret; the one before works until its overlap ends

Invariants: a secret that was revoked, or whose overlap has ended, never becomes good again. A key has one present
secret, and at most one earlier secret that works. The secrets themselves are nowhere: a key is found by the
SHA-256 of its secret, which has at least 128 random bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditAction, AuditEntry, key_by_program
from tickwise.domain.callers import Caller
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Principal
from tickwise.domain.selectors import Labels

MAX_KEYS: Final = 1_000
"""Good keys that one namespace may have; and of those that are revoked or expired, so many are kept."""


def check_keys_room(count: int) -> None:
    """Raise `Conflict`, code `keys_exhausted`, if a namespace with `count` good keys may have no more."""
    if count >= MAX_KEYS:
        raise Conflict(
            f"the namespace has {MAX_KEYS} keys that are good: revoke those that are no longer used",
            code="keys_exhausted",
        )


MAX_OVERLAP_SECONDS: Final = 30 * 86_400.0
"""The longest time for which a secret works beside the one that replaced it."""


class KeyOrigin(StrEnum):
    """The origin of a key."""

    MADE = "made"
    """A caller requested it."""
    SETTING = "setting"
    """It is what `bootstrap_key` says. There is one such key at a time."""
    FIRST = "first"
    """It was made because there was none."""
    LOCAL = "local"
    """`up` made it for the command line of its machine."""


KEPT_ELSEWHERE: Final = {
    KeyOrigin.SETTING: "set another TICKWISE_BOOTSTRAP_KEY and start the API processes again, which revokes this one",
    KeyOrigin.LOCAL: "`up` keeps it in a file; revoke it, and the next start of `up` makes another one",
}
"""Keys whose secret is kept by others: they would bring the old one back, or go on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to keep."""

    key_id: UUID
    digest: bytes
    """The SHA-256 of its secret."""
    principal: Principal
    """Its principal in the namespace of requests that name none. `principal.expires_at` is when the key expires,
    `principal.owner_id` its owner."""
    namespaces: frozenset[str] | None = None
    """The namespaces in which the key works; `*`: each one, and the installation itself. None: its own."""
    labels: Labels = ()
    """Its permissions hold for jobs that have all of these; none: for all jobs."""
    origin: KeyOrigin = KeyOrigin.MADE
    prefix: str | None = None
    """The beginning of the secret, which may be shown; None: nothing of it may be."""
    created_by: str | None = None
    """The name of the principal who asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key as it is listed."""

    key_id: UUID
    name: str
    namespace: str
    """The namespace of requests that name none."""
    namespaces: frozenset[str]
    """All in which it works; `*`: each one, and the installation itself."""
    scopes: frozenset[str]
    labels: Labels
    """The permissions hold for jobs that have all of these; none: for all jobs."""
    origin: KeyOrigin
    prefix: str | None
    created_by: str | None
    owner_id: UUID | None
    """The person with whose permissions it works; None: it needs nobody's."""
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    """To the minute or so; None: it was not used since keys say so."""
    revoked_at: float | None
    rotations: int = 0
    """The number of its present secret: how often it got another one."""
    rotated_at: float | None = None
    earlier_secret_until: float | None = None
    """The end of the overlap: the secret before the present one works until then. None: it works no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRotation:
    """Another secret for a key."""

    namespace: str | None
    """Of the key; None: of any."""
    key_id: UUID
    digest: bytes
    """The SHA-256 of the new secret."""
    prefix: str
    """The beginning of the new secret, which may be shown."""
    overlap_seconds: float
    """The present secret works for this time beside the new one; 0: no longer."""
    expected: int
    """The `rotations` of the row that it was made from."""

    def check(self, row: KeyRow, now: float) -> None:
        """Raise `Conflict` if the key cannot be rotated like this: it is over (`key_over`), another rotation came first
        (`key_rotated`), the overlap of the one before has not ended (`key_rotating`), or its secret is kept elsewhere
        (`key_not_rotated_here`)."""
        if row.origin in KEPT_ELSEWHERE:
            raise Conflict(f"this key is not rotated here: {KEPT_ELSEWHERE[row.origin]}", code="key_not_rotated_here")
        if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
            over = "was revoked" if row.revoked_at is not None else "has expired"
            raise Conflict(f"the key {row.name} {over}: make a new one", code="key_over")
        if row.rotations != self.expected:
            raise Conflict(
                "another request has rotated the key meanwhile: use its answer, or look again and repeat",
                code="key_rotated",
            )
        if row.earlier_secret_until is not None and self.overlap_seconds > 0.0:
            raise Conflict(
                "the key was rotated, and its secret before that still works (earlier_secret_until): wait for its end, "
                "or send overlap_seconds 0, which ends all earlier secrets at once",
                code="key_rotating",
            )


WHY_MADE: Final[Mapping[KeyOrigin, str]] = MappingProxyType(
    {
        KeyOrigin.FIRST: "the first key of the installation",
        KeyOrigin.SETTING: "it stands in TICKWISE_BOOTSTRAP_KEY",
        KeyOrigin.LOCAL: "for the command line of this machine",
    }
)
"""The reason for a key that nobody has asked for."""


class FoundKey(NamedTuple):
    """A good key."""

    caller: Caller
    """With the key's id, owner and expiry."""
    seconds_left: float | None
    """Until it expires, by the store's clock; None: it does not."""


def key_kept(key: NewKey) -> AuditEntry:
    """The entry of a key that the program itself has made."""
    principal = key.principal
    return key_by_program(
        AuditAction.KEY_MADE, key.key_id, principal.name, principal.namespace, WHY_MADE.get(key.origin, key.origin)
    )


def key_replaced(key_id: UUID, name: str, namespace: str) -> AuditEntry:
    """The entry of a key of the setting that another one has replaced."""
    return key_by_program(AuditAction.KEY_REVOKED, key_id, name, namespace, "replaced in TICKWISE_BOOTSTRAP_KEY")


class Keys(Protocol):
    """API keys. All may be called again after an `InDoubt`."""

    async def add(self, key: NewKey, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Keep it; False, and nothing changes, if a key with this digest is or was there. Raises `Conflict`, code
        `keys_exhausted`, for one that was asked for where its namespace has `MAX_KEYS` good ones of these."""
        ...

    async def first(self, key: NewKey) -> bool:
        """Keep it if no key was ever kept, of any namespace. Of several processes that ask at once, one hears True. The
        key has an entry of the program in the audit log."""
        ...

    async def of_setting(self, key: NewKey) -> Sequence[UUID] | None:
        """Keep it unless it is there, and revoke all other keys of origin SETTING: which these were. None, and nothing
        changes, if this one is revoked itself. Each key that is kept or revoked has an entry of the program."""
        ...

    async def find(self, digest: bytes) -> FoundKey | None:
        """The good key with this digest of its present secret, or of an earlier one in its overlap."""
        ...

    async def of_id(self, key_id: UUID, secret: int | None = None) -> FoundKey | None:
        """The good key with this id; with `secret`, only while its secret of this number works."""
        ...

    async def rotate(self, rotation: KeyRotation, *, audit: AuditEntry | None = None) -> KeyRow | None:
        """Give a key another secret; the present one works until its overlap ends, and no other works. None: the
        namespace has no such key. The same digest again is the same rotation. Raises `Conflict` (`KeyRotation.check`).
        Of several that rotate a key at once, one does."""
        ...

    async def page(self, namespace: str | None, *, before: UUID | None, limit: int) -> Sequence[KeyRow]:
        """Keys that have this namespace as their home, or work there by its name (None: all), also those that are over,
        the newest id first; those below `before`."""
        ...

    async def revoke(
        self, namespace: str | None, key_id: UUID, *, only_there: bool = False, audit: Sequence[AuditEntry] = ()
    ) -> KeyRow | None:
        """Revoke it; what was revoked stays as it is. None if no key of this id has the namespace (None: any) as its
        home.

        With `only_there`, the key works in this namespace no more and keeps its others, one of which becomes its home
        if this was it. One that does not work there by its name, or nowhere else, stays as it is. None: there is no
        such key."""
        ...

    async def used(self, ages: Mapping[UUID, float]) -> None:
        """Note how many seconds ago these were used; an earlier use than the noted one changes nothing.
        The first use of each leaves an entry in the audit log."""
        ...

    async def count(self) -> int:
        """The number of keys, valid or not: none means that no key was ever accepted."""
        ...
