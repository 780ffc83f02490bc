"""Kubernetes CronJobs: what each field becomes, and that no file is read wrongly, nor breaks the reading."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.crons import fire_after
from tests.unit.importers.acceptance import accepted, check_report
from tests.unit.importers.corpora import cron_jobs
from tickwise.domain.cron import expression as cron
from tickwise.importers.kubernetes import read_kubernetes
from tickwise.importers.report import ImportEntry, ImportVerdict

WHOLE = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
  namespace: shop
  labels: {app: report}
  annotations:
    kubernetes.io/description: The daily report.
spec:
  schedule: "30 2 * * ?"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 300
  jobTemplate:
    spec:
      backoffLimit: 0
      activeDeadlineSeconds: 600
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: report
            command: ["/bin/report"]
            args: ["--day", "to day"]
"""


def cron_job(spec: str = "", *, job: str = "", pod: str = "", container: str = 'command: ["/bin/a"]') -> str:
    """A CronJob with these lines added to its levels; in UTC, and with no retries."""
    schedule = "" if "schedule:" in spec else 'schedule: "0 3 * * *"'
    retries = "" if "backoffLimit" in job else "backoffLimit: 0"
    zone = "" if "timeZone:" in spec else "timeZone: UTC"
    return "\n".join(
        [
            "apiVersion: batch/v1", "kind: CronJob", "metadata: {name: a}", "spec:",
            *(f"  {line}" for line in (schedule, zone, *spec.splitlines()) if line),
            "  jobTemplate:", "    spec:",
            *(f"      {line}" for line in (retries, *job.splitlines()) if line),
            "      template:", "        spec:",
            *(f"          {line}" for line in pod.splitlines()),
            "          containers:", "          - name: a",
            *(f"            {line}" for line in container.splitlines()),
        ]
    )  # fmt: skip


def only_entry(text: str, **more: Any) -> ImportEntry:
    (entry,) = read_kubernetes(text, source="a.yaml", **more).entries
    return entry


def job_of(text: str) -> dict[str, Any]:
    entry = only_entry(text)
    assert entry.job is not None, entry.reason
    accepted(entry.job)
    return dict(entry.job)


# ------------------------------------------------------------------------------------------------------ one CronJob


def test_a_whole_cron_job_becomes_a_job_that_means_the_same() -> None:
    """Every field that has a counterpart, in one body; nothing changed, so nothing is said."""
    entry = only_entry(WHOLE)
    assert (ImportVerdict.SAME, 1, "CronJob report: 30 2 * * ?") == (entry.verdict, entry.line, entry.text)
    assert {
        "name": "report",
        "key": "k8s:shop:report",
        "labels": {"app": "report"},
        "description": "The daily report.",
        "schedule_type": "CRON",
        "cron_expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "dst": {"gap": "skip", "overlap": "both"},
        "overlap": "skip",
        "misfire": {"grace_seconds": 300, "mode": "skip"},
        "max_retries": 0,
        "timeout_seconds": 600,
        "task": {"kind": "shell", "argv": ["/bin/report", "--day", "to day"]},
    } == entry.job


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        (cron_job(), "overlap", "allow"),
        (cron_job("concurrencyPolicy: Allow"), "overlap", "allow"),
        (cron_job("concurrencyPolicy: Forbid"), "overlap", "skip"),
        (cron_job("concurrencyPolicy: Replace"), "overlap", "cancel_running"),
        (cron_job(), "misfire", {"grace_seconds": 60, "mode": "latest"}),
        (cron_job("startingDeadlineSeconds: 90"), "misfire", {"grace_seconds": 90, "mode": "skip"}),
        (cron_job(job="backoffLimit: 4"), "max_retries", 4),
        (
            cron_job(job="backoffLimit: null"),
            "retry",
            {"backoff": "exponential", "base_seconds": 10.0, "factor": 2.0, "cap_seconds": 360.0, "jitter": 0.0},
        ),
        (cron_job(job="backoffLimit: null"), "max_retries", 6),
        (cron_job(job="activeDeadlineSeconds: 60", pod="activeDeadlineSeconds: 50"), "timeout_seconds", 50),
        (cron_job('schedule: "@every 1h30m"'), "interval_seconds", 5_400),
        (cron_job('schedule: "@every 1.5s"'), "interval_seconds", 1),
        (cron_job('schedule: "@hourly"'), "cron_expression", "@hourly"),
        (cron_job('schedule: "CRON_TZ=Asia/Tokyo 0 3 * * *"\ntimeZone: null'), "timezone", "Asia/Tokyo"),
        (cron_job('schedule: "TZ=UTC 0 3 * * *"\ntimeZone: null'), "cron_expression", "0 3 * * *"),
        (cron_job('schedule: "0 ? * * 1"'), "cron_expression", "0 * * * 1"),
        # A day needs to suit one of two fields that both narrow: `*/2` narrows there, and would not here.
        (cron_job('schedule: "0 3 */2 * 1"'), "cron_expression", "0 3 1-31/2 * 1"),
        (cron_job('schedule: "0 3 1 * */2"'), "cron_expression", "0 3 1 * 0-6/2"),
        (cron_job('schedule: "0 3 5,* * 1"'), "cron_expression", "0 3 * * 1"),
    ],
)
def test_a_field_becomes_its_counterpart(text: str, field: str, value: object) -> None:
    """One field of a CronJob, one of the body."""
    assert value == job_of(text)[field]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (cron_job("suspend: true"), "pause the job right after the import"),
        (cron_job(job="suspend: true"), "pause the job right after the import"),
        (cron_job("timeZone: null"), "the times are read as UTC"),
        (cron_job('schedule: "* * * * *"\nstartingDeadlineSeconds: 300'), "Kubernetes makes up for the latest only"),
        (cron_job(job="backoffLimit: 2\nactiveDeadlineSeconds: 60"), "all attempts of a Job share that time"),
        (cron_job("successfulJobsHistoryLimit: 3"), "the server's retention, not by successfulJobsHistoryLimit"),
        (cron_job(job="ttlSecondsAfterFinished: 5"), "the server's retention, not by ttlSecondsAfterFinished"),
        (cron_job(job="podFailurePolicy: {rules: [a]}"), "jobTemplate.spec.podFailurePolicy"),
        (cron_job(pod="nodeSelector: {a: b}"), "nodeSelector"),
        (cron_job(container="command: [a]\nimage: b:1"), "the image b:1 is not used"),
        (cron_job(container="command: [a]\nresources: {limits: {memory: 1Gi}}"), "resources"),
        (cron_job(container="command: [a]\nenvFrom: [{secretRef: {name: s}}]"), "secret s"),
        (
            cron_job(container="command: [a]\nenv: [{name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
            "T from secret s",
        ),
        (cron_job(container="command: [a]\nenv: [{name: a.b, value: c}]"), "a.b"),
        (cron_job(job="backoffLimit: 5000"), "at most 1000 times, not 5000"),
    ],
)
def test_what_changes_its_meaning_is_said(text: str, change: str) -> None:
    """Among the changes is a sentence about it."""
    entry = only_entry(text)
    assert entry.verdict is ImportVerdict.CHANGED
    assert entry.job is not None
    accepted(entry.job)
    assert [True] == [True for said in entry.changes if change in said], entry.changes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (cron_job(container="image: b:1"), "the program that the image b:1 names"),
        (cron_job(container='image: b:1\nargs: ["-v"]'), "has only args for the program"),
        (cron_job() + "\n          - name: b", "has 2 containers (a, b)"),
        (cron_job(job="completions: 3"), "completions is 3"),
        (cron_job(job="parallelism: 2"), "parallelism is 2"),
        (cron_job("startingDeadlineSeconds: 0"), "Kubernetes never starts it"),
        (cron_job("concurrencyPolicy: Never"), "write Allow, Forbid, Replace"),
        (cron_job("timeZone: Berlin"), "spec.timeZone"),
        (cron_job('schedule: "0 0 3 * * *"'), "has 6 fields"),
        (cron_job('schedule: "0 0 30 2 *"'), "it never fires"),
        (cron_job('schedule: "0 24 * * *"'), "hour"),
        (cron_job('schedule: "@every soon"'), "no duration"),
        (cron_job('schedule: ""'), "spec.schedule is missing"),
        (cron_job("startingDeadlineSeconds: soon"), "write a whole number"),
        (cron_job(container='command: "a b"'), "is no list"),
        (cron_job(container='command: ["a\\0b"]'), "U+0000"),
        (cron_job(pod="initContainers: [{name: i, command: [a], restartPolicy: Always}]"), "restartPolicy Always"),
        (WHOLE.replace("batch/v1", "example.com/v1"), "a CronJob of Kubernetes has `batch/v1`"),
        (WHOLE.replace("  name: report\n", ""), "metadata.name is missing"),
        (WHOLE[: WHOLE.index("  jobTemplate")], "spec.jobTemplate is missing"),
        ("kind: CronJob\nkind: CronJob\n", "`kind` stands twice in the document, again in line 2"),
        ("kind: CronJob\nmetadata: 3\n", "metadata is no mapping"),
        ("{{- if .Values.on }}\na: b\n", "helm template"),
        (cron_job("schedule: {{ .Values.schedule }}"), "a template is rendered first"),
        ("a: [\n", "cannot be read as YAML"),
        ("a: \x01\n", "cannot be read as YAML"),
        ('a: "\\UFFFFFFFF"\n', "cannot be read as YAML"),
        (b"a: \xff\n", "no UTF-8 (line 1)"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(text: str | bytes, reason: str) -> None:
    """The reason names the place, and what to write."""
    (entry,) = read_kubernetes(text, source="a.yaml").entries
    assert (ImportVerdict.REFUSED, None) == (entry.verdict, entry.job)
    assert reason in (entry.reason or "")


def test_the_zone_of_the_controller_can_be_given() -> None:
    """Then a CronJob without a zone has not changed."""
    entry = only_entry(cron_job("timeZone: null"), timezone="Asia/Tokyo")
    assert entry.job is not None
    assert (ImportVerdict.SAME, "Asia/Tokyo") == (entry.verdict, entry.job["timezone"])


def test_init_containers_run_before_in_shells_of_their_own() -> None:
    """Their variables and folders end with them, and a failure ends the run."""
    job = job_of(cron_job(pod='initContainers: [{name: i, command: [/bin/i], env: [{name: A, value: "1 2"}]}]'))
    assert "(\nexport A='1 2'\nexec /bin/i\n) || exit\nexec /bin/a" == job["task"]["command"]


@pytest.mark.parametrize(
    ("argument", "filled"),
    [
        ("$(A)", "exec /bin/a one"),
        ("x$(A)y", "exec /bin/a xoney"),
        ("$(B)", "exec /bin/a one-two"),
        ("$$(A)", "exec /bin/a '$(A)'"),
        ("$(UNKNOWN)", "exec /bin/a '$(UNKNOWN)'"),
        ("$(A", "exec /bin/a '$(A'"),
        ("$A", "exec /bin/a '$A'"),
        ("$", "exec /bin/a '$'"),
        ("$(SECRET)!", "exec /bin/a \"${SECRET}\"'!'"),
    ],
)
def test_variables_in_arguments_are_filled_in_as_the_kubelet_does(argument: str, filled: str) -> None:
    """Known values at once, values from elsewhere when the task runs, and nothing else."""
    container = f"""\
command: ["/bin/a", "{argument}"]
env:
- {{name: A, value: one}}
- {{name: B, value: "$(A)-two"}}
- {{name: SECRET, valueFrom: {{secretKeyRef: {{name: s, key: k}}}}}}"""
    assert filled == job_of(cron_job(container=container))["task"]["command"].splitlines()[-1]


# ------------------------------------------------------------------------------------------------------------ files


def test_documents_and_lists_are_read_and_other_kinds_are_none() -> None:
    """Each with its line; a document that is broken leaves the others readable."""
    listed = cron_job().replace("name: a}", "name: b}").replace("\n", "\n    ")
    documents = [
        "# first",
        "kind: ConfigMap",
        cron_job(),
        "a: [",
        f"kind: List\nitems:\n  - {listed}\n  - kind: Secret",
        "b",
    ]
    text = "\n---\n".join(documents)
    report = read_kubernetes(text, source="a.yaml")
    check_report(report)
    begin = text.index("- apiVersion: batch")
    assert [
        (5, "CronJob a: 0 3 * * *", ImportVerdict.SAME),
        (21, "a.yaml", ImportVerdict.REFUSED),
        (text.count("\n", 0, begin) + 1, "CronJob b: 0 3 * * *", ImportVerdict.SAME),
    ] == [(entry.line, entry.text, entry.verdict) for entry in report.entries]


def test_the_second_of_a_name_is_refused() -> None:
    """One import holds each key once; which of the two is meant, is not guessed."""
    first, second = read_kubernetes(f"{cron_job()}\n---\n{cron_job()}", source="a.yaml").entries
    assert (ImportVerdict.SAME, ImportVerdict.REFUSED) == (first.verdict, second.verdict)
    assert "in line 1; leave out or rename" in (second.reason or "")


def test_anchors_and_merge_keys_are_followed() -> None:
    """A CronJob may take its parts from another one of the document."""
    first = cron_job().replace("\n", "\n  ")
    text = f"""\
kind: List
items:
- &first
  {first}
- {{kind: CronJob, <<: *first, metadata: {{name: b}}}}
- {{kind: CronJob, <<: *first}}
"""
    report = read_kubernetes(text, source="a.yaml")
    check_report(report)
    assert ["a", "b"] == [job["name"] for job in report.jobs]
    assert [ImportVerdict.SAME, ImportVerdict.SAME, ImportVerdict.REFUSED] == [
        entry.verdict for entry in report.entries
    ]


_MERGES = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}]}}\n" for n in range(1, 9))
_LISTS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
_DOUBLINGS = "\n".join(f'- {{name: V{n}, value: "$(V{n - 1})$(V{n - 1})"}}' for n in range(1, 41))
HOSTILE = {
    "deep lists": "a: " + "[" * 20_000,
    "deep blocks": "- " * 5_000,
    "deep mappings": "kind: CronJob\nspec: " + "{a: " * 200 + "1" + "}" * 200,
    "merged into itself": "kind: CronJob\nmetadata: &a {<<: *a}\n",
    "merged into itself often": "kind: CronJob\nmetadata: &a {<<: [*a, *a, *a, *a]}\nspec: *a\n",
    "list in itself": "&a [*a, *a]",
    "items in themselves": "kind: List\nitems: &a [{kind: List, items: *a}]",
    "bomb of merges": f"kind: CronJob\na0: &a0 {{k: v}}\n{_MERGES}metadata: *a8\nspec: {{}}\n",
    "bomb of lists": f"a0: &a0 [x, x]\n{_LISTS}",
    "bomb of variables": cron_job(
        container=f"command: [/bin/a, $(V40)]\nenv:\n- {{name: V0, value: xxxxxxxx}}\n{_DOUBLINGS}"
    ),
    "many arguments": cron_job(container="command: &c [" + ", ".join(["x"] * 5_000) + "]\nargs: *c"),
    "version": "%YAML 99999999999999999999.1\n---\na: b",
    "object": "!!python/object/apply:os.system [echo]\n",
    "mark": "\ufeffkind: CronJob",
    "half a character": cron_job(container='command: ["\\ud800"]'),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_read_within_bounds(text: str) -> None:
    """Bombs of aliases, of merges and of variables, bottomless nesting, and texts that ask for objects."""
    report = read_kubernetes(text, source="a.yaml")
    check_report(report)
    assert () == report.jobs


def test_a_file_that_is_too_long_is_refused_before_it_is_read() -> None:
    """It says how much is read."""
    (entry,) = read_kubernetes(b"a" * 5_000_000, source="a.yaml").entries
    assert "split it" in (entry.reason or "")


_PIECES = st.lists(
    st.sampled_from(
        [
            *WHOLE.splitlines(keepends=True), "---\n", "- ", "{", "}", "[", "]", ": ", "&a ", "*a", "<<: ", "'", '"',
            "\\x00", "\\ud800", "\u2028", "\t", "\n", "0", "kind: List\n", "items:\n", "| \n", "? ", "!!int ",
            "%YAML 1.1\n", "...\n",
        ]
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=200)
@given(pieces=_PIECES, noise=st.text(max_size=30))
def test_no_text_breaks_the_reading(pieces: list[str], noise: str) -> None:
    """Whatever is put together from what manifests are made of."""
    check_report(read_kubernetes("".join(pieces) + noise, source="a.yaml"))
    check_report(read_kubernetes(WHOLE.replace("30 2", noise), source="a.yaml"))


@given(noise=st.binary(max_size=200))
def test_no_bytes_break_the_reading(noise: bytes) -> None:
    """Whatever encoding they were meant to be in."""
    check_report(read_kubernetes(noise, source="a.yaml"))


# ---------------------------------------------------------------------------------------- the line, by another reader


def _robfig_days(text: str, low: int, high: int) -> tuple[set[int], bool]:
    """The values of a day field and whether it counts as a star, as robfig/cron's `getField` does it."""
    values: set[int] = set()
    star = False
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if first in "*?" else (int(first), int(last or first))
        if step and not last:
            end = high
        values |= set(range(begin, end + 1, int(step or 1)))
        star = star or (first in "*?" and int(step or 1) == 1)
    return values, star


def _day_fields(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    item = st.one_of(
        st.sampled_from(["*", "?", "*/2", "*/3", "*/1"]),
        numbers.map(str),
        st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}"),
        st.tuples(numbers, st.integers(1, 3)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


@given(day=_day_fields(1, 28), weekday=_day_fields(0, 6))
@example(day="*/2", weekday="1")
@example(day="1,*", weekday="5")
def test_a_line_names_the_days_that_kubernetes_takes(day: str, weekday: str) -> None:
    """Day by day for three months, against an obvious reading of robfig/cron's rule."""
    job = job_of(cron_job(f'schedule: "0 3 {day} * {weekday}"'))
    days, any_day = _robfig_days(day, 1, 31)
    weekdays, any_weekday = _robfig_days(weekday, 0, 6)
    begin = datetime(2028, 2, 1, tzinfo=UTC)
    expected = []
    for number in range(90):
        at = begin + timedelta(days=number, hours=3)
        suits = at.day in days, at.isoweekday() % 7 in weekdays
        if all(suits) if any_day or any_weekday else any(suits):
            expected.append(at)
    line, found = cron.parse(job["cron_expression"]), []
    at = begin
    while (following := fire_after(line, at, ZoneInfo("UTC"))) is not None and following < begin + timedelta(days=90):
        found.append(following)
        at = following
    assert expected == found


# --------------------------------------------------------------------------------------------------- whole files


@pytest.mark.parametrize("path", cron_jobs(), ids=lambda path: path.stem)
def test_every_cron_job_has_a_verdict(path: Path) -> None:
    """Each file has at least one entry, and what is not refused is accepted by the product."""
    report = read_kubernetes(path.read_bytes(), source=path.name)
    check_report(report)
    assert report.entries
    assert all(entry.line > 0 for entry in report.entries)
