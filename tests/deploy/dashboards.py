"""The dashboards of Grafana, from one table each: `python -m tests.deploy.monitoring` writes them as JSON.

A panel is a title, a unit and its questions. Numbers are told as numbers: no panel says by a color alone how something
is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

UNITS: Final = frozenset({"short", "s", "ops", "reqps", "percentunit", "bytes", "dateTimeFromNow"})
"""Grafana's names of the units that are in use."""
COLUMNS: Final = 24
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
STAT, CURVES = "stat", "timeseries"
HEIGHTS: Final = {STAT: 4, CURVES: 8}
WIDTHS: Final = {STAT: 4, CURVES: 8}


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture. `asks`: each question with the name of its curves."""

    title: str
    unit: str
    asks: Sequence[tuple[str, str]]
    kind: str = CURVES
    meaning: str = ""
    """For the corner of the panel: what to make of it."""
    words: Sequence[tuple[float, str]] = ()
    """Values that stand for a word."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str, str]] = ()
    """Choices of the reader: the name, the caption, and the series and label that has the values."""


def _stat(title: str, unit: str, expr: str, meaning: str = "", words: Sequence[tuple[float, str]] = ()) -> Panel:
    return Panel(title, unit, [(expr, "")], STAT, meaning, words)


def _rate(metric: str, by: str = "", match: str = "") -> str:
    grouped = f"sum by ({by}) " if by else "sum"
    return f"{grouped}(rate({metric}{match}[$__rate_interval]))"


def _quantiles(metric: str) -> list[tuple[str, str]]:
    return [
        (f"histogram_quantile({quantile}, sum by (le) (rate({metric}_bucket[$__rate_interval])))", name)
        for quantile, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    ]


def _slowest(metric: str, by: str) -> list[tuple[str, str]]:
    inner = f"histogram_quantile(0.99, sum by (le, {by}) (rate({metric}_bucket[$__rate_interval])))"
    return [(f"topk(5, {inner})", f"{{{{{by}}}}}")]


OVERVIEW: Final = Dashboard(
    "overview",
    "Tickwise: overview",
    [
        _stat("Active executors", "short", "max(tickwise_executors)"),
        _stat("Waiting runs", "short", "tickwise:waiting_runs"),
        _stat(
            "Oldest waits",
            "s",
            "max(tickwise_oldest_ready_seconds)",
            "Beyond its time. Over a minute: too few executors.",
        ),
        _stat(
            "Scheduler is late by", "s", "max(tickwise_timers_late_seconds)", "Over a minute: no scheduler keeps up."
        ),
        _stat(
            "Invariants violated",
            "short",
            "sum(max by (invariant) (tickwise_invariant_violations))",
            "Over 0: see stuck-runs.md.",
        ),
        _stat("Succeeded, of what ran", "percentunit", "tickwise:success:ratio15m", "Of the last quarter of an hour."),
        Panel(
            "Runs a second",
            "ops",
            [
                (_rate("tickwise_runs_started_total"), "started"),
                (_rate("tickwise_runs_finished_total", "state"), "{{state}}"),
            ],
        ),
        Panel("From due to start", "s", _quantiles("tickwise_lateness_seconds")),
        Panel(
            "From schedule to end",
            "s",
            _quantiles("tickwise_schedule_to_end_seconds"),
            meaning="With waits and retries, as people feel it.",
        ),
        Panel("What waits", "short", [("max by (state) (tickwise_runs)", "{{state}}")]),
        Panel(
            "Success and failure",
            "percentunit",
            [("tickwise:success:ratio15m", "succeeded"), ("tickwise:failure:ratio15m", "failed")],
        ),
        Panel(
            "Retries and dead letters a second, by reason",
            "ops",
            [
                (_rate("tickwise_retries_total", "reason"), "retry: {{reason}}"),
                (_rate("tickwise_dead_letters_total", "reason"), "dead: {{reason}}"),
            ],
        ),
        Panel(
            "Jobs submitted, runs made a second",
            "ops",
            [
                (_rate("tickwise_jobs_submitted_total"), "jobs submitted"),
                (_rate("tickwise_runs_fired_total"), "runs by schedule"),
                (_rate("tickwise_runs_sequenced_total"), "runs after others"),
            ],
        ),
        Panel(
            "Occurrences skipped a second, by reason",
            "ops",
            [(_rate("tickwise_occurrences_skipped_total", "reason"), "{{reason}}")],
        ),
        Panel(
            "Healing a second",
            "ops",
            [
                (_rate("tickwise_executors_expired_total"), "executors expired"),
                (_rate("tickwise_runs_freed_total"), "runs freed"),
                (_rate("tickwise_attempts_let_go_total"), "attempts let go"),
                (_rate("tickwise_outcomes_refused_total"), "outcomes refused"),
                (_rate("tickwise_violations_healed_total", "invariant"), "healed: {{invariant}}"),
            ],
        ),
        Panel("Processes that answer, by role", "short", [('sum by (role) (up{job="tickwise"})', "{{role}}")]),
        Panel(
            "Requests a second, by status", "reqps", [(_rate("tickwise_http_requests_total", "status"), "{{status}}")]
        ),
        Panel("Slowest routes, p99", "s", _slowest("tickwise_http_request_seconds", "route")),
        Panel(
            "Heartbeats to the receiver outside", "ops", [(_rate("tickwise_heartbeats_total", "result"), "{{result}}")]
        ),
        Panel(
            "Notices a minute",
            "short",
            [
                (f"60 * {_rate('tickwise_notices_sent_total', 'kind')}", "sent: {{kind}}"),
                (f"60 * {_rate('tickwise_notices_failed_total', 'kind')}", "failed: {{kind}}"),
                (f"60 * {_rate('tickwise_notices_dead_total', 'kind')}", "given up: {{kind}}"),
            ],
        ),
        Panel(
            "Notices that wait, channels that fail and that rest",
            "short",
            [
                ("max by (kind) (tickwise_notices_waiting)", "wait: {{kind}}"),
                ("max by (kind) (tickwise_notices_channels_failing)", "channels that fail: {{kind}}"),
                ("max by (kind) (tickwise_notices_channels_resting)", "channels that rest: {{kind}}"),
            ],
        ),
        Panel(
            "Oldest notice that waits",
            "s",
            [("max by (kind) (tickwise_notices_oldest_seconds)", "{{kind}}")],
            meaning="Since it was due. Over a quarter of an hour: nobody hears of anything.",
        ),
        Panel("Open streams of live events", "short", [("sum(tickwise_live_streams)", "streams")]),
        Panel(
            "Certificates end",
            "dateTimeFromNow",
            [("1000 * min by (instance) (tickwise_certificate_end_timestamp_seconds)", "{{instance}}")],
            STAT,
        ),
    ],
)
_INSTANCE: Final = '{instance=~"$instance"}'
EXECUTORS: Final = Dashboard(
    "executors",
    "Tickwise: executors",
    [
        _stat("Active executors", "short", "max(tickwise_executors)"),
        _stat("Slots", "short", f"sum(tickwise_executor_slots{_INSTANCE})"),
        _stat("Busy slots", "short", f"sum(tickwise_executor_slots_busy{_INSTANCE})"),
        _stat(
            "Fullest memory",
            "percentunit",
            "max(tickwise:host_memory:ratio)",
            "Over 95 %: the kernel is about to kill.",
        ),
        _stat("Busiest processor", "percentunit", "max(tickwise:host_cpu:ratio5m)"),
        _stat("Executors lost in a day", "short", "sum(increase(tickwise_executors_expired_total[1d]))"),
        Panel(
            "Slots that are busy, by kinds of tasks",
            "percentunit",
            [("tickwise:executor_slots_busy:ratio", "{{kinds}}")],
            meaning="The utilisation of workers. Near 100 % while runs wait: add slots or executors.",
        ),
        Panel(
            "Busy slots, by executor",
            "short",
            [(f"sum by (instance) (tickwise_executor_slots_busy{_INSTANCE})", "{{instance}}")],
        ),
        Panel("How long attempts take", "s", _quantiles("tickwise_run_duration_seconds")),
        Panel(
            "Processor, of what may be used",
            "percentunit",
            [(f"tickwise:host_cpu:ratio5m{_INSTANCE}", "{{instance}}")],
            meaning="Of the control group, if that has less than the host. Tasks included.",
        ),
        Panel(
            "Memory, of what may be used", "percentunit", [(f"tickwise:host_memory:ratio{_INSTANCE}", "{{instance}}")]
        ),
        Panel(
            "Memory in use",
            "bytes",
            [
                (f"tickwise_host_memory_bytes{_INSTANCE}", "{{instance}}"),
                (f"max(tickwise_host_memory_limit_bytes{_INSTANCE})", "the most of one"),
            ],
        ),
        Panel(
            "Processor of tasks, by kind",
            "short",
            [(_rate("tickwise_task_cpu_seconds_total", "kind"), "{{kind}}")],
            meaning="Cores, counted when an attempt ends: of tasks with processes of their own.",
        ),
        Panel(
            "Peaks of memory of tasks, p95",
            "bytes",
            [
                (
                    "histogram_quantile(0.95, "
                    "sum by (le, kind) (rate(tickwise_task_memory_peak_bytes_bucket[$__rate_interval])))",
                    "{{kind}}",
                )
            ],
            meaning="Of attempts that ended, as far as the peak is known.",
        ),
        Panel(
            "Memory of the processes themselves",
            "bytes",
            [('process_resident_memory_bytes{job="tickwise"}', "{{role}} {{instance}}")],
        ),
        Panel(
            "Processor of the processes themselves",
            "short",
            [('rate(process_cpu_seconds_total{job="tickwise"}[$__rate_interval])', "{{role}} {{instance}}")],
        ),
        Panel(
            "Sizes of batches, mean",
            "short",
            [
                (f"{_rate('tickwise_claim_batch_size_sum')} / {_rate('tickwise_claim_batch_size_count')}", "claimed"),
                (
                    f"{_rate('tickwise_finish_batch_size_sum')} / {_rate('tickwise_finish_batch_size_count')}",
                    "finished",
                ),
            ],
        ),
        Panel(
            "Lost, quarantined, unknown a second",
            "ops",
            [
                (_rate("tickwise_runs_freed_total"), "freed"),
                (_rate("tickwise_runs_quarantined_total"), "quarantined"),
                (_rate("tickwise_runs_unknown_total"), "unknown"),
                (_rate("tickwise_held_otherwise_total"), "held otherwise"),
            ],
        ),
        Panel(
            "What hints are worth",
            "ops",
            [(_rate("tickwise_hints_named_total"), "named"), (_rate("tickwise_hints_claimed_total"), "claimed")],
        ),
    ],
    [("instance", "Executor", "tickwise_executor_slots, instance")],
)
_CHOSEN: Final = 'namespace=~"$namespace"'
QUEUES: Final = Dashboard(
    "queues",
    "Tickwise: queues and namespaces",
    [
        _stat(
            "Waiting, of the queues here",
            "short",
            f'sum(max by (namespace, queue) (tickwise_queue_runs{{{_CHOSEN}, state="waiting"}})) or vector(0)',
        ),
        _stat(
            "Held, of the queues here",
            "short",
            f'sum(max by (namespace, queue) (tickwise_queue_runs{{{_CHOSEN}, state="held"}})) or vector(0)',
        ),
        _stat("Waiting, of all", "short", "tickwise:waiting_runs"),
        _stat("Oldest waits", "s", "max(tickwise_oldest_ready_seconds)"),
        _stat("Fires that lie ahead", "short", "max(tickwise_timers)"),
        _stat(
            "Jobs parked in a day", "short", "sum(increase(tickwise_jobs_parked_total[1d]))", "They made too many runs."
        ),
        Panel(
            "Waiting runs, by queue",
            "short",
            [
                (
                    f'max by (namespace, queue) (tickwise_queue_runs{{{_CHOSEN}, state="waiting"}})',
                    "{{namespace}} / {{queue}}",
                )
            ],
            meaning="The 50 fullest queues of all namespaces, counted every 15 s.",
        ),
        Panel(
            "Held runs, by queue",
            "short",
            [
                (
                    f'max by (namespace, queue) (tickwise_queue_runs{{{_CHOSEN}, state="held"}})',
                    "{{namespace}} / {{queue}}",
                )
            ],
        ),
        Panel(
            "Waiting runs, by namespace",
            "short",
            [
                (
                    "sum by (namespace) (max by (namespace, queue) "
                    f'(tickwise_queue_runs{{{_CHOSEN}, state="waiting"}}))',
                    "{{namespace}}",
                )
            ],
        ),
        Panel(
            "Bulk operations: items a second",
            "ops",
            [(_rate("tickwise_operation_items_total", "result"), "{{result}}")],
        ),
    ],
    [("namespace", "Namespace", "tickwise_queue_runs, namespace")],
)
STORE: Final = Dashboard(
    "store",
    "Tickwise: store and broker",
    [
        _stat("Store, p99 of all calls", "s", "tickwise:store_seconds:p99_5m"),
        _stat("Store calls a second", "ops", _rate("tickwise_store_seconds_count")),
        _stat(
            "Broker",
            "short",
            "min(tickwise_broker_reachable)",
            "As the process sees it that is worst off.",
            [(0, "away"), (1, "answers")],
        ),
        _stat("Broker confirms, p99", "s", "tickwise:broker_send_seconds:p99_5m"),
        _stat("Messages put aside in a day", "short", "sum(increase(tickwise_messages_parked_total[1d]))"),
        _stat("Fullest buffer", "percentunit", "max(tickwise_buffer_items / (tickwise_buffer_limit > 0))"),
        Panel("Slowest calls of the store, p99", "s", _slowest("tickwise_store_seconds", "method")),
        Panel(
            "Busiest calls of the store",
            "ops",
            [("topk(5, sum by (method) (rate(tickwise_store_seconds_count[$__rate_interval])))", "{{method}}")],
        ),
        Panel(
            "Time in the store, by call",
            "short",
            [("topk(5, sum by (method) (rate(tickwise_store_seconds_sum[$__rate_interval])))", "{{method}}")],
            meaning="Seconds a second, of all processes: calls that wait at the same time.",
        ),
        Panel("Messages that wait in the broker", "short", [("sum by (channel) (tickwise_broker_lag)", "{{channel}}")]),
        Panel(
            "Messages a second",
            "ops",
            [
                (_rate("tickwise_broker_sent_total", "channel"), "{{channel}}"),
                (_rate("tickwise_broker_thrown_total"), "hints"),
                (_rate("tickwise_broker_lost_total"), "hints lost"),
            ],
        ),
        Panel("From sending to confirmation, p99", "s", _slowest("tickwise_broker_send_seconds", "channel")),
        Panel(
            "Buffers, how full",
            "percentunit",
            [("max by (buffer) (tickwise_buffer_items / (tickwise_buffer_limit > 0))", "{{buffer}}")],
        ),
        Panel(
            "Buffered requests a second",
            "ops",
            [
                (_rate("tickwise_requests_applied_total", "result"), "{{result}}"),
                (_rate("tickwise_messages_parked_total", "channel"), "parked: {{channel}}"),
            ],
        ),
        Panel(
            "Messages refused a second, by reason",
            "ops",
            [
                (_rate("tickwise_messages_unverified_total", "channel, reason"), "{{channel}}: {{reason}}"),
                (_rate("tickwise_messages_unsigned_total", "channel"), "{{channel}}: accepted unsigned"),
            ],
        ),
    ],
)
KEEPERS: Final = Dashboard(
    "keepers",
    "Tickwise: keepers on Cassandra",
    [
        _stat("Shards without an owner", "short", "count(max by (shard) (tickwise_keeper_owned) == 0) or vector(0)"),
        _stat(
            "Keepers that wait", "short", "sum(tickwise_keeper_owned == bool 0)", "0: nobody takes over from another."
        ),
        _stat("Commit, p99", "s", "tickwise:keeper_commit_seconds:p99_5m"),
        _stat(
            "Readable tables are behind by",
            "s",
            "max(tickwise_keeper_tables_behind_seconds >= 0)",
            "About a second, as a rule.",
        ),
        _stat("Takeovers in a day", "short", "sum(increase(tickwise_keeper_takeover_seconds_count[1d]))"),
        _stat("Commits in doubt in a day", "short", "sum(increase(tickwise_keeper_commits_in_doubt_total[1d]))"),
        Panel("Commits", "s", _quantiles("tickwise_keeper_commit_seconds")),
        Panel(
            "Log of each shard a second",
            "short",
            [(_rate("tickwise_keeper_log_entries_total", "shard"), "entries: {{shard}}")],
            meaning="Calls of one commit: the next picture.",
        ),
        Panel(
            "Calls that one commit answers, mean",
            "short",
            [
                (
                    f"{_rate('tickwise_keeper_commit_calls_sum', 'shard')} "
                    f"/ {_rate('tickwise_keeper_commit_calls_count', 'shard')}",
                    "{{shard}}",
                )
            ],
        ),
        Panel("Bytes of the log a second", "bytes", [(_rate("tickwise_keeper_log_bytes_total", "shard"), "{{shard}}")]),
        Panel(
            "Position and epoch",
            "short",
            [
                ("max by (shard) (tickwise_keeper_log_position >= 0)", "position: {{shard}}"),
                ("max by (shard) (tickwise_keeper_epoch >= 0)", "epoch: {{shard}}"),
            ],
        ),
        Panel(
            "Takeovers, mean seconds",
            "s",
            [
                (
                    f"{_rate('tickwise_keeper_takeover_seconds_sum', 'shard')} "
                    f"/ {_rate('tickwise_keeper_takeover_seconds_count', 'shard')}",
                    "{{shard}}",
                )
            ],
            meaning="Without the wait for the lease of the owner before.",
        ),
        Panel(
            "Checkpoints, p99",
            "s",
            [
                (
                    "histogram_quantile(0.99, "
                    "sum by (le, shard) (rate(tickwise_keeper_checkpoint_seconds_bucket[$__rate_interval])))",
                    "{{shard}}",
                )
            ],
        ),
        Panel("Size of a checkpoint", "bytes", [("max by (shard) (tickwise_keeper_checkpoint_bytes)", "{{shard}}")]),
        Panel(
            "Rows and entries that are not in the tables",
            "short",
            [
                ("max by (shard) (tickwise_keeper_tables_behind_rows >= 0)", "rows: {{shard}}"),
                ("max by (shard) (tickwise_keeper_tables_behind_entries >= 0)", "entries: {{shard}}"),
            ],
        ),
        Panel(
            "Bytes of these entries",
            "bytes",
            [("max by (shard) (tickwise_keeper_tables_behind_bytes >= 0)", "{{shard}}")],
            meaning="Commits wait above 64 MiB.",
        ),
        Panel(
            "In the memory of the owner",
            "short",
            [
                ("max by (shard) (tickwise_keeper_jobs >= 0)", "jobs: {{shard}}"),
                ("max by (shard) (tickwise_keeper_active_runs >= 0)", "active runs: {{shard}}"),
                ("max by (shard) (tickwise_keeper_ended_runs >= 0)", "ended runs: {{shard}}"),
            ],
        ),
        Panel(
            "Busiest calls",
            "ops",
            [("topk(5, sum by (method) (rate(tickwise_keeper_calls_total[$__rate_interval])))", "{{method}}")],
        ),
        Panel(
            "Refused calls a second, by code", "ops", [(_rate("tickwise_keeper_refusals_total", "code"), "{{code}}")]
        ),
        Panel("Event loop is late, p99", "s", _slowest("tickwise_keeper_loop_lag_seconds", "instance")),
        Panel("Connections of roles", "short", [("tickwise_keeper_connections > 0", "{{instance}}")]),
    ],
)
DASHBOARDS: Final = (OVERVIEW, EXECUTORS, QUEUES, STORE, KEEPERS)


def written(dashboard: Dashboard) -> str:
    """The JSON that Grafana reads."""
    made = {
        "uid": f"tickwise-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["tickwise"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {"type": "dashboards", "tags": ["tickwise"], "title": "Tickwise", "icon": "dashboard", "keepTime": True}
        ],
        "templating": {"list": [_datasource(), *(_variable(*each) for each in dashboard.variables)]},
        "annotations": {"list": []},
        "panels": [*_placed(dashboard.panels)],
    }  # fmt: skip
    return json.dumps(made, indent=1) + "\n"


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "current": {"text": "Prometheus", "value": "prometheus"},
    }  # fmt: skip


def _variable(name: str, caption: str, values: str) -> dict[str, Any]:
    return {
        "name": name, "label": caption, "type": "query", "datasource": SOURCE,
        "query": f"label_values({values})", "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """The panels in rows, from left to right."""
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        width = WIDTHS[panel.kind]
        if x + width > COLUMNS or (height and height != HEIGHTS[panel.kind]):
            x, y, height = 0, y + height, 0
        height = HEIGHTS[panel.kind]
        yield {**_panel(panel), "id": number, "gridPos": {"x": x, "y": y, "w": width, "h": height}}
        x += width


def _panel(panel: Panel) -> dict[str, Any]:
    words = {
        str(value).removesuffix(".0"): {"text": word, "index": place} for place, (value, word) in enumerate(panel.words)
    }
    defaults: dict[str, Any] = {"unit": panel.unit, "mappings": [{"type": "value", "options": words}] if words else []}
    options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none", "graphMode": "area"}
    if panel.kind == CURVES:
        defaults |= {"min": 0, "custom": {"fillOpacity": 8, "showPoints": "never"}}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {
        "title": panel.title,
        "description": panel.meaning,
        "type": panel.kind,
        "datasource": SOURCE,
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for place, (expr, legend) in enumerate(panel.asks)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }
