"""Sign-ins of devices without a browser (RFC 8628): a person approves in a browser what a terminal asked for.

    terminal ──begin──► pending ──decide──► approved ──poll──► used: its session begins
                           │       └─────► denied
                           └─ its time ──► expired

Invariants: a request is decided once, by a person who is signed in. An approved one gives one session. The device code
is nowhere: a request is found by the SHA-256 of its code, which has 256 random bits, or by the short code that people
type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry

MAX_DEVICE_SIGN_INS: Final = 10_000
"""Requests that are kept at once, of all addresses."""
SLOW_DOWN_SECONDS: Final = 5.0
"""A poll that comes too early makes the interval so much longer (RFC 8628, section 3.5)."""
KEPT_SECONDS: Final = 3_600.0
"""A request is known for so long after it expired, so that its device is told why it gets nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeviceSignIn:
    """A request to keep."""

    device_id: UUID
    digest: bytes
    """The SHA-256 of the device code."""
    user_code: str
    """The code that the person compares: letters alone, in upper case."""
    client: str
    """The name that the device gives itself. It is a claim, and shown as one."""
    address: str
    """The address that asked; empty: unknown."""
    scope: frozenset[str] | None
    """The permissions that the session is bounded by; None: all of the person."""
    namespace: str | None
    seconds: float
    """The time for which it can be approved."""
    interval_seconds: float
    """The least time between two polls."""


class BegunDeviceSignIn(StrEnum):
    """The result of keeping a request."""

    BEGUN = "begun"
    CODE_TAKEN = "code_taken"
    """Another request has this user code."""
    FULL = "full"
    """There are `MAX_DEVICE_SIGN_INS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSignIn:
    """A request that waits for a decision, as the person sees it."""

    device_id: UUID
    user_code: str
    client: str
    address: str
    scope: frozenset[str] | None
    namespace: str | None
    created_at: float
    seconds_left: float


class Poll(StrEnum):
    """The answer to a poll."""

    PENDING = "pending"
    SLOW_DOWN = "slow_down"
    """The poll came too early, and the interval grew."""
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    UNKNOWN = "unknown"
    """There is no such request, or its session has begun."""


class Polled(NamedTuple):
    """The answer to a poll; the rest is of an approved request alone."""

    poll: Poll
    user_id: UUID | None = None
    generation: int = 0
    """Of the person when it was approved."""
    scope: frozenset[str] | None = None
    namespace: str | None = None


class DeviceSignInStore(Protocol):
    """Requests of devices. All methods may be called again after an `InDoubt`."""

    async def begin(self, request: NewDeviceSignIn) -> BegunDeviceSignIn:
        """Keep a request, and forget those that expired `KEPT_SECONDS` ago. The same one again is BEGUN."""
        ...

    async def find(self, user_code: str) -> DeviceSignIn | None:
        """The request with this code that waits for a decision; None: there is none, or it has expired."""
        ...

    async def decide(
        self, device_id: UUID, *, user_id: UUID, generation: int, approved: bool, audit: AuditEntry | None = None
    ) -> bool:
        """Approve or deny it in the name of a person. False, and nothing changes: it was decided, or has expired. The
        same decision of the same person again is True, and writes no second entry."""
        ...

    async def poll(self, digest: bytes, *, family: UUID) -> Polled:
        """The state of the request of a device code. An approved one is given out once: to the session `family`, and to
        the same one again."""
        ...
