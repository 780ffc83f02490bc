"""The metrics of a keeper: who owns which shard, how its log grows, and how far its readable tables are behind.

    commit, takeover, checkpoint, call ──► ShardMetrics, KeeperMetrics      as they happen
    positions, sizes of the state ───────► ShardFigures                     read when somebody asks

Each is labelled by the shard, but for those of the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tickwise.observability.histogram import BatchHistogram
from tickwise.ports.clock import Clock

COMMIT_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
COMMIT_CALLS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000)
TAKEOVER_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 15, 30, 60)
CHECKPOINT_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
SAMPLE_SECONDS: Final = 1.0
"""Between two positions of the log whose time is kept, to tell how old an entry is."""
SAMPLES_MOST: Final = 3_600
"""Tables that are further behind than an hour are told to be an hour behind."""
LOOK_SECONDS: Final = 0.1
"""Between two looks whether the event loop comes in time."""
OTHER_CALL: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFigures:
    """A shard that this process owns, as it is now."""

    position: int
    """Of the last entry."""
    jobs: int
    active_runs: int
    ended_runs: int
    tables_position: int | None
    """The position up to which the readable tables are written; None: there are none."""
    tables_waiting_bytes: int = 0
    """The size of the entries behind it."""
    tables_waiting_rows: int = 0


class ShardWatch:
    """Told of the events of one shard. This one keeps nothing: for stores that nobody scrapes."""

    def committed(self, position: int, calls: int, size: int, seconds: float) -> None:
        """An entry of so many bytes answers so many calls; it was there after so long."""

    def doubted(self) -> None:
        """An append ended without an answer that could be resolved."""

    def opened(self, epoch: int, seconds: float) -> None:
        """The shard is owned and answers, so long after the log was acquired."""

    def kept_checkpoint(self, size: int, seconds: float) -> None:
        """A checkpoint counts; writing it took so long."""


class ShardMetrics(ShardWatch):
    """The metrics of one shard in this process."""

    def __init__(self, metrics: KeeperMetrics, shard: int, clock: Clock) -> None:
        label = str(shard)
        self._clock = clock
        self._commits = metrics.commit_seconds.labels(label)
        self._calls = metrics.commit_calls.labels(label)
        self._entries, self._bytes = metrics.log_entries.labels(label), metrics.log_bytes.labels(label)
        self._doubts = metrics.doubts.labels(label)
        self._takeovers = metrics.takeover_seconds.labels(label)
        self._epoch = metrics.epoch.labels(label)
        self._opened_epoch = float("nan")
        self._checkpoint_bytes = metrics.checkpoint_bytes.labels(label)
        self._checkpoint_seconds = metrics.checkpoint_seconds.labels(label)
        self._owned = metrics.owned.labels(label)
        self._gauges = metrics.of_owner
        self._label = label
        self._samples: deque[tuple[int, float]] = deque(maxlen=SAMPLES_MOST)
        """Positions, and when they were the last ones."""

    def committed(self, position: int, calls: int, size: int, seconds: float) -> None:
        self._commits.observe(seconds)
        self._calls.observe(calls)
        self._entries.inc()
        self._bytes.inc(size)
        now = self._clock.monotonic()
        if not self._samples or now - self._samples[-1][1] >= SAMPLE_SECONDS:
            self._samples.append((position, now))

    def doubted(self) -> None:
        self._doubts.inc()

    def opened(self, epoch: int, seconds: float) -> None:
        self._takeovers.observe(seconds)
        self._opened_epoch = epoch
        self._epoch.set(epoch)
        self._samples.clear()

    def kept_checkpoint(self, size: int, seconds: float) -> None:
        self._checkpoint_bytes.set(size)
        self._checkpoint_seconds.observe(seconds)

    def observe(self, figures: ShardFigures | None) -> None:
        """Take over the figures of the shard; None: another process owns it, or none."""
        self._owned.set(figures is not None)
        values: Mapping[str, float] = {} if figures is None else self._values(figures)
        for name, gauge in self._gauges.items():
            gauge.labels(self._label).set(values.get(name, float("nan")))
        # An owner whose lease was over for a moment goes on in its epoch.
        self._epoch.set(float("nan") if figures is None else self._opened_epoch)

    def _values(self, figures: ShardFigures) -> dict[str, float]:
        found: dict[str, float] = {
            "position": figures.position,
            "jobs": figures.jobs,
            "active": figures.active_runs,
            "ended": figures.ended_runs,
        }
        if figures.tables_position is not None:
            found |= {
                "entries": max(0, figures.position - figures.tables_position),
                "bytes": figures.tables_waiting_bytes,
                "rows": figures.tables_waiting_rows,
                "seconds": self._behind_seconds(figures.tables_position),
            }
        return found

    def _behind_seconds(self, position: int) -> float:
        """The age of the oldest entry that is not in the tables, to a second."""
        while self._samples and self._samples[0][0] <= position:
            self._samples.popleft()
        return self._clock.monotonic() - self._samples[0][1] if self._samples else 0.0


class KeeperMetrics:
    """Declared in every process; only a keeper has values."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ownership(registry)
        self._log(registry)
        self._tables(registry)
        self._wire(registry)

    def _ownership(self, registry: CollectorRegistry) -> None:
        self.owned = Gauge(
            "tickwise_keeper_owned",
            "1: this keeper answers for the shard; 0: it waits for it. The sum over all keepers is 1 for each shard.",
            ["shard"],
            registry=registry,
        )
        self.epoch = Gauge(
            "tickwise_keeper_epoch",
            "The epoch of the shard's owner. Each takeover raises it; NaN where the keeper waits.",
            ["shard"],
            registry=registry,
        )
        self.takeover_seconds = Histogram(
            "tickwise_keeper_takeover_seconds",
            "From the acquisition of the log to the first answer, once for each takeover: the rest of the log is read, "
            "and the state is built. The wait for the lease of the owner before comes on top.",
            ["shard"],
            buckets=TAKEOVER_SECONDS,
            registry=registry,
        )
        jobs = Gauge("tickwise_keeper_jobs", "Jobs in the memory of the owner.", ["shard"], registry=registry)
        active = Gauge(
            "tickwise_keeper_active_runs", "Runs that have not ended, in the memory of the owner.", ["shard"],
            registry=registry,
        )  # fmt: skip
        ended = Gauge(
            "tickwise_keeper_ended_runs", "Ended runs in the memory of the owner.", ["shard"], registry=registry
        )
        self.of_owner: dict[str, Gauge] = {"jobs": jobs, "active": active, "ended": ended}

    def _log(self, registry: CollectorRegistry) -> None:
        self.of_owner["position"] = Gauge(
            "tickwise_keeper_log_position", "The position of the last entry of the shard's log.", ["shard"],
            registry=registry,
        )  # fmt: skip
        self.log_entries = Counter(
            "tickwise_keeper_log_entries", "Log entries that this keeper wrote.", ["shard"], registry=registry
        )
        self.log_bytes = Counter(
            "tickwise_keeper_log_bytes", "Bytes of log entries that this keeper wrote.", ["shard"], registry=registry
        )
        self.commit_calls = Histogram(
            "tickwise_keeper_commit_calls", "Calls whose effects share one entry of the log.", ["shard"],
            buckets=COMMIT_CALLS, registry=registry,
        )  # fmt: skip
        self.commit_seconds = Histogram(
            "tickwise_keeper_commit_seconds",
            "Durations of commits: an entry, and the conditional update that makes it count.",
            ["shard"],
            buckets=COMMIT_SECONDS,
            registry=registry,
        )
        self.doubts = Counter(
            "tickwise_keeper_commits_in_doubt",
            "Commits without an answer that could be resolved in time: the keeper acquired the log again, and its "
            "callers repeated their calls.",
            ["shard"],
            registry=registry,
        )
        self.checkpoint_bytes = Gauge(
            "tickwise_keeper_checkpoint_bytes", "The size of the last checkpoint that this keeper wrote.", ["shard"],
            registry=registry,
        )  # fmt: skip
        self.checkpoint_seconds = Histogram(
            "tickwise_keeper_checkpoint_seconds", "Durations of checkpoints; calls go on meanwhile.", ["shard"],
            buckets=CHECKPOINT_SECONDS, registry=registry,
        )  # fmt: skip

    def _tables(self, registry: CollectorRegistry) -> None:
        self.of_owner["entries"] = Gauge(
            "tickwise_keeper_tables_behind_entries",
            "Entries of the log that are not in the readable tables yet; NaN without such tables.",
            ["shard"],
            registry=registry,
        )
        self.of_owner["bytes"] = Gauge(
            "tickwise_keeper_tables_behind_bytes",
            "Bytes of log entries not in the readable tables yet. Commits wait above 64 MiB.", ["shard"],
            registry=registry,
        )  # fmt: skip
        self.of_owner["rows"] = Gauge(
            "tickwise_keeper_tables_behind_rows", "Rows of the readable tables that wait to be written.", ["shard"],
            registry=registry,
        )  # fmt: skip
        self.of_owner["seconds"] = Gauge(
            "tickwise_keeper_tables_behind_seconds",
            "The age of the oldest entry that is not in the readable tables yet: to a second, and an hour at most.",
            ["shard"],
            registry=registry,
        )

    def _wire(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "tickwise_keeper_calls", "Calls of roles, by method; those of a later release are counted as `other`.",
            ["shard", "method"], registry=registry,
        )  # fmt: skip
        self._refusals = Counter(
            "tickwise_keeper_refusals", "Calls that were answered with an error, by its code.", ["shard", "code"],
            registry=registry,
        )  # fmt: skip
        self._connections = Gauge(
            "tickwise_keeper_connections", "Connections of roles to this keeper.", registry=registry
        )
        self._turned_away = Counter(
            "tickwise_keeper_turned_away",
            "Connections that this keeper ended: `key`, another key than that of the keyspace; `silent`, none in time; "
            "`crowded`, too many without one; `unreadable`, bytes that are no message.",
            ["why"], registry=registry,
        )  # fmt: skip
        for why in ("key", "silent", "crowded", "unreadable"):
            self._turned_away.labels(why)
        self._loop_lag = BatchHistogram(
            "tickwise_keeper_loop_lag_seconds",
            "The delay of this keeper's event loop, measured ten times a second. Near the lease of 5 s the "
            "shard is lost.",
            buckets=LAG_SECONDS,
            registry=registry,
        )
        self._by_method: dict[tuple[int, str], Counter] = {}

    def shard(self, shard: int, clock: Clock) -> ShardMetrics:
        """The metrics of one shard, which are 0 from now on."""
        return ShardMetrics(self, shard, clock)

    def called(self, shard: int, method: str, *, is_known: bool) -> None:
        """A call was read. `is_known`: the method is of this release, so the number of series is bounded."""
        key = shard, method if is_known else OTHER_CALL
        counter = self._by_method.get(key)
        if counter is None:
            counter = self._by_method[key] = self._calls.labels(str(shard), key[1])
        counter.inc()

    def refused(self, shard: int, code: str) -> None:
        """A call was answered with an error."""
        self._refusals.labels(str(shard), code).inc()

    def turned_away(self, why: str) -> None:
        """A connection was ended for this reason."""
        self._turned_away.labels(why).inc()

    def connected(self, count: int) -> None:
        """Set the number of connections."""
        self._connections.set(count)

    async def watch_loop(self, clock: Clock) -> None:
        """Measure how late the event loop comes, until cancelled."""
        while True:
            begun = clock.monotonic()
            await clock.sleep(LOOK_SECONDS)
            self._loop_lag.observe([max(0.0, clock.monotonic() - begun - LOOK_SECONDS)])
