"""Guards of what tells people and other systems: traces, logs, notices, heartbeats, health."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

STORE: Final = "src/tickwise/adapters/store/postgres/"
SCHEMA: Final = "src/tickwise/adapters/store/postgres/migrations/sql/"
POSTGRES: Final = "tests/conformance/test_postgres.py::"
MEMORY: Final = "tests/conformance/test_memory.py::"
NOTICES: Final = "tests/integration/test_postgres_notices.py::"
JUDGING: Final = "tests/unit/notices/test_judging.py::"

SIGNALS: Final = (
    Mutant(
        "a trace from a message is checked before it goes into the environment of a task",
        "src/tickwise/control/jobs/rechecking.py",
        "return trace is not None and trace_fields(trace) == {",
        "return True or {",
        ("tests/unit/control/test_rechecking.py::test_a_job_that_no_api_would_have_taken_becomes_no_row",),
    ),
    Mutant(
        "a trace is read by the rules of the W3C",
        "src/tickwise/domain/trace_context/__init__.py",
        "if not trace_id or not span_id:",
        "if False:",
        ("tests/unit/domain/test_trace_context.py::test_what_is_not_valid_was_not_sent",),
    ),
    Mutant(
        "a job that lasts keeps no trace of the request that made it",
        "src/tickwise/control/jobs/composing.py",
        "plan.schedule_type not in LASTING:",
        "True:",
        ("tests/unit/api/test_traces.py::test_a_job_that_lasts_keeps_no_trace",),
    ),
    Mutant(
        "spans that wait for a collector are bounded",
        "src/tickwise/adapters/tracing/__init__.py",
        "if self._closing or waiting > QUEUE_MAX:",
        "if self._closing:",
        ("tests/unit/adapters/test_tracing.py::test_a_collector_that_hangs_fills_a_bounded_queue_and_holds_up_nobody",),
    ),
    Mutant(
        "a disk that is full stops no role",
        "src/tickwise/observability/log_files.py",
        "            self._lose(failure)\n",
        "            raise\n",
        ("tests/unit/observability/test_log_files.py::test_a_full_disk_stops_nothing_and_is_counted_and_said_once",),
    ),
    Mutant(
        "a fold applies only if all its events are pending",
        STORE + "notices/alerts.py",
        "*judged) < len(fold.judged):",
        "*judged) < 0:",
        (POSTGRES + "TestFolds::test_two_schedulers_fold_one_event_once",),
    ),
    Mutant(
        "a fold applies only if its alerts are as they were seen",
        STORE + "notices/alerts.py",
        "*map(list, columns)) < len(changes):",
        "*map(list, columns)) < 0:",
        (POSTGRES + "TestFolds::test_an_alert_changes_only_as_it_was_seen",),
    ),
    Mutant(
        "a rule that a fold uses stays until it is committed",
        STORE + "notices/alerts.sql",
        "AND enabled ORDER BY rule_id FOR SHARE",
        "AND enabled ORDER BY rule_id",
        (NOTICES + "test_a_rule_that_is_removed_while_a_fold_uses_it_waits_for_the_fold",),
    ),
    Mutant(
        "a success is noted while the failure before it is not judged",
        SCHEMA + "0024_notices_events.sql",
        "OR EXISTS (SELECT FROM tickwise.notices_events n WHERE n.job_id = e.job_id OFFSET 0)",
        "",
        (POSTGRES + "TestNotedEvents::test_a_success_leaves_an_event_where_it_may_be_a_recovery",),
    ),
    Mutant(
        "a storm is told within its time",
        "src/tickwise/domain/notices/folding.py",
        "max(due, min(change.due, end))",
        "max(due, change.due)",
        (
            MEMORY + "TestFolds::test_a_storm_is_gathered_for_so_long",
            "tests/unit/roles/test_alerting.py::test_a_storm_that_does_not_end_is_told_now_and_then",
        ),
    ),
    Mutant(
        "nothing is told of an alert that is snoozed or acknowledged",
        "src/tickwise/domain/notices/judging.py",
        "if draft.is_silent(self._in.now) or draft.is_acknowledged:",
        "if False:",
        (
            JUDGING + "test_an_acknowledged_alert_is_silent_until_it_recovers",
            JUDGING + "test_a_snoozed_alert_is_silent",
        ),
    ),
    Mutant(
        "the first message of a storm waits for no notice of before",
        "src/tickwise/domain/notices/judging.py",
        "burst.storms or burst.newest_at + STORM_EBB_SECONDS > now",
        "burst.made",
        (JUDGING + "test_the_first_message_of_a_storm_goes_at_once",),
    ),
    Mutant(
        "a failed run that left a dead letter is one alert of a rule",
        "src/tickwise/domain/notices/judging.py",
        "if rule.rule_id not in counted and self._holds",
        "if self._holds",
        (JUDGING + "test_a_failed_run_that_is_a_dead_letter_is_one_alert",),
    ),
    Mutant(
        "a success of before the last failure closes nothing",
        "src/tickwise/domain/notices/judging.py",
        "event.at < draft.last_at or",
        "",
        (JUDGING + "test_a_success_of_before_the_last_failure_closes_nothing",),
    ),
    Mutant(
        "the heartbeat is silent while timers are late",
        "src/tickwise/roles/shared/health.py",
        "if timers.status is PartStatus.FAILING:",
        "if False:",
        ("tests/unit/roles/test_heartbeat.py::test_a_late_timer_silences_the_heartbeat",),
    ),
    Mutant(
        "a scheduler that is cut off alone reports no failure",
        "src/tickwise/roles/scheduler/heartbeat.py",
        'return note is not None and note.get("by") != self._settings.name',
        "return False",
        ("tests/unit/roles/test_heartbeat.py::test_a_scheduler_that_is_cut_off_alone_says_nothing",),
    ),
    Mutant(
        "the log holds no address of a receiver",
        "src/tickwise/adapters/heartbeat.py",
        "raise PingLost(_named(error)) from None",
        "raise PingLost(url) from None",
        ("tests/unit/roles/test_heartbeat.py::test_an_address_that_leads_nowhere_is_an_outage",),
    ),
    Mutant(
        "strangers are told no sentence of the health",
        "src/tickwise/api/health.py",
        "return answer(http_status_of(report), summary_of(report))",
        "return answer(http_status_of(report), details_of(report))",
        ("tests/unit/api/test_healthz.py::test_a_stranger_is_told_how_each_part_is_and_no_number",),
    ),
    Mutant(
        "a peak of memory is told only if it is the task's own",
        "src/tickwise/adapters/runner/process/task_starter_program.py",
        "starters_peak is not None and peak > starters_peak",
        "True",
        ("tests/integration/test_task_usage.py::test_a_peak_is_told_only_if_it_is_the_tasks_own",),
    ),
    Mutant(
        "a usage that cannot be does not reach the store",
        "src/tickwise/roles/executor/settlement.py",
        "if usage is not None and not usage.is_plausible:",
        "if False:",
        ("tests/unit/roles/test_usage.py::test_a_usage_that_cannot_be_is_none",),
    ),
    Mutant(
        "a job that often does the same has no anomaly",
        "src/tickwise/domain/observing/anomalies.py",
        "if alike >= max(ALIKE_LEAST, ALIKE_SHARE * len(earlier)):",
        "if False:",
        ("tests/unit/roles/test_anomaly_watch.py::test_what_may_be_usual_is_not_told",),
    ),
    Mutant(
        "several schedulers tell one anomaly once",
        "src/tickwise/roles/scheduler/observing/anomaly_watch.py",
        'f"anomaly/{anomaly.quantity}/{run.run_id}"',
        'f"anomaly/{id(anomaly)}/{run.run_id}"',
        ("tests/integration/test_postgres_anomalies.py::test_two_schedulers_tell_one_anomaly_once",),
    ),
)
