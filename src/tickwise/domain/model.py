"""The values that everything else passes around, and the names (ids) of things.

Instants are `float` seconds since the Unix epoch, UTC, exact to the microsecond: they cross the wire, the
store and the hot path without a conversion. Civil time, zones and clock changes live in `schedule.py` alone.

    job ──has──► schedule ──says──► occurrence ──is named by──► run id ──► run ──tried by──► attempt (token)

Invariant: an occurrence's run id follows from (job, nominal time, trigger), so making it twice is making it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from hashlib import blake2b, sha256
from typing import Final, NamedTuple
from uuid import UUID, SafeUUID

from tickwise.domain.selectors import Labels, RestrictedGrant, Selector, is_inside, is_narrower
from tickwise.domain.trace_context import TraceContext

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 5

PLACE_MILLIS: Final = 60_000
"""Clocks of nodes and clients differ, and a batch is on its way for some seconds."""

_VERSION_8_VARIANT: Final = (0x8 << 76) | (0b10 << 62)
_CLEAR: Final = ~((0xF << 76) | (0b11 << 62))
_MILLIS_MAX: Final = (1 << 48) - 1
_NUMBERS_BEGIN_MILLIS: Final = 1_704_067_200_000
"""2024-01-01T00:00:00Z."""
_NUMBER_MILLIS_MIN: Final = 1 << 28
_NUMBER_MILLIS_MAX: Final = (1 << 41) - 1
_NUMBER_RANDOM_BITS: Final = 12
_NUMBER_RANDOM_MASK: Final = (1 << _NUMBER_RANDOM_BITS) - 1
_blank: Final = object.__new__
# A UUID refuses to be changed, its slots do not.
_put_int: Final[Callable[[UUID, int], None]] = vars(UUID)["int"].__set__
_put_is_safe: Final[Callable[[UUID, SafeUUID], None]] = vars(UUID)["is_safe"].__set__
_new: Final = tuple.__new__
"""Makes a named tuple several times as fast as its own class does; each field has to be given."""


class Trigger(IntEnum):
    """The origin of a run. Stores keep the numbers: never renumber."""

    SCHEDULE = 1
    RUN_NOW = 2
    RETRY = 3
    """A person's retry of a run that ended; automatic retries are further attempts of the same run."""
    MISSED = 4
    """An occurrence that fell into a pause and was asked for at resume."""
    BACKFILL = 5
    """An occurrence of the past, asked for by a person with others of a range."""
    SEQUENCE = 6
    """The end of a run of another job, which names this one in `then` or `on_failure`."""


_TRIGGERS: Final = {each: bytes((each,)) for each in Trigger}
"""One byte of the names of runs."""


def time_id(millis: int, random_bytes: bytes) -> UUID:
    """A UUIDv8 whose first 48 bits are `millis` (Unix milliseconds) and whose rest comes from 10 random bytes.

    Ids of the same millisecond are unordered; others sort by time, which keeps indexes warm and lets an id
    alone find its partition (RFC 9562, section 5.8).
    """
    if not 0 <= millis <= _MILLIS_MAX:
        millis = min(max(millis, 0), _MILLIS_MAX)
    value = int.from_bytes(millis.to_bytes(6, "big") + random_bytes[:10], "big")
    # `UUID(int=…)` without its checks, which take three times as long as all the rest: each submit makes two.
    made = _blank(UUID)
    _put_int(made, value & _CLEAR | _VERSION_8_VARIANT)
    _put_is_safe(made, SafeUUID.unknown)
    return made


def executor_number(millis: int, random_bytes: bytes) -> int:
    """A number for an executor that registers: the milliseconds since 2024 in 41 bits, then 12 random bits.

    Numbers of different milliseconds sort by time. 53 bits in all, since a JSON reader may keep no more. A clock that
    is wrong gives the nearest valid time: at the lower end, every number that a database drew for earlier releases is
    smaller.
    """
    since = min(max(millis - _NUMBERS_BEGIN_MILLIS, _NUMBER_MILLIS_MIN), _NUMBER_MILLIS_MAX)
    return since << _NUMBER_RANDOM_BITS | int.from_bytes(random_bytes[:2], "big") & _NUMBER_RANDOM_MASK


BELOW_MILLIS: Final = 80
"""Bits of a time id below its milliseconds."""


def joined(*parts: str) -> str:
    """One text for several: no other parts give the same. Parts without `/` and `%` stay as they are."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def place_of(job_id: UUID, created_at: float) -> UUID:
    """The position of a job in a list by creation: its id, if that agrees with the time to the minute; else the time
    and a hash of the id, because a client may choose any id."""
    millis = math.floor(created_at * 1000)
    if -PLACE_MILLIS <= (job_id.int >> 80) - millis < PLACE_MILLIS:
        return job_id
    return UUID(int=(millis << 80) | int.from_bytes(sha256(job_id.bytes).digest()[:10], "big"))


def id_instant(identifier: UUID) -> float:
    """The instant inside a time id, to the millisecond."""
    return (identifier.int >> BELOW_MILLIS) / 1000.0


LATEST_INSTANT: Final = 253_402_300_800.0
"""Unix seconds of the year 10,000. An instant beyond it, or as far before the epoch, is a mistake."""


def name_from(instant: float) -> UUID:
    """The smallest name that an occurrence from the millisecond of `instant` on can have."""
    return UUID(int=max(0, round(instant * 1_000_000) // 1000) << BELOW_MILLIS)


def name_before(instant: float) -> UUID | None:
    """The greatest name that comes before all of those; None: there is none."""
    found = name_from(instant).int
    return UUID(int=found - 1) if found else None


def run_id(job_id: UUID, nominal: float, trigger: Trigger = Trigger.SCHEDULE, request: bytes = b"") -> UUID:
    """The name of a run: its nominal time, then a hash of job, nominal time, trigger and any request's own id."""
    micros = round(nominal * 1_000_000)
    named = job_id.int.to_bytes(16, "big") + micros.to_bytes(8, "big", signed=True) + _TRIGGERS[trigger] + request
    return time_id(micros // 1000, blake2b(named, digest_size=10).digest())


class Lane(NamedTuple):
    """The place where a run waits: executors claim from whole lanes that they can serve, higher priority first."""

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    requires: tuple[str, ...] = ()
    """Labels (`name` or `name=value`) that an executor must have, sorted. Control adds `task:KIND` and, for functions,
    `function:NAME` (if an active executor offers it) or `function:*`; people's own labels hold no colon."""


class Origin(NamedTuple):
    """The place from which a request came."""

    address: str = ""
    """The address of the client, or of the proxy in front of the API; empty: unknown."""
    request_id: str = ""
    trace: TraceContext | None = None
    """The trace that the request belongs to; what is made for it goes on in that trace."""


class Principal(NamedTuple):
    """The caller. Every control call carries one; it decides the namespace and what may be done."""

    name: str
    namespace: str
    scopes: frozenset[str]
    key_id: UUID | None = None
    """The key that was sent; None where no request is behind it."""
    expires_at: float | None = None
    """The expiry of that key; None: it does not expire."""
    user_id: UUID | None = None
    """The person who signed in; None: a key was sent."""
    owner_id: UUID | None = None
    """The person who lends the key their permissions; None: nobody does."""
    everywhere: frozenset[str] = frozenset()
    """The permissions that hold in each namespace, and for the installation itself."""
    restricted: tuple[RestrictedGrant, ...] = ()
    """Further permissions, each for jobs with certain labels alone. `may` says nothing of them."""
    within: Selector | None = None
    """The jobs that the call at hand may be about; None: any. Set by `control.access`, which checks the permission of
    the call, and heeded wherever a job is looked up."""
    secret: int = 0
    """The number of the key's secret that was sent."""
    by_token: bool = False
    """True if a token was sent."""
    origin: Origin = Origin()
    """Of the request that it makes."""

    @property
    def full_name(self) -> str:
        """Its namespace and its name as one text, which no other principal has. A person and a key of one name are
        two."""
        if self.user_id is not None:
            return joined(self.namespace, "user", str(self.user_id))
        return joined(self.namespace, self.name)

    @property
    def credential_name(self) -> str:
        """The credential as one text, the same in all of its namespaces, which no other credential has."""
        if self.user_id is not None:
            return joined("@user", str(self.user_id))
        return self.full_name if self.key_id is None else joined("@key", str(self.key_id))

    @property
    def answers_name(self) -> str:
        """The name under which answers to its requests are kept: by id, because several keys may have one name. It
        begins with the namespace, with which the answers go."""
        if self.user_id is not None or self.key_id is None:
            return self.full_name
        return joined(self.namespace, "key", str(self.key_id))

    def with_origin(self, address: str, request_id: str, trace: TraceContext | None = None) -> Principal:
        """The principal of one request."""
        # `origin` is the last field.
        return _new(Principal, (*self[:-1], _new(Origin, (address, request_id, trace))))

    def in_trace(self, trace: TraceContext) -> Principal:
        """The principal of a part of its request that is a place in a trace of its own."""
        return self.with_origin(self.origin.address, self.origin.request_id, trace)

    def bound_to(self, jobs: Selector) -> Principal:
        """The principal of a call that may be about these jobs alone."""
        return _new(Principal, (*self[:_WITHIN], jobs, *self[_WITHIN + 1 :]))

    def may(self, scope: str) -> bool:
        """Check whether `scope`, such as `jobs:write`, is granted; `*` grants all."""
        return scope in self.scopes or "*" in self.scopes

    def permissions_in(self, namespace: str, labels: Labels = ()) -> frozenset[str]:
        """The permissions in this namespace for all jobs that have these labels: all in the namespace that the request
        is about, elsewhere those of `*`."""
        is_here = namespace == self.namespace
        found = self.scopes if is_here else self.everywhere
        also = (
            each.permissions
            for each in self.restricted
            if (is_here or each.is_everywhere) and is_narrower(labels, each.labels)
        )
        return found.union(*also) if labels else found

    def selector(self, permissions: Sequence[str]) -> Selector:
        """The jobs for which a restricted grant holds one of these permissions. Empty: for none."""
        if not self.restricted:
            return ()
        found = [labels for held, labels, _ in self.restricted if not held.isdisjoint(permissions) or "*" in held]
        return tuple(dict.fromkeys(found))

    def may_within(self, permission: str) -> bool:
        """Check whether a permission holds for each job that the call at hand may be about."""
        return self.may(permission) or (
            self.within is not None and is_inside(self.within, self.selector((permission,)))
        )


_WITHIN: Final = Principal._fields.index("within")


class Claimed(NamedTuple):
    """One attempt that an executor holds: the run, its fence, and all that is needed to run it.

    A NamedTuple, not a dataclass: tens of thousands are made a second.
    """

    run_id: UUID
    token: int
    job_id: UUID
    namespace: str
    attempt: int
    failures: int
    crashes: int
    guarded: bool
    """Record the start, fenced, before the task begins: the run was once lost with its executor, or whether it may
    start while others of its job are unfinished is still to be settled. (The job itself may demand it, too: `spec`.)"""
    due: float
    nominal: float
    """The time that the schedule named; `due` is the same or later."""
    ready: float
    trigger: int
    spec: str
    """The job's definition as JSON text, already with the run's own payload if it has one."""
    now: float
    """The store's clock when it was claimed."""


class Outcome(NamedTuple):
    """The report of an executor on an attempt: one of the moves out of DISPATCHED or RUNNING.

    It names no namespace: a report goes where its token was drawn. It travels as an array in `Results`, so a field that
    is added here is a new version of that message.
    """

    run_id: UUID
    token: int
    state: int
    """`lifecycle.CODES` of SUCCESS, FAILED, CANCELLED, RETRYING, QUEUED (given back unstarted) or SKIPPED (revoked)."""
    started: float
    """0.0 with QUEUED if it never began: no attempt is counted then or put on record, even if its start was."""
    ended: float
    reason: str | None = None
    """For programs: `error`, `timeout`, `output_limit`, `exit_code`, `invalid`, `cancelled`, …"""
    error: str | None = None
    """For people."""
    result: str | None = None
    """JSON text."""
    retry_at: float | None = None
    """With RETRYING, and if wanted with QUEUED: when it may be claimed again."""
    follow: bool = False
    """With SUCCESS and FAILED: its job names others that go on from here (see `CompletionStore`)."""
