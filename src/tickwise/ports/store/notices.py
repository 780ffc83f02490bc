"""Channels, notification rules, alerts and notices (`domain.notices`).

    a run ends ──(one transaction, only if a rule may concern it)──► an event that is not judged yet
    events(limit) ──► rules, history of the job ──► fold: alerts and notices changed, events gone  (one transaction)
    due(limit) ──► a channel's notices, leased ──► sender ──► settle: delivered, or due again, or dead

Invariants: an event is either pending or counted. A notice is held by one sender at a time; a lease that ended gives it
to another, so a notice is delivered at least once, and twice only if a sender died between delivery and `settle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import (
    MAX_CHANNELS,
    Alert,
    AlertState,
    Notice,
    NoticeChannel,
    NoticeEvent,
    NoticeLine,
    NoticeState,
    NotificationRule,
    Severity,
)

SEND_LEASE_SECONDS = 60.0
"""A sender that has not settled a notice after so long is gone."""


def channel_name_taken(name: str) -> Conflict:
    """The error for a name that another channel has."""
    return Conflict(f"there is a channel {name!r} already", pointer="/name", code="channel_name_taken")


def channel_changed(name: str) -> Conflict:
    """The error for a change of a version that is not the newest."""
    return Conflict(f"the channel {name!r} was changed meanwhile: read it again", code="channel_changed")


def no_channel() -> NotFound:
    """The error for a channel that is not in the namespace."""
    return NotFound("there is no such channel in this namespace")


def check_channels(count: int) -> None:
    """Raise `Conflict`, code `channels_exhausted`, if a namespace with so many channels takes no more."""
    if count >= MAX_CHANNELS:
        raise Conflict(f"a namespace has at most {MAX_CHANNELS} channels", code="channels_exhausted")


class ChannelSecrets(NamedTuple):
    """The fields of a channel that are for its sender alone: the signing secret, a password, the whole address."""

    channel: NoticeChannel
    secrets: Mapping[str, str]


class ChannelStore(Protocol):
    """Channels. Names are unique in a namespace."""

    async def add(
        self, channel: NoticeChannel, secrets: Mapping[str, str], *, audit: AuditEntry | None = None
    ) -> NoticeChannel:
        """Store a channel; one of this id that is there already is returned as it is. Raises `Conflict`, code
        `channel_name_taken` or `channels_exhausted`."""
        ...

    async def change(
        self, channel: NoticeChannel, secrets: Mapping[str, str] | None, *, audit: AuditEntry | None = None
    ) -> NoticeChannel | None:
        """Replace the fields of a channel whose version is `channel.version`, and its secrets unless None. None: there
        is none. Raises `Conflict`, code `channel_changed` or `channel_name_taken`."""
        ...

    async def remove(self, namespace: str, channel_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Remove a channel: it leaves its rules, and its waiting notices are dropped, on record. False: none there."""
        ...

    async def find(self, namespace: str, *, channel_ids: Sequence[UUID] | None = None) -> Sequence[NoticeChannel]:
        """The channels of a namespace in the order of their names, or of these ids."""
        ...

    async def secrets(self, channel_ids: Sequence[UUID]) -> Sequence[ChannelSecrets]:
        """For senders alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRuleQuery:
    """Rules, by name; everything given must match."""

    namespace: str | None
    """None: of all, for schedulers."""
    rule_id: UUID | None = None
    channel_id: UUID | None = None
    after_name: str | None = None
    limit: int = 100_000


class NotificationRuleStore(Protocol):
    """Notification rules."""

    async def add(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule:
        """Store a rule; one of this id that is there already is returned as it is. Raises `Conflict`, code `name_taken`
        or `rules_exhausted`; `NotFound` for a channel that is not in the namespace."""
        ...

    async def change(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule | None:
        """Replace a rule whose version is `rule.version`. Raises as `add`, and `Conflict`, code `version_changed`."""
        ...

    async def remove(self, namespace: str, rule_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Remove a rule: its alerts are closed, its waiting notices are dropped, on record. False: none there."""
        ...

    async def find(self, query: NotificationRuleQuery) -> Sequence[NotificationRule]:
        """Rules in the order of their names."""
        ...

    async def version(self) -> int:
        """A number that changes with every rule, channel and job `notify`: what a scheduler knows of rules is of it."""
        ...


class PendingEvent(NamedTuple):
    """An event that no rule was asked about yet."""

    namespace: str
    event_id: UUID
    """Of a run: its id."""
    token: int
    job_id: UUID | None
    state: RunState | None
    """The state in which the run ended; RETRYING: it is tried again."""
    attempt: int
    at: float
    reason: str | None
    error: str | None
    """Cut to 1,000 characters."""


class NoticeJob(NamedTuple):
    """The fields of a job that rules and messages need."""

    job_id: UUID
    name: str
    labels: Mapping[str, str]
    notify: Sequence[str]
    """The channels that the job itself names."""


class JobEnds(NamedTuple):
    """The newest ended runs of a job, the newest first: SUCCESS and FAILED alone."""

    job_id: UUID
    states: Sequence[RunState]


class PendingEvents(NamedTuple):
    """A page of events, with what is needed to judge them."""

    events: Sequence[PendingEvent]
    jobs: Mapping[UUID, NoticeJob]
    more: bool
    """There are more: it may be a storm."""


class AlertKey(NamedTuple):
    """An alert is one for each of these while it is not closed."""

    namespace: str
    rule_id: UUID | None
    event: NoticeEvent
    subject: str


class AlertChange(NamedTuple):
    """Count events in an alert, or close it."""

    key: AlertKey
    alert_id: UUID
    """If it is made."""
    subject_name: str
    severity: Severity
    events: int
    first_at: float
    last_at: float
    sentence: str
    run_id: UUID | None
    close: bool = False


class NoticeChange(NamedTuple):
    """Put lines into the waiting notice of a channel and rule, or into a new one."""

    notice_id: UUID
    """If it is made."""
    namespace: str
    channel_id: UUID
    rule_id: UUID | None
    rule_name: str
    severity: Severity
    events: int
    first_at: float
    last_at: float
    lines: Sequence[NoticeLine]
    due: float
    """Of a new one; one that waits keeps its own, if that is earlier."""
    is_escalation: bool = False


class Fold(NamedTuple):
    """The outcome of judging a page of events of one namespace."""

    namespace: str
    judged: Sequence[tuple[UUID, int]]
    """The events (event_id, token) that are pending no more."""
    alerts: Sequence[AlertChange]
    notices: Sequence[NoticeChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertQuery:
    """Alerts, the newest event first; everything given must match."""

    namespace: str
    states: Sequence[AlertState] = ()
    rule_id: UUID | None = None
    subject: str | None = None
    alert_id: UUID | None = None
    before: tuple[float, UUID] | None = None
    """The page begins behind (last_at, alert_id)."""
    limit: int = 50


class NewAlertDecision(NamedTuple):
    """A person's decision about an alert."""

    state: AlertState
    by: str
    note: str | None = None
    until: float | None = None
    """With SNOOZED."""


class AlertStore(Protocol):
    """Events, and the alerts that rules make of them."""

    async def events(self, limit: int) -> PendingEvents:
        """Up to `limit` events that are not judged yet, the oldest first. Nothing while there is no rule."""
        ...

    async def ends(self, job_ids: Sequence[UUID], most: int) -> Sequence[JobEnds]:
        """The newest `most` ends of jobs."""
        ...

    async def fold(self, fold: Fold) -> bool:
        """Apply a fold in one transaction, if all its events are still pending. False: another scheduler has judged one
        of them, and nothing was changed. A fold without events is always applied."""
        ...

    async def find(self, query: AlertQuery) -> Sequence[Alert]:
        """A page of alerts."""
        ...

    async def decide(
        self, namespace: str, alert_id: UUID, decision: NewAlertDecision, *, audit: AuditEntry | None = None
    ) -> Alert | None:
        """Acknowledge, snooze, close, or open again. None: there is no such alert."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeQuery:
    """Notices, the newest first by id; everything given must match."""

    namespace: str
    states: Sequence[NoticeState] = ()
    channel_id: UUID | None = None
    rule_id: UUID | None = None
    notice_id: UUID | None = None
    before: UUID | None = None
    limit: int = 50


class DueNotices(NamedTuple):
    """The outcome of a look for due notices."""

    notices: Sequence[Notice]
    """Taken by the sender that looked."""
    has_channels: bool
    """There is a channel, so notices may come at any time."""


class SettledNotice(NamedTuple):
    """The outcome of one try to deliver."""

    notice_id: UUID
    state: NoticeState
    """DELIVERED, DEAD, or WAITING: it is tried again."""
    error: str | None = None
    again_seconds: float = 0.0
    """With WAITING: from now on."""


class NoticeStore(Protocol):
    """Notices, from their making to their delivery."""

    async def add(self, notice: Notice, *, audit: AuditEntry | None = None) -> Notice:
        """A notice of its own, such as a test of a channel; it joins no other. One of this id that is there already is
        returned as it is. Raises `NotFound` for a channel that is not in the namespace."""
        ...

    async def due(self, sender: str, limit: int) -> DueNotices:
        """Take up to `limit` notices that are due, the longest due first, for `SEND_LEASE_SECONDS`: at most one of each
        channel, and none of a channel of which a notice is held. Events that follow make a new notice."""
        ...

    async def settle(self, sender: str, results: Sequence[SettledNotice]) -> None:
        """Record the outcomes of tries, also at the channel. A notice that this sender holds no more is left as it is.
        Into one that is tried again, what waits for the same channel and rule is merged."""
        ...

    async def find(self, query: NoticeQuery) -> Sequence[Notice]:
        """A page of notices."""
        ...

    async def again(self, namespace: str, notice_id: UUID, *, audit: AuditEntry | None = None) -> Notice | None:
        """Make a dead notice due now, with what waits for the same channel and rule. None: there is none that is dead,
        or its channel is gone."""
        ...

    async def forget(self, seconds: float, limit: int) -> int:
        """Delete up to `limit` notices that ended more than `seconds` ago; how many."""
        ...
