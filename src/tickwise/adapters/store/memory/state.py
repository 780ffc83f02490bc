"""The state of a memory store, and the moves that its duties are made of.

make ──► free ──hold──► held ──┬── end      a final state, on record
          ▲                    ├── release  free again; or ended or forgotten, if that was asked meanwhile
          └────────────────────┘
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.audit import AuditLog
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.records import (
    AlertRecord,
    BatchRecord,
    BrowserLinkRecord,
    BrowserSessionRecord,
    CompletionRecord,
    DeviceSignInRecord,
    EndedRun,
    EnvironmentRecord,
    ErrorGroupRecord,
    ExecutorRecord,
    FactorRecords,
    FeedLog,
    JobRecord,
    KeyRecord,
    LetterRecord,
    LinkRecord,
    NoticeRecord,
    Numbers,
    OperationRecord,
    ReceiptRecord,
    RemovalRecord,
    RunRecord,
    SecretRecord,
    SecretUseIndex,
    SessionRecord,
    SignInRecord,
    TimeQueue,
    TimerRecord,
    UserRecord,
)
from tickwise.adapters.store.memory.rows import Report, attempt_row, cancel_row, is_coming, run_row
from tickwise.adapters.store.memory.slots import Name, Slots
from tickwise.domain.accounts.federations import Federation
from tickwise.domain.decision import NEVER, Hold, Overlap, SkipReason, TimerState
from tickwise.domain.errors import JobNotFound
from tickwise.domain.excerpts import both_ends
from tickwise.domain.fencing import tokens_from
from tickwise.domain.lifecycle import CancelKind, JobStatus, RunEvent, RunState, move
from tickwise.domain.model import DEFAULT_NAMESPACE, Lane, Trigger
from tickwise.domain.notices.changes import AlertKey, PendingEvent
from tickwise.domain.notices.judging import UNCHOSEN
from tickwise.domain.notices.rules import PASSES, AlertState, NoticeChannel, NotificationRule
from tickwise.domain.observing.objectives import GroupObjective
from tickwise.domain.observing.status_pages import Announcement, StateSeconds, StatusPage
from tickwise.domain.quotas import NO_QUOTAS, Quotas
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.domain.rules.overlap import is_earlier, next_in_line
from tickwise.domain.rules.requests import StopRequest
from tickwise.domain.rules.returns import ReturnVerdict, came_back, claimable_at
from tickwise.domain.rules.sentences import CANCELLED
from tickwise.domain.stops import Stop
from tickwise.ports.clock import Clock
from tickwise.ports.identity.identities import Identity
from tickwise.ports.identity.namespaces import NamespaceRow, NamespaceState, namespace_closing
from tickwise.ports.identity.sessions import PublicKey
from tickwise.ports.identity.tokens import IdentityKey
from tickwise.ports.identity.users import RoleRow
from tickwise.ports.shards import NamespacePlace, Shard
from tickwise.ports.store import (
    LANE_IDLE_SECONDS,
    LANES_RESERVED,
    MAX_LANES,
    MAX_LANES_OF_NAMESPACE,
    Completion,
    Epoch,
    EpochCause,
    FailureId,
    Handover,
    Incident,
    JobAction,
    JobRow,
    MarkedChannel,
    NewRun,
    NewSkip,
    QueueHold,
    Ready,
    Receipt,
    Replay,
    RuleKind,
    RuleRow,
    RunRow,
    SavedView,
    StoredTask,
    is_default_lane,
)
from tickwise.ports.store.notices import MAX_ERROR
from tickwise.ports.store.secrets import SecretPlace

ON_DEMAND: Final = "ON_DEMAND"
"""The type of a schedule that names no time: its job runs on request."""
HOUR_SECONDS: Final = 3600.0


def _default_namespace(now: float) -> NamespaceRow:
    return NamespaceRow(
        name=DEFAULT_NAMESPACE,
        display_name=DEFAULT_NAMESPACE,
        state=NamespaceState.ACTIVE,
        created_at=now,
        created_by="tickwise",
        version=1,
    )


class State:
    """The whole content of the store, behind the few moves that keep it consistent."""

    def __init__(self, clock: Clock, near_seconds: float, shard: int | None = None) -> None:
        self.clock = clock
        self.near_seconds = near_seconds
        self.opened_at = clock.now()
        self.tickets = Numbers()
        self.jobs = JobTable()
        self.secret_uses = SecretUseIndex()
        self.one_time: TimeQueue[TimerRecord] = TimeQueue(self.tickets)
        """Timers of jobs that need no decision."""
        self.decided: TimeQueue[TimerRecord] = TimeQueue(self.tickets)
        self.runs: dict[UUID, RunRecord] = {}
        self.ended = EndedRuns()
        self.tallies: Counter[tuple[str, int, RunState]] = Counter()
        """The number of runs that came on record, by namespace, hour and final state."""
        self.known: dict[tuple[str, Lane], float | None] = {}
        """The lanes of namespaces, and since when nothing is known to use them; None: something does."""
        self.known_of: Counter[str] = Counter()
        """Their number by namespace."""
        self.lanes: dict[tuple[str, Lane], TimeQueue[RunRecord]] = {}
        self.slots = Slots()
        self.queue_holds: dict[tuple[str, str], QueueHold] = {}
        """By namespace and queue; those that are over too."""
        self.stops: dict[UUID, Stop] = {}
        """Those that are over too."""
        self.turns: dict[int, str] = {}
        """The namespace that each executor's last claim began with."""
        self.completions: dict[UUID, CompletionRecord] = {}
        """By the run that ended, the oldest first."""
        self.letters: dict[UUID, LetterRecord] = {}
        """The handling of runs that FAILED."""
        self._begin_failures()
        self.operations: dict[UUID, OperationRecord] = {}
        self.cluster_id: str | None = None
        """The name of this store, once somebody has asked for it."""
        self.marks: dict[tuple[MarkedChannel, int], float] = {}
        """Positions up to which the channels of a broker are applied, by channel and source."""
        self.executors: dict[int, ExecutorRecord] = {}
        self.epoch = Epoch(
            epoch=0, began_at=clock.now(), cause=EpochCause.FIRST, timeline=None, lost_tokens=False, differed=0
        )
        self.epochs_before: list[Epoch] = []
        """The oldest first."""
        self.shard, self.tokens = shard, Numbers(*tokens_from(1, shard))
        self._begin_shard_map()
        self.receipts: dict[tuple[str, str, str], ReceiptRecord] = {}
        self.tasks: dict[tuple[str, str], list[StoredTask]] = {}
        self.claims: Counter[tuple[int, tuple[str, ...], tuple[str, ...]]] = Counter()
        """The number of claims of each executor, by the queues and labels that it claimed with."""
        self.batch_numbers = Numbers()
        self.batches: dict[int, BatchRecord] = {}
        """The timers that schedulers have for a decision. A batch keeps its timers alive, so that no other timer gets
        one of their identities meanwhile."""
        self.taken: set[int] = set()
        """The timers of all batches, by identity."""
        self.rules: dict[tuple[str, RuleKind, str], RuleRow] = {}
        self.rules_of_kind: Counter[tuple[str, RuleKind]] = Counter()
        """The number of rules, by namespace and kind."""
        self.rules_version = 0
        self.runs_of_day: dict[str, tuple[int, int]] = {}
        """By namespace: the last day on which runs were counted for a quota, and their number."""
        self.minute = 0
        self.fires_in_minute: Counter[str] = Counter()
        """Of namespaces, in the minute that `minute` numbers."""
        self.saved_views: dict[tuple[str, str, str, str], SavedView] = {}
        self.incidents: dict[tuple[str, float, str], Incident] = {}
        self._begin_notices()
        self._begin_people()
        self.audit, self.feed = AuditLog(clock, shard), FeedLog()
        self.on_handover: Callable[[Handover], None] | None = None

    def _begin_shard_map(self) -> None:
        """Of the first of several shards; empty in all others."""
        self.shards: dict[int, Shard] = {}
        self.shard_places: dict[str, NamespacePlace] = {}
        self.shard_map_version, self.shards_added = 1, 0

    def _begin_failures(self) -> None:
        self.failures: dict[FailureId, bool] = {}
        """Failed attempts that are not counted in a group yet, and whether they ended their runs."""
        self.error_groups: dict[UUID, ErrorGroupRecord] = {}
        self.error_letters: dict[UUID, UUID] = {}
        """The groups of runs that FAILED."""

    def _begin_status_pages(self) -> None:
        self.environments: dict[tuple[str, str, str, tuple[str, ...]], EnvironmentRecord] = {}
        """By namespace, declaration, queue and labels; in the order of their last declaration."""
        self.status_pages: dict[UUID, StatusPage] = {}
        self.status_days: dict[tuple[UUID, str, date], StateSeconds] = {}
        self.status_announcements: dict[UUID, Announcement] = {}
        self.secrets: dict[SecretPlace, SecretRecord] = {}

    def _begin_notices(self) -> None:
        self.objectives: dict[UUID, GroupObjective] = {}
        self.ended_before: dict[UUID, frozenset[UUID]] = {}
        """By objective: the runs that had ended when it was made, and do not count."""
        self._begin_status_pages()
        self.channels: dict[UUID, NoticeChannel] = {}
        self.channel_secrets: dict[UUID, Mapping[str, str]] = {}
        self.notification_rules: dict[UUID, NotificationRule] = {}
        self.notices_version = 1
        """Changes with every rule and channel."""
        self.notices_watched: dict[str, int] = {}
        """The namespaces that note events, with the number of their enabled rules; 0: jobs name channels."""
        self.notices_watched_by_jobs: set[str] = set()
        self.notices_retries: set[str] = set()
        """Those with an enabled rule about retries."""
        self.notices_successes: dict[str, frozenset[UUID]] = {}
        """By namespace: the jobs whose successes enabled rules ask for."""
        self.notice_events: dict[tuple[UUID, int], PendingEvent] = {}
        self.noted_once: dict[tuple[str, str], float] = {}
        self.alerts: dict[UUID, AlertRecord] = {}
        self.notices: dict[UUID, NoticeRecord] = {}

    def _begin_people(self) -> None:
        self.api_keys: dict[bytes, KeyRecord] = {}
        self.removals: dict[str, RemovalRecord] = {}
        """Namespaces that are being removed."""
        self.namespaces_removed: dict[str, float] = {}
        """The times at which namespaces went, by name. There may be another one of the name."""
        self.namespaces: dict[str, NamespaceRow] = {DEFAULT_NAMESPACE: _default_namespace(self.clock.now())}
        self.people: dict[UUID, UserRecord] = {}
        self.user_links: dict[bytes, LinkRecord] = {}
        self.custom_roles: dict[tuple[str, str], RoleRow] = {}
        self.sessions: dict[UUID, SessionRecord] = {}
        self.token_keys: dict[str, PublicKey] = {}
        self.identity_keys: dict[str, IdentityKey] = {}
        self.browser_sessions: dict[UUID, BrowserSessionRecord] = {}
        self.session_links: dict[bytes, BrowserLinkRecord] = {}
        self.device_sign_ins: dict[UUID, DeviceSignInRecord] = {}
        self.federations: dict[UUID, Federation] = {}
        self.used_assertions: dict[bytes, tuple[float, UUID]] = {}
        """Of each assertion that works once: the end of its time, and its exchange."""
        self.identities: dict[Identity, UUID] = {}
        self.sign_ins: dict[bytes, SignInRecord] = {}
        self.logout_tokens: dict[bytes, float] = {}
        """The time until which each counts as used."""
        self.second_factors = FactorRecords()

    def now(self) -> float:
        return self.clock.now()

    # ------------------------------------------------------------------------------------------- lookups

    def job(self, namespace: str, job_id: UUID) -> JobRecord:
        """One job, to be changed. Raises `NotFound`, also for a job of another namespace."""
        job = self.jobs.to_change(job_id)
        if job is None or job.namespace != namespace:
            raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
        return job

    def job_of(self, run: RunRow) -> JobRecord | None:
        """The job of a run; None: it is gone, or in another namespace by now."""
        job = self.jobs.get(run.job_id)
        return job if job is not None and job.namespace == run.namespace else None

    def is_closed(self, namespace: str, *, or_closing: bool = True) -> bool:
        """Check whether a namespace takes nothing new; without `or_closing`: whether it is being removed, or gone."""
        found = self.namespaces.get(namespace)
        if found is None:
            return namespace in self.namespaces_removed
        return found.state is NamespaceState.REMOVING or (or_closing and found.state is NamespaceState.CLOSING)

    def check_open(self, *namespaces: str, or_closing: bool = True) -> None:
        """Raise `Conflict`, code `namespace_closing`, if one of these namespaces takes nothing new."""
        for namespace in sorted(namespaces):
            if self.is_closed(namespace, or_closing=or_closing):
                raise namespace_closing(namespace)

    def admit(self, places: Iterable[tuple[str, Lane]]) -> AbstractSet[tuple[str, Lane]]:
        """Know these lanes from now on, as far as there is room; those for which there is none."""
        refused = set()
        for namespace, lane in places:
            if (namespace, lane) not in self.known and not self._has_room(namespace, lane):
                refused.add((namespace, lane))
                continue
            if (namespace, lane) not in self.known:
                self.known_of[namespace] += 1
            self.known[namespace, lane] = None
        return refused

    def quotas_of(self, namespace: str) -> Quotas:
        """The quotas of a namespace."""
        row = self.namespaces.get(namespace)
        return NO_QUOTAS if row is None else row.quotas

    def _has_room(self, namespace: str, lane: Lane) -> bool:
        mine = self.known_of[namespace]
        if is_default_lane(lane):
            return True
        quota = self.quotas_of(namespace).lanes
        if quota is not None and mine >= quota:
            return False
        if mine < LANES_RESERVED:
            return True
        return mine < MAX_LANES_OF_NAMESPACE and len(self.known) < MAX_LANES

    def free_lanes(self) -> None:
        """Forget lanes that no job and no run has used for an hour, where there is little room left."""
        now = self.now()
        used = self.jobs.lanes() | {(run.job.namespace, run.lane) for run in self.runs.values()}
        for place, idle_since in list(self.known.items()):
            namespace = place[0]
            if len(self.known) <= MAX_LANES // 2 and self.known_of[namespace] <= MAX_LANES_OF_NAMESPACE // 2:
                continue
            if place in used:
                self.known[place] = None
            elif idle_since is None:
                self.known[place] = now
            elif idle_since < now - LANE_IDLE_SECONDS:
                del self.known[place]
                self.known_of[namespace] -= 1
                self.lanes.pop(place, None)

    def replay(self, receipt: Receipt | None) -> Replay | None:
        """The answer that was kept under the same key, if it has not expired."""
        return self.replay_of((receipt.principal, receipt.route, receipt.key)) if receipt is not None else None

    def replay_of(self, name: tuple[str, str, str]) -> Replay | None:
        kept = self.receipts.get(name)
        if kept is None or kept.expires_at <= self.now():
            return None
        return Replay(body_digest=kept.body_digest, status=kept.status, body=kept.body)

    def keep(self, receipt: Receipt | None) -> None:
        """Keep an answer with its effect."""
        if receipt is not None:
            expires_at = self.now() + receipt.keep_seconds
            kept = ReceiptRecord(receipt.body_digest, receipt.status, receipt.body, expires_at)
            self.receipts[receipt.principal, receipt.route, receipt.key] = kept

    # ------------------------------------------------------------------------------------------- timers

    def set_timer(
        self, job: JobRecord, pending: TimerState, *, run_id: UUID | None = None, zone_data: str | None = None
    ) -> None:
        """Set the position of the job's schedule."""
        self.drop_timer(job)
        job.timer = TimerRecord(job=job, pending=pending, run_id=run_id, zone_data=zone_data)
        self.queue_of(job.timer).push(pending.due, job.timer)

    def drop_timer(self, job: JobRecord) -> None:
        if job.timer is not None:
            job.timer.place = 0
            job.timer = None
            self.jobs.rest(job)

    def queue_of(self, timer: TimerRecord) -> TimeQueue[TimerRecord]:
        return self.decided if timer.run_id is None else self.one_time

    def plan(self, job: JobRecord, pending: TimerState, *, run_id: UUID | None, zone_data: str | None) -> None:
        """Store the plan of a job. A fire that needs no decision is a run at once if it is near; all else is a
        timer."""
        if run_id is not None and pending.hold is None and pending.due <= self.now() + self.near_seconds:
            self.drop_timer(job)
            self.make(job, NewRun(run_id, pending.due, Trigger.SCHEDULE))
        else:
            self.set_timer(job, pending, run_id=run_id if pending.hold is None else None, zone_data=zone_data)

    def move_timer(self, job: JobRecord, pending: TimerState | None, *, zone_data: str | None) -> None:
        """A job's timer goes there, and with a hold needs a decision from then on; None: it goes for good."""
        run_id = None if job.timer is None or pending is None or pending.hold is not None else job.timer.run_id
        if pending is None:
            self.drop_timer(job)
        else:
            self.set_timer(job, pending, run_id=run_id, zone_data=zone_data)

    def hold_timer(self, job: JobRecord, until: float) -> None:
        """Hold back a job's timer, if it has one, from where it stands."""
        if (timer := job.timer) is not None:
            since = timer.pending.due if timer.pending.hold is None else timer.pending.since
            held = timer.pending._replace(due=until, since=since, hold=Hold.PAUSED)
            self.set_timer(job, held, zone_data=timer.zone_data)

    def ask_anew(self, job: JobRecord) -> None:
        """Decide a timer now that a calendar or window holds back."""
        timer, now = job.timer, self.now()
        if timer is not None and timer.pending.hold in (Hold.CALENDAR, Hold.MAINTENANCE) and timer.pending.due > now:
            self.set_timer(job, timer.pending._replace(due=now), zone_data=timer.zone_data)

    def timers(self) -> list[TimerRecord]:
        return [job.timer for job in self.jobs.awake if job.timer is not None]

    # ------------------------------------------------------------------------------------------- a run's moves

    def make(self, job: JobRecord, new: NewRun, *, settled_by: float = -math.inf) -> bool:
        """A new run, waiting; False, and nothing changes, if one of that name exists or has ended.

        No other run that is due before `settled_by` will be made later: up to then it is settled at once if no other is
        unfinished.
        """
        if new.run_id in self.runs or new.run_id in self.ended:
            return False
        run = RunRecord(
            run_id=new.run_id,
            job=job,
            trigger=new.trigger,
            due=new.due,
            nominal=new.due if new.nominal is None else new.nominal,
            queued=self.now(),
            ready=new.due,
            overlap=new.overlap,
            lane=job.lane,
            definition=new.definition,
            origin=new.origin,
        )
        alone = not job.runs or not any(each.in_backfill == run.in_backfill for each in job.runs.values())
        run.settled = run.open and alone and run.due <= settled_by
        self.runs[run.run_id] = job.runs[run.run_id] = run
        self.place(run)
        self.noted(run)
        return True

    def make_now(self, job: JobRecord, new: NewRun) -> bool:
        """Make a run, due no earlier than now; the time in its name stays its nominal time."""
        nominal = new.due if new.nominal is None else new.nominal
        return self.make(job, new._replace(due=max(new.due, self.now()), nominal=nominal))

    def skip(self, job: JobRecord, new: NewSkip, *, origin: UUID | None = None) -> None:
        """Put occurrences that do not run on record, unless one of that name exists or has ended."""
        if new.run_id in self.runs or new.run_id in self.ended:
            return
        run = RunRecord(
            run_id=new.run_id,
            job=job,
            trigger=new.trigger,
            due=new.nominal,
            nominal=new.nominal,
            queued=self.now(),
            ready=new.nominal,
            overlap=Overlap.ALLOW,
            lane=job.lane,
            definition=None,
            origin=origin,
        )
        report = Report(ended=self.now(), reason=new.reason, error=new.error)
        until = new.until if new.occurrences > 1 else None
        row = run_row(run, RunState.SKIPPED, report, occurrences=new.occurrences, until=until)
        self.put_on_record(run, EndedRun(row, 0, (), reported=False))

    def place(self, run: RunRecord) -> None:
        """Let a free run wait in its lane, unless it waits for another run or for a slot."""
        if run.blocked:
            run.place = 0
            return
        self.lane((run.job.namespace, run.lane)).push(run.ready, run)

    def lane(self, name: tuple[str, Lane]) -> TimeQueue[RunRecord]:
        """The queue of the runs that wait in a lane of a namespace."""
        found = self.lanes.get(name)
        if found is None:
            found = self.lanes[name] = TimeQueue(self.tickets)
        return found

    def hold(self, run: RunRecord, executor: ExecutorRecord) -> None:
        """Give a free run to an executor, under a new token."""
        run.guarded = run.guarded or self.quotas_of(run.job.namespace).concurrent_runs is not None
        run.state = move(run.state, RunEvent.CLAIMED)
        run.executor = executor.number
        run.token = next(self.tokens)
        run.attempt += 1
        run.dispatched = self.now()
        run.started = None
        run.place = 0
        executor.held[run.run_id] = run
        self.noted(run)

    def release(self, run: RunRecord, event: RunEvent, retry_at: float | None = None) -> bool:
        """Its holder has it no longer. It waits again, unless it was asked to stop: then it ends or is forgotten.

        Returns whether it waits.
        """
        state, request = move(run.state, event), run.request
        begun = run.state is RunState.RUNNING or event is RunEvent.RETRIED
        paused = request is not None and request.skipped is SkipReason.PAUSED and self.is_paused(run.job)
        if event is RunEvent.RELEASED and not begun:
            run.attempt -= 1
        verdict = came_back(run.asked, begun=begun, paused=paused)
        if request is not None and verdict is ReturnVerdict.CANCEL:
            self.cancel(run, request)
            return False
        if request is not None and verdict is ReturnVerdict.REVOKE:
            self._revoke(run, request)
            return False
        self._unhold(run)
        run.state, run.ready = state, claimable_at(now=self.now(), due=run.due, retry_at=retry_at, slot=run.slot)
        if verdict is ReturnVerdict.HOLD_BACK:
            run.ready = after_pause(run)
        self.place(run)
        self.noted(run)
        return True

    def _revoke(self, run: RunRecord, request: StopRequest) -> None:
        """A run that was asked back is back, and had not begun."""
        if request.skipped is None:
            self.forget(run)
        else:
            self.end_skipped(run, request.skipped, request.error)

    def end_skipped(self, run: RunRecord, reason: SkipReason, error: str | None) -> None:
        """The store itself ends what did not begin: a free run, or one whose holder has not begun it."""
        self._unhold(run)
        self.end(run, RunEvent.SKIPPED, Report(ended=self.now(), reason=reason, error=error))

    def drop_unstarted(self, run: RunRecord, reason: SkipReason, error: str) -> bool:
        """A run that has not begun will not run: SKIPPED at once if it is free, else when it comes back. False: this
        was asked before."""
        if run.held:
            return run.ask(StopRequest(CancelKind.REVOKE, self.now(), error, reason))
        self.end_skipped(run, reason, error)
        return True

    def cancel(self, run: RunRecord, request: StopRequest) -> None:
        """End a run by request, in the store itself: the run has no holder afterwards."""
        asked = cancel_row(request) if run.held else None
        self._unhold(run)
        self.end(
            run,
            RunEvent.CANCELLED,
            Report(ended=self.now(), reason=CANCELLED, error=request.error, cancel=asked),
        )

    def end(self, run: RunRecord, event: RunEvent, report: Report) -> None:
        """Its final state: the run goes, a record stays."""
        state = move(run.state, event)
        row = run_row(run, state, report)
        attempts = run.attempts
        if run.executor is not None:
            attempts = (*attempts, attempt_row(run, state, report))
        ended = EndedRun(row, run.token, attempts, report.reported)
        self.forget(run)
        self.put_on_record(run, ended)
        if report.follow and row.reason != UNKNOWN_OUTCOME:
            self.note_completion(ended, succeeded=state is RunState.SUCCESS)

    def put_on_record(self, run: RunRecord, ended: EndedRun) -> None:
        """Put the end of a run on record, and count it."""
        self.ended[run.run_id] = ended
        self.tallies[ended.row.namespace, int(self.now() // HOUR_SECONDS), ended.row.state] += 1
        self.feed.note(run, ended.row.state, self.now())
        if ended.row.state is RunState.FAILED:
            self.failures[FailureId(run.run_id, ended.token)] = True
        if ended.row.namespace in self.notices_watched and self._is_noted(ended.row):
            self.note_event(ended.row, ended.token, ended.row.ended_at, ended.row.error)

    def _is_noted(self, row: RunRow) -> bool:
        """Check whether a rule may ask for an end."""
        if row.state is RunState.SKIPPED:
            return row.reason in UNCHOSEN
        if row.state is not RunState.SUCCESS:
            return row.state is RunState.FAILED
        if row.job_id in self.notices_successes.get(row.namespace, ()):
            return True
        subject = str(row.job_id)
        stands = any(
            each.alert.subject == subject and each.alert.state is not AlertState.CLOSED and each.alert.event in PASSES
            for each in self.alerts.values()
        )
        return stands or any(
            each.job_id == row.job_id and each.state is not RunState.SUCCESS for each in self.notice_events.values()
        )

    def note_event(self, row: RunRow, token: int, at: float | None, error: str | None) -> None:
        """Note an end, or an attempt that is tried again, for notification rules."""
        said = error if row.state is not RunState.SUCCESS else None
        self.notice_events[row.run_id, token] = PendingEvent(
            row.namespace, row.run_id, token, row.job_id, row.state, row.attempt, self.now() if at is None else at,
            row.reason, None if said is None else both_ends(said, MAX_ERROR), run_id=row.run_id,
        )  # fmt: skip

    def alert_of(self, key: AlertKey) -> AlertRecord | None:
        """The alert of this identity that is not closed."""
        for record in self.alerts.values():
            alert = record.alert
            mine = AlertKey(alert.namespace, alert.rule_id, alert.event, alert.subject)
            if mine == key and alert.state is not AlertState.CLOSED:
                return record
        return None

    def noted(self, run: RunRecord) -> None:
        """Note the present state of an active run, which it has just come into."""
        self.feed.note(run, run.state, self.now())

    def note_completion(self, ended: EndedRun, *, succeeded: bool) -> None:
        """Others go on from the end of this run."""
        self.completions[ended.row.run_id] = CompletionRecord(
            Completion(run=ended.row, succeeded=succeeded), self.now()
        )

    def forget(self, run: RunRecord) -> None:
        """The run goes and leaves nothing."""
        self._unhold(run)
        run.place = 0
        run.slot = run.rate_key = None
        del self.runs[run.run_id], run.job.runs[run.run_id]
        if not run.job.runs:
            run.job.runs.clear()  # gives back the room of what was in it: there may be millions of jobs without a run
            self.jobs.rest(run.job)
        self.unblock(run.job)

    # ------------------------------------------------------------------------------------------- waiting for others

    def earlier(self, run: RunRecord) -> list[RunRecord]:
        """The unfinished runs of its job that come before it."""
        mine = run.lined
        return [each for each in run.job.runs.values() if is_earlier(each.lined, mine)]

    def unblock(self, job: JobRecord) -> int:
        """Make the runs claimable that wait for a run that is no longer there; their number."""
        waiting = [run for run in job.runs.values() if run.blocked and run.limit_key is None]
        lines = ([run for run in waiting if run.in_backfill == backfill] for backfill in (False, True))
        asking = [self.runs[next_in_line([run.lined for run in line]).run_id] for line in lines if line]
        ready = [run for run in asking if all(each in waiting for each in self.earlier(run))]
        for run in ready:
            run.blocked = False
            run.ready = claimable_at(now=self.now(), due=run.due)
            self.place(run)
        self.report_handover(ready)
        return len(ready)

    # ------------------------------------------------------------------------------------------- waiting for a slot

    def wake(self, name: Name, *, sweeping: bool = False) -> int:
        """Make the runs claimable that wait for a slot of this key, or for the quota of its namespace, up to the free
        slots; their number. Sweeping, of the key alone, and more if no executor claims the runs that were woken
        before."""
        quota = self.quotas_of(name.namespace).concurrent_runs
        names = [name] if sweeping or name.key == QUOTA_KEY else [name, Name(name.namespace, QUOTA_KEY)]
        woken = [
            run
            for each in names
            for run in self.slots.wake(each, self.now(), self.on_hold, quota=quota, sweeping=sweeping)
        ]
        for run in woken:
            run.ready = claimable_at(now=self.now(), due=run.due)
            self.place(run)
        self.report_handover(woken)
        return len(woken)

    def report_handover(self, woken: Sequence[RunRecord] = (), stopping: Sequence[UUID] = ()) -> None:
        """Tell the listener what a call did for runs other than those that it names."""
        if self.on_handover is not None and (woken or stopping):
            claimable = [Ready(run.run_id, run.ready, run.lane, run.job.namespace) for run in woken]
            self.on_handover(Handover(claimable, stopping))

    def stop_waiting(self, run: RunRecord) -> None:
        """A run that waits for a slot may be claimed: whether it needs one is asked anew at its start."""
        self.slots.drop(run)
        run.blocked = False
        run.ready = claimable_at(now=self.now(), due=run.due)
        self.place(run)

    def on_hold(self, namespace: str, queue: str) -> bool:
        """Check whether a queue stands still now: by a hold, by a stop of it, or of its namespace."""
        hold = self.queue_holds.get((namespace, queue)) if self.queue_holds else None
        now = self.now()
        if hold is not None and (hold.begin or 0.0) <= now and (hold.until is None or now < hold.until):
            return True
        return any(
            not stop.scope.is_of_jobs and stop.scope.queue in (None, queue)
            for stop in self.stops.values()
            if stop.namespace == namespace and stop.is_on(now)
        )

    def is_stopped(self, job: JobRecord) -> bool:
        """Check whether a stop of the job, or of its labels, is in force."""
        now = self.now()
        return any(
            stop.scope.is_of_jobs and stop.concerns(job.job_id, job.labels, "")
            for stop in self.stops.values()
            if stop.namespace == job.namespace and stop.is_on(now)
        )

    def stands_still(self, run: RunRecord) -> bool:
        """Check whether a hold or a stop keeps a run from beginning."""
        if not (self.stops or self.queue_holds):
            return False  # asked of each waiting run at each look
        return self.on_hold(run.job.namespace, run.lane.queue) or self.is_stopped(run.job)

    def _unhold(self, run: RunRecord) -> None:
        if run.executor in self.executors:
            self.executors[run.executor].held.pop(run.run_id, None)
        run.executor = run.dispatched = run.started = run.request = None
        if run.limit_key is not None and (left := self.slots.drop(run)) is not None:
            self.wake(left)

    # ------------------------------------------------------------------------------------------- rows

    def run_row(self, run: RunRecord) -> RunRow:
        """An active run, as it is told."""
        return run_row(run, run.state, Report(started=run.started))

    def job_row(self, job: JobRecord) -> JobRow:
        """A job, with what follows from its timer and its runs."""
        paused = self.is_paused(job)
        return JobRow(
            job_id=job.job_id,
            namespace=job.namespace,
            name=job.name,
            key=job.key,
            schedule_type=job.schedule_type,
            task_kind=job.task_kind,
            lane=job.lane,
            definition=job.definition,
            labels=dict(job.labels),
            owner=job.owner,
            created_by=job.created_by,
            created_at=job.created_at,
            updated_at=job.updated_at,
            version=job.version,
            status=self.status(job),
            paused_at=job.paused_at if paused else None,
            pause_reason=job.pause_reason if paused else None,
            pause_until=job.pause_until if paused else None,
            paused_by=job.paused_by if paused else None,
            next_run_at=self.next_run_at(job),
            timer=None if job.timer is None else job.timer.pending,
            listed=job.listed,
            task_changed_at=job.task_changed_at,
        )

    def pause(self, job: JobRecord, *, reason: str | None, until: float | None, by: str | None) -> None:
        """Pause the job. A job that is paused already keeps its first pause time; a repetition changes nothing."""
        if not self.is_paused(job):
            job.paused_at = self.now()
        told = (JobAction.PAUSE, reason, until, by)
        if told != (job.standing, job.pause_reason, job.pause_until, job.paused_by):
            job.standing, job.pause_reason, job.pause_until, job.paused_by = told
            self.touch(job)

    def touch(self, job: JobRecord) -> None:
        """A person changed something of the job: it is another version now."""
        job.version += 1
        job.updated_at = self.now()

    def is_paused(self, job: JobRecord) -> bool:
        """Check whether a pause holds now; one with an end is over by itself."""
        over = job.pause_until is not None and job.pause_until <= self.now()
        return job.standing is JobAction.PAUSE and not over

    def is_claimable(self, run: RunRecord) -> bool:
        return not (run.held or run.blocked or self.stands_still(run))

    def status(self, job: JobRecord) -> JobStatus:
        if job.standing is JobAction.CANCEL:
            return JobStatus.CANCELLED
        if self.is_paused(job):
            return JobStatus.PAUSED
        if (job.timer is not None and job.timer.comes) or job.runs or job.schedule_type == ON_DEMAND:
            return JobStatus.SCHEDULED
        if not job.recurring and self.ended.newest_failed(job.job_id):
            return JobStatus.FAILED
        return JobStatus.COMPLETED

    def next_run_at(self, job: JobRecord) -> float | None:
        now = self.now()
        coming = [run.due for run in job.runs.values() if is_coming(run, now)]
        if job.timer is not None and job.timer.comes:
            coming.append(job.timer.pending.due)
        return min(coming, default=None)


def after_pause(run: RunRecord) -> float:
    """From when on a run can be claimed that waits for the end of the pause of its job."""
    return max(run.due, NEVER if run.job.pause_until is None else run.job.pause_until)


class Duty:
    """One part of the store, over the state that all parts share."""

    def __init__(self, state: State) -> None:
        self._state = state
