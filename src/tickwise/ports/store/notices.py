"""Channels, notification rules, alerts and notices (`domain.notices`).

    a run ends ──(one transaction, only if a rule may concern it)──► an event that is not judged yet
    events(limit) ──► judged by rules and ends ──► fold: alerts and notices changed, events gone  (one transaction)
    due(limit) ──► a channel's notices, leased ──► sender ──► settle: delivered, or due again, or dead

Invariants: an event is either pending or counted. A notice is held by one sender at a time; a lease that ended gives it
to another, so a notice is delivered at least once, and twice only if a sender died between delivery and `settle`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.notices.changes import Burst, Fold, JobEnds, NoticeJob, PendingEvent, StandingAlert
from tickwise.domain.notices.rules import (
    MAX_CHANNELS,
    MAX_RULES,
    MAX_WHOLE_RULES,
    Alert,
    AlertState,
    Notice,
    NoticeChannel,
    NoticeChannelKind,
    NoticeEvent,
    NoticeState,
    NotificationRule,
)
from tickwise.domain.observing.anomalies import MeasuredEnd
from tickwise.domain.observing.objectives import GroupObjective, StartCount
from tickwise.ports.store.analytics import ObjectiveJobs, ObjectiveJobsQuery

MAX_BURST = 20
MAX_ERROR = 1_000
"""Characters of an error or a sentence that an event keeps."""
NOTED_SECONDS = 30 * 86_400.0
ALERTS_KEPT_SECONDS = 90 * 86_400.0
"""Alerts that are closed and notices that ended are dropped after so long."""
SEND_LEASE_SECONDS = 60.0
"""A sender that has not settled a notice after so long is gone."""
SENDS_OF_NAMESPACE = 4
"""Turns of one namespace: notices that are held at once, by all senders together, without those that linger."""
FAILING_OF_NAMESPACE = 2
"""Of those, notices of channels whose newest try failed."""
FAILING_SENDS = 4
"""Turns of such channels at one sender: a quarter of all."""
LINGER_SECONDS = 2.0
"""A notice that is held for longer lingers, and has no turn any more: a receiver that hangs holds up no other."""
LINGERING_OF_NAMESPACE = 16
"""More notices of one namespace that linger have turns. Four turns of 2 s make so many while a try takes 10 s."""


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
    """The fields of a channel that are for its sender alone: the signing secret, a password, the whole address. As they
    are kept: `documents.channel_secrets` seals and opens them."""

    channel: NoticeChannel
    secrets: Mapping[str, str]


MAX_CHANNEL_BACKLOG = 1_000
"""Notices of one channel that are looked at for its backlog."""


class ChannelBacklog(NamedTuple):
    """The notices that wait for one channel: due, or tried before. What a group or quiet hours hold back is left out,
    and so are tests and what a sender has."""

    notices: int
    waiting_events: int
    """Those of all these notices."""


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

    async def wake(self, namespace: str, channel_id: UUID, *, audit: AuditEntry | None = None) -> NoticeChannel | None:
        """End the rest of a channel, and make what waits for another try due now. Its failures stay: if it fails again,
        it rests longer. None: there is no such channel. Without an effect the entry is not written."""
        ...

    async def backlog(self, channel_ids: Sequence[UUID]) -> Mapping[UUID, ChannelBacklog]:
        """The backlog of each of these channels, of which `MAX_CHANNEL_BACKLOG` notices are looked at."""
        ...

    async def secrets(self, channel_ids: Sequence[UUID]) -> Sequence[ChannelSecrets]:
        """For senders alone."""
        ...

    async def all_secrets(self, after: UUID | None, limit: int) -> Sequence[ChannelSecrets]:
        """Those of the channels behind this id, of all namespaces, in the order of their ids: to seal them anew."""
        ...

    async def reseal(self, channel_id: UUID, before: Mapping[str, str], secrets: Mapping[str, str]) -> bool:
        """Replace the secrets of a channel if they are still those, without a new version. False: they are others, or
        the channel is gone."""
        ...


def check_rule_room(count: int) -> None:
    """Raise `Conflict`, code `rules_exhausted`, if a namespace with so many notification rules may have no more."""
    if count >= MAX_RULES:
        raise Conflict(
            f"the namespace has {count} notification rules and may have no more: delete some, or let one rule concern "
            "more jobs by a label",
            code="rules_exhausted",
        )


def check_whole_room(others: int) -> None:
    """Raise `Conflict`, code `rules_exhausted`, if beside so many others no rule may concern the whole namespace."""
    if others >= MAX_WHOLE_RULES:
        raise Conflict(
            f"{others} notification rules concern the whole namespace, and no more may: put several of them into one, "
            "or give the rule labels or jobs",
            code="rules_exhausted",
        )


def version_changed(rule: NotificationRule) -> Conflict:
    """The refusal of a change of a rule that somebody else has changed."""
    return Conflict(
        f"the notification rule {rule.name} was changed since version {rule.version}: read it again",
        code="version_changed",
    )


def name_taken(rule: NotificationRule) -> Conflict:
    """The refusal of a rule whose name another one has."""
    return Conflict(f"there is a notification rule {rule.name} already: choose another name", code="name_taken")


def channels_of(rule: NotificationRule) -> set[UUID]:
    """The channels of a rule and of its escalation."""
    return {*rule.channels, *(() if rule.escalation is None else rule.escalation.channels)}


def channels_gone(channel_ids: Collection[UUID]) -> NotFound:
    """The refusal of a rule with channels that its namespace does not have."""
    return NotFound(f"there is no channel {min(channel_ids)} in the namespace of the rule")


def alert_stands(alert: Alert) -> Conflict:
    """The refusal to open an alert again while another one of its kind is not closed."""
    return Conflict(
        f"another alert about {alert.subject_name} stands, which counts the new events", code="alert_stands"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRuleQuery:
    """Rules, by name; everything given must match."""

    namespace: str | None
    """None: of all, for schedulers."""
    rule_id: UUID | None = None
    channel_id: UUID | None = None
    after_name: str | None = None
    limit: int = 100_000


class NoticesVersion(NamedTuple):
    """The version of all rules."""

    version: int
    """Changes with every rule and channel."""
    is_watched: bool
    """Some namespace notes events."""


class NotificationRuleStore(Protocol):
    """Notification rules."""

    async def add(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule:
        """Store a rule; one of this id that is there already is returned as it is. Raises `Conflict`, code `name_taken`
        or `rules_exhausted`, also for more than `MAX_WHOLE_RULES` that concern the whole namespace; `NotFound` for a
        channel that is not in the namespace."""
        ...

    async def change(self, rule: NotificationRule, *, audit: AuditEntry | None = None) -> NotificationRule | None:
        """Replace a rule whose version is `rule.version`. Raises as `add`, and `Conflict`, code `version_changed`. One
        that concerns the whole namespace already may always go on to."""
        ...

    async def remove(self, namespace: str, rule_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Remove a rule: its alerts are closed, its waiting notices are dropped, on record. False: none there."""
        ...

    async def find(self, query: NotificationRuleQuery) -> Sequence[NotificationRule]:
        """Rules in the order of their names."""
        ...

    async def watch(self, namespace: str) -> None:
        """Note events of a namespace from now on, because a job of it names channels itself. To be called before that
        job is stored. It lasts as long as the namespace."""
        ...

    async def version(self) -> NoticesVersion:
        """The version of what a scheduler knows of rules."""
        ...


class PendingEvents(NamedTuple):
    """A page of events, with what is needed to judge them."""

    events: Sequence[PendingEvent]
    jobs: Mapping[UUID, NoticeJob]
    more: bool
    """There are more: it may be a storm."""


class NotedEvent(NamedTuple):
    """An event that no end of a run tells, noted by its name: `AlertStore.note`."""

    namespace: str
    event: NoticeEvent
    """RECOVERY: the alerts of the subject are closed, those of `rule_id` alone if it is given."""
    once: str
    """Its identity in the namespace, such as "long/RULE/RUN": a second event of it is not noted for `NOTED_SECONDS`."""
    subject: str
    """The id of the job, the name of the executor, the key or the certificate."""
    subject_name: str
    sentence: str
    """For people; cut to 1,000 characters."""
    job_id: UUID | None = None
    """With a job, rules of its labels are asked too."""
    run_id: UUID | None = None
    rule_id: UUID | None = None
    """Only this rule is asked; None: each that concerns the job."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAlertsQuery:
    """Alerts that are not closed, for one decision about all of them; everything given must match."""

    namespace: str
    states: Sequence[AlertState] = ()
    """OPEN, ACKNOWLEDGED, SNOOZED; none: each of them."""
    rule_id: UUID | None = None
    subject: str | None = None
    event: NoticeEvent | None = None
    until: float | None = None
    """Only those whose newest event is not later: what came after a person looked is not decided."""


MAX_DECIDED = 10_000
"""Alerts of one decision about all that match."""


class NewAlertDecision(NamedTuple):
    """A person's decision about an alert."""

    state: AlertState
    by: str
    note: str | None = None
    until: float | None = None
    """With SNOOZED."""


class AlertStore(Protocol):
    """Events, and the alerts that rules make of them."""

    async def note(self, noted: Sequence[NotedEvent]) -> int:
        """Note events by their names; the number of those that were not noted before. Events of namespaces that are
        not watched are left out."""
        ...

    async def events(self, limit: int) -> PendingEvents:
        """Up to `limit` events that are not judged yet, the oldest first."""
        ...

    async def ends(self, job_ids: Collection[UUID], most: int) -> Sequence[JobEnds]:
        """The newest `most` ends of jobs, by the ids of their runs."""
        ...

    async def standing(self, namespace: str, subjects: Collection[str]) -> Sequence[StandingAlert]:
        """The alerts of these subjects that are not closed."""
        ...

    async def bursts(self, pairs: Mapping[tuple[UUID | None, UUID], float]) -> Mapping[tuple[UUID | None, UUID], Burst]:
        """The notices of rules and channels that became due in the last seconds, so many of each pair, and collect no
        more, because a sender has or had them; at most `MAX_BURST` of each pair. Tests and escalations are not
        counted, nor is one that was made before twice that time."""
        ...

    async def fold(self, fold: Fold) -> bool:
        """Apply a fold in one transaction. False, and nothing was changed: one of its events is pending no more, or one
        of its alerts is not as it was seen; the page is to be judged anew. What concerns rules and channels that are
        gone is left out."""
        ...

    async def due(self, limit: int) -> Sequence[StandingAlert]:
        """Up to `limit` alerts whose `next_at` has passed, of any namespace, those first that are due longest."""
        ...

    async def find(self, query: AlertQuery) -> Sequence[Alert]:
        """A page of alerts."""
        ...

    async def decide(
        self, namespace: str, alert_id: UUID, decision: NewAlertDecision, *, audit: AuditEntry | None = None
    ) -> Alert | None:
        """Acknowledge, snooze, close, or open again. None: there is no such alert. Raises `Conflict`, code
        `alert_stands` if it is to be opened again and another one of its rule, event and subject stands, and
        `namespace_closing`."""
        ...

    async def decide_all(
        self, query: StandingAlertsQuery, decision: NewAlertDecision | None, *, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """Acknowledge or close those that match, at most `MAX_DECIDED`, the longest silent first, in one transaction;
        their ids. Without a decision: their ids, at most one more. One that is acknowledged is not acknowledged again.
        The entry names them as its targets; without any it is not written. Raises `Conflict`, code
        `namespace_closing`."""
        ...


class SlowRun(NamedTuple):
    """A run that has not begun although it is due, or goes on."""

    namespace: str
    run_id: UUID
    job_id: UUID
    job_name: str
    labels: Mapping[str, str]
    due_at: float
    started_at: float | None
    """None: no attempt of it has begun."""


FROM_THE_FIRST_RUN: Final = UUID(int=0)


class SlowRuns(NamedTuple):
    """The slow runs of some namespaces on a page of all."""

    runs: Sequence[SlowRun]
    beyond: UUID | None
    """The run behind which the next page begins; None: this was the last one."""


class OverdueTimer(NamedTuple):
    """A timer whose time has passed: no run was made, and no skip is on record."""

    namespace: str
    job_id: UUID
    job_name: str
    due_at: float


TimerPlace = tuple[float, UUID]
"""(due, job): the place of a timer among all."""
FROM_THE_FIRST: Final[TimerPlace] = (0.0, UUID(int=0))


class OverdueTimers(NamedTuple):
    """The overdue timers of some namespaces on a page of all."""

    timers: Sequence[OverdueTimer]
    beyond: TimerPlace | None
    """The place at which the next page begins; None: this was the last one."""


class LostExecutor(NamedTuple):
    """An executor whose lease ended although it had not left."""

    number: int
    name: str
    gone_at: float
    is_back: bool
    """There is one of its name again."""


class EndingKey(NamedTuple):
    """An API key with an end."""

    key_id: UUID
    name: str
    namespaces: frozenset[str]
    """Its home, and all in which it works; `*`: each one, and the installation itself."""
    ends_at: float
    is_revoked: bool


class RunSample(NamedTuple):
    """A run that succeeded, with what later ones of its job are compared with."""

    run_id: UUID
    namespace: str
    ended_at: float
    measured: MeasuredEnd
    """Of its last attempt."""


class NoticeJobPage(NamedTuple):
    """The jobs of some namespaces on a page of all."""

    jobs: Sequence[NoticeJob]
    beyond: UUID | None
    """The job behind which the next page begins; None: this was the last one."""


class DelayStore(Protocol):
    """The delays and other oddities that no event tells: schedulers look for them, a bounded number at a time."""

    async def slow_runs(
        self, namespaces: Collection[str], seconds: float, limit: int, *, after: UUID = FROM_THE_FIRST_RUN
    ) -> SlowRuns:
        """Look at the `limit` runs behind a run, by their ids, that have not ended and whose ids are older than
        `seconds`, of all namespaces; those of these namespaces that were due more than `seconds` ago. Others fill
        pages, and hide none. Runs that a hold or a stop keeps from beginning are left out, as are those that wait to be
        tried again."""
        ...

    async def durations(self, job_ids: Collection[UUID], most: int) -> Mapping[UUID, Sequence[float]]:
        """The durations in seconds of the newest `most` runs of jobs that succeeded."""
        ...

    async def samples(
        self, job_ids: Collection[UUID], most: int, *, since: float | None = None, before: UUID | None = None
    ) -> Mapping[UUID, Sequence[RunSample]]:
        """The newest `most` runs of jobs that succeeded, the newest first by id, of each job's newest 4 * `most` ended
        runs. `before`: only those with a smaller id. `since`: of these runs only those that ended from then on. Of jobs
        without any, nothing."""
        ...

    async def watched_jobs(
        self, namespaces: Collection[str], limit: int, *, after: UUID, ids: Collection[UUID] | None = None
    ) -> NoticeJobPage:
        """Look at the `limit` jobs behind the job `after`, by id, of all jobs that may have several runs, or of `ids`
        alone; those of these namespaces. Jobs of others fill pages, and hide none."""
        ...

    async def overdue_timers(
        self, namespaces: Collection[str], seconds: float, limit: int, *, after: TimerPlace = FROM_THE_FIRST
    ) -> OverdueTimers:
        """Look at the `limit` timers behind a place that are due longest, of all that are due for more than `seconds`;
        those of these namespaces, the oldest first. Timers of others fill pages, and hide none."""
        ...

    async def keys_ending(
        self, seconds: float, *, after: tuple[float, UUID] | None = None, limit: int
    ) -> Sequence[EndingKey]:
        """Keys that end within so many seconds from now, those that were revoked among them, in the order of
        (`ends_at`, `key_id`); those behind `after`."""
        ...

    async def lost_executors(self, seconds: float, limit: int) -> Sequence[LostExecutor]:
        """Up to `limit` executors that were lost in the last `seconds`, the last one first."""
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
    """DELIVERED, DEAD, DROPPED (its channel is gone), or WAITING: it is tried again."""
    error: str | None = None
    again_seconds: float = 0.0
    """With WAITING: from now on."""
    was_tried: bool = True
    """False, with WAITING: the sender had no turn for it. That is no try, and nothing is noted at the channel."""
    rest_seconds: float = 0.0
    """With WAITING: for so long no notice of its channel is sent but tests. That of a test lets no channel rest."""
    was_slow: bool = False
    """The try took long."""
    served: tuple[str, ...] = ()
    """With WAITING or DEAD: the recipients who have the notice. They are on record with it until events join it."""


class KindBacklog(NamedTuple):
    """The notices that wait for channels of one kind."""

    waiting: int
    """Due, or tried before; those of a group or of quiet hours, which come later, are left out."""
    oldest_seconds: float
    """Since the oldest of them was due, or was tried first; 0: there is none."""
    failing: int
    """Channels of the kind whose newest try failed."""
    resting: int = 0
    """Of all channels of the kind, those that rest now."""


class NoticeStore(Protocol):
    """Notices, from their making to their delivery."""

    async def add(self, notice: Notice, *, audit: AuditEntry | None = None) -> Notice:
        """A notice of its own; it joins no other. One of this id that is there already is returned as it is. One test
        of a channel waits at a time: instead of a second one, that one is returned. It is due at once and its tries are
        counted anew, unless it is under way. Raises `NotFound` for a channel that is not in the namespace."""
        ...

    async def due(self, sender: str, limit: int) -> DueNotices:
        """Take up to `limit` notices that are due for `SEND_LEASE_SECONDS`: at most one of each channel, and none of a
        channel of which a notice is held. Events that follow make a new notice.

        Namespaces take turns, the one with the fewest turns first, and the longest due of each; it has at most
        `SENDS_OF_NAMESPACE`. Channels whose newest try failed or took long come after all others, at most
        `FAILING_OF_NAMESPACE` of a namespace and `FAILING_SENDS` of this sender. A notice that is held for more than
        `LINGER_SECONDS` has no turn, unless more than `LINGERING_OF_NAMESPACE` of its namespace linger. Of a channel
        that rests, tests alone are taken."""
        ...

    async def settle(self, sender: str, results: Sequence[SettledNotice]) -> None:
        """Record the outcomes of tries, also at the channel. A notice that this sender holds no more is left as it is.
        Into one that is tried again, what waits for the same channel and rule is merged. After a delivery, what waits
        for another try at the channel is due. An alert that a dead notice tells of, and no other one of its rule that
        waits or was delivered, is told to nobody (`StandingAlert.told_at` is None)."""
        ...

    async def find(self, query: NoticeQuery) -> Sequence[Notice]:
        """A page of notices."""
        ...

    async def backlog(self) -> Mapping[NoticeChannelKind, KindBacklog]:
        """The notices of all namespaces that are not delivered although they should be, by the kind of their channel;
        each kind is there."""
        ...

    async def again(self, namespace: str, notice_id: UUID, *, audit: AuditEntry | None = None) -> Notice | None:
        """Make a dead notice due now, with what waits for the same channel and rule; its channel rests no longer. None:
        there is none that is dead, or its channel is gone."""
        ...


# ------------------------------------------------------------------------------------------ objectives for starts
#
#    a run ends ──(its transaction, only where an objective may concern it)──► good or late, by minute
#    fold       ──► counts by minute for the short windows, by hour for 30 days
#    counts     ──► those, and the runs that wait beyond their time
#
# Runs count from the making of an objective on, so it cannot be changed: another one takes its place.

MAX_OBJECTIVES: Final = 20
"""Objectives of one namespace: the end of a run is compared with each of them."""
MAX_WAITING_COUNTED: Final = 1_000
"""Runs of each queue and priority that are looked at for those that wait beyond their time, the oldest first."""


def check_objective_room(count: int) -> None:
    """Raise `Conflict`, code `objectives_exhausted`, if a namespace with so many objectives takes no more."""
    if count >= MAX_OBJECTIVES:
        raise Conflict(
            f"a namespace has at most {MAX_OBJECTIVES} objectives beside those of jobs: remove one first",
            code="objectives_exhausted",
        )


def objective_name_taken(name: str) -> Conflict:
    """The refusal of an objective whose name another one has."""
    return Conflict(f"there is an objective {name!r} already", pointer="/name", code="name_taken")


class ObjectiveStore(Protocol):
    """Objectives for starts: jobs that have one, and those by priority or labels, whose names are unique in a
    namespace."""

    async def jobs(self, query: ObjectiveJobsQuery) -> ObjectiveJobs:
        """A page of recurring jobs that have an objective. Jobs without one are not read; of those of other labels
        `MAX_OBJECTIVES_LOOKED` at most."""
        ...

    async def add(self, objective: GroupObjective, *, audit: AuditEntry | None = None) -> GroupObjective:
        """Store an objective; one of this id that is there already is returned as it is. Raises `Conflict`, code
        `name_taken`, `objectives_exhausted` or `namespace_closing`."""
        ...

    async def remove(self, namespace: str, objective_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Remove an objective with its counts. False: there is none."""
        ...

    async def find(
        self, namespace: str | None, *, after: UUID | None = None, limit: int = MAX_OBJECTIVES
    ) -> Sequence[GroupObjective]:
        """Up to `limit` objectives of a namespace, or of all (None), with greater ids, by id."""
        ...

    async def counts(
        self, objectives: Sequence[UUID], windows: Sequence[float]
    ) -> Mapping[UUID, Mapping[float, StartCount]]:
        """The runs that were due within each window, in seconds before now, by whether they began in time, as in
        `Searches.starts`: those that ended since the objective was made, and those that wait or run and are late, of
        which `MAX_WAITING_COUNTED` are looked at. A window begins with a whole minute, one of more than six hours
        with a whole hour. Runs that wait for an earlier run or for a slot count at their end. Unknown ids are left
        out."""
        ...

    async def fold(self) -> int:
        """Add the counts that ends left to those by minute and hour, and drop those that no window has any more. The
        number of counts that were folded; 0: nothing was left, or another client is folding."""
        ...
