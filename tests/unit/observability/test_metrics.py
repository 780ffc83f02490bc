"""What is told to the metrics is what Prometheus reads."""

from __future__ import annotations

import math
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.clock import SystemClock
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.observability.brokers import watched
from tickwise.observability.host import HostUsage
from tickwise.observability.metrics import MAX_REASONS, PINGS, Metrics
from tickwise.ports.broker import REQUESTS, Message
from tickwise.ports.store import BusyQueue, StoreStats


def read(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Each sample by name and first label."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found[sample.name, next(iter(sample.labels.values()), "")] = sample.value
    return found


def test_outcomes_are_counted_by_their_final_state() -> None:
    """What was given back unstarted, or will be repeated, is no outcome of a run."""
    metrics = Metrics()
    states = [RunState.SUCCESS, RunState.SUCCESS, RunState.FAILED, RunState.RETRYING, RunState.QUEUED]
    metrics.finished([CODES[state] for state in states], [0.1] * 5, [2.0, 3.0, 400.0])
    found = read(metrics)
    assert 2 == found["tickwise_runs_finished_total", "SUCCESS"]
    assert 1 == found["tickwise_runs_finished_total", "FAILED"]
    assert {"RETRYING", "QUEUED"} & {label for name, label in found if name == "tickwise_runs_finished_total"} == set()
    assert 5 == found["tickwise_run_duration_seconds_count", ""]
    assert (3, 405) == tuple(found[f"tickwise_schedule_to_end_seconds_{part}", ""] for part in ("count", "sum"))


def test_slots_are_read_when_somebody_looks() -> None:
    """How many are busy now, of how many, by the kinds of tasks that share them."""
    metrics, busy = Metrics(), {"function": (0, 16), "python,shell": (2, 4)}
    metrics.watch_slots(lambda: busy)
    for now in (3, 0):
        busy["python,shell"] = (now, 4)
        found = read(metrics)
        assert (now, 4, 0, 16) == (
            found["tickwise_executor_slots_busy", "python,shell"], found["tickwise_executor_slots", "python,shell"],
            found["tickwise_executor_slots_busy", "function"], found["tickwise_executor_slots", "function"],
        )  # fmt: skip


def test_every_kind_of_event_moves_its_metric() -> None:
    """Roles tell batches; each call is seen."""
    metrics = Metrics()
    metrics.submitted(3)
    metrics.claimed(5)
    metrics.started([0.001, 2.0])
    metrics.refused(1)
    metrics.fired(4)
    metrics.skipped({"misfire": 7, "calendar": 2})
    metrics.parked(6)
    metrics.healed(executors=1, freed=2, quarantined=1, unknown=8)
    metrics.retried({"timeout": 3, "exit_code": 1})
    metrics.failed({"poison": 2})
    metrics.lease_stopped(4)
    metrics.sequenced(5)
    metrics.operated(done=9, refused=1)
    metrics.violated("planned", 2)
    metrics.mended("planned", 3)
    metrics.stored("jobs_add", 0.01)
    metrics.answered("/livez", 200, 0.001)
    found = read(metrics)
    assert [3, 1, 2, 1, 4, 7, 2, 6, 1, 2, 1, 8, 3, 1, 2, 4, 5, 9, 1, 2, 3, 1, 1] == [
        found[name, label]
        for name, label in (
            ("tickwise_jobs_submitted_total", ""),
            ("tickwise_claim_batch_size_count", ""),
            ("tickwise_runs_started_total", ""),
            ("tickwise_outcomes_refused_total", ""),
            ("tickwise_runs_fired_total", ""),
            ("tickwise_occurrences_skipped_total", "misfire"),
            ("tickwise_occurrences_skipped_total", "calendar"),
            ("tickwise_jobs_parked_total", ""),
            ("tickwise_executors_expired_total", ""),
            ("tickwise_runs_freed_total", ""),
            ("tickwise_runs_quarantined_total", ""),
            ("tickwise_runs_unknown_total", ""),
            ("tickwise_retries_total", "timeout"),
            ("tickwise_retries_total", "exit_code"),
            ("tickwise_dead_letters_total", "poison"),
            ("tickwise_attempts_let_go_total", ""),
            ("tickwise_runs_sequenced_total", ""),
            ("tickwise_operation_items_total", "done"),
            ("tickwise_operation_items_total", "refused"),
            ("tickwise_invariant_violations", "planned"),
            ("tickwise_violations_healed_total", "planned"),
            ("tickwise_store_seconds_count", "jobs_add"),
            ("tickwise_http_requests_total", "/livez"),
        )
    ]


def test_the_number_of_reasons_that_are_counted_apart_is_bounded() -> None:
    """A plugin that gives each failure a reason of its own fills no memory of ours, nor Prometheus'."""
    metrics = Metrics()
    for number in range(MAX_REASONS + 50):
        metrics.retried({f"r{number}": 1})
    metrics.failed({"yet another": 1})
    found = read(metrics)
    assert 50 == found["tickwise_retries_total", "other"]
    assert 1 == found["tickwise_dead_letters_total", "other"]


def test_what_the_store_knows_is_shown_as_gauges() -> None:
    """The newest answer replaces the one before."""
    metrics = Metrics()
    for queued in (5, 2):
        metrics.observe_stats(
            StoreStats(
                queued=queued,
                held=1,
                retrying=0,
                oldest_ready_seconds=0.5,
                timers=9,
                timers_late_seconds=0,
                executors=3,
            )
        )
    found = read(metrics)
    assert (2, 1, 9, 3, 0.5) == (
        found["tickwise_runs", "queued"],
        found["tickwise_runs", "held"],
        found["tickwise_timers", ""],
        found["tickwise_executors", ""],
        found["tickwise_oldest_ready_seconds", ""],
    )


def test_the_host_of_an_executor_is_read_at_each_scrape() -> None:
    """Processor time is a counter, the rest are gauges; a group that is gone is not shown as the last that was seen."""
    metrics, seen = Metrics(), [HostUsage(100.0, 2.0, 30, 64), HostUsage(107.5, 2.0, 40, 64)]
    assert math.isnan(read(metrics)["tickwise_host_memory_bytes", ""])

    def usage() -> HostUsage:
        if not seen:
            raise OSError("gone")
        return seen.pop(0)

    metrics.watch_host(usage)
    first, second, last = read(metrics), read(metrics), read(metrics)
    name = "tickwise_host_cpu_seconds_total", ""
    assert (7.5, 0.0) == (second[name] - first[name], last[name] - second[name])
    assert (30, 40) == tuple(each["tickwise_host_memory_bytes", ""] for each in (first, second))
    assert math.isnan(last["tickwise_host_memory_bytes", ""])


def test_queues_are_those_of_the_last_count() -> None:
    """One that is empty by now is gone, and all of them while the store is away."""
    metrics = Metrics()
    stats = StoreStats(
        queued=0, held=0, retrying=0, oldest_ready_seconds=0, timers=0, timers_late_seconds=0, executors=0,
        queues=(BusyQueue("acme", "a", 3, 1), BusyQueue("acme", "b", 2, 0)),
    )  # fmt: skip
    metrics.queues_counted(stats)
    assert 4 == metrics.render().decode().count("tickwise_queue_runs{")
    metrics.queues_counted(replace(stats, queues=stats.queues[1:]))
    text = metrics.render().decode()
    assert 'tickwise_queue_runs{namespace="acme",queue="b",state="waiting"} 2.0' in text
    assert 2 == text.count("tickwise_queue_runs{")
    metrics.queues_counted(None)
    assert "tickwise_queue_runs{" not in metrics.render().decode()


async def test_a_send_to_the_broker_is_counted_and_timed() -> None:
    """From the call to the confirmation."""
    metrics, now = Metrics(), iter([10.0, 10.2])
    broker = watched(MemoryBroker(Exchange(), SystemClock()), metrics, lambda: next(now))
    await broker.send(REQUESTS, [Message(b"v", b"k")])
    found = read(metrics)
    assert 1 == found["tickwise_broker_sent_total", REQUESTS.name]
    assert abs(0.2 - found["tickwise_broker_send_seconds_sum", REQUESTS.name]) < 1e-9


def test_heartbeats_are_counted_by_their_result() -> None:
    """Each from 0, so that the first loss is an increase."""
    metrics = Metrics()
    metrics.pinged("lost")
    found = read(metrics)
    assert (0, 0, 1) == tuple(found["tickwise_heartbeats_total", each] for each in PINGS)
