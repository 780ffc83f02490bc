"""Files to import: those that stand here, which we wrote, and a larger public collection where a machine has one.

The public files are not ours to copy, so they lie outside of the repository: in `TICKWISE_SHARED_DATA`, or in
`../shared/data`. Without them each test still reads our own.
"""

from __future__ import annotations

import os
from pathlib import Path

OWN = Path(__file__).with_name("data")
PUBLIC = Path(os.environ.get("TICKWISE_SHARED_DATA") or Path(__file__).resolve().parents[4] / "shared" / "data")


def crontabs() -> list[Path]:
    """Users' and systems' crontabs."""
    return [*sorted((OWN / "crontabs").glob("*.txt")), *sorted((PUBLIC / "crontabs" / "raw").glob("*.txt"))]


def cron_jobs() -> list[Path]:
    """Manifests of Kubernetes CronJobs."""
    return [*sorted((OWN / "cron_jobs").glob("*.yaml")), *sorted((PUBLIC / "k8s_cronjobs").glob("*.yaml"))]
