"""The facts of an attempt for its task, as environment variables or headers, and the clean environment around it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tickwise.adapters.runner.identity_file import VARIABLE, write_token
from tickwise.ports.runner import Assignment

PAYLOAD_VARIABLE_LIMIT_BYTES = 64 << 10
"""A larger payload goes into a file: Linux takes at most 128 kB for one variable."""

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables of the executor that tasks see unless an operator names more: never its settings or keys."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(instant: float) -> datetime:
    """As a time zone aware value, exact to the microsecond, for instants of any century."""
    return _EPOCH + timedelta(microseconds=round(instant * 1_000_000))


def rfc3339(instant: float) -> str:
    """With `Z`, and microseconds if there are any."""
    return utc(instant).isoformat().removesuffix("+00:00") + "Z"


def inherited_environment(names: Sequence[str] = ()) -> dict[str, str]:
    """A clean environment: a few harmless variables of the executor's, and those in `names`."""
    environment = {name: os.environ[name] for name in (*INHERITED, *names) if name in os.environ}
    environment.setdefault("PATH", os.defpath)
    environment.setdefault("LANG", "C.UTF-8")
    return environment


def _facts(assignment: Assignment) -> Iterator[tuple[str, str]]:
    yield "JOB_ID", str(assignment.job_id)
    yield "RUN_ID", str(assignment.run_id)
    yield "ATTEMPT", str(assignment.attempt)
    yield "NOMINAL_TIME", rfc3339(assignment.nominal)
    yield "DUE_TIME", rfc3339(assignment.due)
    yield "IDEMPOTENCY_KEY", assignment.idempotency_key
    yield "FENCING_TOKEN", str(assignment.token)
    yield "NAMESPACE", assignment.namespace


def attempt_environment(assignment: Assignment) -> dict[str, str]:
    """The `TICKWISE_…` variables that say which attempt it is, and the trace as OpenTelemetry's tools read it."""
    environment = {f"TICKWISE_{name}": value for name, value in _facts(assignment)}
    if assignment.traceparent is not None:
        environment["TRACEPARENT"] = assignment.traceparent
        if assignment.tracestate is not None:
            environment["TRACESTATE"] = assignment.tracestate
    return environment


def context_environment(assignment: Assignment, folder: Path) -> Mapping[str, str]:
    """The variables of an attempt with a folder of its own. A payload too large for one, and an identity token, are
    written to files in `folder`."""
    environment = attempt_environment(assignment)
    if assignment.identity_token is not None:
        environment[VARIABLE] = str(write_token(folder, assignment.identity_token))
    environment["TICKWISE_RESULT_FILE"] = str(folder / "result.json")
    environment["TICKWISE_WORK_FOLDER"] = str(folder / "work")
    if len(assignment.payload) <= PAYLOAD_VARIABLE_LIMIT_BYTES:
        environment["TICKWISE_PAYLOAD"] = assignment.payload.decode()
    else:
        file = folder / "payload.json"
        file.write_bytes(assignment.payload)
        environment["TICKWISE_PAYLOAD_FILE"] = str(file)
    return environment


def context_headers(assignment: Assignment) -> Mapping[str, str]:
    """The context as headers: `Tickwise-Job-Id` and so on, and the trace. The payload is the body's business."""
    headers = {f"Tickwise-{name.replace('_', '-').title()}": value for name, value in _facts(assignment)}
    if assignment.traceparent is not None:
        headers["traceparent"] = assignment.traceparent
        if assignment.tracestate is not None:
            headers["tracestate"] = assignment.tracestate
    return headers
