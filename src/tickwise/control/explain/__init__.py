"""Explanations: why a job or a run does what it does, as a code, a sentence and data.

    service ──► job_explanations ──► run_explanations ──► reasons, lateness, waits: pure ──► Explanation
                     └─ no run at that time ──► job_reasons: pure ──► Explanation

- `job_explanations` and `run_explanations` look facts up, at a bounded cost. `run_context` adds the runs and queues
  around a run. `standing` is a job as it stands.
- `job_reasons`, `reasons`, `lateness` and `waits` judge the facts. `explanations` holds the codes and the values.
"""
