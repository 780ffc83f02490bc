"""What is told to the metrics is what Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tickwise.domain.lifecycle import CODES, RunState
from tickwise.observability.metrics import MAX_REASONS, Metrics
from tickwise.ports.store import StoreStats


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
