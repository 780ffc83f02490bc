"""systemd timers: what a timer and its service become, and that no unit file breaks the reading."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.importers.acceptance import accepted, check_report
from tickwise.importers.report import ImportEntry, ImportVerdict
from tickwise.importers.systemd import read_systemd
from tickwise.importers.systemd_units import Unit, span_seconds, split_commands
from tickwise.importers.translation import Untranslatable, command_line

AS_USER = (
    "it runs as the executor's user, in a folder of its own and without the variables of systemd; "
    "systemd runs it as root"
)


def entries_of(timer: str, service: str = "ExecStart=/bin/a", **more: Any) -> list[ImportEntry]:
    """The entries of `a.timer`, whose [Timer] and whose service's [Service] hold these lines."""
    files: dict[str, str | bytes] = {"a.timer": f"[Timer]\n{timer}\n", "a.service": f"[Service]\n{service}\n"}
    report = read_systemd(files, **more)
    check_report(report)
    return list(report.entries)


def job_of(timer: str = "OnCalendar=02:00 UTC", service: str = "ExecStart=/bin/a") -> dict[str, Any]:
    (entry,) = entries_of(timer, service)
    assert entry.job is not None, entry.reason
    return dict(entry.job)


# ------------------------------------------------------------------------------------------------------- the timer


def test_a_timer_with_its_service_becomes_a_job() -> None:
    """All that has a counterpart; that it ran as root is said."""
    timer = """\
[Unit]
Description=Nightly %p of %n

[Timer]
OnCalendar=Mon..Fri 02:30 Europe/Berlin
Persistent=true
RandomizedDelaySec=1h 30min

[Install]
WantedBy=timers.target
"""
    service = "[Service]\nType=oneshot\nExecStart=/usr/bin/backup --to '/srv/my backup'\nTimeoutStartSec=2h\n"
    (entry,) = read_systemd({"units/backup.timer": timer, "units/backup.service": service}).entries
    assert (ImportVerdict.CHANGED, 5, (AS_USER,)) == (entry.verdict, entry.line, entry.changes)
    assert "backup.timer: OnCalendar=Mon..Fri 02:30 Europe/Berlin" == entry.text
    assert {
        "name": "backup",
        "key": "systemd:backup",
        "schedule_type": "CRON",
        "cron_expression": "30 2 * * 1-5",
        "timezone": "Europe/Berlin",
        "dst": {"gap": "skip", "overlap": "first"},
        "misfire": {"grace_seconds": 60, "mode": "latest"},
        "overlap": "skip",
        "jitter_seconds": 5_400,
        "timeout_seconds": 7_200,
        "max_retries": 0,
        "task": {"kind": "shell", "argv": ["/usr/bin/backup", "--to", "/srv/my backup"]},
        "isolation": "process",
        "description": "Nightly backup of backup.timer",
    } == entry.job
    accepted(entry.job)


@pytest.mark.parametrize(
    ("timer", "field", "value"),
    [
        ("OnCalendar=daily UTC", "misfire", {"grace_seconds": 60, "mode": "skip"}),
        ("OnCalendar=daily UTC\nPersistent=yes", "misfire", {"grace_seconds": 60, "mode": "latest"}),
        ("OnCalendar=daily UTC\nAccuracySec=10min", "misfire", {"grace_seconds": 600, "mode": "skip"}),
        ("OnCalendar=daily UTC\nAccuracySec=1us", "misfire", {"grace_seconds": 60, "mode": "skip"}),
        ("OnCalendar=daily UTC\nRandomizedDelaySec=0", "jitter_seconds", None),
        ("OnCalendar=daily UTC\nRandomizedDelaySec=1.5s", "jitter_seconds", 1.5),
        ("OnCalendar=2027..2028-1-1 UTC", "start_at", "2027-01-01T00:00:00Z"),
        ("OnCalendar=2027..2028-1-1 Europe/Berlin", "end_at", "2028-12-31T22:59:59Z"),
        ("OnCalendar=hourly\nOnCalendar=\nOnCalendar=daily UTC", "cron_expression", "0 0 * * *"),
        ("OnBootSec=5min\nOnUnitActiveSec=1h 30min", "interval_seconds", 5_400),
        ("OnUnitInactiveSec=2.5", "interval_seconds", 2.5),
        ("OnCalendar=daily \\\n# a comment\n   UTC", "timezone", "UTC"),
    ],
)
def test_a_line_of_the_timer_becomes_its_counterpart(timer: str, field: str, value: object) -> None:
    """One line of a timer, one field of the body."""
    assert value == job_of(timer).get(field)


@pytest.mark.parametrize(
    ("timer", "service", "change"),
    [
        ("OnCalendar=daily", "ExecStart=/bin/a", "the times are read as UTC"),
        ("OnUnitActiveSec=1h", "ExecStart=/bin/a", "counts from the import on"),
        ("OnUnitInactiveSec=1h", "ExecStart=/bin/a", "counts from start to start"),
        ("OnBootSec=5min\nOnUnitActiveSec=1h", "ExecStart=/bin/a", "OnBootSec=5min is left out"),
        ("OnCalendar=daily UTC\nAccuracySec=1h", "ExecStart=/bin/a", "AccuracySec=1h systemd may start it"),
        ("OnCalendar=daily UTC\nRandomizedDelaySec=5\nFixedRandomDelay=true", "ExecStart=/bin/a", "a delay of its own"),
        ("OnCalendar=daily UTC\nRandomizedDelaySec=3d", "ExecStart=/bin/a", "at most a day, not 3d"),
        ("OnCalendar=daily UTC\nWakeSystem=true", "ExecStart=/bin/a", "left out of [Timer], because nothing"),
        ("OnCalendar=daily UTC", "ExecStart=/bin/a\nUser=backup", "systemd runs it as backup"),
        ("OnCalendar=daily UTC", "ExecStart=/bin/a\nMemoryMax=1G\nProtectHome=yes", "MemoryMax, ProtectHome"),
        ("OnCalendar=daily UTC", "ExecStart=/bin/a\n[Unit]\nConditionACPower=true", "ConditionACPower"),
        ("OnCalendar=daily UTC", "ExecStart=/bin/a\nRestart=on-failure", "repeated at most 5 times"),
        ("OnCalendar=daily UTC", "ExecStart=/bin/a\nType=forking", "ends when the command ends"),
        ("OnCalendar=daily UTC", "ExecStart=@/bin/a b", "gets its own path as its name"),
        ("OnCalendar=daily UTC", "ExecStart=+/bin/a", "more rights than the service"),
        (
            "OnCalendar=daily UTC",
            "ExecStart=/bin/a\nEnvironmentFile=/etc/a",
            "/etc/a are read on the executor's machine",
        ),
    ],
)
def test_what_changes_its_meaning_is_said(timer: str, service: str, change: str) -> None:
    """Among the changes is a sentence about it."""
    (entry,) = entries_of(timer, service)
    assert entry.verdict is ImportVerdict.CHANGED, entry.reason
    assert [True] == [True for said in entry.changes if change in said], entry.changes


@pytest.mark.parametrize(
    ("timer", "service", "reason"),
    [
        ("OnBootSec=5min", "ExecStart=/bin/a", "OnBootSec counts from the start of one machine"),
        ("OnStartupSec=5min", "ExecStart=/bin/a", "OnStartupSec counts from the start of one machine"),
        ("OnActiveSec=5min", "ExecStart=/bin/a", "OnActiveSec counts from the start of one machine"),
        ("OnClockChange=true", "ExecStart=/bin/a", "OnClockChange watches the clock of one machine"),
        ("Persistent=true", "ExecStart=/bin/a", "has no line such as `OnCalendar=daily`"),
        ("OnCalendar=never", "ExecStart=/bin/a", "is no part of a calendar event"),
        ("OnCalendar=%H", "ExecStart=/bin/a", "'%H' is filled in by the machine"),
        ("OnCalendar=daily\nUnit=b.service", "ExecStart=/bin/a", "b.service, which is not among the files"),
        ("OnCalendar=daily\nUnit=b.target", "ExecStart=/bin/a", "only the commands of a .service"),
        ("OnCalendar=daily", "Type=oneshot", "has no ExecStart="),
        ("OnCalendar=daily", "ExecStart=/bin/a 'b", "is not closed"),
        ("OnCalendar=daily", "ExecStart=/bin/a \\q", "is no escape that systemd knows"),
        ("OnCalendar=daily", "ExecStart=|a", "login shell"),
        ("OnCalendar=daily", "ExecStart=/bin/a \\x00", "U+0000"),
        ("OnCalendar=daily", "ExecStart=-", "the command is empty"),
        ("OnCalendar=daily", "ExecStart=/bin/a\nEnvironmentFile=a", "no absolute path"),
        ("OnCalendar=daily", "ExecStart=/bin/a " + "b" * 200_000, "more than 100000 characters"),
        ("OnCalendar=daily", "ExecStart=/bin/a" + " b" * 2_000, "2001 arguments"),
        ("OnUnitActiveSec=10ms", "ExecStart=/bin/a", "1 second to 10 years"),
        ("OnUnitActiveSec=soon", "ExecStart=/bin/a", "is no time span"),
        ("\n".join(["OnCalendar=daily"] * 101), "ExecStart=/bin/a", "has 101 lines that start it"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(timer: str, service: str, reason: str) -> None:
    """The reason says what to write, or to leave it with systemd."""
    (entry,) = entries_of(timer, service)
    assert (ImportVerdict.REFUSED, None) == (entry.verdict, entry.job)
    assert reason in (entry.reason or "")


def test_each_line_that_starts_a_timer_is_an_entry() -> None:
    """Jobs of their own, whose keys do not depend on the order of the lines; a line that stands twice counts once."""
    timer = "OnCalendar=02:00 UTC\nOnCalendar=14:00 UTC\nOnBootSec=1min\nOnCalendar=02:00 UTC"
    first, second, boot, again = entries_of(timer)
    assert first.job is not None
    assert second.job is not None
    assert ["a (02:00 UTC)", "a (14:00 UTC)"] == [first.job["name"], second.job["name"]]
    assert ["systemd:a:OnCalendar=02:00 UTC", "systemd:a:OnCalendar=14:00 UTC"] == [first.job["key"], second.job["key"]]
    assert "becomes a job of its own" in first.changes[0]
    assert [2, 3, 4, 5] == [first.line, second.line, boot.line, again.line]
    assert [ImportVerdict.REFUSED, ImportVerdict.REFUSED] == [boot.verdict, again.verdict]


def test_the_zone_of_the_machine_can_be_given() -> None:
    """Then nothing is said of it, and the clock's changes are those of that zone."""
    (entry,) = entries_of("OnCalendar=02:30", timezone="Europe/Berlin")
    assert entry.job is not None
    assert ("Europe/Berlin", (AS_USER,)) == (entry.job["timezone"], entry.changes)


def test_drop_ins_and_templates_are_read() -> None:
    """As systemd puts a unit together: its file, then what is added, in the order of the names."""
    files = {
        "copy@.timer": "[Timer]\nOnCalendar=hourly\n",
        "copy@db.timer": "[Timer]\nOnCalendar=daily UTC\n",
        "copy@.service": "[Service]\nExecStart=/bin/copy %i of %p\n",
        "etc/copy@.service.d/20-b.conf": "[Service]\nExecStart=\nExecStart=/bin/other %i\n",
        "etc/copy@.service.d/10-a.conf": "[Service]\nRuntimeMaxSec=60\n",
        "copy@db.timer.d/x.conf": "[Timer]\nPersistent=true\n",
    }
    template, instance = read_systemd(files).entries
    assert instance.job is not None
    assert (["/bin/other", "db"], 60, "latest") == (
        instance.job["task"]["argv"],
        instance.job["timeout_seconds"],
        instance.job["misfire"]["mode"],
    )
    assert "copy@.timer: OnCalendar=hourly" == template.text


def test_two_files_of_one_name_are_refused() -> None:
    """Which of them systemd uses depends on where they lie."""
    files = {"etc/a.timer": "[Timer]\nOnCalendar=daily", "lib/a.timer": "", "a.service": "[Service]\nExecStart=/bin/a"}
    (entry,) = read_systemd(files).entries
    assert "there are two files a.timer" in (entry.reason or "")


# ------------------------------------------------------------------------------------------------------ the service


@pytest.mark.parametrize(
    ("service", "task"),
    [
        ("ExecStart=/bin/a b  c", {"argv": ["/bin/a", "b", "c"]}),
        ("ExecStart=/bin/a \"b c\" 'd e' f\\x20g h\\ti", {"argv": ["/bin/a", "b c", "d e", "f g", "h\ti"]}),
        ("ExecStart=/bin/a \\\n  # not this\n  b", {"argv": ["/bin/a", "b"]}),
        ("ExecStart=/bin/a $$HOME 100%%", {"argv": ["/bin/a", "$HOME", "100%"]}),
        ("ExecStart=:/bin/a ${HOME}", {"argv": ["/bin/a", "${HOME}"]}),
        ("ExecStart=/bin/a ${HOME}/x", {"command": 'exec /bin/a "${HOME}"/x'}),
        ("ExecStart=/bin/a $OPTIONS", {"command": "set -f\nexec /bin/a ${OPTIONS}"}),
        ("ExecStart=/bin/a x$OPTIONS", {"argv": ["/bin/a", "x$OPTIONS"]}),
        ("ExecStart=-/bin/a", {"command": "/bin/a || :"}),
        ("ExecStart=/bin/a ; /bin/b \\; c", {"command": "/bin/a || exit\nexec /bin/b ';' c"}),
        (
            "ExecCondition=/bin/c\nExecStartPre=-/bin/p\nExecStart=/bin/a\nExecStart=/bin/b\nExecStartPost=/bin/z",
            {"command": "/bin/c || exit 0\n/bin/p || :\n/bin/a || exit\n/bin/b || exit\nexec /bin/z"},
        ),
        (
            "Environment=A=1 \"B=2 3\" 'C=$x'\nEnvironment=A=4\nExecStart=/bin/a",
            {"command": "export A=4\nexport B='2 3'\nexport C='$x'\nexec /bin/a"},
        ),
        (
            "EnvironmentFile=-/etc/a b\nWorkingDirectory=/srv\nExecStart=/bin/a",
            {"command": "if [ -r '/etc/a b' ]; then set -a; . '/etc/a b'; set +a; fi\ncd /srv || exit\nexec /bin/a"},
        ),
        ("WorkingDirectory=-~\nExecStart=/bin/a", {"command": "cd || :\nexec /bin/a"}),
    ],
)
def test_commands_become_a_shell_task(service: str, task: dict[str, Any]) -> None:
    """A program with its arguments where that is all; else lines for a shell that mean the same."""
    assert {"kind": "shell", **task} == job_of(service=service)["task"]


@pytest.mark.parametrize(
    ("service", "field", "value"),
    [
        ("Type=oneshot\nTimeoutStartSec=5min", "timeout_seconds", 300),
        ("Type=oneshot\nTimeoutStartSec=infinity", "timeout_seconds", None),
        ("Type=oneshot\nRuntimeMaxSec=5", "timeout_seconds", None),
        ("TimeoutStartSec=5min", "timeout_seconds", None),
        ("RuntimeMaxSec=1.5", "timeout_seconds", 1.5),
        ("Restart=no", "max_retries", 0),
        ("Restart=on-failure", "max_retries", 5),
        ("Restart=on-failure\n[Unit]\nStartLimitBurst=2", "max_retries", 2),
        (
            "Restart=on-failure\nRestartSec=10",
            "retry",
            {"backoff": "fixed", "base_seconds": 10.0, "jitter": 0.0},
        ),
    ],
)
def test_limits_of_the_service_become_those_of_the_job(service: str, field: str, value: object) -> None:
    """One setting of a service, one field of the body."""
    assert value == job_of(service=f"ExecStart=/bin/a\n{service}").get(field)


@pytest.mark.parametrize(
    ("service", "succeeds", "output"),
    [
        ("Environment=A=1\nExecStart=/bin/echo ${A} $A\nExecStart=/bin/echo 2", True, "1 1\n2\n"),
        ("Environment=A=1\nExecStart=/bin/echo 1\nExecStart=/bin/sh -c 'exit 3'\nExecStart=/bin/echo 2", False, "1\n"),
        ("ExecStartPre=-/bin/sh -c 'exit 3'\nExecStart=/bin/echo 1", True, "1\n"),
        ("ExecCondition=/bin/sh -c 'exit 1'\nExecStart=/bin/echo 1", True, ""),
        ("ExecStart=-/bin/sh -c 'exit 3'", True, ""),
        ("WorkingDirectory=/\nExecStart=/bin/sh -c pwd", True, "/\n"),
        ("WorkingDirectory=/no/such/folder\nExecStart=/bin/echo 1", False, ""),
        ('Environment="A=b  * c"\nExecStart=/bin/echo $A "x${A}"', True, "b * c xb  * c\n"),
    ],
)
def test_the_shell_does_what_systemd_would_do(service: str, succeeds: bool, output: str) -> None:
    """One command after another until one fails; a condition that is not met is no failure."""
    command = job_of(service=service)["task"]["command"]
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, cwd="/")
    assert (succeeds, output) == (ran.returncode == 0, ran.stdout)


@given(
    words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), max_size=8), min_size=1, max_size=4)
)
@settings(max_examples=25)
def test_a_shell_passes_on_the_words_that_were_written(words: list[str]) -> None:
    """Whatever signs are in them: the shell that runs the task takes nothing for its own."""
    line = command_line([(word,) for word in words])
    ran = subprocess.run(["/bin/sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    assert [word.encode() for word in words] == ran.stdout.split(b"\0")[:-1]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1h 30min", 5_400.0),
        ("1h30min", 5_400.0),
        ("2 weeks", 1_209_600.0),
        ("1.5 hr", 5_400.0),
        ("1d 1M", 2_716_200.0),
        ("500ms", 0.5),
        ("infinity", None),
    ],
)
def test_spans_of_time_are_read_as_systemd_reads_them(text: str, seconds: float | None) -> None:
    """Units by all their names; `m` is a minute, `M` a month."""
    assert seconds == span_seconds(text, "X")


# ----------------------------------------------------------------------------------------------------- hostile files

_PIECES = st.lists(
    st.sampled_from(
        [
            "[Timer]\n", "[Service]\n", "OnCalendar=", "daily", "*-*-* ", "02:00", "\n", "\\\n", "ExecStart=",
            "/bin/a ",
            "%i", "%", "$A ", "${A}", "'", '"', "\\", "\\x", ";", " ; ", "Environment=", "A=1", "OnUnitActiveSec=",
            "5min", "#", "RandomizedDelaySec=", "9999999999999999", "Unit=a.service\n", "User=", "Restart=always\n",
            "\0", "[", "=", "\ud800",
        ]
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=200)
@given(timer=_PIECES, service=_PIECES, noise=st.binary(max_size=60))
def test_no_unit_breaks_the_reading(timer: list[str], service: list[str], noise: bytes) -> None:
    """Whatever is put together from what units are made of."""
    check_report(
        read_systemd(
            {
                "a.timer": "[Timer]\nOnCalendar=daily\n" + "".join(timer),
                "a.service": "[Service]\nExecStart=/bin/a\n" + "".join(service),
                "b.timer": noise,
                "".join(timer): noise,
            }
        )
    )


@given(text=st.text(max_size=60))
def test_every_command_line_is_split_or_refused(text: str) -> None:
    """And what was split has no empty command."""
    try:
        commands = split_commands(text)
    except Untranslatable:
        return
    assert all(commands)


@pytest.mark.parametrize(
    "service",
    [
        "ExecStart=/bin/a" + " ;" * 200_000,
        "ExecStart=/bin/a \\\n" + "\\\n" * 200_000,
        "Environment=" + "A=1 " * 200_000 + "\nExecStart=/bin/a",
        "ExecStart=/bin/a\n" + "X=1\n" * 200_000,
    ],
    ids=["separators", "continuations", "variables", "settings"],
)
def test_large_units_are_read_within_bounds(service: str) -> None:
    """In time that grows with their length only."""
    (entry,) = entries_of("OnCalendar=daily", service)
    assert entry.verdict is ImportVerdict.CHANGED


def test_a_unit_without_a_setting_has_none() -> None:
    """An empty assignment forgets those before it."""
    unit = Unit("a.timer", ())
    assert ([], None, False) == (
        unit.values("Timer", "OnCalendar"),
        unit.value("Timer", "Unit"),
        unit.flag("Timer", "X"),
    )
