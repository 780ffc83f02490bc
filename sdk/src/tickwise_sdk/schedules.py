"""Schedules that stand beside their tasks, and bring themselves to a server at deploy.

    nightly.schedule(cron="0 2 * * *")   ──►  declared  ──sync──►  PUT /jobs/by-key/{key}, with the label of the program

`sync` makes the jobs of one program on the server what its modules declare. It knows its jobs by the label
`deployed-by`, and touches no other: a job that a person made, or another program, keeps its key.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from tickwise_sdk.errors import ProblemError, RegistrationError

if TYPE_CHECKING:
    from tickwise_sdk import types

LABEL: Final = "deployed-by"
STANDING: Final = ("SCHEDULED", "PAUSED")
_TIMES: Final = ("cron", "every")


class DeclaredSchedule(NamedTuple):
    """A schedule of a task, as it was declared."""

    key: str
    """The key of its job: the name of the task, and the name of the schedule behind an @ if it has one."""
    task: str
    body: types.JobBody


declared: dict[str, DeclaredSchedule] = {}
"""Every schedule declared in this process, by key."""


def declare(task: str, name: str | None, body: types.JobBody) -> DeclaredSchedule:
    """Note a schedule. Raises `RegistrationError` for one without a time, with two, or whose key is taken."""
    said = [each for each in _TIMES if each in body]
    key = task if name is None else f"{task}@{name}"
    if len(said) != 1:
        raise RegistrationError(f"the schedule {key} must say either `cron` or `every`")
    fields = {word: value for word, value in body.items() if word != "schedule_type"}
    made = DeclaredSchedule(key, task, cast("types.JobBody", {**fields, "name": key}))
    known = declared.get(key)
    if known is not None and known != made:
        raise RegistrationError(f"two schedules are called {key}; give one of them another name: schedule('weekly', …)")
    declared[key] = made
    return made


class Deployer(Protocol):
    """The part of `Client` that `sync` needs."""

    def list_jobs(
        self, *, label: Sequence[str] | None = None, status: Any = None, limit: int | None = None
    ) -> Iterator[types.JobView]: ...

    def get_job_by_key(self, key: str) -> types.JobView: ...

    def upsert_job(self, key: str, body: types.JobChangeBody) -> Any: ...

    def cancel_job(self, job_id: str) -> Any: ...


@dataclass
class SyncReport:
    """The outcome of a `sync`; each list has the keys of schedules."""

    app: str
    created: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    """On the server, and declared no more: cancelled with `prune`, else left as they are."""
    pruned: bool = False
    dry_run: bool = False

    def lines(self) -> Iterator[str]:
        """The report for people."""
        would = "would be " if self.dry_run else ""
        yield from (f"{key}: {would}created" for key in self.created)
        yield from (f"{key}: {would}changed" for key in self.changed)
        yield from (f"{key}: unchanged" for key in self.unchanged)
        gone = f"{would}cancelled, for it is declared no more"
        left = "declared no more, and left as it is; prune cancels it"
        yield from (f"{key}: {gone if self.pruned else left}" for key in self.removed)


def sync(
    client: Deployer,
    app: str,
    modules: Iterable[str] = (),
    *,
    prune: bool = False,
    dry_run: bool = False,
) -> SyncReport:
    """Make the schedules of the program `app` on the server what is declared in this process, after importing
    `modules`.

    Those that are declared no more are named in the report, and cancelled with `prune`. With `dry_run` nothing is
    written. A schedule that was paused by a person stays paused.

    Raises `RegistrationError` if nothing is declared, for that would prune everything, and for a key that belongs to
    another job; `ClientError`, after which it can be called again."""
    for module in modules:
        importlib.import_module(module)
    if not declared:
        raise RegistrationError(
            "no schedule is declared in this process; name the modules that call `schedule` in `modules`"
        )
    report = SyncReport(app, pruned=prune, dry_run=dry_run)
    there = {job["key"]: job for job in client.list_jobs(label=[f"{LABEL}={app}"], status=list(STANDING), limit=500)}
    wanted = {key: _body(schedule, app) for key, schedule in declared.items()}
    for key, body in wanted.items():
        job = there.get(key)
        if job is None:
            _refuse_foreign(client, key, app)
            report.created.append(key)
        else:
            (report.unchanged if _fits(job, body) else report.changed).append(key)
    report.removed = sorted(key for key in there if key is not None and key not in wanted)
    if not dry_run:
        for key in (*report.created, *report.changed):
            client.upsert_job(key, cast("types.JobChangeBody", wanted[key]))
        for key in report.removed if prune else ():
            client.cancel_job(there[key]["job_id"])
    return report


def _body(schedule: DeclaredSchedule, app: str) -> dict[str, Any]:
    body: dict[str, Any] = dict(schedule.body)
    return {**body, "labels": {**body.get("labels", {}), LABEL: app}}


def _refuse_foreign(client: Deployer, key: str, app: str) -> None:
    """Raise `RegistrationError` if a job that is not of this program has the key."""
    try:
        job = client.get_job_by_key(key)
    except ProblemError as refused:
        if refused.status == 404:
            return
        raise
    owner = job["labels"].get(LABEL)
    if owner != app:
        whose = "a job that was not made by a deploy" if owner is None else f"the program {owner}"
        raise RegistrationError(f"the key {key} belongs to {whose}; give the schedule another name")


def _fits(job: types.JobView, body: Mapping[str, Any]) -> bool:
    """Check whether a job is what is declared, as far as it is declared."""
    shown: Mapping[str, Any] = job
    return all(_same(shown, name, value) for name, value in body.items())


_LONG_FORMS: Final = {"cron": "cron_expression"}


def _same(shown: Mapping[str, Any], name: str, value: Any) -> bool:
    """Compare a field; one of several members is the same if those that are declared are."""
    found = shown.get(_LONG_FORMS.get(name, name))
    if name == "every":
        return seconds_of(value) == shown.get("interval_seconds")
    if isinstance(value, Mapping) and isinstance(found, Mapping) and name != "payload":
        declared_parts, shown_parts = cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", found)
        return all(_same(shown_parts, inner, each) for inner, each in declared_parts.items())
    return bool(found == value)


def seconds_of(text: str) -> float | None:
    """A duration such as 1h30m in seconds; None if it is written in another way."""
    total, digits = 0.0, ""
    for letter in text:
        if letter.isdigit() or letter == ".":
            digits += letter
        elif digits and letter in _UNITS:
            total, digits = total + float(digits) * _UNITS[letter], ""
        else:
            return None
    return total if not digits else None


_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
