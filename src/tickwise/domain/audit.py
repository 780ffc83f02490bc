"""Entries of the audit log, and the chain that shows whether they are as they were written.

    change ──same transaction──► entry ──sealed with others──► seal 1 ──► seal 2 ──► seal 3      one chain per namespace
                                   └─ digest, in the seal       └─ hash ──► previous             the last hash: the head

An entry names the caller, the action, the thing, and the thing's fields before and after, with secrets masked. A seal
holds the digests of some entries and the hash of the seal before, so a change of an old entry shows in its digest, and
a change of a seal in every later one. A chain that is rewritten as a whole shows only in a head that was noted
elsewhere: an anchor.

Invariant: neither a password nor the secret of a key or a link is ever part of an entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from tickwise.domain.model import Principal

DIGEST_BYTES: Final = 32
FIRST_HASH: Final = bytes(DIGEST_BYTES)
"""The hash before the first seal of a namespace."""
PROGRAM: Final = "tickwise"
"""The name of a caller that is the program itself."""
ENTRIES_OF_SEAL: Final = 1_000
"""The most entries of one seal."""


class AuditAction(StrEnum):
    """The action of an entry. The values are stored: never rename one."""

    JOB_CREATED = "job.created"
    JOB_CHANGED = "job.changed"
    JOB_PAUSED = "job.paused"
    JOB_RESUMED = "job.resumed"
    JOB_CANCELLED = "job.cancelled"
    JOB_MOVED = "job.moved"
    """To another namespace."""
    OCCURRENCE_MOVED = "job.occurrence_moved"
    RUN_REQUESTED = "run.requested"
    RUN_CANCELLED = "run.cancelled"
    RUN_SKIPPED = "run.skipped"
    RUN_POSTPONED = "run.postponed"
    BACKFILL_CANCELLED = "backfill.cancelled"
    LETTER_SETTLED = "letter.settled"
    OPERATION_REQUESTED = "operation.requested"
    OPERATION_CANCELLED = "operation.cancelled"
    REQUEST_REFUSED = "request.refused"
    """A request that was accepted to be applied later, and could not be."""
    TASK_STORED = "task.stored"
    CALENDAR_PUT = "calendar.put"
    CALENDAR_DELETED = "calendar.deleted"
    WINDOW_PUT = "window.put"
    WINDOW_DELETED = "window.deleted"
    ERROR_RESOLVED = "error.resolved"
    ERROR_IGNORED = "error.ignored"
    ERROR_REOPENED = "error.reopened"
    QUEUE_HELD = "queue.held"
    QUEUE_RESUMED = "queue.resumed"
    STOP_MADE = "stop.made"
    STOP_LIFTED = "stop.lifted"
    OBJECTIVE_ADDED = "objective.added"
    OBJECTIVE_REMOVED = "objective.removed"
    CHANNEL_ADDED = "channel.added"
    CHANNEL_CHANGED = "channel.changed"
    CHANNEL_SECRET_ROTATED = "channel.secret_rotated"
    CHANNEL_TESTED = "channel.tested"
    CHANNEL_REMOVED = "channel.removed"
    CHANNEL_TRIED_NOW = "channel.tried_now"
    NOTIFICATION_RULE_ADDED = "notification_rule.added"
    NOTIFICATION_RULE_CHANGED = "notification_rule.changed"
    NOTIFICATION_RULE_TESTED = "notification_rule.tested"
    NOTIFICATION_RULE_REMOVED = "notification_rule.removed"
    VIEW_SAVED = "view.saved"
    VIEW_REMOVED = "view.removed"
    ALERT_ACKNOWLEDGED = "alert.acknowledged"
    ALERT_SNOOZED = "alert.snoozed"
    ALERT_CLOSED = "alert.closed"
    ALERT_REOPENED = "alert.reopened"
    NOTICE_SENT_AGAIN = "notice.sent_again"
    STATUS_PAGE_ADDED = "status_page.added"
    STATUS_PAGE_CHANGED = "status_page.changed"
    STATUS_PAGE_REMOVED = "status_page.removed"
    ANNOUNCEMENT_ADDED = "announcement.added"
    ANNOUNCEMENT_CHANGED = "announcement.changed"
    ANNOUNCEMENT_REMOVED = "announcement.removed"
    SECRET_SET = "secret.set"
    SECRET_REMOVED = "secret.removed"
    SECRETS_REWRAPPED = "secret.rewrapped"
    """By the newest key of the installation."""
    KEY_MADE = "key.made"
    KEY_USED_FIRST = "key.used_first"
    KEY_ROTATED = "key.rotated"
    KEY_REVOKED = "key.revoked"
    FEDERATION_ADDED = "federation.added"
    FEDERATION_REMOVED = "federation.removed"
    NAMESPACE_ADDED = "namespace.added"
    NAMESPACE_CHANGED = "namespace.changed"
    NAMESPACE_REMOVED = "namespace.removed"
    NAMESPACE_MOVE_BEGUN = "namespace.move_begun"
    """To another database of the installation, or gone on with."""
    NAMESPACE_MOVED = "namespace.moved"
    NAMESPACE_MOVE_UNDONE = "namespace.move_undone"
    SHARD_ADDED = "shard.added"
    SHARD_CHANGED = "shard.changed"
    SHARD_REMOVED = "shard.removed"
    ROLE_PUT = "role.put"
    ROLE_DROPPED = "role.dropped"
    USER_ADDED = "user.added"
    USER_REGISTERED = "user.registered"
    USER_CHANGED = "user.changed"
    PASSWORD_CHANGED = "user.password_changed"
    LINK_MADE = "user.link_made"
    LINK_USED = "user.link_used"
    DEVICE_APPROVED = "auth.device_approved"
    DEVICE_DENIED = "auth.device_denied"
    IDENTITY_LINKED = "user.identity_linked"
    """A person at a provider is this user from now on."""
    IDENTITY_UNLINKED = "user.identity_unlinked"
    FACTOR_ENROLLED = "user.factor_enrolled"
    FACTOR_RENAMED = "user.factor_renamed"
    FACTOR_REMOVED = "user.factor_removed"
    FACTORS_RESET = "user.factors_reset"
    RECOVERY_CODES_MADE = "user.recovery_codes_made"
    RECOVERY_CODE_USED = "auth.recovery_code_used"
    FACTOR_REFUSED = "auth.factor_refused"
    FACTOR_SUSPECTED = "auth.factor_suspected"
    SIGNED_IN = "auth.signed_in"
    SIGN_IN_FAILED = "auth.sign_in_failed"
    TOKEN_MADE = "auth.token_made"
    TOKEN_REUSED = "auth.token_reused"
    SIGNED_OUT = "auth.signed_out"
    DENIED = "auth.denied"
    IDENTITY_KEY_ROTATED = "identity_key.rotated"
    AUDIT_EXPORTED = "audit.exported"


class CallerKind(StrEnum):
    """The kind of a caller."""

    PERSON = "person"
    KEY = "key"
    PROGRAM = "program"
    """Tickwise itself, or a request that names neither a person nor a key."""
    STRANGER = "stranger"
    """A caller that showed nothing that is known."""


class Source(NamedTuple):
    """The caller of a request, and the place from which it came."""

    kind: CallerKind
    caller_id: UUID | None
    """The id of the person or the key."""
    name: str
    address: str = ""
    """The address of the client, or of the proxy in front of the API; empty: unknown."""
    request_id: str = ""

    @classmethod
    def of(cls, who: Principal) -> Source:
        """The source of what a principal asks for."""
        if who.user_id is not None:
            kind, caller_id = CallerKind.PERSON, who.user_id
        elif who.key_id is not None:
            kind, caller_id = CallerKind.KEY, who.key_id
        else:
            kind, caller_id = CallerKind.PROGRAM, None
        # Every submit makes one: its own class takes four times as long.
        return tuple.__new__(cls, (kind, caller_id, who.name, *who.origin[:2]))


class AuditEntry(NamedTuple):
    """One entry to write. The store gives it its number and its time."""

    namespace: str
    """`*`: of the installation itself."""
    action: AuditAction
    source: Source
    target_kind: str
    """The kind of the thing: `job`, `key`, …"""
    target: str | None = None
    """The id or the name of the thing; None: there are several, or none."""
    targets: Sequence[UUID] = ()
    """The ids of several."""
    before: str | None = None
    """JSON text: the changed fields as they were."""
    after: str | None = None
    """JSON text: the same fields as they are."""
    detail: str | None = None
    """JSON text: further facts."""


class AuditSeal(NamedTuple):
    """Entries of one namespace and one day (UTC), sealed together."""

    namespace: str
    seq: int
    """From 1, without gaps."""
    sealed_at: float
    since: float
    """The time of its earliest entry."""
    until: float
    """The time of its latest entry, on the same day."""
    entries: Sequence[int]
    """The numbers of its entries, ascending."""
    digests: bytes
    """The digests of its entries, one after another."""
    previous: bytes
    hash: bytes

    def expected_hash(self) -> bytes:
        """The hash that follows from the other fields."""
        return seal_hash(self.previous, self.namespace, self.seq, self.entries, self.digests)

    def digest_of(self, place: int) -> bytes:
        """The digest of the entry at this place."""
        return self.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]


def entry_digest(content: bytes) -> bytes:
    """The digest of an entry, whose content is all of its fields as the store spells them."""
    return hashlib.sha256(content).digest()


def seal_hash(previous: bytes, namespace: str, seq: int, entries: Sequence[int], digests: bytes) -> bytes:
    """The hash of a seal. Each part has a length, so no two seals are spelled alike."""
    # `json.dumps` of the three, which takes several times as long for a seal of few entries.
    head = f"[{encode_basestring_ascii(namespace)}, {seq}, {list(entries)}]".encode()
    return hashlib.sha256(b"tickwise audit 1\0" + previous + len(head).to_bytes(8, "big") + head + digests).digest()


class CreatedJob(Protocol):
    """A job that was stored."""

    @property
    def job_id(self) -> UUID:
        """Its id."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def definition(self) -> str:
        """Its definition as JSON text."""
        ...

    @property
    def source(self) -> Source | None:
        """The caller who made it; None: no entry is written."""
        ...


_Job = TypeVar("_Job", bound=CreatedJob)


def jobs_created(jobs: Iterable[CreatedJob]) -> list[AuditEntry]:
    """The entries of new jobs: one entry for all that one caller made from one place."""
    return [job_created(each) for each in made_together(jobs)]


def made_together(jobs: Iterable[_Job]) -> list[list[_Job]]:
    """The jobs of each caller and place, in the order in which these come. Those without a source are left out."""
    groups: dict[tuple[object, ...], list[_Job]] = {}
    last: Source | None = None
    place, group = "", list[_Job]()
    for job in jobs:
        namespace, source = job.namespace, job.source
        if source is None:
            continue
        # Most come from one caller: a look at the last one spares a key for each.
        if last is None or source[:4] != last[:4] or namespace != place:
            group = groups.setdefault((namespace, *source[:4]), [])
            last, place = source, namespace
        group.append(job)
    return list(groups.values())


def job_created(jobs: Sequence[CreatedJob]) -> AuditEntry:
    """The entry of new jobs that were made together. The definitions are in it as their digest; the request's id is, if
    all came with one request."""
    source = jobs[0].source
    assert source is not None  # `made_together` left out the others
    # JSON holds no NUL, so the texts cannot be divided in another way.
    digest = hashlib.sha256("\0".join([job.definition for job in jobs]).encode())
    request_id = source.request_id
    if any(job.source is not None and job.source.request_id != request_id for job in jobs):
        source = source._replace(request_id="")
    single = len(jobs) == 1
    return AuditEntry(
        jobs[0].namespace,
        AuditAction.JOB_CREATED,
        source,
        "job",
        target=str(jobs[0].job_id) if single else None,
        targets=() if single else [job.job_id for job in jobs],
        detail=f'{{"count":{len(jobs)},"definitions_sha256":"{digest.hexdigest()}"}}',
    )


def by_person(entry: AuditEntry, user_id: UUID, name: str | None = None) -> AuditEntry:
    """The entry about a person who was not known when it was made. With a name, the person is its caller, too."""
    source = entry.source
    if name is not None:
        source = source._replace(kind=CallerKind.PERSON, caller_id=user_id, name=name)
    return entry._replace(source=source, target=str(user_id))


def key_used_first(key_id: UUID, name: str, namespace: str) -> AuditEntry:
    """The entry of a key that was used for the first time."""
    source = Source(CallerKind.KEY, key_id, name)
    return AuditEntry(namespace, AuditAction.KEY_USED_FIRST, source, "key", target=str(key_id))


def key_by_program(action: AuditAction, key_id: UUID, name: str, namespace: str, why: str) -> AuditEntry:
    """The entry of a key that the program itself has made or revoked, and for which reason."""
    source = Source(CallerKind.PROGRAM, None, PROGRAM)
    detail = document({"name": name, "why": why})
    return AuditEntry(namespace, action, source, "key", target=str(key_id), detail=detail)


def sessions_by_program(why: str, namespace: str) -> AuditEntry:
    """The entry of all sessions of browsers, which the program itself has ended, and for which reason."""
    source = Source(CallerKind.PROGRAM, None, PROGRAM)
    return AuditEntry(namespace, AuditAction.SIGNED_OUT, source, "session", detail=document({"why": why}))


def document(fields: Mapping[str, Any]) -> str:
    """Fields as JSON text, in one order. The caller has masked the secrets."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that differ, as they were and as they are. A field that one side lacks is missing there."""
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return (
        {name: before[name] for name in changed if name in before},
        {name: after[name] for name in changed if name in after},
    )
