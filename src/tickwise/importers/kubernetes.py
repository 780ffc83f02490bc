"""Kubernetes CronJobs as jobs.

    CronJob ── spec.schedule, timeZone, …     ──► schedule, dst, misfire, overlap ─┐
       └ jobTemplate ── backoffLimit, …       ──► max_retries, retry, timeout ─────┼──► Entry
           └ template ── the one container    ──► a task ──────────────────────────┘

The line is read as robfig/cron reads it, whose `?`, `*/n` in the day fields and `@every` are not quite ours. What the
controller does beside the line is kept: times that the clock skips are not made up for, those that it shows twice
count twice; a start that was missed is made up for once, however late, unless `startingDeadlineSeconds` says when
it is too late. Either the command runs on the executor's machine, without its image (`kubernetes_pod`), or the image
runs as a container (`kubernetes_container`). What surrounds it in a pod is left out, which each entry says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

import yaml

from tickwise.domain.cron import expression as cron
from tickwise.importers.kubernetes_container import container_task
from tickwise.importers.kubernetes_pod import pod_task
from tickwise.importers.report import ImportEntry, ImportReport, refused
from tickwise.importers.translation import (
    MAX_ENTRIES,
    MAX_GRACE_SECONDS,
    MAX_INTERVAL_SECONDS,
    MAX_RETRIES,
    MAX_TIMEOUT_SECONDS,
    UTC_NAME,
    Translation,
    Untranslatable,
    checked_line,
    decoded,
    given_up,
    key_of,
    known_zone,
    listed,
    name_of,
    translated,
    unique,
)
from tickwise.importers.yaml_nodes import Budget, Document, Mapping, documents

_MAX_LABELS: Final = 50
_OVERLAPS: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel_running"}
_RETRIES_USUAL: Final = 6
"""`backoffLimit` unless it is given."""
_BACKOFF: Final = {"backoff": "exponential", "base_seconds": 10.0, "factor": 2.0, "cap_seconds": 360.0, "jitter": 0.0}
"""As the Job controller waits before it makes a pod again: 10 s, 20 s, 40 s, at most six minutes."""
_MAX_LINE_CHARACTERS: Final = 500
_HISTORY: Final = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit", "ttlSecondsAfterFinished")
_SPEC: Final = frozenset(
    {"schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend", "jobTemplate", *_HISTORY}
)
_JOB_SPEC: Final = frozenset(
    {
        "backoffLimit", "activeDeadlineSeconds", "parallelism", "completions", "completionMode", "template", "suspend",
        *_HISTORY,
    }
)  # fmt: skip

_ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S*)\s+(.*)", re.DOTALL)
_EVERY = re.compile(r"@every (.*)")
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})(ns|us|µs|μs|ms|s|m|h)")
_DURATION_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0,
}  # fmt: skip
_STEPPED_STAR = re.compile(r"[*?]/(\d{1,4})")


def read_kubernetes(
    text: str | bytes, *, source: str, timezone: str | None = None, containers: bool = False
) -> ImportReport:
    """Every CronJob of a YAML file (many documents, lists of objects) as an entry; objects of other kinds are none.

    `source` is what the file is called. `timezone` is that of the cluster's controller, for CronJobs that name none;
    without it UTC is taken, and their entries say so. `containers`: their tasks are of the kind container, and run the
    image; else of the kind shell, and run its command on the executor's machine.
    """
    try:
        whole = decoded(text)
    except Untranslatable as refusal:
        return ImportReport((given_up(1, source, refusal),))
    budget = Budget()
    entries: list[ImportEntry] = []
    for document in documents(whole):
        for entry in _entries(document, source, timezone, budget, containers=containers):
            if len(entries) == MAX_ENTRIES:
                reason = f"only {MAX_ENTRIES} CronJobs are read at once; import the rest by itself"
                return ImportReport((*unique(entries), refused(entry.line, entry.text, reason=reason)))
            entries.append(entry)
    return ImportReport(unique(entries))


def _entries(
    document: Document, source: str, timezone: str | None, budget: Budget, *, containers: bool
) -> Iterator[ImportEntry]:
    if document.failure is not None:
        yield given_up(document.line, source, document.failure)
    if document.root is None:
        return
    begin = document.line - document.root.start_mark.line
    for node in _cron_jobs(document.root):
        line = begin + node.start_mark.line
        try:
            found = Mapping(node, budget, first_line=begin)
            yield translated(line, _shown(found), partial(_translate, found, timezone, containers=containers))
        except Untranslatable as refusal:
            yield given_up(line, f"CronJob in {source}", refusal)


def _cron_jobs(root: yaml.Node) -> Iterator[yaml.Node]:
    """The object if it is a CronJob, or those of a List, each once."""
    kinds = _values(root, "kind")
    if any(isinstance(kind.value, str) and kind.value.endswith("List") for kind in kinds):
        items = [item for node in _values(root, "items") if isinstance(node, yaml.SequenceNode) for item in node.value]
        objects = list({id(item): item for item in items}.values())
    else:
        objects = [root]
    for node in objects:
        if any(kind.value == "CronJob" for kind in _values(node, "kind")):
            yield node


def _values(node: yaml.Node, name: str) -> list[yaml.Node]:
    """The value of a key of an object that may be broken."""
    if not isinstance(node, yaml.MappingNode):
        return []
    return [value for key, value in node.value if key.value == name]


def _shown(found: Mapping) -> str:
    metadata, spec = found.mapping("metadata"), found.mapping("spec")
    name = metadata.text("name") if metadata else None
    schedule = spec.text("schedule") if spec else None
    return f"CronJob {name or '(without a name)'}: {schedule or '(without a schedule)'}"


# ------------------------------------------------------------------------------------------------------ one CronJob


def _translate(found: Mapping, timezone: str | None, *, containers: bool) -> Translation:
    version = found.text("apiVersion") or ""
    if not version.startswith("batch/"):
        raise Untranslatable(f"its apiVersion is {version[:50]!a}; a CronJob of Kubernetes has `batch/v1`")
    metadata, spec = _needed(found, "metadata"), _needed(found, "spec")
    name = metadata.text("name")
    if not name:
        raise Untranslatable("metadata.name is missing; write one, so that importing it again finds the same job")
    namespace = metadata.text("namespace") or "default"
    job_spec = _needed(_needed(spec, "jobTemplate"), "spec")
    pod = _needed(_needed(job_spec, "template"), "spec")

    changes: list[str] = []
    if spec.flag("suspend") or job_spec.flag("suspend"):
        changes.append("it is suspended, and the imported job is not: pause the job right after the import")
    job: dict[str, Any] = {"name": name_of(name), "key": key_of("k8s", namespace, name), **_about(metadata)}
    job |= _schedule(spec, timezone, changes)
    job["overlap"] = _overlap(spec)
    job |= _misfire(spec, job, changes)
    job |= _limits(job_spec, pod, changes)
    _refuse_many(job_spec)
    notes: Sequence[str] = ()
    if containers:
        job["task"], fields, notes = container_task(pod, changes)
        job |= fields
    else:
        job["task"] = pod_task(pod, changes)
    left_out = [f"spec.{name}" for name in spec.names() if name not in _SPEC]
    left_out += [f"jobTemplate.spec.{name}" for name in job_spec.names() if name not in _JOB_SPEC]
    if left_out:
        changes.append(f"left out, because nothing here means the same: {listed(left_out)}")
    kept = [name for name in _HISTORY if name in spec.names() or name in job_spec.names()]
    if kept:
        changes.append(f"ended runs are kept for the server's retention, not by {listed(kept)}")
    return Translation(job, changes, notes)


def _needed(above: Mapping, name: str) -> Mapping:
    found = above.mapping(name)
    if found is None:
        where = f"{above.path}.{name}" if above.path else name
        raise Untranslatable(f"{where} is missing; give the whole CronJob, as `kubectl get cronjob -o yaml` shows it")
    return found


def _about(metadata: Mapping) -> dict[str, Any]:
    """Labels and description."""
    found: dict[str, Any] = {}
    labels = metadata.mapping("labels")
    if labels is not None:
        kept = {name: labels.text(name) or "" for name in labels.names()[:_MAX_LABELS]}
        found["labels"] = {name: value for name, value in kept.items() if 0 < len(name) <= 200 and len(value) <= 200}
    annotations = metadata.mapping("annotations")
    description = annotations.text("kubernetes.io/description") if annotations else None
    if description:
        found["description"] = description[:10_000]
    return found


def _overlap(spec: Mapping) -> str:
    policy = spec.text("concurrencyPolicy") or "Allow"
    if policy not in _OVERLAPS:
        raise Untranslatable(f"spec.concurrencyPolicy is {policy[:30]!a}; write {', '.join(_OVERLAPS)}")
    return _OVERLAPS[policy]


def _limits(job_spec: Mapping, pod: Mapping, changes: list[str]) -> dict[str, Any]:
    """`max_retries`, `retry` and `timeout_seconds`."""
    retries = job_spec.whole_number("backoffLimit")
    retries = _RETRIES_USUAL if retries is None else retries
    if retries > MAX_RETRIES:
        changes.append(f"a failed run is repeated at most {MAX_RETRIES} times, not {retries}")
        retries = MAX_RETRIES
    found: dict[str, Any] = {"max_retries": retries}
    if retries:
        found["retry"] = dict(_BACKOFF)
    seconds, seconds_of_pod = job_spec.whole_number("activeDeadlineSeconds"), pod.whole_number("activeDeadlineSeconds")
    limits = [limit for limit in (seconds, seconds_of_pod) if limit]
    if limits and min(limits) <= MAX_TIMEOUT_SECONDS:
        found["timeout_seconds"] = min(limits)
    if seconds and retries:
        changes.append(
            f"activeDeadlineSeconds: each attempt may take {min(limits)} s (timeout_seconds); in Kubernetes all "
            "attempts of a Job share that time"
        )
    return found


def _refuse_many(job_spec: Mapping) -> None:
    for name in ("completions", "parallelism"):
        number = job_spec.whole_number(name)
        if number not in (None, 1):
            raise Untranslatable(
                f"jobTemplate.spec.{name} is {number}, but a run is one execution of the task; write 1, and "
                "one CronJob for each that shall run"
            )


# -------------------------------------------------------------------------------------------------------- the times


def _schedule(spec: Mapping, timezone: str | None, changes: list[str]) -> dict[str, Any]:
    line = (spec.text("schedule") or "").strip()
    if not line or len(line) > _MAX_LINE_CHARACTERS:
        raise Untranslatable("spec.schedule is missing or far too long; write a line such as `0 3 * * *`")
    zone, where = spec.text("timeZone"), "spec.timeZone"
    if match := _ZONE_PREFIX.fullmatch(line):
        # Newer versions refuse a line with a zone beside timeZone, older ones know no timeZone.
        zone, where, line = zone or match[1], "the zone in spec.schedule", match[2]
    if match := _EVERY.fullmatch(line):
        return {"schedule_type": "INTERVAL", "interval_seconds": _every(match[1])}
    if zone is None and timezone is None:
        changes.append(
            "spec.timeZone is missing, so the times are read as UTC; Kubernetes reads them on its controller's clock, "
            "which nearly always is UTC too"
        )
    name = known_zone(zone or timezone or UTC_NAME, where)
    schedule = {"schedule_type": "CRON", "cron_expression": _expression(line), "timezone": name}
    if name == UTC_NAME:
        return schedule
    return {**schedule, "dst": {"gap": "skip", "overlap": "both"}}


def _every(text: str) -> float | int:
    """Seconds of a duration as Go writes it; `@every` counts whole seconds, at least one."""
    position, seconds = 0, 0.0
    while match := _DURATION.match(text, position):
        seconds += float(match[1]) * _DURATION_SECONDS[match[2]]
        position = match.end()
    if not text or position < len(text) or seconds > MAX_INTERVAL_SECONDS:
        raise Untranslatable(f"@every {text[:30]} is no duration up to ten years; write one such as `@every 1h30m`")
    return max(1, int(seconds))


def _expression(line: str) -> str:
    """The line in our words. Raises `Untranslatable` for what cannot be read."""
    if line.startswith("@"):
        return checked_line(line)
    fields = line.split()
    if len(fields) != 5:
        raise Untranslatable(
            f"spec.schedule has {len(fields)} fields; Kubernetes reads five: minute, hour, day of month, month, weekday"
        )
    minute, hour, day, month, weekday = fields
    return checked_line(
        " ".join(
            (
                minute.replace("?", "*"),
                hour.replace("?", "*"),
                _day_field(day, 31),
                month.replace("?", "*"),
                _day_field(weekday, 7),
            )
        )
    )


def _day_field(text: str, size: int) -> str:
    """A day field that begins with `*` just where robfig/cron takes it for one that narrows nothing.

    There `*/2` narrows the days, so that a day needs to suit one day field only; here it would have to suit both.
    """
    items = [item for item in text.split(",") if item]
    if any(item in ("*", "?", "*/1", "?/1") for item in items):
        return "*"
    return ",".join(_without_star(item, size) for item in items)


def _without_star(item: str, size: int) -> str:
    match = _STEPPED_STAR.fullmatch(item)
    if match is None:
        return item
    return f"1-31/{match[1]}" if size == 31 else f"0-6/{match[1]}"


def _misfire(spec: Mapping, job: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """A start that was missed is made up for once, unless its deadline has passed."""
    deadline = spec.whole_number("startingDeadlineSeconds")
    if deadline is None:
        return {"misfire": {"grace_seconds": 60, "mode": "latest"}}
    if deadline == 0:
        raise Untranslatable(
            "spec.startingDeadlineSeconds is 0, so Kubernetes never starts it; write 60, or leave it out"
        )
    if deadline > MAX_GRACE_SECONDS:
        changes.append(f"startingDeadlineSeconds: a missed start counts for a year, not for {deadline} s")
        deadline = MAX_GRACE_SECONDS
    if _shortest_gap(job) <= deadline:
        changes.append(
            f"startingDeadlineSeconds: after an outage every start missed by at most {deadline} s is made up for, as "
            "far as the overlap policy lets it; Kubernetes makes up for the latest only"
        )
    return {"misfire": {"grace_seconds": deadline, "mode": "skip"}}


def _shortest_gap(job: dict[str, Any]) -> float:
    """The shortest time between two starts, of some hundred that stand for all."""
    if "interval_seconds" in job:
        return float(job["interval_seconds"])
    line, zone = cron.parse(job["cron_expression"]), ZoneInfo(UTC_NAME)
    # From the begin of 2024 on: a leap year that begins on a Monday.
    moments: list[int] = [1_704_067_199]
    while len(moments) < 200 and (found := line.next_second(moments[-1], zone)) is not None:
        moments.append(found)
    return min((later - earlier for earlier, later in pairwise(moments[1:])), default=math.inf)
