"""Explanations: why a job or a run does what it does, as a code, a sentence and data.

    service ──► facts (store, schedule, rules) ──► reasons, waits: pure ──► Explanation

- `service` looks facts up, at a bounded cost. `run_context` adds the runs and queues around a run.
- `reasons` and `waits` judge the facts. `explanations` holds the codes and the values.
"""
