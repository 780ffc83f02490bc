"""What the product says to the body of an imported job: the importers know its words only by heart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tests.support.kinds import builtin_kinds
from tickwise.control.bodies import JobBody
from tickwise.control.jobs.composing import Composed, compose
from tickwise.control.jobs.scene import Scene
from tickwise.control.tasks import TaskCheck
from tickwise.domain.model import Principal
from tickwise.importers.report import ImportReport

NOW: Final = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""

_WHO: Final = Principal("importer", "default", frozenset())
_CHECK: Final = TaskCheck({kind.name: kind for kind in builtin_kinds()})


def accepted(job: Mapping[str, Any]) -> Composed:
    """The job that the product makes of a body. Raises what the API would answer with."""
    body = msgspec.json.decode(json.dumps(job).encode(), type=JobBody)
    return compose(_WHO, body, Scene(now=NOW, tasks={}), _CHECK, b"0123456789")


def check_report(report: ImportReport) -> None:
    """What holds of every report: each body is accepted, no key stands twice, all can be printed."""
    for job in report.jobs:
        accepted(job)
    keys = [job["key"] for job in report.jobs]
    assert sorted(set(keys)) == sorted(keys)
    json.dumps(report.as_json(), ensure_ascii=False).encode()
