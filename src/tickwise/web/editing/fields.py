"""The fields of the form of a job, declared as data: templates draw them, `job_form` reads and fills them.

The name of an input is the pointer of its field in a body of the API, with dots: `/retry/base_seconds` is
`retry.base_seconds`. So a refusal of control leads to the input that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from tickwise.control.bodies import TEXT_MAX
from tickwise.domain.decision import Overlap
from tickwise.domain.job_fields import FUSE_PER_MINUTE
from tickwise.domain.model import DEFAULT_PRIORITY, DEFAULT_QUEUE
from tickwise.domain.retry import Backoff, OnUnknown
from tickwise.domain.rules.confinement import Isolation
from tickwise.domain.schedule import MisfireMode, ScheduleType
from tickwise.domain.zones import GapRule, RepeatRule


class Input(StrEnum):
    """The form of a value as text."""

    TEXT = "text"
    AREA = "area"
    """Several lines of text, kept as they are."""
    WHOLE = "whole"
    NUMBER = "number"
    DURATION = "duration"
    """`90s`, `1h30m`; stored as seconds."""
    MOMENT = "moment"
    """A time on the clock of the job's zone."""
    CHOICE = "choice"
    LABELS = "labels"
    """`name=value`, one a line."""
    AMOUNTS = "amounts"
    """`name=number`, one a line."""
    NETWORK = "network"
    """`host:port`, one a line; or `any`."""
    LINES = "lines"
    """Texts, one a line."""
    CALENDARS = "calendars"
    """`name | include | defer`, one a line."""
    DELAYS = "delays"
    """Durations, with commas between them."""
    JSON = "json"


VALUE_TYPES: Final[Mapping[Input, Any]] = MappingProxyType({
    Input.TEXT: str, Input.AREA: str, Input.WHOLE: int, Input.NUMBER: float, Input.DURATION: float, Input.MOMENT: str,
    Input.CHOICE: str, Input.LABELS: dict[str, str], Input.AMOUNTS: dict[str, int], Input.NETWORK: bool | list[str],
    Input.LINES: list[str], Input.CALENDARS: list[dict[str, str]],
    Input.DELAYS: list[float], Input.JSON: Any,
})  # fmt: skip
"""The type of a value in a body."""

SEVERAL_LINES: Final = (
    Input.AREA, Input.JSON, Input.LABELS, Input.AMOUNTS, Input.NETWORK, Input.LINES, Input.CALENDARS,
)  # fmt: skip
"""Inputs with room for more than one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One input."""

    name: str
    label: str
    input: Input = Input.TEXT
    help: str = ""
    placeholder: str = ""
    choices: Sequence[tuple[str, str]] = ()
    """The values with their words. The first one may be empty: nothing is said."""
    most: int = TEXT_MAX
    """Characters."""
    required: bool = False
    rows: int = 3
    zones: bool = False
    """The names of time zones are offered."""

    @property
    def is_area(self) -> bool:
        """It takes several lines."""
        return self.input in SEVERAL_LINES


def _choices(kind: type[StrEnum], words: Mapping[str, str], unsaid: str = "") -> Sequence[tuple[str, str]]:
    found = [(each.value, words.get(each.value, each.value.replace("_", " "))) for each in kind]
    return [("", unsaid), *found] if unsaid else found


ABOUT: Final = (
    FormField(name="name", label="Name", required=True),
    FormField(name="key", label="Key", help="Unique in the namespace; scripts and files find the job by it."),
    FormField(name="owner", label="Owner", help="You, if it is empty."),
    FormField(name="description", label="Description", input=Input.AREA, rows=2, most=10_000),
    FormField(
        name="labels", label="Labels", input=Input.LABELS, rows=2, placeholder="team=billing", help="One a line.",
        most=25_000,
    ),
)  # fmt: skip

KINDS: Final = (
    ("shell", "Command"), ("argv", "Program"), ("python", "Python script"), ("http", "HTTP request"),
    ("function", "Function"), ("stored", "Stored task"), ("json", "As JSON"),
)  # fmt: skip
"""The ways in which the form takes a task. Two of them are of the kind `shell`; `json` takes any kind."""

TASKS: Final[Mapping[str, Sequence[FormField]]] = MappingProxyType({
    "shell": (FormField(
        name="task.command", label="Command", input=Input.AREA, rows=4, most=100_000, help="For /bin/sh.",
        placeholder="pg_dump shop | gzip > /backup/shop.gz",
    ),),
    "argv": (FormField(
        name="task.argv", label="Program and arguments", input=Input.LINES, rows=4, most=200_000,
        help="One a line; no shell reads them.", placeholder="/usr/bin/rsync",
    ),),
    "python": (FormField(
        name="task.source", label="Script", input=Input.AREA, rows=12, most=1_000_000,
        help="It runs in a Python process of its own.",
    ),),
    "http": (
        FormField(
            name="task.url", label="Address", most=8_000, placeholder="https://example.com/orders/{{ payload.id }}",
            help="Values of the payload or of the run may stand behind the host, in parameters, headers and body.",
        ),
        FormField(
            name="task.method", label="Method", input=Input.CHOICE,
            choices=[(each, each) for each in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")],
        ),
        FormField(
            name="task.headers", label="Headers", input=Input.AREA, rows=2, most=50_000,
            placeholder="Authorization: Bearer …", help="One a line. A secret is shown as ***, and stays as it is.",
        ),
        FormField(
            name="task.query", label="Parameters", input=Input.AREA, rows=2, most=100_000,
            placeholder="day={{ run.due }}",
            help="NAME=value, one a line; they are added to the address.",
        ),
        FormField(
            name="task.body", label="Body", input=Input.AREA, rows=4, most=500_000, help="JSON, or a text as it is."
        ),
        FormField(
            name="task.form", label="Or fields of a form", input=Input.AREA, rows=2, most=100_000,
            help="NAME=value, one a line.",
        ),
        FormField(name="task.expect", label="A success is", placeholder="2xx", help="Status codes, such as 2xx, 404."),
        FormField(
            name="task.proof", label="Signature, sign-in, certificates and limits", input=Input.JSON, rows=4,
            most=250_000, placeholder='{"sign": {"secrets": ["whsec_…"]}, "first_byte_seconds": 10}',
            help="As JSON: sign, oauth, tls, connect_seconds, first_byte_seconds, answer_bytes, kept_bytes, templates. "
            "A secret is shown as ***, and stays as it is.",
        ),
    ),
    "function": (FormField(name="task.name", label="Function", help="A task that the executors' code registers."),),
    "stored": (FormField(
        name="taskId", label="Id of the stored task", help="The job keeps the newest version that there is now.",
    ),),
    "json": (FormField(
        name="task", label="Task", input=Input.JSON, rows=8, most=1_000_000,
        placeholder='{"kind": "shell", "command": "date"}',
    ),),
})  # fmt: skip

OF_PROCESSES: Final = ("shell", "argv", "python")
"""The kinds whose tasks have the fields of `SURROUNDINGS`."""
PYTHON: Final = FormField(
    name="task.python",
    label="Interpreter of a Python script",
    placeholder="/srv/reports/.venv/bin/python",
    most=1_000,
    help="A whole path on the executor, or a name such as python3.12. The executor's own, if it is empty.",
)
SURROUNDINGS: Final = (
    PYTHON,
    FormField(
        name="task.directory", label="Folder to run in", placeholder="/srv/reports", most=1_000,
        help="A whole path on the executor. A folder of its own, if it is empty.",
    ),
    FormField(
        name="task.env", label="Environment", input=Input.LABELS, rows=2, placeholder="REGION=eu", most=100_000,
        help="NAME=value, one a line. Everybody who may read the job sees the values. Of a secret write the name, "
        "API_KEY=secret:orders.key: nobody sees its value.",
    ),
    FormField(
        name="task.files", label="Files that travel with it", input=Input.JSON, rows=3, most=2_000_000,
        placeholder='{"helpers.py": "def day(): ..."}', help="JSON: contents by name.",
    ),
)  # fmt: skip

PAYLOAD: Final = FormField(
    name="payload", label="Payload", input=Input.JSON, rows=4, most=1_000_000, help="JSON; the task gets it."
)

TYPES: Final = (
    (ScheduleType.CRON.value, "By a cron line"), (ScheduleType.INTERVAL.value, "Every so often"),
    (ScheduleType.FUTURE.value, "Once, at a time"), (ScheduleType.IMMEDIATE.value, "Once, now"),
    (ScheduleType.ON_DEMAND.value, "Only when it is asked for"),
)  # fmt: skip

WHEN: Final[Mapping[str, Sequence[FormField]]] = MappingProxyType({
    ScheduleType.CRON.value: (FormField(
        name="cron_expression", label="Cron line", most=500, placeholder="30 2 * * *",
        help="Minute, hour, day, month, day of the week; or @daily.",
    ),),
    ScheduleType.INTERVAL.value: (
        FormField(name="interval_seconds", label="Every", input=Input.DURATION, placeholder="1h30m"),
        FormField(
            name="anchor", label="Counted from", input=Input.MOMENT, help="Its start, or now, if it is empty."
        ),
    ),
    ScheduleType.FUTURE.value: (FormField(name="schedule_time", label="At", input=Input.MOMENT),),
    ScheduleType.IMMEDIATE.value: (),
    ScheduleType.ON_DEMAND.value: (),
})  # fmt: skip
ZONE: Final = FormField(
    name="timezone", label="Time zone", zones=True, most=100, help="All times of this form are on its clock."
)
BOUNDS: Final = (
    FormField(name="start_at", label="Not before", input=Input.MOMENT),
    FormField(name="end_at", label="Not after", input=Input.MOMENT),
    FormField(name="max_runs", label="At most so many runs", input=Input.WHOLE),
)
CLOCK_CHANGES: Final = (
    FormField(
        name="dst.gap", label="A time that the clock skips", input=Input.CHOICE,
        choices=_choices(GapRule, {}, "as cron does"),
    ),
    FormField(
        name="dst.overlap", label="A time that the clock shows twice", input=Input.CHOICE,
        choices=_choices(RepeatRule, {}, "as cron does"),
    ),
)  # fmt: skip

TIMES: Final = (
    FormField(
        name="overlap", label="If an earlier run goes on", input=Input.CHOICE,
        choices=_choices(Overlap, {
            "skip": "skip the new one", "queue_one": "let one wait", "queue_all": "let all wait",
            "cancel_running": "stop the earlier one", "allow": "run beside it",
        }),
    ),
    FormField(
        name="misfire.mode", label="Runs that could not begin in time", input=Input.CHOICE,
        choices=_choices(MisfireMode, {}, "the latest runs"),
    ),
    FormField(name="misfire.grace_seconds", label="In time is up to", input=Input.DURATION, placeholder="1m"),
    FormField(name="misfire.max_catchup", label="Made up for at most", input=Input.WHOLE, placeholder="10"),
    FormField(
        name="jitter_seconds", label="Jitter", input=Input.DURATION, help="Spread each start by up to this."
    ),
    FormField(
        name="window_seconds", label="Flexible window", input=Input.DURATION, help="In place of a jitter."
    ),
    FormField(
        name="calendars", label="Calendars and windows", input=Input.CALENDARS, rows=2, most=5_000,
        placeholder="holidays",
        help="One a line: name, then | include and | defer if meant. Else it excludes, and skips.",
    ),
    FormField(name="fuse_per_minute", label="Fuse", input=Input.WHOLE, help="More runs in a minute pause the job."),
)  # fmt: skip
ATTEMPTS: Final = (
    FormField(name="timeout_seconds", label="Timeout", input=Input.DURATION, placeholder="none"),
    FormField(
        name="start_deadline_seconds", label="Start deadline", input=Input.DURATION, placeholder="none",
        help="Skip a run that waited longer for an executor.",
    ),
    FormField(
        name="objective_start_seconds", label="Objective: starts within", input=Input.DURATION, placeholder="none",
        help="The share below of the runs of 30 days begins within this time.",
    ),
    FormField(name="objective_ratio", label="Objective: share", input=Input.NUMBER, placeholder="0.99"),
    FormField(name="max_retries", label="Retries", input=Input.WHOLE),
    FormField(
        name="retry.backoff", label="Backoff", input=Input.CHOICE,
        choices=_choices(Backoff, {}, "exponential, as usual"),
    ),
    FormField(name="retry.base_seconds", label="First delay", input=Input.DURATION, placeholder="1s"),
    FormField(name="retry.factor", label="Factor", input=Input.NUMBER, placeholder="2"),
    FormField(name="retry.cap_seconds", label="Longest delay", input=Input.DURATION, placeholder="5m"),
    FormField(name="retry.jitter", label="Jitter of delays, 0 to 1", input=Input.NUMBER, placeholder="0.2"),
    FormField(
        name="retry.delays_seconds", label="Delays of a list", input=Input.DELAYS, placeholder="1s, 1m, 10m", most=2_000
    ),
    FormField(
        name="retry.deadline_seconds", label="No attempt begins after", input=Input.DURATION,
        placeholder="no deadline",
    ),
    FormField(
        name="retry.on", label="Failures that are tried again, or not", input=Input.JSON, rows=2, most=20_000,
        placeholder='{"exit_code": {"75": "retry"}}',
    ),
    FormField(
        name="on_unknown", label="If its executor is lost in mid-run", input=Input.CHOICE,
        choices=_choices(OnUnknown, {"rerun": "run it again", "fail": "it has failed", "hold": "a person decides"}),
    ),
)  # fmt: skip
PLACE: Final = (
    FormField(name="queue", label="Queue"),
    FormField(name="priority", label="Priority, 0 to 9", input=Input.WHOLE),
    FormField(
        name="requires", label="Needs an executor with", input=Input.LINES, rows=2, placeholder="zone=eu",
        help="Labels, one a line.", most=5_000,
    ),
    FormField(name="concurrency.limit", label="Runs at once, at most", input=Input.WHOLE),
    FormField(
        name="concurrency.key", label="Counted over", placeholder="job",
        help="job, queue, namespace, label:NAME or key:TEXT.",
    ),
    FormField(name="rate.limit", label="Starts, at most", input=Input.WHOLE),
    FormField(name="rate.per_seconds", label="In", input=Input.DURATION, placeholder="1s"),
    FormField(name="rate.key", label="Counted over", placeholder="job"),
    FormField(name="limits.cpu_seconds", label="Processor time", input=Input.DURATION, placeholder="no limit"),
    FormField(name="limits.memory_bytes", label="Memory in bytes", input=Input.WHOLE, placeholder="no limit"),
    FormField(name="limits.processes", label="Processes", input=Input.WHOLE, placeholder="no limit"),
    FormField(name="limits.disk_bytes", label="Work folder in bytes", input=Input.WHOLE, placeholder="no limit"),
    FormField(name="limits.files", label="Files in it", input=Input.WHOLE, placeholder="no limit"),
    FormField(name="limits.output_bytes", label="Output in bytes", input=Input.WHOLE, placeholder="10485760"),
)  # fmt: skip
CONFINED: Final = (
    FormField(
        name="isolation", label="Isolation", input=Input.CHOICE,
        choices=_choices(
            Isolation, {"process": "a plain process", "sandbox": "a sandbox", "container": "a container"},
            "a sandbox where executors offer one",
        ),
        help="Of commands, programs and Python scripts.",
    ),
    FormField(
        name="allow_network", label="Network of the sandbox", input=Input.NETWORK, rows=2, most=20_000,
        placeholder="api.example.com:443", help="Host and port, one a line; any for all that the executor reaches.",
    ),
    FormField(
        name="container_image", label="Image of the container", placeholder="python:3.12",
        help="Of scripts in a container; one that executors allow.",
    ),
    FormField(name="run_as", label="Run as the system user", help="One that executors allow."),
    FormField(
        name="resources", label="Holds of the executor's resources", input=Input.AMOUNTS, rows=2, most=2_000,
        placeholder="gpu=1", help="Name and amount, one a line.",
    ),
)  # fmt: skip
AFTER: Final = (
    FormField(
        name="then", label="Then run", input=Input.LINES, rows=2, most=5_000,
        help="Jobs by id or key, one a line, after a run that succeeded.",
    ),
    FormField(name="on_failure", label="On failure run", input=Input.LINES, rows=2, most=5_000),
    FormField(
        name="notify", label="Tell these channels", input=Input.LINES, rows=2, most=1_000, placeholder="on-call",
        help="By name, one a line: of failures, recoveries and runs that did not begin.",
    ),
)  # fmt: skip

POLICIES: Final[Sequence[tuple[str, str, Sequence[FormField]]]] = (
    ("times", "Late, overlapping and spread runs", TIMES),
    ("attempts", "Attempts, timeouts and retries", ATTEMPTS),
    ("place", "Queue, limits and rates", PLACE),
    ("confined", "Isolation and resources", CONFINED),
    ("after", "What follows", AFTER),
)
"""Groups of further fields: id, title, fields."""

FIELDS: Final[Mapping[str, FormField]] = MappingProxyType({
    field.name: field
    for fields in (
        ABOUT, *TASKS.values(), SURROUNDINGS, (PAYLOAD,), *WHEN.values(), (ZONE,), BOUNDS, CLOCK_CHANGES,
        *(group for _, _, group in POLICIES),
    )
    for field in fields
})  # fmt: skip
"""All inputs by their name, but for the two choices `kind` and `schedule_type`."""

DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({
    "labels": {}, "payload": {}, "timezone": "UTC", "overlap": Overlap.SKIP.value, "calendars": [],
    "fuse_per_minute": FUSE_PER_MINUTE, "max_retries": 3, "on_unknown": OnUnknown.RERUN.value, "queue": DEFAULT_QUEUE,
    "priority": DEFAULT_PRIORITY, "requires": [], "resources": {}, "then": [],
    "on_failure": [], "notify": [],
})  # fmt: skip
"""The values of fields that say nothing; of all others it is None."""

WORDS: Final[Mapping[str, str]] = MappingProxyType({
    "task": "Task", "when": "Schedule", "dst": "Clock changes", "misfire": "Late runs", "retry": "Retry rules",
    "concurrency": "Runs at once", "rate": "Rate of starts", "limits": "Limits of a run",
    **{name: field.label for name, field in FIELDS.items() if "." not in name and name != "task"},
})  # fmt: skip
"""The parts of a job in words, for lists of changes."""
