"""The reference page of runs and tasks, from the tables of the code: `python -m tests.style.runs_page`."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.style.tree import ROOT
from tests.support.kinds import builtin_kinds
from tickwise.adapters.runner.context import (
    INHERITED,
    PAYLOAD_VARIABLE_LIMIT_BYTES,
    context_environment,
    context_headers,
)
from tickwise.adapters.runner.http.circuit_breakers import FAILURES, OPEN_SECONDS
from tickwise.adapters.runner.http.runner import TRANSIENT
from tickwise.adapters.runner.process.runner import EXIT_INVALID
from tickwise.adapters.runner.process.task_places import STANDARD_PATH
from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import FINAL, MOVES, JobStatus, RunEvent, RunState
from tickwise.domain.retry import CRASHES_MAX
from tickwise.ports.runner import Assignment, TaskLimits

PLACE = "docs/reference/runs.md"

HEAD = """\
# Runs and tasks

<!-- Written from src/tickwise/domain/lifecycle.py and the runners by `python -m tests.style.runs_page`; a test
compares. -->

A job defines a task and its schedule; a run is one demand for the task, with exactly one final state; an attempt is one
try of a run by one executor.
"""

STATES = {
    RunState.QUEUED: "It waits for its time and for an executor that can take it.",
    RunState.DISPATCHED: "An executor holds it until its moment.",
    RunState.RUNNING: "Its task has begun, and that was recorded. A quick one goes from DISPATCHED to its end at once.",
    RunState.RETRYING: "An attempt failed, and another one follows after a pause.",
    RunState.SUCCESS: "Its task ended well.",
    RunState.FAILED: "Its task failed for good; `reason` and `error_message` give the cause.",
    RunState.CANCELLED: "A person ended it.",
    RunState.SKIPPED: "It did not run; `reason` gives the cause.",
}
STATUSES = {
    JobStatus.SCHEDULED: "Something lies ahead: a fire, or a run that has not ended.",
    JobStatus.PAUSED: "Its schedule stands still until a person resumes it, or until a time.",
    JobStatus.COMPLETED: "Nothing lies ahead any more.",
    JobStatus.FAILED: "It does not recur, and its newest run failed.",
    JobStatus.CANCELLED: "Ended by a person, for good.",
}
REASONS = {
    "address_refused": "The http task, or a redirect, leads to an address that `http_allow` does not name "
    "([http tasks](../how-to/http-tasks.md)). It is not retried.",
    "answer_limit": "The answer of the http task is larger than its `answer_bytes`.",
    "busy": "It waited too long for a free worker of this executor, and went back unstarted.",
    "cancelled": "A person ended it, or the executor was stopped.",
    "circuit_open": "The host of the http task keeps failing, so nothing was sent; the run went back for a while.",
    "command_missing": "The image has no such program ([containers](../how-to/containers.md)). There is no retry.",
    "command_not_executable": "The program of the image cannot be executed. There is no retry.",
    "container_refused": "The engine cannot make its container: an unknown user or network, a folder that is not "
    "there. There is no retry.",
    "cpu_limit": "It took more processor time than its `limits.cpu_seconds`.",
    "crashed": "The worker process of the function died.",
    "directory_missing": "Its folder (`task.directory`) cannot be entered on the executor. There is no retry.",
    "disk_limit": "It kept more in its work folder and its temporary files than its `limits.disk_bytes`, or than "
    "`task_disk_bytes` of the executor, or wrote a larger file.",
    "end_lost": "Of an attempt: the database lost its end when a standby took over or a backup was restored, and "
    "no executor holds a copy. It runs again.",
    "engine_away": "The container engine of the executor did not answer, so the run went back unstarted.",
    "environment_invalid": "The environment that the script declares cannot be built: a package or a Python that is "
    "not there. It is not retried ([scripts with dependencies](../how-to/scripts-with-dependencies.md)).",
    "environment_timeout": "The build of the script's environment took longer than `environment_build_seconds`.",
    "environment_unavailable": "The script's environment could not be built: the index of packages was away, or the "
    "disk full.",
    "error": "The function raised an exception; or the executor could not carry the task out.",
    "executor_left": "Of an attempt: its executor was told to end, and stopped it after its drain. It runs again.",
    "executor_lost": "Its outcome was lost after it had begun, with its executor or with the process that had started "
    "it, and its job says `on_unknown: fail`.",
    "exit_code": "The process ended with a status that is not 0.",
    "file_limit": "It kept more files in its work folder than its `limits.files`.",
    "http_error": "No answer: no connection, a broken one, no such host.",
    "http_status": "The answer's status was not expected.",
    "identity_token_missing": "Its identity token cannot be signed here for now, so the run went back unstarted "
    "([access without keys](../how-to/cloud-access-without-keys.md#when-it-does-not-work)).",
    "identity_token_refused": "It can have no identity token as the settings of this executor are "
    "([access without keys](../how-to/cloud-access-without-keys.md#when-it-does-not-work)).",
    "image_denied": "The registry refuses the credentials for the image, or wants some. There is no retry.",
    "image_digest_differs": "The image of that name has another digest than the task names. There is no retry.",
    "image_missing": "The image is not in its registry; or the task says `pull: never`, and the engine does not have "
    "it. There is no retry.",
    "pod_disrupted": "Its pod was evicted, preempted or deleted before it began, so the run went back unstarted.",
    "pod_pending": "No node took its pod in time, or a quota was full, so the run went back unstarted.",
    "image_pull_failed": "The image could not be pulled: the registry is away or slow, or the engine's disk is full.",
    "image_refused": "The settings of the executor do not allow the image (`container_images`, `container_digests`). "
    "There is no retry.",
    "interpreter_missing": "Its interpreter (`task.python`, a script's first line) is not on the executor, such as "
    "that of a virtual environment that was deleted. There is no retry.",
    "interpreter_unusable": "Its interpreter is no Python, or a broken one. There is no retry.",
    "isolation_missing": "The executor cannot confine it as its job says, so the run went back unstarted "
    "(`tickwise doctor` on that machine says why).",
    "invalid": "It cannot succeed as it is, so there is no retry.",
    "lease_lost": "Of an attempt: its executor died or went silent. The run goes on elsewhere.",
    "lease_over": "Of an attempt: its executor could not reach the store, and stopped it in time. It runs again.",
    "memory_limit": "It needed more memory than its `limits.memory_bytes`.",
    "module_missing": "The script imports a module that is not installed for its Python (`ModuleNotFoundError`). There "
    "is no retry: name a Python that has it (`task.python`), or let it travel with the script (`task.files`).",
    "mount_refused": "The settings of the executor do not allow the mount (`container_mounts`). There is no retry.",
    "not_started": "The program could not be started.",
    "outcome_lost": "Of an attempt: the process that had started the task was killed, and the task's exit status is "
    "lost with it. It runs again.",
    "output_limit": "It wrote more than the job allows (`limits`). There is no retry, unless the job's "
    "`retry.on.reason` asks for it.",
    "output_lost": "It ended well, but its output could not be stored.",
    "poison": f"It was lost with its executor {CRASHES_MAX} times, so it is not tried again.",
    "process_limit": "It wanted more processes and threads at once than its `limits.processes`.",
    "python_too_old": "Its interpreter is older than Python 3.9. There is no retry.",
    "result": "Its result is no JSON, or larger than allowed.",
    "retry_deadline": "It waited for its next attempt until after its `retry.deadline_seconds`.",
    "revoked": "Its executor was asked to let go of it before it began. It leaves no record.",
    "run_as_refused": "The job names a user (`run_as`) that its namespace may not run tasks as, or that this executor "
    "cannot run tasks as (`run_as_users`). There is no retry.",
    "run_as_unknown": "The job names a user (`run_as`) that the executor's machine does not have. There is no retry.",
    "secret_missing": "A secret that its task names is not there; the error names it. There is no retry "
    "([secrets](../how-to/secrets-in-tasks.md)).",
    "secrets_away": "The provider of a secret that its task names did not answer; the run went back unstarted, and is "
    "tried again after some seconds.",
    "signal": "The process was ended by a signal.",
    "starter_lost": "The processes that start tasks as other users keep ending; the run went back unstarted.",
    "template_error": "A value that the http task asks for is not there, or cannot stand where it is asked for. It is "
    "not retried ([http tasks](../how-to/http-tasks.md)).",
    "timeout": "It ran for longer than its `timeout_seconds`.",
    "tls_error": "The http task got no connection, because of the server's certificate or its own; the error says "
    "which and why.",
    "token_error": "The http task got no token from its OAuth server, so its request was not sent. A refusal of the "
    "client is not retried.",
    "unknown_outcome": "Its outcome was lost after it had begun, with its executor or with the process that had "
    "started it, and its job says `on_unknown: hold`.",
    "unkillable": "Its process hangs inside the kernel and does not end although it was killed.",
    "unknown_function": "This executor does not have the function; the run went back for another one.",
}
SKIPS = {
    SkipReason.OVERLAP: "An earlier run of the job was unfinished.",
    SkipReason.MISFIRE: "No scheduler could fire it within its grace.",
    SkipReason.PAUSED: "The job was paused.",
    SkipReason.CALENDAR: "A calendar of the job was closed, or deferred it to one with a later occurrence.",
    SkipReason.MAINTENANCE: "The same of a maintenance window.",
    SkipReason.STOPPED: "A person stopped the job, its labels, its queue or its namespace for a time.",
    SkipReason.DST: "The clock skipped that time.",
    SkipReason.FUSE: "The job, or its namespace, made too many runs in a minute.",
    SkipReason.REQUESTED: "A person asked to skip just this one.",
    SkipReason.QUOTA: "The namespace had used up its quota `runs_per_day`.",
    SkipReason.EXPIRED: "No executor could start it within its `start_deadline_seconds`.",
}
VARIABLES = {
    "JOB_ID": "The job.",
    "RUN_ID": "The run: the same for all its attempts.",
    "ATTEMPT": "1 at first; counts up with every attempt.",
    "NOMINAL_TIME": "The time of the occurrence by the schedule: the period to report on. RFC 3339, UTC.",
    "DUE_TIME": "The time at which it was to start. RFC 3339, UTC.",
    "IDEMPOTENCY_KEY": "The same for every attempt of a run: hand it to systems that must do a thing once.",
    "FENCING_TOKEN": "Greater for every later attempt: lets another system refuse an attempt that was given up.",
    "NAMESPACE": "The namespace of the job.",
    "RESULT_FILE": "Write JSON here: it is kept as the run's result if the task succeeds.",
    "WORK_FOLDER": "The attempt's own folder, with `task.files`; the current one unless the task names another.",
    "PAYLOAD": f"The parameters, as JSON, if they have at most {PAYLOAD_VARIABLE_LIMIT_BYTES} bytes.",
    "PAYLOAD_FILE": "Instead of `TICKWISE_PAYLOAD` if they are larger: a file with the JSON.",
}


def _assignment(payload: bytes) -> Assignment:
    nobody = UUID(int=0)
    return Assignment(nobody, 1, nobody, "default", 1, 0.0, 0.0, {}, payload, None, TaskLimits(0))


def variables() -> dict[str, bool]:
    """Every variable of the context that a task can see, without its prefix; whether it is a header too."""
    headers = {name.removeprefix("Tickwise-").replace("-", "_").upper() for name in context_headers(_assignment(b"1"))}
    with tempfile.TemporaryDirectory() as folder:
        names = [
            *context_environment(_assignment(b"1"), Path(folder)),
            *context_environment(_assignment(b"1" * (PAYLOAD_VARIABLE_LIMIT_BYTES + 1)), Path(folder)),
        ]
    assert all(name.startswith("TICKWISE_") for name in names)
    return {name: name in headers for name in dict.fromkeys(name.removeprefix("TICKWISE_") for name in names)}


def page() -> str:
    parts = (_states(), _moves(), _statuses(), _tasks(), _context(), _endings(), _reasons())
    return HEAD + "".join(f"{line}\n" for part in parts for line in part)


def _states() -> Iterator[str]:
    yield from ("", "## States of a run", "", "| state | final | meaning |", "| --- | --- | --- |")
    for state in RunState:
        yield f"| `{state}` | {'yes' if state in FINAL else 'no'} | {STATES[state]} |"


def _moves() -> Iterator[str]:
    yield from ("", "## Legal moves", "", "There are no others; the database refuses them too.", "")
    yield from ("| from | what happens | to |", "| --- | --- | --- |")
    for (state, event), after in MOVES.items():
        yield f"| `{state}` | {event.value} | `{after}` |"
    unused = set(RunEvent) - {event for _, event in MOVES}
    assert not unused, f"events that move nothing: {unused}"


def _statuses() -> Iterator[str]:
    yield from ("", "## Status of a job", "", "Derived from its timers and runs, except for a pause and a cancel.", "")
    yield from ("| status | meaning |", "| --- | --- |")
    for status in JobStatus:
        yield f"| `{status}` | {STATUSES[status]} |"


def _tasks() -> Iterator[str]:
    yield from ("", "## Tasks", "", "The `task` of a job is an object with a `kind`. Other fields are refused.")
    for kind in builtin_kinds():
        yield from ("", f"### {kind.name}", "", _first_line(kind), "")
        yield from ("| field | value | meaning |", "| --- | --- | --- |")
        needed = set(kind.schema["required"])
        choice = [name for option in kind.schema.get("oneOf", ()) for name in option["required"]]
        for name, said in kind.schema["properties"].items():
            if name != "kind":
                facts = [_value(said)]
                facts += ["required"] if name in needed else []
                facts += [f"either this or {_others(choice, name)}"] if name in choice else []
                facts += [f"default `{json.dumps(said['default'])}`"] if "default" in said else []
                yield f"| `{name}` | {', '.join(facts)} | {said.get('description', '')} |".replace("|  |", "| |")


def _first_line(kind: object) -> str:
    return (inspect.getdoc(type(kind)) or "").splitlines()[0]


def _others(choice: list[str], name: str) -> str:
    return ", ".join(f"`{other}`" for other in choice if other != name)


def _value(said: Mapping[str, Any]) -> str:
    if "enum" in said:
        return " or ".join(f"`{value}`" for value in said["enum"])
    if said.get("type") == "array":
        return "array"
    kinds = said.get("type", "any JSON")
    words = kinds if isinstance(kinds, str) else " or ".join(kinds)
    return f"{words} of at most {said['maxLength']} characters" if "maxLength" in said else words


def _context() -> Iterator[str]:
    yield from ("", "## The context of a task", "")
    yield from (
        "`python` and `shell` tasks get it in their environment, `http` tasks as headers (`Tickwise-Run-Id` and so",
        "on), functions as their `Context`. Of the executor's own environment tasks see only",
        ", ".join(f"`{name}`" for name in INHERITED)
        + " and those that `pass_environment` names. Where they run as another user\n"
        "(`run_tasks_as`), `HOME`, `USER` and `LOGNAME` are that user's, and `PATH` has those of its folders that this",
        f"user can search; if there is none, it is `{STANDARD_PATH}`.",
        "A run that belongs to a trace gets it as `TRACEPARENT` and `TRACESTATE`, as the headers `traceparent` and",
        "`tracestate`, and in the `Context` of functions ([traces](../how-to/tracing.md)).",
        "",
        "| variable | header too | meaning |",
        "| --- | --- | --- |",
    )
    for name, is_header in variables().items():
        yield f"| `TICKWISE_{name}` | {'yes' if is_header else 'no'} | {VARIABLES[name]} |"


def _endings() -> Iterator[str]:
    transient = ", ".join(str(status) for status in sorted(TRANSIENT))
    yield from ("", "## The meaning of an end", "", "| a task | success | failed, may be tried again | no retry |")
    yield from (
        "| --- | --- | --- | --- |",
        f"| `python`, `shell` | exit status 0 | another status, a signal | exit status {EXIT_INVALID} (`EX_DATAERR`) |",
        "| `function` | it returns | it raises; `RetryLater` says when again | it raises `PermanentError` |",
        "| `http` | a status in `expect` | no answer, 5xx and every other unexpected status; "
        f"{transient}; `Retry-After` is heeded | any other 4xx |",
        "",
        "Retries are counted per run: `max_retries` further attempts after the first failure, each after a growing",
        "pause. A run that loses its executor is not a failure of the task and costs no retry; if its task had begun,",
        f"it counts a crash, and the {CRASHES_MAX}rd ends the run with the reason `poison`.",
        "",
        "A task that has to end (cancel, a limit) gets SIGTERM, after a grace SIGKILL, and with it everything that it",
        "started, also what left its session, its parent and its environment; so a daemon that shall stay is started",
        "by the machine's service manager, not by the task itself. The tasks of a killed executor are ended at",
        "once by a helper process, or else by the next start of an executor on that host; that start looks for them a",
        "bounded number of times, and other work goes on meanwhile.",
        "",
        "The guarantee depends on the user that tasks run as:",
        "",
        "| tasks run as | nothing of a task survives its end |",
        "| --- | --- |",
        "| users of their own (an executor that root starts, `run_tasks_as` unset) | Always. "
        "Each process is in two groups of its attempt, which it cannot leave; processes that fork quicker"
        " than they are found stand still, with all others of that user, for the moment of a look. |",
        "| a user that `run_tasks_as` names | The same, but for programs that become another user or root by "
        "a right which that user has (`sudo`, setuid programs). |",
        "| the user of the executor (no root; or `run_tasks_as` is `root`) | All that programs do in ordinary"
        " life, daemons too. A program that sets out to escape can: one that sets `RLIMIT_LOCKS`, clears its "
        "environment, leaves its session and forks twice; or one that forks on and on, quicker than the looks "
        "for its processes. |",
        "",
        "The first two need a user namespace with all group numbers; in a container that has only 65,536 of them, the",
        "last row holds. Work that an executor's machine does for a task, such as `at`, `cron` or a container engine,",
        "is not the task's.",
        "",
        "Limits (`limits`, `timeout_seconds`) hold for an attempt with everything that it starts. Processor time,",
        "memory and processes can be limited for `python` and `shell`; a function shares its process with others, and",
        "an http task has none, so there such a limit is refused. Where the executor may make control groups, memory",
        "and processes are limited by the kernel; elsewhere they are watched, up to ten times a second, so that a task",
        "may be over them for a moment. For control groups of version 2 under systemd: `Delegate=yes` and",
        "`DelegateSubgroup=executor`.",
        "",
        "Nothing bounds how many files a task writes and how large they are: in its work folder, in its home, and",
        "wherever else its user may write; only its output is bounded (`output_limit`). The work folder",
        "is removed when the task ends, the home stays. Where tasks are not to be trusted with the disk, put the",
        "folder of work folders on a disk of its own, or give their users quotas; a shell task can bound the size of",
        "each of its files with `ulimit -f`.",
        "",
        f"A host that failed {FAILURES} times in a row (no answer, none in time, 5xx) is left alone for "
        f"{OPEN_SECONDS:.0f} s by that executor:",
        "its http tasks go back without having counted an attempt, then one of them tries. 429 does not count.",
    )


def _reasons() -> Iterator[str]:
    yield from (
        "",
        "## Reasons",
        "",
        "`reason` of a run or an attempt, for programs; `error_message` is for people.",
        "",
    )
    yield from ("| reason | meaning |", "| --- | --- |")
    yield from (f"| `{reason}` | {meaning} |" for reason, meaning in REASONS.items())
    yield from ("", "Of a run in the state `SKIPPED` ([schedules](schedules.md) has the rules):", "")
    yield from ("| reason | meaning |", "| --- | --- |")
    yield from (f"| `{reason}` | {SKIPS[reason]} |" for reason in SkipReason)


if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
