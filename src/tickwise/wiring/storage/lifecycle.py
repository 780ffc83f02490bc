"""The lifecycle rule of a bucket, as S3 takes it: what a scheduler would have deleted goes, should none run.

Invariant: no rule expires `scripts/`, for jobs that are planned need them, and none comes before the scheduler's own
retention.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from tickwise.config import Settings
from tickwise.documents.artefacts import ARTEFACTS
from tickwise.ports.blobs import LOGS

LATER_DAYS: Final = 21
"""A scheduler that is away for less deletes everything itself."""
UPLOAD_DAYS: Final = 1
"""The age at which an upload in parts that was cut is dropped."""


def lifecycle_rule(settings: Settings, prefix: str) -> str:
    """The JSON for `put-bucket-lifecycle-configuration`, in one line. `prefix`: the folder in the bucket that holds all
    keys; empty: none."""
    folder = f"{prefix}/" if prefix else ""
    rules = [
        _rule("uploads", folder, {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UPLOAD_DAYS}}),
        _rule("logs", f"{folder}{LOGS}", _expiration(settings.retention_logs_days)),
        _rule("artefacts", f"{folder}{ARTEFACTS}", _expiration(settings.retention_artefacts_days)),
    ]
    return json.dumps({"Rules": rules})


def _rule(name: str, prefix: str, effect: dict[str, Any]) -> dict[str, Any]:
    return {"ID": f"tickwise-{name}", "Status": "Enabled", "Filter": {"Prefix": prefix}, **effect}


def _expiration(kept_days: float) -> dict[str, Any]:
    return {"Expiration": {"Days": math.ceil(kept_days) + LATER_DAYS}}
