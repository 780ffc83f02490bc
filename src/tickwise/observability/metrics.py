"""Every metric, declared once here, in `keepers` or `warm_containers`: name, type, labels, help. A registry a process.

    roles ──► Metrics (counters, histograms) ──► render() ──► GET /metrics
    store.stats() ──► observe_stats (gauges) ──┤     read when somebody asks, not before
    buffers, broker ──► asked (`watch_…`) ─────┘

Names follow Prometheus: a prefix, the unit last, `_total` for counters.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from tickwise.domain.lifecycle import FINAL, STATES
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.observability.buffers import Buffers
from tickwise.observability.histogram import BatchHistogram, Series
from tickwise.observability.host import ReadHost
from tickwise.observability.keepers import KeeperMetrics
from tickwise.observability.warm_containers import WarmContainerMetrics
from tickwise.ports.broker import BrokerState, Consumer
from tickwise.ports.store import KindBacklog, StoreStats

# The creation time of each counter doubles the number of series, and has no use.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

LATENESS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
DURATION_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400)
STORE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
HTTP_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
MEMORY_BYTES: Final = (4_194_304, 16_777_216, 67_108_864, 268_435_456, 1_073_741_824, 4_294_967_296, 17_179_869_184)
"""4 MiB to 16 GiB."""
MAX_KINDS: Final = 30
"""Kinds of tasks that are counted apart; those of further plugins are counted as `other`."""
MAX_REASONS: Final = 100
"""Different reasons of failures that are counted apart; all further ones are counted as `other`."""
OTHER_REASON: Final = "other"
BROKER_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)
PINGS: Final = ("well", "unwell", "lost")
BATCH_SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000)


class Metrics:
    """The metrics of one process. Satisfies what roles and control call `Telemetry` and `Counters`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._counts(registry)
        self._healing(registry)
        self._live(registry)
        self._times(registry)
        self._gauges(registry)
        self._apart(registry)
        self._bounds(registry)
        self._hosts(registry)
        self._usage(registry)
        self._environments(registry)
        self.containers = WarmContainerMetrics(registry)
        self.keepers = KeeperMetrics(registry)
        self._watch(registry)
        # `labels()` costs a microsecond and a lock; the few that there are, are kept.
        self._by_state = {state: self._finished.labels(state.value) for state in FINAL}
        self._reasons: set[str] = set()
        self._kinds: set[str] = set()
        self._by_answer: dict[tuple[str, int], Counter] = {}
        self._by_route: dict[str, Series] = {}
        self._by_method: dict[str, Histogram] = {}
        self._buffers: list[Buffers] = []
        self._slots_of: list[Buffers] = []
        self._broker: Callable[[], BrokerState] | None = None
        self._consumers: list[Consumer] = []
        self._lost_before = self._thrown_before = 0
        self._read_host: ReadHost | None = None
        self._host_cpu_before = 0.0
        self._lost_lines: Mapping[str, int] = {}
        self._lost_lines_before: dict[str, int] = {}

    def _counts(self, registry: CollectorRegistry) -> None:
        """The metrics of jobs, runs and attempts."""
        self._submitted = Counter("tickwise_jobs_submitted", "Jobs that were stored.", registry=registry)
        self._fired = Counter("tickwise_runs_fired", "Runs that schedulers made from timers.", registry=registry)
        self._skipped = Counter(
            "tickwise_occurrences_skipped",
            "Occurrences that schedulers put on record as skipped, by reason.",
            ["reason"],
            registry=registry,
        )
        self._parked = Counter(
            "tickwise_jobs_parked", "Jobs that were paused because they made too many runs.", registry=registry
        )
        self._started = Counter("tickwise_runs_started", "First attempts that began.", registry=registry)
        self._finished = Counter(
            "tickwise_runs_finished", "Runs that reached a final state, by that state.", ["state"], registry=registry
        )
        self._retries = Counter(
            "tickwise_retries", "Attempts that failed and will be repeated, by reason.", ["reason"], registry=registry
        )
        self._dead = Counter(
            "tickwise_dead_letters",
            "Runs that failed for good and wait for a person, by reason.",
            ["reason"],
            registry=registry,
        )
        self._lease_stopped = Counter(
            "tickwise_attempts_let_go",
            "Attempts that an executor stopped because it could not renew its lease.",
            registry=registry,
        )
        self._differed = Counter(
            "tickwise_held_otherwise",
            "Runs that the executor held and the store did not, or the other way round: the store lost acknowledged "
            "writes. They were corrected.",
            registry=registry,
        )
        self._refused = Counter(
            "tickwise_outcomes_refused", "Outcomes that the store refused as stale.", registry=registry
        )

    def _environments(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of environments of scripts."""
        self._environments_reused = Counter(
            "tickwise_environments_reused", "Attempts of scripts that found the environment that they declare.",
            registry=registry,
        )  # fmt: skip
        self._environments_failed = Counter(
            "tickwise_environments_failed", "Builds of environments that failed, by reason.", ["reason"],
            registry=registry,
        )  # fmt: skip
        self._environment_builds = Histogram(
            "tickwise_environment_build_seconds",
            "Durations of the builds of environments that succeeded.",
            buckets=DURATION_SECONDS, registry=registry,
        )  # fmt: skip

    def environment_reused(self) -> None:
        """A script found its environment."""
        self._environments_reused.inc()

    def environment_built(self, seconds: float) -> None:
        """An environment was built within this time."""
        self._environment_builds.observe(seconds)

    def environment_failed(self, reason: str) -> None:
        """A build failed; `reason` is one of `ENVIRONMENT_REASONS`."""
        self._environments_failed.labels(reason).inc()

    def _times(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of durations and batch sizes."""
        self._lateness = BatchHistogram(
            "tickwise_lateness_seconds",
            "Start of the first attempt minus the time it was due.",
            buckets=LATENESS_SECONDS,
            registry=registry,
        )
        self._duration = BatchHistogram(
            "tickwise_run_duration_seconds", "Durations of attempts.", buckets=DURATION_SECONDS, registry=registry
        )
        self._latency = BatchHistogram(
            "tickwise_schedule_to_end_seconds",
            "From the time that the schedule named, or at which a run was asked for, to the end of the run.",
            buckets=DURATION_SECONDS,
            registry=registry,
        )
        self._claims = Histogram(
            "tickwise_claim_batch_size", "Attempts taken in one claim.", buckets=BATCH_SIZES, registry=registry
        )
        self._finishes = Histogram(
            "tickwise_finish_batch_size", "Outcomes recorded in one batch.", buckets=BATCH_SIZES, registry=registry
        )
        self._store = Histogram(
            "tickwise_store_seconds",
            "Durations of store calls, by method.",
            ["method"],
            buckets=STORE_SECONDS,
            registry=registry,
        )
        self._requests = Counter("tickwise_http_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._request_seconds = BatchHistogram(
            "tickwise_http_request_seconds",
            "Durations of requests, by route.",
            ["route"],
            buckets=HTTP_SECONDS,
            registry=registry,
        )

    def _usage(self, registry: CollectorRegistry) -> None:
        """The metrics of what attempts used."""
        self._task_cpu = Counter(
            "tickwise_task_cpu_seconds",
            "Processor time of the attempts that were measured, by the kind of their task: those with processes of "
            "their own.",
            ["kind"],
            registry=registry,
        )
        self._task_memory = Histogram(
            "tickwise_task_memory_peak_bytes",
            "Peaks of the memory of attempts that were measured, by the kind of their task.",
            ["kind"],
            buckets=MEMORY_BYTES,
            registry=registry,
        )
        self._task_output = Counter(
            "tickwise_task_output_bytes",
            "Kept output of attempts, by the kind of their task; without quick functions that had no output.",
            ["kind"],
            registry=registry,
        )

    def _live(self, registry: CollectorRegistry) -> None:
        """The metrics of streams of live events."""
        self._streams = Gauge("tickwise_live_streams", "Open streams of live events and logs.", registry=registry)
        self._streams_ended = Counter(
            "tickwise_live_streams_ended",
            "Streams that ended, by reason: `client` hung up, `slow_reader`, `unauthenticated`, `forbidden`, "
            "`not_found`, `stopping`, `complete`.",
            ["reason"],
            registry=registry,
        )
        self._events_sent = Counter("tickwise_live_events", "Events sent to streams.", registry=registry)
        self._events_coalesced = Counter(
            "tickwise_live_events_coalesced",
            "Events beyond the rate of their stream, which got only their number.",
            registry=registry,
        )

    def stream_opened(self) -> None:
        """A stream of live events was opened."""
        self._streams.inc()

    def stream_ended(self, reason: str) -> None:
        """A stream ended; `reason` is of a few."""
        self._streams.dec()
        self._streams_ended.labels(reason).inc()

    def events_sent(self, sent: int, coalesced: int) -> None:
        """Events for streams, and events of which they get only the number."""
        self._events_sent.inc(sent)
        self._events_coalesced.inc(coalesced)

    def _healing(self, registry: CollectorRegistry) -> None:
        """The metrics of schedulers: lost, stuck and continued work."""
        self._expired = Counter("tickwise_executors_expired", "Executors whose lease ran out.", registry=registry)
        self._freed = Counter(
            "tickwise_runs_freed", "Runs that were taken back from dead executors.", registry=registry
        )
        self._quarantined = Counter(
            "tickwise_runs_quarantined", "Runs that ended because they took executors down.", registry=registry
        )
        self._unknown = Counter(
            "tickwise_runs_unknown",
            "Runs that were lost with their executor and ended, because their jobs say not to run them again.",
            registry=registry,
        )
        self._sequenced = Counter(
            "tickwise_runs_sequenced", "Runs that were made because a run of another job ended.", registry=registry
        )
        self._operated = Counter(
            "tickwise_operation_items",
            "Items of bulk operations, by result: done or refused.",
            ["result"],
            registry=registry,
        )
        self._mended = Counter(
            "tickwise_violations_healed",
            "Violations of an invariant that a scheduler repaired.",
            ["invariant"],
            registry=registry,
        )
        self._violations = Gauge(
            "tickwise_invariant_violations",
            "Violations of invariants that the last whole pass of this scheduler found and could not repair at once. "
            "0: none; NaN: the check failed.",
            ["invariant"],
            registry=registry,
        )

    def _gauges(self, registry: CollectorRegistry) -> None:
        """The metrics of the store; read at each scrape."""
        self._queue = Gauge(
            "tickwise_runs", "Runs that have not ended, by the cause of their wait.", ["state"], registry=registry
        )
        self._oldest = Gauge(
            "tickwise_oldest_ready_seconds",
            "The wait of the oldest claimable run beyond its due time.",
            registry=registry,
        )
        self._timers = Gauge("tickwise_timers", "Timers of future fires.", registry=registry)
        self._timers_late = Gauge(
            "tickwise_timers_late_seconds", "The time by which the earliest timer is late.", registry=registry
        )
        self._executors = Gauge("tickwise_executors", "Active executors.", registry=registry)

    def _apart(self, registry: CollectorRegistry) -> None:
        """The metrics of the broker between roles that run apart."""
        self._named = Counter("tickwise_hints_named", "Runs that hints named to this executor.", registry=registry)
        self._claimed_named = Counter(
            "tickwise_hints_claimed", "Runs that this executor took because a hint named them.", registry=registry
        )
        self._parked_messages = Counter(
            "tickwise_messages_parked",
            "Messages that could not be read or applied and were put aside, by the channel that they came from.",
            ["channel"],
            registry=registry,
        )
        self._unverified = Counter(
            "tickwise_messages_unverified",
            "Messages that a recorder refused, by channel and why: unsigned, forged (by another key, or copied from "
            "another place), unknown (no such executor), late (sent again after days). They are put aside.",
            ["channel", "reason"],
            registry=registry,
        )
        self._unsigned = Counter(
            "tickwise_messages_unsigned",
            "Messages without a signature that a recorder accepted (`unsigned_messages`), by channel.",
            ["channel"],
            registry=registry,
        )
        self._applied = Counter(
            "tickwise_requests_applied",
            "Buffered requests that this recorder carried out, by result: done or failed.",
            ["result"],
            registry=registry,
        )
        for result in ("done", "failed"):
            self._applied.labels(result)  # 0 from the start: Prometheus sees no increase from nothing to 1
        self._sent = Counter(
            "tickwise_broker_sent",
            "Messages that the broker confirmed to this process.",
            ["channel"],
            registry=registry,
        )
        self._send_seconds = Histogram(
            "tickwise_broker_send_seconds",
            "From sending messages to the broker's confirmation of all of them, by channel.",
            ["channel"],
            buckets=BROKER_SECONDS,
            registry=registry,
        )
        self._thrown = Counter(
            "tickwise_broker_thrown", "Messages that were sent without waiting: hints.", registry=registry
        )
        self._lost = Counter(
            "tickwise_broker_lost",
            "Hints (`tickwise_broker_thrown_total`) that were given up. A later look at the store finds their runs.",
            registry=registry,
        )

    def _bounds(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of fill and lag of this process, read at each scrape."""
        self._buffer_items = Gauge(
            "tickwise_buffer_items", "The items in a bounded buffer of this process.", ["buffer"], registry=registry
        )
        self._buffer_limit = Gauge(
            "tickwise_buffer_limit", "The limit of items in a bounded buffer.", ["buffer"], registry=registry
        )
        self._slots = Gauge(
            "tickwise_executor_slots",
            "Tasks that this executor runs at once at most, by the kinds of tasks that share them.",
            ["kinds"],
            registry=registry,
        )
        self._slots_busy = Gauge(
            "tickwise_executor_slots_busy", "Slots that run a task now.", ["kinds"], registry=registry
        )
        self._reachable = Gauge(
            "tickwise_broker_reachable",
            "1 while the broker answers this process, 0 while it does not, NaN without one.",
            registry=registry,
        )
        self._reachable.set(float("nan"))  # without a broker
        self._certificate_end = Gauge(
            "tickwise_certificate_end_timestamp_seconds",
            "Unix time at which the certificate that this process serves ends; NaN without TLS.",
            registry=registry,
        )
        self._certificate_end.set(float("nan"))
        self._spans_sent = Counter("tickwise_spans_sent", "Spans that the collector of traces took.", registry=registry)
        self._spans_dropped = Counter(
            "tickwise_spans_dropped",
            "Spans that did not reach the collector of traces, by reason: `full` (too many waited), `failed` (it "
            "was away, or refused them), `end` (the process ended).",
            ["reason"],
            registry=registry,
        )
        self._log_lines_lost = Counter(
            "tickwise_log_lines_lost", "Log lines that could not be written, to the `file` or the `console`.", ["to"],
            registry=registry,
        )  # fmt: skip
        self._lag = Gauge(
            "tickwise_broker_lag",
            "Messages of a channel that are not yet processed, in the partitions of this process.",
            ["channel"],
            registry=registry,
        )

    def _hosts(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of the place that this process runs in. Those of the process itself have the names that
        all clients of Prometheus give them: `process_cpu_seconds_total`, `process_resident_memory_bytes` and so on."""
        ProcessCollector(registry=registry)
        self._host_cpu = Counter(
            "tickwise_host_cpu_seconds",
            "Processor time used on the host of an executor, or in its control group if that has less processor time "
            "than the host. 0 in a process without an executor.",
            registry=registry,
        )
        self._host_cores = Gauge(
            "tickwise_host_cpu_cores",
            "Cores that the executor and its tasks may use at once. NaN in a process without an executor.",
            registry=registry,
        )
        self._host_memory = Gauge(
            "tickwise_host_memory_bytes",
            "Memory in use on the host of an executor, or in its control group if that has a limit, without caches. "
            "NaN in a process without an executor.",
            registry=registry,
        )
        self._host_memory_limit = Gauge(
            "tickwise_host_memory_limit_bytes",
            "The most memory that the executor and its tasks may use. NaN in a process without an executor.",
            registry=registry,
        )
        self._forget_host()

    def _watch(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of what schedulers look at from time to time."""
        self._queues = Gauge(
            "tickwise_queue_runs",
            "Runs that have not ended, of the 50 fullest queues, waiting or held by an executor. Counted by each "
            "scheduler every 15 s; nothing while the store is away.",
            ["namespace", "queue", "state"],
            registry=registry,
        )
        self._waiting_notices = Gauge(
            "tickwise_notices_waiting",
            "Notices that are due or were tried, by the kind of their channel. Counted by each scheduler every 15 s; "
            "nothing while the store is away.",
            ["kind"],
            registry=registry,
        )
        self._oldest_notice = Gauge(
            "tickwise_notices_oldest_seconds",
            "Time since the oldest waiting notice was due, or was tried first.",
            ["kind"],
            registry=registry,
        )
        self._failing_channels = Gauge(
            "tickwise_notices_channels_failing", "Channels whose newest try failed.", ["kind"], registry=registry
        )
        self._resting_channels = Gauge(
            "tickwise_notices_channels_resting", "Channels that rest after failed tries.", ["kind"], registry=registry
        )
        self._notices = {
            "sent": Counter(
                "tickwise_notices_sent",
                "Notices that this scheduler delivered, by the kind of their channel.",
                ["kind"],
                registry=registry,
            ),
            "failed": Counter(
                "tickwise_notices_failed", "Tries to deliver a notice that failed.", ["kind"], registry=registry
            ),
            "dead": Counter(
                "tickwise_notices_dead",
                "Notices that this scheduler gave up, or whose receiver refused them for good.",
                ["kind"],
                registry=registry,
            ),
        }
        for counter in self._notices.values():
            for kind in NoticeChannelKind:
                counter.labels(kind.value)
        self._pings = Counter(
            "tickwise_heartbeats",
            "Heartbeats of this scheduler to the address outside: `well` and `unwell` came through, `lost` did not.",
            ["result"],
            registry=registry,
        )
        for result in PINGS:
            self._pings.labels(result)

    # ------------------------------------------------------------------------------------------ ports

    def certificate_ends(self, at: float) -> None:
        """The end of the certificate in force, in Unix seconds."""
        self._certificate_end.set(at)

    def spans_sent(self, count: int) -> None:
        """Spans that arrived at the collector."""
        self._spans_sent.inc(count)

    def spans_dropped(self, reason: str, count: int) -> None:
        """Spans that did not; `reason` is of a few."""
        self._spans_dropped.labels(reason).inc(count)

    def watch_log_lines_lost(self, lost: Mapping[str, int]) -> None:
        """Look at these counts, which only grow, at each scrape."""
        self._lost_lines = lost

    # ------------------------------------------------------------------------------------------ roles

    def submitted(self, count: int) -> None:
        """Jobs that were stored."""
        self._submitted.inc(count)

    def claimed(self, count: int) -> None:
        """Attempts that were taken in one claim."""
        self._claims.observe(count)

    def started(self, lateness_seconds: Sequence[float]) -> None:
        """First attempts that began, each with how late."""
        self._started.inc(len(lateness_seconds))
        self._lateness.observe(lateness_seconds)

    def finished(
        self, states: Sequence[int], durations_seconds: Sequence[float], latencies_seconds: Sequence[float]
    ) -> None:
        """Outcomes that the store accepted, as `lifecycle.CODES`, with how long each took; and of those that ended
        their run, how long after its nominal time."""
        self._finishes.observe(len(states))
        for code, count in Tally(states).items():
            state = STATES[code]
            if state in FINAL:
                self._by_state[state].inc(count)
        self._duration.observe(durations_seconds)
        self._latency.observe(latencies_seconds)

    def used(self, kind: str, usage: ResourceUsage) -> None:
        """An attempt of this kind of task ended, and its usage was measured."""
        if len(self._kinds) < MAX_KINDS:
            self._kinds.add(kind)
        label = kind if kind in self._kinds else OTHER_REASON
        if usage.cpu_seconds is not None:
            self._task_cpu.labels(label).inc(usage.cpu_seconds)
        if usage.memory_bytes is not None:
            self._task_memory.labels(label).observe(usage.memory_bytes)
        if usage.output_bytes is not None:
            self._task_output.labels(label).inc(usage.output_bytes)

    def refused(self, count: int) -> None:
        """Outcomes that the store refused as stale."""
        self._refused.inc(count)

    def retried(self, reasons: Mapping[str, int]) -> None:
        """Attempts that failed and will be repeated, by what they failed of."""
        self._count(self._retries, reasons)

    def failed(self, reasons: Mapping[str, int]) -> None:
        """Runs that ended FAILED, each with a dead letter, by reason."""
        self._count(self._dead, reasons)

    def _count(self, counter: Counter, reasons: Mapping[str, int]) -> None:
        """Reasons come from runners, plugins included; their number of label values is bounded here."""
        for reason, count in reasons.items():
            if len(self._reasons) < MAX_REASONS:
                self._reasons.add(reason)
            counter.labels(reason if reason in self._reasons else OTHER_REASON).inc(count)

    def lease_stopped(self, count: int) -> None:
        """Attempts that an executor stopped because its lease ended."""
        self._lease_stopped.inc(count)

    def differed(self, count: int) -> None:
        """Runs that an executor holds and the store does not say so, or the other way round."""
        self._differed.inc(count)

    def fired(self, count: int) -> None:
        """Runs that a scheduler made."""
        self._fired.inc(count)

    def skipped(self, occurrences: Mapping[str, int]) -> None:
        """Occurrences that a scheduler put on record as skipped, by reason."""
        for reason, count in occurrences.items():
            self._skipped.labels(reason).inc(count)

    def parked(self, count: int) -> None:
        """Jobs that a scheduler paused, because they made too many runs."""
        self._parked.inc(count)

    def healed(self, *, executors: int, freed: int, quarantined: int, unknown: int) -> None:
        """Count the effects of one expiry of leases."""
        self._expired.inc(executors)
        self._freed.inc(freed)
        self._quarantined.inc(quarantined)
        self._unknown.inc(unknown)

    def sequenced(self, count: int) -> None:
        """Runs that were made because another one ended."""
        self._sequenced.inc(count)

    def operated(self, *, done: int, refused: int) -> None:
        """Count the results of one page of an operation."""
        self._operated.labels("done").inc(done)
        self._operated.labels("refused").inc(refused)

    def violated(self, invariant: str, count: int | None) -> None:
        """Set the number of violations of an invariant that a whole pass found and could not repair; None: it could not
        be checked."""
        self._violations.labels(invariant).set(float("nan") if count is None else count)

    def mended(self, invariant: str, count: int) -> None:
        """Violations that were put right."""
        self._mended.labels(invariant).inc(count)

    # ------------------------------------------------------------------------------------------ roles apart

    def hinted(self, *, named: int, claimed: int) -> None:
        """Runs that hints named, and those of them that were there to be taken."""
        self._named.inc(named)
        self._claimed_named.inc(claimed)

    def expects(self, channel: str, reasons: Sequence[str] = ()) -> None:
        """Show 0 until something happens: Prometheus sees no increase from nothing to 1."""
        self._parked_messages.labels(channel)
        for reason in reasons:
            self._unverified.labels(channel, reason)

    def parked_message(self, channel: str) -> None:
        """A message that was put aside."""
        self._parked_messages.labels(channel).inc()

    def unverified(self, channel: str, reason: str) -> None:
        """A message that was refused because its sender is unknown."""
        self._unverified.labels(channel, reason).inc()

    def unsigned(self, channel: str, count: int) -> None:
        """Messages that were accepted without a signature."""
        self._unsigned.labels(channel).inc(count)

    def applied(self, *, done: int, failed: int) -> None:
        """Buffered requests that a recorder carried out."""
        self._applied.labels("done").inc(done)
        self._applied.labels("failed").inc(failed)

    def sent(self, channel: str, count: int, seconds: float) -> None:
        """Messages that the broker has, and how long it took to confirm them."""
        self._sent.labels(channel).inc(count)
        self._send_seconds.labels(channel).observe(seconds)

    # ------------------------------------------------------------------------------------------ schedulers, hosts

    def queues_counted(self, stats: StoreStats | None) -> None:
        """The fullest queues of the store, in place of those before; None: it cannot be asked."""
        self._queues.clear()
        for row in () if stats is None else stats.queues:
            self._queues.labels(row.namespace, row.queue, "waiting").set(row.waiting)
            self._queues.labels(row.namespace, row.queue, "held").set(row.held)

    def notices_counted(self, backlog: Mapping[NoticeChannelKind, KindBacklog] | None) -> None:
        """The notices that wait, in place of those before; None: the store cannot be asked."""
        for gauge in (self._waiting_notices, self._oldest_notice, self._failing_channels, self._resting_channels):
            gauge.clear()
        for kind, each in ({} if backlog is None else backlog).items():
            self._waiting_notices.labels(kind.value).set(each.waiting)
            self._oldest_notice.labels(kind.value).set(each.oldest_seconds)
            self._failing_channels.labels(kind.value).set(each.failing)
            self._resting_channels.labels(kind.value).set(each.resting)

    def notice_tried(self, kind: NoticeChannelKind, results: Sequence[str]) -> None:
        """A try to deliver a notice came to these: `sent`; `failed`; or `failed` and `dead`."""
        for result in results:
            self._notices[result].labels(kind.value).inc()

    def pinged(self, result: str) -> None:
        """A heartbeat was sent; `result` is one of `PINGS`."""
        self._pings.labels(result).inc()

    def watch_host(self, read: ReadHost) -> None:
        """Ask it at each scrape."""
        self._read_host = read

    def _look_at_host(self) -> None:
        if self._read_host is None:
            return
        try:
            usage = self._read_host()
        except OSError:
            self._forget_host()
            return
        self._host_cpu.inc(max(0.0, usage.cpu_seconds - self._host_cpu_before))
        self._host_cpu_before = usage.cpu_seconds
        self._host_cores.set(usage.cpu_cores)
        self._host_memory.set(usage.memory_bytes)
        self._host_memory_limit.set(usage.memory_limit_bytes)

    def _forget_host(self) -> None:
        for gauge in (self._host_cores, self._host_memory, self._host_memory_limit):
            gauge.set(float("nan"))

    def watch_buffers(self, buffers: Buffers) -> None:
        """Ask it at each scrape. Names are the process's own: the same name again adds up."""
        self._buffers.append(buffers)

    def watch_slots(self, slots: Buffers) -> None:
        """Slots of an executor, by kinds of tasks: how many are busy, and how many there are."""
        self._slots_of.append(slots)

    def watch_broker(self, state: Callable[[], BrokerState]) -> None:
        """Ask it at each scrape."""
        self._broker = state

    def watch_consumer(self, consumer: Consumer) -> None:
        """Ask it at each scrape, until it is forgotten."""
        self._consumers.append(consumer)

    def forget_consumer(self, consumer: Consumer) -> None:
        """Forget a consumer that has left its group: its partitions belong to another one now."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def _look(self) -> None:
        """Ask everything that is watched."""
        items: Tally[str] = Tally()
        limits: Tally[str] = Tally()
        for buffers in self._buffers:
            for name, (now, most) in buffers().items():
                items[name] += now
                limits[name] += most
        for slots in self._slots_of:
            for kinds, (busy, most) in slots().items():
                self._slots_busy.labels(kinds).set(busy)
                self._slots.labels(kinds).set(most)
        lag: Tally[str] = Tally()
        for consumer in self._consumers:
            state = consumer.state()
            items["broker_taken"] += state.waiting
            limits["broker_taken"] += state.waiting_most
            lag.update(state.lag)
        if self._broker is not None:
            broker = self._broker()
            items["broker_sending"], limits["broker_sending"] = broker.waiting, broker.waiting_most
            self._reachable.set(broker.reachable)
            self._thrown.inc(broker.thrown - self._thrown_before)
            self._lost.inc(broker.lost - self._lost_before)
            self._thrown_before, self._lost_before = broker.thrown, broker.lost
        for to, count in self._lost_lines.items():
            self._log_lines_lost.labels(to).inc(count - self._lost_lines_before.get(to, 0))
            self._lost_lines_before[to] = count
        for name, count in items.items():
            self._buffer_items.labels(name).set(count)
            self._buffer_limit.labels(name).set(limits[name])
        # A channel that another process has by now is not reported here.
        self._lag.clear()
        for channel, count in lag.items():
            self._lag.labels(channel).set(count)

    # ------------------------------------------------------------------------------------------ store, HTTP

    def stored(self, method: str, seconds: float) -> None:
        """A call of the store, and how long it took."""
        child = self._by_method.get(method)
        if child is None:
            child = self._by_method[method] = self._store.labels(method)
        child.observe(seconds)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request. `route` is the template, never the path, so that the number of series is bounded."""
        answers = self._by_answer.get((route, status))
        if answers is None:
            answers = self._by_answer[route, status] = self._requests.labels(route, str(status))
            self._by_route[route] = self._request_seconds.labels(route)
        answers.inc()
        self._by_route[route].observe(seconds)

    def observe_stats(self, stats: StoreStats | None) -> None:
        """Take over the store's statistics; None: the store could not be asked, and the earlier ones are void."""
        if stats is None:
            for gauge in (self._oldest, self._timers, self._timers_late, self._executors):
                gauge.set(float("nan"))
            for state in ("queued", "held", "retrying"):
                self._queue.labels(state).set(float("nan"))
            return
        self._queue.labels("queued").set(stats.queued)
        self._queue.labels("held").set(stats.held)
        self._queue.labels("retrying").set(stats.retrying)
        self._oldest.set(stats.oldest_ready_seconds)
        self._timers.set(stats.timers if stats.sees_timers else float("nan"))
        self._timers_late.set(stats.timers_late_seconds if stats.sees_timers else float("nan"))
        self._executors.set(stats.executors)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        self._look()
        self._look_at_host()
        return generate_latest(self.registry)
