"""Channels and notification rules, as people write them.

Invariant: a rule concerns jobs of its own namespace. One of the installation (namespace `*`) concerns executors and
certificates, which belong to no namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

MAX_RULES: Final = 20_000
"""Rules of one namespace."""
MAX_WHOLE_RULES: Final = 100
"""Rules of one namespace that concern all of it: each of them is asked about each event."""
MAX_CHANNELS: Final = 500
"""Channels of one namespace."""
MAX_CHANNELS_OF_RULE: Final = 10
INSTALLATION: Final = "*"
"""The namespace of rules and channels of the installation."""


class NoticeEvent(StrEnum):
    """The events that a rule can be about. A stored name never changes its meaning."""

    FAILURE = "failure"
    """A run failed for good. With `in_a_row` or `failures_of` only when so many did."""
    FIRST_FAILURE = "first_failure"
    """A run failed for good, and the run of its job before it did not."""
    RECOVERY = "recovery"
    """A run succeeded while an alert about failures of its job was not closed."""
    DID_NOT_RUN = "did_not_run"
    """An occurrence was skipped for a reason that nobody chose, or its time passed and there is no run of it."""
    LATE = "late"
    """A run has not begun `after` seconds after it was due."""
    LONG = "long"
    """A run has been running for `after` seconds, or far longer than its job usually does."""
    RETRIES = "retries"
    """A run is tried again for the `attempts`th time."""
    DEAD_LETTER = "dead_letter"
    """A run became a dead letter."""
    FUSE = "fuse"
    """A job was paused because it fired too often."""
    EXECUTOR_LOST = "executor_lost"
    """An executor went silent: its lease ended, and it had not left."""
    OBJECTIVE = "objective"
    """The error budget of an objective burns too fast."""
    ANOMALY = "anomaly"
    """A run that succeeded took, or wrote, far more or less than earlier runs of its job."""
    EXPIRING = "expiring"
    """A certificate or a key ends soon."""
    SUCCESS = "success"
    """A run succeeded. It opens no alert, and is told each time, of jobs that the rule names."""


OF_NOTIFY: Final = frozenset({NoticeEvent.FAILURE, NoticeEvent.RECOVERY, NoticeEvent.DID_NOT_RUN, NoticeEvent.FUSE})
"""Events of a job that its own `notify` is about."""
RECOVERS: Final = frozenset({NoticeEvent.FAILURE, NoticeEvent.FIRST_FAILURE, NoticeEvent.DID_NOT_RUN})
"""Events after which a success of the job is told, by rules that ask for recoveries."""
PASSES: Final = RECOVERS | {
    NoticeEvent.RETRIES, NoticeEvent.LATE, NoticeEvent.LONG, NoticeEvent.FUSE, NoticeEvent.ANOMALY,
}  # fmt: skip
"""Events whose alerts are closed by a success of the job."""
OF_ONE_RUN: Final = frozenset({NoticeEvent.LATE, NoticeEvent.LONG, NoticeEvent.RETRIES})
"""Events of a run that may still end well. Their alert is closed by a success of a newer run of the job; of a job that
runs once by that of the run itself."""
GOOD: Final = frozenset({NoticeEvent.RECOVERY, NoticeEvent.SUCCESS})
"""Events that are no trouble."""
OPENS: Final = frozenset(NoticeEvent) - GOOD
"""Events that open an alert; a recovery closes those about failures."""
OF_NAMED_JOBS: Final = frozenset({NoticeEvent.SUCCESS})
"""Events of jobs that a rule names: nearly each run succeeds, and successes of other jobs are not even noted."""
ALWAYS_AT_ONCE: Final = frozenset({NoticeEvent.DID_NOT_RUN})
"""Events that wait for no group and no quiet hours."""


TOLD_EACH: Final = frozenset({NoticeEvent.EXPIRING})
"""Events that are told although their alert is open: each says that less time is left."""


class Severity(StrEnum):
    """The urgency of an alert. CRITICAL waits for no quiet hours."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class NoticeChannelKind(StrEnum):
    """The ways to tell people."""

    WEBHOOK = "webhook"
    EMAIL = "email"
    SLACK = "slack"
    APPRISE = "apprise"


class FailuresOf(NamedTuple):
    """A number of failures among the newest ended runs of a job."""

    failures: int
    runs: int


class QuietHours(NamedTuple):
    """A time of day in which notices wait. One that ends before it begins goes over midnight."""

    begin: int
    """Minutes after midnight."""
    end: int
    zone: str
    """An IANA name."""
    weekdays: frozenset[int] = frozenset(range(7))
    """The days on which it begins; Monday is 0."""


class Escalation(NamedTuple):
    """Further channels for an alert that nobody acknowledges."""

    after_seconds: float
    channels: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeChannel:
    """A way to tell people, without its secrets."""

    channel_id: UUID
    namespace: str
    name: str
    kind: NoticeChannelKind
    settings: Mapping[str, object] = field(default_factory=dict)
    """As it is shown: addresses, headers, the host of an address that is secret."""
    allow_private: bool = False
    """Its address may be in a private network."""
    created_at: float = 0.0
    created_by: str = ""
    version: int = 1
    delivered_at: float | None = None
    """The newest delivery."""
    failed_at: float | None = None
    """The newest failed try."""
    error: str | None = None
    """The error of that try."""
    failures: int = 0
    """Tries in a row that failed and may succeed later; those of tests do not count."""
    again_at: float | None = None
    """Until then the channel rests: no notice of it is sent but tests."""
    is_slow: bool = False
    """Its newest try took long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRule:
    """A rule. Without jobs and labels it concerns the whole namespace."""

    rule_id: UUID
    namespace: str
    name: str
    on: frozenset[NoticeEvent]
    channels: tuple[UUID, ...]
    jobs: tuple[UUID, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    severity: Severity = Severity.WARNING
    after: float | None = None
    """Seconds for LATE and LONG; None: the usual of each."""
    in_a_row: int | None = None
    failures_of: FailuresOf | None = None
    attempts: int | None = None
    group_seconds: float = 300.0
    """After the first notices of a burst, later ones of this rule are gathered for so long."""
    repeat_seconds: float | None = None
    """An open alert that nobody acknowledged is told again after so long; None: never."""
    quiet: QuietHours | None = None
    escalation: Escalation | None = None
    enabled: bool = True
    version: int = 1
    created_at: float = 0.0
    created_by: str = ""

    @property
    def is_whole(self) -> bool:
        """Check whether it concerns the whole namespace."""
        return not (self.jobs or self.labels)


def without_channel(rule: NotificationRule, channel_id: UUID) -> NotificationRule:
    """The rule without a channel that was removed; an escalation that has no other ends with it."""
    escalation = rule.escalation
    if escalation is not None and channel_id in escalation.channels:
        rest = tuple(each for each in escalation.channels if each != channel_id)
        escalation = escalation._replace(channels=rest) if rest else None
    channels = tuple(each for each in rule.channels if each != channel_id)
    return replace(rule, channels=channels, escalation=escalation)


class AlertState(StrEnum):
    """The state of an alert."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    """A person has it in hand: no repetition, no escalation; a recovery is still told."""
    SNOOZED = "snoozed"
    """Until a time nothing is told of it."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """The events that one rule has seen of one subject: a job, an executor, a certificate."""

    alert_id: UUID
    namespace: str
    rule_id: UUID | None
    """None: the job's own `notify`."""
    event: NoticeEvent
    subject: str
    """The id of the job, the name of the executor, the key or the certificate."""
    subject_name: str
    severity: Severity
    state: AlertState
    events: int
    """The number of events that it has counted."""
    first_at: float
    last_at: float
    sentence: str
    """Its newest event, for people."""
    run_id: UUID | None = None
    """The newest run that it is about."""
    acknowledged_by: str | None = None
    acknowledged_at: float | None = None
    snoozed_until: float | None = None
    note: str | None = None
    closed_at: float | None = None


class NoticeState(StrEnum):
    """The state of a notice."""

    WAITING = "waiting"
    """It is due at its time: a group, quiet hours or a further try."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """Every try failed, or its receiver refused it for good. A person can send it again."""
    DROPPED = "dropped"
    """Its channel or its rule was deleted while it waited."""


class NoticeLine(NamedTuple):
    """One event in a notice."""

    at: float
    event: NoticeEvent
    severity: Severity
    subject: str
    subject_name: str
    run_id: UUID | None
    sentence: str
    alert_id: UUID | None
    labels: Mapping[str, str] = {}
    is_repeat: bool = False
    """It tells an alert again."""


MAX_LINES: Final = 20
"""Lines of a notice; `Notice.events` counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message for one channel."""

    notice_id: UUID
    namespace: str
    channel_id: UUID
    rule_id: UUID | None
    rule_name: str
    severity: Severity
    """The worst of its events."""
    state: NoticeState
    events: int
    first_at: float
    last_at: float
    lines: tuple[NoticeLine, ...] = ()
    """The newest, at most `MAX_LINES`."""
    due: float = 0.0
    """Not tried before."""
    tries: int = 0
    tried_at: float | None = None
    """The first try since it was made, or since a person asked to send it again."""
    error: str | None = None
    """The error of the last try."""
    ended_at: float | None = None
    is_test: bool = False
    is_escalation: bool = False
    subjects: int = 0
    """The number of jobs, executors, certificates or keys that its events are of; 0: it was not counted."""
    beside: UUID | None = None
    """The notice of its channel and rule that a sender had when this one was made."""
    repeated: int = 0
    """Of `subjects`, those that `beside` counts too."""
    served: tuple[str, ...] = ()
    """The recipients who have it already, as it is: an earlier try reached them and not the others."""
