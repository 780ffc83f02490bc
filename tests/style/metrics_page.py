"""The reference page of the metrics, written from their declarations: `python -m tests.style.metrics_page`."""

from __future__ import annotations

from tests.style import source
from tests.style.tree import ROOT

PLACE = "docs/reference/metrics.md"

HEAD = """\
# Metrics

<!-- Written from src/tickwise/observability by `python -m tests.style.metrics_page`; a test compares. -->

In the text format of Prometheus, at `/metrics`: of the API with a key that has `metrics:read` in all namespaces (`*`),
for they count all of them; of every role on `health_port`, if one is set, without a key. The text is made once a second
at most, for all callers: an answer may be one second old, so scrape no faster than that.

Counters and histograms tell what this process did since it started; add them up over processes. Of the gauges, those of
runs, timers and executors are read from the store at each scrape: every process has the same values, so take one or the
greatest, and do not add them up. While the store cannot be reached they are `NaN`. `tickwise_queue_runs` is counted by
each scheduler every 15 s: take the greatest as well. All others are the process's own:
`tickwise_buffer_…` and `tickwise_broker_…` are read at each scrape (add `tickwise_broker_lag` up over processes: each
reports its own partitions), `tickwise_invariant_violations` has the findings of the last pass of this scheduler. All
times are in seconds. A counter's sample ends in `_total`; a histogram has `_bucket`, `_sum` and `_count`. Names of
jobs, runs and labels are no labels here, so the number of series does not grow with them.

| question | asked by |
| --- | --- |
| throughput | `tickwise_runs_started_total`, `tickwise_runs_finished_total` |
| success and failure ratio | `tickwise_runs_finished_total` by `state` |
| latency from schedule to end | `tickwise_schedule_to_end_seconds`; to the start: `tickwise_lateness_seconds` |
| retries | `tickwise_retries_total`; for good: `tickwise_dead_letters_total` |
| queue length | `tickwise_runs`, `tickwise_oldest_ready_seconds`; by queue: `tickwise_queue_runs` |
| worker utilisation | `tickwise_executor_slots_busy` over `tickwise_executor_slots` |
| processor of executor hosts | `tickwise_host_cpu_seconds_total` over `tickwise_host_cpu_cores` |
| memory of executor hosts | `tickwise_host_memory_bytes` over `tickwise_host_memory_limit_bytes` |
| processor and memory of tasks | `tickwise_task_cpu_seconds_total`, `tickwise_task_memory_peak_bytes`, by `kind` |
| processor and memory of a process | `process_cpu_seconds_total`, `process_resident_memory_bytes` |
| latency of store and broker | `tickwise_store_seconds`, `tickwise_broker_send_seconds`; lag: `tickwise_broker_lag` |
| keepers: the owner of a shard, takeovers | `tickwise_keeper_owned`, `tickwise_keeper_takeover_seconds`, by `shard` |
| keepers: log, readable tables | `tickwise_keeper_commit_seconds`; `tickwise_keeper_tables_behind_seconds` |

Those of hosts are of the control group, if that has less than the host, and include the tasks. Those of a process begin
with `process_`, as in every client of Prometheus. Those of tasks are counted when an attempt ends, of attempts that
were measured: tasks with processes of their own (`python`, `shell`); of functions and http tasks only the output is.

`deploy/prometheus/alerts.yaml` has these as recorded series (`tickwise:…`) and alarms on them
([monitoring](../how-to/monitoring.md), [runbooks](../how-to/runbooks.md), [dashboards](../how-to/grafana.md)).

Worth an alarm: `tickwise_timers_late_seconds` over 60 (no scheduler keeps up), `tickwise_oldest_ready_seconds` over the
tolerance of your jobs (too few executors, or a requirement that none of them meets), `tickwise_executors` at 0, a rate
of `tickwise_runs_quarantined_total` above 0 (a run takes executors down), a growing share of `FAILED` in
`tickwise_runs_finished_total`, `tickwise_invariant_violations` over 0 in two passes (a violation that no scheduler can
repair), a rate of `tickwise_attempts_let_go_total` above 0 (executors lose the store for longer than their leases).
With a broker: `tickwise_broker_reachable` at 0, `tickwise_broker_lag` of `requests` or `results` that grows (too few
recorders, or a slow store), a rate of `tickwise_messages_parked_total` above 0 (a person must look at them),
`tickwise_requests_applied_total` with `failed`. `tickwise_buffer_items` near `tickwise_buffer_limit`: more is put in
than taken out, and callers will soon get 429 or 503. The load of executors: `tickwise_executor_slots_busy` over
`tickwise_executor_slots`, by `kinds`. The duration of jobs for people, with waits and retries:
`tickwise_schedule_to_end_seconds`. [scale-out.md](../how-to/scale-out.md) names the role to add for each symptom.
"""


def page() -> str:
    return HEAD + "".join(_entry(metric) for metric in sorted(source.metrics(), key=lambda metric: metric.name))


def _entry(metric: source.Metric) -> str:
    facts = [metric.kind]
    if metric.labels:
        facts.append("labels " + ", ".join(f"`{label}`" for label in metric.labels))
    if metric.bounds:
        facts.append("buckets up to " + ", ".join(f"{bound:g}" for bound in metric.bounds))
    name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
    return f"\n## {name}\n\n{' · '.join(facts)}\n\n{metric.meaning}\n"


if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
