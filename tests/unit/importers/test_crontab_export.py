"""What writing a crontab promises: cron does what the jobs say, or the file says that it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.cron import expression as cron
from tickwise.importers.crontab import read_crontab
from tickwise.importers.crontab_command import Command, wrap
from tickwise.importers.crontab_export import write_crontab

JOB_ID = "0197d3a1-0000-8000-8000-000000000001"
CRON_LIKE = {"max_retries": 0, "overlap": "allow", "misfire": {"mode": "skip"}}


def view(**fields: Any) -> dict[str, Any]:
    """A job as `GET /jobs/{id}` answers it, that asks for no more than cron does."""
    return {
        "job_id": JOB_ID, "name": "tidy", "description": None, "labels": {}, "schedule_type": "CRON",
        "cron_expression": "0 5 * * *", "interval_seconds": None, "anchor": None, "timezone": "Europe/Berlin",
        "task": {"kind": "shell", "command": "cd || exit\n/srv/tidy"}, "payload": {}, "queue": "default",
        "requires": [], "timeout_seconds": None, "status": "SCHEDULED", "pause_reason": None, **CRON_LIKE, **fields,
    }  # fmt: skip


def live(text: str) -> list[str]:
    """The lines of a crontab that are no comments."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def comments(text: str) -> str:
    """The rest."""
    return "\n".join(line for line in text.splitlines() if line.startswith("#"))


def read(text: str) -> tuple[Mapping[str, Any], ...]:
    """The jobs of a crontab, without what only tells them apart."""
    found = read_crontab(text, source="test", system=False, timezone="UTC").jobs
    return tuple({name: value for name, value in job.items() if name != "key"} for job in found)


def test_a_job_that_asks_for_no_more_than_cron_does_is_one_line() -> None:
    """With its zone, its description, and nothing lost."""
    text = write_crontab([view(description="Tidies up\nevery night")])
    assert text.splitlines()[2:] == [
        "",
        "CRON_TZ=Europe/Berlin",
        f"# Tickwise: job tidy ({JOB_ID})",
        "# Tidies up",
        "# every night",
        "0 5 * * * /srv/tidy",
    ]


def test_no_jobs_are_a_crontab_too() -> None:
    """Of comments alone, with a line break at its end."""
    text = write_crontab([])
    assert ([], True) == (live(text), text.endswith("\n"))


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"max_retries": 3}, "max_retries 3"),
        ({"timeout_seconds": 60.0}, "timeout_seconds 60"),
        ({"overlap": "skip"}, "overlap skip"),
        ({"overlap": None}, "overlap skip"),
        ({"misfire": {"mode": "all"}}, "misfire mode all"),
        ({"misfire": None}, "misfire mode latest"),
        ({"jitter_seconds": 30}, "jitter_seconds 30"),
        ({"dst": {"gap": "skip", "overlap": None}}, "gap skip"),
        ({"queue": "slow"}, "queue slow"),
        ({"requires": ["gpu"]}, "gpu"),
        ({"payload": {"a": 1}}, "payload"),
        ({"labels": {"cron_user": "www-data"}}, "www-data"),
        ({"task": {"kind": "shell", "command": "/srv/tidy"}}, "home folder"),
        ({"task": {"kind": "shell", "argv": ["/srv/tidy"]}}, "home folder"),
    ],
)
def test_what_cron_does_not_do_stands_above_the_line(fields: dict[str, Any], lost: str) -> None:
    """The line is live all the same."""
    text = write_crontab([view(**fields)])
    assert live(text) == ["CRON_TZ=Europe/Berlin", "0 5 * * * /srv/tidy"]
    assert lost in comments(text)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "PAUSED", "pause_reason": "moving house"}, "moving house"),
        ({"status": "CANCELLED"}, "CANCELLED"),
        ({"end_at": "2027-01-01T00:00:00Z"}, "end_at"),
        ({"max_runs": 3, "start_at": "2027-01-01T00:00:00Z"}, "start_at, max_runs"),
        ({"calendars": [{"name": "holidays"}]}, "calendars"),
        ({"window_seconds": 600}, "window_seconds"),
    ],
)
def test_a_job_that_cron_would_run_when_it_must_not_is_commented_out(fields: dict[str, Any], reason: str) -> None:
    """With its line, for whoever wants it anyway."""
    text = write_crontab([view(**fields)])
    assert live(text) == []
    assert reason in comments(text)
    assert "#0 5 * * * /srv/tidy" in text.splitlines()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schedule_type": "FUTURE", "cron_expression": None}, "once"),
        ({"schedule_type": "IMMEDIATE", "cron_expression": None}, "once"),
        ({"cron_expression": "30 0 5 * * *"}, "seconds"),
        ({"cron_expression": "0 5 L * *"}, "last day"),
        ({"cron_expression": "0 5 * * 5#2"}, "n-th weekday"),
        ({"cron_expression": "@every 90s"}, "90 seconds"),
        ({"cron_expression": "no line"}, "minute"),
        ({"schedule_type": "INTERVAL", "interval_seconds": 5_400.0}, "5400 seconds"),
        ({"timezone": "Nowhere\n* * * * * rm -rf"}, "no time zone"),
        ({"task": {"kind": "http", "url": "https://example.org"}}, "http"),
        ({"task": None}, "commands"),
        ({"task": {"kind": "shell", "command": "a\nb"}}, "several lines"),
        ({"task": {"kind": "shell", "command": "a" * 999}}, "998 characters"),
        ({"task": {"kind": "shell", "command": "* b"}}, "script"),
        ({"task": {"kind": "shell", "command": wrap(Command("cat", stdin="a\\\nb\n"))}}, "script"),
        ({"task": {"kind": "shell", "command": wrap(Command("a", (("A", " \"'"),)))}}, "sets A"),
    ],
)
def test_a_job_that_no_line_can_say_is_left_out_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    """It is named, so that nobody looks for it in vain."""
    text = write_crontab([view(**fields)])
    assert live(text) == []
    assert reason in comments(text)
    assert JOB_ID in text


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("0 */5 22-4 ? * MON-FRI", "*/5 0-4,22-23 * * MON-FRI"),
        ("0/20 5 * * *", "0-40/20 5 * * *"),
        ("0 5 * * FRI-MON", "0 5 * * 0-1,5-6"),
        ("@Daily", "@daily"),
        ("00 05 * JAN,jul 7", "00 05 * JAN,jul 7"),
    ],
)
def test_a_line_in_our_words_is_written_in_those_of_cron(expression: str, times: str) -> None:
    """It fires at the same times."""
    assert live(write_crontab([view(cron_expression=expression)]))[1:] == [f"{times} /srv/tidy"]
    ours, theirs = cron.parse(expression), cron.parse(times)
    assert (ours.minutes, ours.hours, ours.days, ours.months, ours.weekdays, ours.both_days, ours.keeps_real_time) == (
        theirs.minutes, theirs.hours, theirs.days, theirs.months, theirs.weekdays, theirs.both_days,
        theirs.keeps_real_time,
    )  # fmt: skip


def test_a_time_that_is_spread_by_the_job_is_written_as_it_fell() -> None:
    """`H` is a value of the job's own; the line names it."""
    (line,) = live(write_crontab([view(cron_expression="H H(1-5) * * *")]))[1:]
    ours = cron.parse("H H(1-5) * * *", bytes.fromhex(JOB_ID.replace("-", "")))
    assert cron.parse(" ".join(line.split()[:5])).next_second(0, ZoneInfo("UTC")) == ours.next_second(
        0, ZoneInfo("UTC")
    )


@pytest.mark.parametrize(
    ("seconds", "anchor", "times"),
    [
        (60, "2026-11-21T10:07:00Z", "* * * * *"),
        (900, "2026-11-21T10:07:00Z", "7-59/15 * * * *"),
        (900, "2026-11-21T10:30:00+00:00", "*/15 * * * *"),
        (3_600, "2026-11-21T10:07:00Z", "7 * * * *"),
        (21_600, "2026-11-21T10:07:00Z", "7 4-23/6 * * *"),
        (86_400, "2026-11-21T10:07:00+02:00", "7 8 * * *"),
        (604_800, "2026-11-21T10:07:00Z", "7 10 * * 6"),
        (3_600, None, "0 * * * *"),
    ],
)
def test_an_interval_that_divides_the_day_is_a_line_in_utc(seconds: int, anchor: str | None, times: str) -> None:
    """UTC has no clock changes, so it runs at just the interval's times."""
    job = view(schedule_type="INTERVAL", cron_expression=None, interval_seconds=float(seconds), anchor=anchor)
    assert live(write_crontab([job])) == ["CRON_TZ=UTC", f"{times} /srv/tidy"]


def test_seconds_of_an_interval_are_lost_and_said() -> None:
    """cron starts at the whole minute."""
    job = view(
        schedule_type="INTERVAL", cron_expression=None, interval_seconds=3_600.0, anchor="2026-11-21T10:07:31.5Z"
    )
    assert "31.5 s after the minute" in comments(write_crontab([job]))


def test_each_line_has_its_zone_and_variables_and_no_other() -> None:
    """Variables of a crontab hold to its end, so what a job must not have is unset for it."""
    tasks = [
        (Command("two", (("A", "1"), ("B", "2 3"))), "UTC"),
        (Command("none"), "Asia/Tokyo"),
        (Command("bash", (("SHELL", "/bin/bash"),)), "UTC"),
        (Command("one", (("C", "4"),)), "UTC"),
    ]
    jobs = [view(task={"kind": "shell", "command": wrap(task)}, timezone=zone) for task, zone in tasks]
    assert live(write_crontab(jobs)) == [
        "CRON_TZ=Asia/Tokyo",
        "0 5 * * * none",
        "CRON_TZ=UTC",
        "SHELL=/bin/bash",
        "0 5 * * * bash",
        "SHELL=/bin/sh",
        "C=4",
        "0 5 * * * one",
        "A=1",
        'B="2 3"',
        "0 5 * * * unset C; two",
    ]


def test_a_home_folder_of_another_job_is_never_inherited() -> None:
    """It cannot be unset, so such a job is left out."""
    jobs = [
        view(task={"kind": "shell", "command": wrap(Command("a", (("HOME", "/a"),)))}),
        view(task={"kind": "shell", "command": wrap(Command("b", (("PATH", "/b"), ("X", "1"))))}),
    ]
    text = write_crontab(jobs)
    assert live(text) == ["CRON_TZ=Europe/Berlin", "PATH=/b", "X=1", "0 5 * * * b"]
    assert "must not be set for it" in comments(text)


HOSTILE = st.text(st.sampled_from("\n\r\x0b\x85\u2028\0\udcff#%\\ *a0\"'="), max_size=20)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_of_a_job_breaks_out_of_its_comment_or_line(
    name: str, description: str, reason: str, command: str, value: str
) -> None:
    """Whoever may name a job must not thereby run something on the machine where the export is installed."""
    task = {"kind": "shell", "command": wrap(Command("echo " + command, (("A", value),)))}
    text = write_crontab([view(name=name, description=description, task=task, pause_reason=reason)])
    text.encode(errors="surrogateescape")
    for line in text.split("\n"):
        assert line == "" or line.startswith(("#", "CRON_TZ=Europe/Berlin", "A=", "0 5 * * * echo "))


WORDS = st.text(st.sampled_from("abc%\\'\"$ #&;|(){}äx-/="), max_size=25)
CRONTABS = st.lists(
    st.one_of(
        st.builds(
            "{} {}".format,
            st.sampled_from(["0 5 * * *", "*/5 * * * *", "0 22-4 * * 1", "@daily", "0/7 3 1 * *", "-5 4 ? * fri"]),
            WORDS.filter(lambda text: text.strip()),
        ),
        st.builds("{}={}".format, st.sampled_from(["A", "PATH", "HOME", "B"]), WORDS),
        st.sampled_from(["CRON_TZ=Asia/Tokyo", "CRON_TZ=UTC", "# said", "", "SHELL=/bin/bash", "SHELL=/bin/sh"]),
    ),
    max_size=8,
).map(lambda lines: "".join(f"{line}\n" for line in lines))


def meaning(job: Mapping[str, Any]) -> tuple[str, str, int | None]:
    """What a job runs, and when first in 2027."""
    line = cron.parse(job["cron_expression"])
    return job["timezone"], job["task"]["command"], line.next_second(1_798_761_600, ZoneInfo(job["timezone"]))


@given(CRONTABS)
def test_an_export_read_back_gives_the_same_schedules_and_commands(text: str) -> None:
    """Whatever crontab the jobs came from; what cannot be said is left out, and a second time changes nothing."""
    jobs = read(text)
    written = write_crontab([view(**job) for job in jobs])
    again = read(written)
    left = [meaning(job) for job in jobs]
    for job in again:
        left.remove(meaning(job))
    assert len(left) == written.count("left out")
    assert read(write_crontab([view(**job) for job in again])) == again


def test_an_export_leaves_out_hardly_anything_that_came_from_a_crontab() -> None:
    """Variables, zones, input, percent signs, backslashes, shells and random times all find their way back."""
    text = (
        "PATH=/usr/local/bin:/usr/bin:/bin\nMAILTO=ops\nNOTE = it's \n"
        '# Backup\n30 2 * * 1-5 /srv/backup.sh "$(date +\\%F)" >> /var/log/b.log 2>&1\n'
        "CRON_TZ=Asia/Tokyo\nSHELL=/bin/bash\n*/90 * * * * [[ -f /x ]] && mail -s 'a' $MAILTO%Hello%\\% you%\n"
        "SHELL=/bin/sh\n@daily printf 'a\\\\b\\c'\n~ 5 * * * tidy\n@every 1h tidy\n"
    )
    written = write_crontab([view(**job) for job in read(text)])
    assert "left out" not in written
    spread = cron.parse("H 5 * * *", bytes.fromhex(JOB_ID.replace("-", ""))).minutes.bit_length() - 1
    assert live(written) == [
        "CRON_TZ=Asia/Tokyo",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        'NOTE="it\'s"',
        r"@daily printf 'a\b\c'",
        f"{spread} 5 * * * tidy",
        "CRON_TZ=UTC",
        '30 2 * * 1-5 /srv/backup.sh "$(date +\\%F)" >> /var/log/b.log 2>&1',
        "0 * * * * tidy",
        "CRON_TZ=Asia/Tokyo",
        "MAILTO=ops",
        "SHELL=/bin/bash",
        "*/60 * * * * [[ -f /x ]] && mail -s 'a' $MAILTO%Hello%\\% you",
    ]


def test_a_job_without_a_schedule_is_left_out_and_said_to_be() -> None:
    """It runs when it is asked for, which cron knows nothing of."""
    text = write_crontab([view(schedule_type="ON_DEMAND", cron_expression=None)])
    assert [] == live(text)
    assert "it runs when it is asked for" in comments(text)
