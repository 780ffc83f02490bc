"""The durable truth: one `Store`, composed of a small port for each part.

    jobs · tasks · receipts · rules         definitions: what runs, when, and by which rules
    environments                            what scripts declare, to be built ahead (`ports.store.environments`)
    timers · runs · attempts                what is due, what waits, what is being executed
    executors · held · epochs               leases, the runs that an executor holds, writes that a failover lost
    secrets                                 sealed values of our own store (`ports.store.secrets`)
    completions · queues · stops · saved_views · status_pages · letters · operations · error_groups
                                            ended runs that start others, holds, dead letters, long requests,
                                            failures by cause
    checks · incidents · marks · upkeep     invariants, what was noticed, positions in channels, maintenance
    channels · notification_rules · alerts · delays · notices
                                            ways to tell people, rules that people are told by, what they made of
                                            events, and what people are told (`ports.store.notices`)
    objectives                              wishes for the starts of many jobs, and counts of them
    searches                                the read model, which a replica may serve
    audit                                   the log of who did what, sealed into chains (`ports.audit`)
    feed                                    every change of a run's state, for readers that follow
    keys · namespaces · removals · users · roles · sessions · browser_sessions · identity_keys · identities · factors
    factor_steps                            API keys, tenants, people, custom roles, refresh tokens, cookies, keys
                                            of identity tokens, people at providers, second factors
                                            (`ports.identity`)
    device_sign_ins · federations           sign-ins that a person approves in a browser, tokens of other issuers

Rules of every method:

- One transaction means one for each namespace. The part of a call that concerns one namespace is atomic: all of its
  effect or none, and durable when the call returns. A call that names a namespace, a job or a run has one part. A call
  that raises may have recorded the parts of some namespaces and not those of others. Nothing is promised across two
  namespaces, nor across two calls.
- A batch method says which items of the batch were refused. Its docstring says what is atomic.
- A call may be repeated with the same ids: twice is once. So after `InDoubt` the caller repeats it, and after any other
  error the caller may divide the batch and repeat each half.
- "now" is the store's clock, read inside the statement. No caller's clock decides anything.
- It raises `StoreUnavailable` or `InDoubt` when the store is away, `Refused` kinds as stated, and nothing else.
- Listings are keyset pages: stable while rows are added, never OFFSET; bounded in bytes where that is asked for.
- Text that a caller passes as JSON is kept as it is, byte for byte.

Fencing: a claim gives each run a token greater than every token before it, also of claims that a failover or a restore
has lost (`Epoch`). Every write of an executor names (executor, run, token); one that does not match what the store
holds is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tickwise.ports.audit import AuditStore
from tickwise.ports.feed import FEED_SECONDS, FeedPage, FeedStore, PackedIds, RunChanges
from tickwise.ports.identity import (
    BrowserSessionStore,
    DeviceSignInStore,
    FactorStepStore,
    FactorStore,
    FederationStore,
    IdentityKeyStore,
    IdentityStore,
    Keys,
    NamespaceStore,
    QuotaStore,
    RemovalStore,
    RoleStore,
    SessionStore,
    UserStore,
)
from tickwise.ports.paging import PAGE_BYTES, Page, page_within
from tickwise.ports.store.analytics import (
    LATE_REASONS,
    MAX_OBJECTIVES_LOOKED,
    AnalyticsQuery,
    JobStarts,
    ObjectiveJob,
    ObjectiveJobs,
    ObjectiveJobsQuery,
    StartsQuery,
)
from tickwise.ports.store.continuity import Epoch, EpochCause, EpochStore, HeldRunStore
from tickwise.ports.store.definitions import (
    CHANGED_FIELDS,
    LANE_IDLE_SECONDS,
    LANES_RESERVED,
    MAX_LANES,
    MAX_LANES_OF_NAMESPACE,
    Added,
    EndedOperation,
    JobAction,
    JobChange,
    JobMove,
    JobQuery,
    JobRow,
    JobStore,
    NewJob,
    NewRun,
    NewSkip,
    OccurrenceMove,
    OperationStatus,
    Receipt,
    ReceiptStore,
    Replan,
    Replay,
    StoredTask,
    TaskStore,
    check_newest,
    check_one_namespace,
    is_default_lane,
    no_lane,
)
from tickwise.ports.store.environments import EnvironmentStore
from tickwise.ports.store.error_groups import (
    ErrorGroupQuery,
    ErrorGroupRow,
    ErrorGroupStore,
    ErrorHour,
    ErrorJob,
    ErrorPlace,
    FailedJob,
    FailureId,
    GroupedFailure,
    NewErrorDecision,
    PendingFailure,
    PendingFailures,
    within_shares,
)
from tickwise.ports.store.flow import (
    QUEUE_HELD,
    Check,
    CheckStore,
    Completion,
    CompletionStore,
    Examined,
    QueueHold,
    QueueRow,
    QueueStore,
    Successor,
    Violation,
)
from tickwise.ports.store.letters import (
    LetterQuery,
    LetterResolution,
    LetterRow,
    LetterStatus,
    LetterStore,
    NewOperation,
    OperationRow,
    OperationStep,
    OperationStore,
    Settled,
    Settlement,
)
from tickwise.ports.store.notices import (
    ALERTS_KEPT_SECONDS,
    FROM_THE_FIRST,
    FROM_THE_FIRST_RUN,
    MAX_BURST,
    MAX_OBJECTIVES,
    MAX_WAITING_COUNTED,
    NOTED_SECONDS,
    SEND_LEASE_SECONDS,
    AlertQuery,
    AlertStore,
    ChannelSecrets,
    ChannelStore,
    DelayStore,
    DueNotices,
    EndingKey,
    KindBacklog,
    LostExecutor,
    NewAlertDecision,
    NotedEvent,
    NoticeJobPage,
    NoticeQuery,
    NoticeStore,
    NoticesVersion,
    NotificationRuleQuery,
    NotificationRuleStore,
    ObjectiveStore,
    OverdueTimer,
    OverdueTimers,
    PendingEvents,
    RunSample,
    SettledNotice,
    SlowRun,
    SlowRuns,
    StandingAlertsQuery,
    TimerPlace,
    check_objective_room,
    objective_name_taken,
)
from tickwise.ports.store.planned import PlannedPage, PlannedQuery
from tickwise.ports.store.records import (
    EVERY_TEXT,
    MAX_TALLIES,
    NO_TEXT,
    TALLIES_SECONDS,
    AttemptRow,
    BusyQueue,
    CancelRow,
    Incident,
    IncidentStore,
    Maintained,
    MarkedChannel,
    MarkStore,
    Retention,
    RunQuery,
    RunRow,
    RunText,
    StoreStats,
    Tally,
    UpkeepStore,
    earliest_mark,
)
from tickwise.ports.store.rules import (
    MAX_NAMESPACE,
    MAX_RULES,
    RESERVED,
    RuleKind,
    RuleQuery,
    RuleRow,
    RuleStore,
    check_room,
    check_seen,
    is_done,
)
from tickwise.ports.store.runs import (
    BATCH_SECONDS,
    AttemptStore,
    Beat,
    Began,
    CancelRequest,
    ClaimRequest,
    ExecutorRow,
    ExecutorStore,
    Expired,
    Fire,
    FireBatch,
    Fired,
    FireRequest,
    Gate,
    Handover,
    NewExecutor,
    Ready,
    RunCancel,
    RunMove,
    RunPostpone,
    RunSkip,
    RunStore,
    Timer,
    TimerStore,
    not_postponable,
    number_taken,
)
from tickwise.ports.store.saved_views import MAX_VIEWS, SHARED, SavedView, SavedViewStore, check_views
from tickwise.ports.store.searches import (
    MAX_TIMERS_LOOKED,
    ComingQuery,
    EndingQuery,
    JobsOfQuery,
    LatestRunsQuery,
    SearchCount,
    Searches,
)
from tickwise.ports.store.secrets import SecretStore
from tickwise.ports.store.status_pages import StatusPageQuery, StatusPageStore
from tickwise.ports.store.stops import KNOWN_SECONDS, DueJob, StopQuery, StopStore, check_stops
from tickwise.ports.store.transfers import JobTransfer, job_busy, key_taken_there

__all__ = [
    "ALERTS_KEPT_SECONDS",
    "BATCH_SECONDS",
    "CHANGED_FIELDS",
    "EVERY_TEXT",
    "FEED_SECONDS",
    "FROM_THE_FIRST",
    "FROM_THE_FIRST_RUN",
    "KNOWN_SECONDS",
    "LANES_RESERVED",
    "LANE_IDLE_SECONDS",
    "LATE_REASONS",
    "MAX_BURST",
    "MAX_LANES",
    "MAX_LANES_OF_NAMESPACE",
    "MAX_NAMESPACE",
    "MAX_OBJECTIVES",
    "MAX_OBJECTIVES_LOOKED",
    "MAX_RULES",
    "MAX_TALLIES",
    "MAX_TIMERS_LOOKED",
    "MAX_VIEWS",
    "MAX_WAITING_COUNTED",
    "NOTED_SECONDS",
    "NO_TEXT",
    "PAGE_BYTES",
    "QUEUE_HELD",
    "RESERVED",
    "SEND_LEASE_SECONDS",
    "SHARED",
    "TALLIES_SECONDS",
    "Added",
    "AlertQuery",
    "AlertStore",
    "AnalyticsQuery",
    "AttemptRow",
    "AttemptStore",
    "Beat",
    "Began",
    "BusyQueue",
    "CancelRequest",
    "CancelRow",
    "ChannelSecrets",
    "ChannelStore",
    "Check",
    "CheckStore",
    "ClaimRequest",
    "ComingQuery",
    "Completion",
    "CompletionStore",
    "DelayStore",
    "DueJob",
    "DueNotices",
    "EndedOperation",
    "EndingKey",
    "EndingQuery",
    "Epoch",
    "EpochCause",
    "EpochStore",
    "ErrorGroupQuery",
    "ErrorGroupRow",
    "ErrorGroupStore",
    "ErrorHour",
    "ErrorJob",
    "ErrorPlace",
    "Examined",
    "ExecutingStore",
    "ExecutorRow",
    "ExecutorStore",
    "Expired",
    "FailedJob",
    "FailureId",
    "FeedPage",
    "FeedStore",
    "Fire",
    "FireBatch",
    "FireRequest",
    "Fired",
    "Gate",
    "GroupedFailure",
    "Handover",
    "HeldRunStore",
    "Incident",
    "IncidentStore",
    "JobAction",
    "JobChange",
    "JobMove",
    "JobQuery",
    "JobRow",
    "JobStarts",
    "JobStore",
    "JobTransfer",
    "JobsOfQuery",
    "KindBacklog",
    "LatestRunsQuery",
    "LetterQuery",
    "LetterResolution",
    "LetterRow",
    "LetterStatus",
    "LetterStore",
    "LostExecutor",
    "Maintained",
    "MarkStore",
    "MarkedChannel",
    "NewAlertDecision",
    "NewErrorDecision",
    "NewExecutor",
    "NewJob",
    "NewOperation",
    "NewRun",
    "NewSkip",
    "NotedEvent",
    "NoticeJobPage",
    "NoticeQuery",
    "NoticeStore",
    "NoticesVersion",
    "NotificationRuleQuery",
    "NotificationRuleStore",
    "ObjectiveJob",
    "ObjectiveJobs",
    "ObjectiveJobsQuery",
    "ObjectiveStore",
    "OccurrenceMove",
    "OperationRow",
    "OperationStatus",
    "OperationStep",
    "OperationStore",
    "OverdueTimer",
    "OverdueTimers",
    "PackedIds",
    "Page",
    "PendingEvents",
    "PendingFailure",
    "PendingFailures",
    "PlannedPage",
    "PlannedQuery",
    "QueueHold",
    "QueueRow",
    "QueueStore",
    "Ready",
    "Receipt",
    "ReceiptStore",
    "Replan",
    "Replay",
    "Retention",
    "RuleKind",
    "RuleQuery",
    "RuleRow",
    "RuleStore",
    "RunCancel",
    "RunChanges",
    "RunMove",
    "RunPostpone",
    "RunQuery",
    "RunRow",
    "RunSample",
    "RunSkip",
    "RunStore",
    "RunText",
    "SavedView",
    "SavedViewStore",
    "SearchCount",
    "Searches",
    "SecretStore",
    "Settled",
    "SettledNotice",
    "Settlement",
    "SlowRun",
    "SlowRuns",
    "StandingAlertsQuery",
    "StartsQuery",
    "StatusPageQuery",
    "StatusPageStore",
    "StopQuery",
    "StopStore",
    "Store",
    "StoreStats",
    "StoredTask",
    "Successor",
    "Tally",
    "TaskStore",
    "Timer",
    "TimerPlace",
    "TimerStore",
    "UpkeepStore",
    "Violation",
    "check_newest",
    "check_objective_room",
    "check_one_namespace",
    "check_room",
    "check_seen",
    "check_stops",
    "check_views",
    "earliest_mark",
    "is_default_lane",
    "is_done",
    "job_busy",
    "key_taken_there",
    "no_lane",
    "not_postponable",
    "number_taken",
    "objective_name_taken",
    "page_within",
    "within_shares",
]


class ExecutingStore(Protocol):
    """The parts that an executor calls."""

    @property
    def attempts(self) -> AttemptStore: ...
    @property
    def executors(self) -> ExecutorStore: ...
    @property
    def held(self) -> HeldRunStore: ...
    @property
    def marks(self) -> MarkStore: ...
    @property
    def environments(self) -> EnvironmentStore: ...


class Store(Protocol):
    """The whole store: one attribute for each part. A role or a service names the parts that it calls."""

    @property
    def jobs(self) -> JobStore: ...
    @property
    def tasks(self) -> TaskStore: ...
    @property
    def receipts(self) -> ReceiptStore: ...
    @property
    def rules(self) -> RuleStore: ...
    @property
    def stops(self) -> StopStore: ...
    @property
    def saved_views(self) -> SavedViewStore: ...
    @property
    def status_pages(self) -> StatusPageStore: ...
    @property
    def secrets(self) -> SecretStore: ...
    @property
    def environments(self) -> EnvironmentStore: ...
    @property
    def timers(self) -> TimerStore: ...
    @property
    def runs(self) -> RunStore: ...
    @property
    def attempts(self) -> AttemptStore: ...
    @property
    def executors(self) -> ExecutorStore: ...
    @property
    def held(self) -> HeldRunStore: ...
    @property
    def epochs(self) -> EpochStore: ...
    @property
    def completions(self) -> CompletionStore: ...
    @property
    def queues(self) -> QueueStore: ...
    @property
    def letters(self) -> LetterStore: ...
    @property
    def operations(self) -> OperationStore: ...
    @property
    def error_groups(self) -> ErrorGroupStore: ...
    @property
    def channels(self) -> ChannelStore: ...
    @property
    def notices(self) -> NoticeStore: ...
    @property
    def notification_rules(self) -> NotificationRuleStore: ...
    @property
    def alerts(self) -> AlertStore: ...
    @property
    def delays(self) -> DelayStore: ...
    @property
    def objectives(self) -> ObjectiveStore: ...
    @property
    def checks(self) -> CheckStore: ...
    @property
    def incidents(self) -> IncidentStore: ...
    @property
    def marks(self) -> MarkStore: ...
    @property
    def upkeep(self) -> UpkeepStore: ...
    @property
    def searches(self) -> Searches: ...
    @property
    def keys(self) -> Keys: ...
    @property
    def namespaces(self) -> NamespaceStore: ...
    @property
    def quotas(self) -> QuotaStore: ...
    @property
    def removals(self) -> RemovalStore: ...
    @property
    def roles(self) -> RoleStore: ...
    @property
    def users(self) -> UserStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def browser_sessions(self) -> BrowserSessionStore: ...
    @property
    def identity_keys(self) -> IdentityKeyStore: ...
    @property
    def device_sign_ins(self) -> DeviceSignInStore: ...
    @property
    def federations(self) -> FederationStore: ...
    @property
    def identities(self) -> IdentityStore: ...
    @property
    def factors(self) -> FactorStore: ...
    @property
    def factor_steps(self) -> FactorStepStore: ...
    @property
    def audit(self) -> AuditStore: ...
    @property
    def feed(self) -> FeedStore: ...

    async def open(self) -> None:
        """Connect. Raises `Misconfigured` (a schema that is older or newer than the program, wrong settings) or
        `StoreUnavailable`."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...

    async def now(self) -> float:
        """The store's clock; also the cheapest sign that it is there."""
        ...

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """Call `tell` after each commit of this client by which runs that waited became claimable, or by which holders
        were asked to stop runs in favour of later ones. The last `tell` counts; it must not raise.

        News, not truth: what it would have told is lost with an answer that is lost. Then executors find the runs when
        they look, and holders hear at their next heartbeat."""
        ...
