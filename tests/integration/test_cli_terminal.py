"""The terminal against a whole Tickwise: short ids and names, times, one look at everything, completion."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import socketserver
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.local_up import ROOT, Local, local_up
from tests.support.waiting import eventually
from tickwise.cli.terminal import cells


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory: what is tested here is the terminal."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


def stored(local: Local, *words: str | Path) -> str:
    """The id of a new job."""
    ran = local.tickwise("run", *words, "--json")
    assert 0 == ran.code, ran.err
    return str(ran.json["job_id"])


def fields(local: Local, *words: str) -> dict[str, str]:
    """The lines of `show`, by their names."""
    ran = local.tickwise(*words)
    assert 0 == ran.code, ran.err
    pairs = (re.split(r" {2,}", line, maxsplit=1) for line in ran.out.split("\n\n")[0].splitlines())
    return dict(pairs)


# ------------------------------------------------------------------------------------------ what a word means


def test_a_job_and_a_run_are_named_by_what_a_list_shows(local: Local) -> None:
    """The end of the id; of a run also its job, whose latest run is meant."""
    job_id = stored(local, "--shell", "echo found", "--on-demand", "--name", "short")
    listed = local.tickwise("jobs", "list", "--name", "short", env={"COLUMNS": "80"}).out
    assert [job_id[-8:], "short"] == listed.splitlines()[1].split()[:2]
    assert job_id == local.tickwise("jobs", "show", job_id[-8:], "--json").json["job_id"]
    assert job_id == local.tickwise("jobs", "show", job_id[-5:].upper(), "--json").json["job_id"]
    assert 0 == local.tickwise("jobs", "run-now", job_id[-8:], "--wait").code
    (run,) = local.tickwise("runs", "list", "--job", job_id[-8:], "--json").json
    for word in (run["run_id"], run["run_id"][-8:], "short", job_id):
        if word != job_id:  # a whole id is that of a run
            ran = local.tickwise("runs", "logs", word)
            assert (0, "found\n") == (ran.code, ran.out), word
    assert f"The latest run of short: {run['run_id']}" in local.tickwise("runs", "logs", "short").err


def test_a_script_that_was_run_several_times_is_named_by_its_latest_run(local: Local) -> None:
    """Each `run --now` made a job of its own, and none of them will run again. What changes a job names one by its
    id."""
    for number in (1, 2):
        assert 0 == local.tickwise("run", "--shell", f"echo number {number}", "--name", "again", "--now", "--wait").code
    ran = local.tickwise("runs", "logs", "again")
    assert (0, "number 2\n") == (ran.code, ran.out)
    assert 2 == local.tickwise("jobs", "show", "again").code


def test_the_end_of_several_ids_is_not_guessed(local: Local) -> None:
    """All of them are shown, with what they are."""
    for begin in ("01a1fd82", "01a1fd83"):
        body = {"job_id": f"{begin}-9f65-831f-89c1-0176feedbeef", "name": begin, "schedule_type": "ON_DEMAND",
                "task": {"kind": "shell", "command": "true"}}  # fmt: skip
        assert 0 == local.tickwise("jobs", "create", stdin=json.dumps(body)).code
    ran = local.tickwise("jobs", "show", "feedbeef")
    assert 2 == ran.code
    for begin in ("01a1fd82", "01a1fd83"):
        assert f"  {begin}-9f65-831f-89c1-0176feedbeef  SCHEDULED  {begin}" in ran.err


def test_a_job_that_is_cancelled_takes_no_name_away(local: Local) -> None:
    """Nor does one that is over; where all are cancelled and there is one, it is that."""
    first = stored(local, "--shell", "true", "--every", "1d", "--name", "namesake")
    assert 0 == local.tickwise("jobs", "cancel", "namesake").code
    assert first == local.tickwise("jobs", "show", "namesake", "--json").json["job_id"]
    assert 0 == local.tickwise("run", "--shell", "true", "--name", "namesake", "--now", "--wait").code
    second = stored(local, "--shell", "true", "--every", "1d", "--name", "namesake")
    assert second == local.tickwise("jobs", "show", "namesake", "--json").json["job_id"]


def test_a_typo_is_answered_with_the_nearest_names(local: Local) -> None:
    """Of jobs and of queues."""
    stored(local, "--shell", "true", "--every", "1d", "--name", "nightly report", "--queue", "reports")
    for words in (("jobs", "show", "nigthly report"), ("runs", "logs", "nightly-report")):
        ran = local.tickwise(*words)
        assert (5, True) == (ran.code, "Did you mean 'nightly report'?" in ran.err)
    ran = local.tickwise("queues", "show", "reprots")
    assert (5, True) == (ran.code, "Did you mean 'reports'?" in ran.err)
    held = local.tickwise("queues", "hold", "report")
    assert (0, True) == (held.code, "Did you mean 'reports'?" in held.err)
    assert 0 == local.tickwise("queues", "resume", "report").code


def test_an_executor_is_named_by_its_name(local: Local) -> None:
    """As its list shows it."""
    (executor,) = local.tickwise("executors", "list", "--json").json
    assert 0 == local.tickwise("run", "--shell", "true", "--now", "--wait", "--name", "placed").code
    by_name = local.tickwise("runs", "list", "--executor", executor["name"], "--name", "placed", "--json").json
    assert [executor["executor_id"]] == [run["executor_id"] for run in by_name]


# ------------------------------------------------------------------------------------------ one job of a name


def test_run_replace_keeps_one_job_of_a_name(local: Local, tmp_path: Path) -> None:
    """Its history stays; what it runs is new, and runs each time."""
    script = tmp_path / "replaced.py"
    for text in ("one", "two"):
        script.write_text(f"print({text!r})\n", encoding="utf-8")
        ran = local.tickwise("run", script, "--replace", "--follow")
        assert (0, f"{text}\n") == (ran.code, ran.out)
    jobs = local.tickwise("jobs", "list", "--name", "replaced", "--json").json
    assert ["ON_DEMAND"] == [job["schedule_type"] for job in jobs]
    assert 2 == len(local.tickwise("runs", "list", "--job", "replaced", "--json").json)
    ran = local.tickwise("run", script, "--replace", "--cron", "0 3 * * *")
    assert (0, True) == (ran.code, "Next run: " in ran.out)
    assert "0 3 * * *" == local.tickwise("jobs", "show", "replaced", "--json").json["cron_expression"]
    assert 2 == local.tickwise("run", script, "--replace", "--key", "a").code


def test_a_job_gets_a_new_script(local: Local, tmp_path: Path) -> None:
    """By `jobs edit JOB SCRIPT`; the variables and the schedule stay."""
    script = tmp_path / "edited.py"
    script.write_text("print('old')\n", encoding="utf-8")
    stored(local, script, "--every", "1d", "--env", "REGION=eu")
    script.write_text("import os\nprint('new', os.environ['REGION'])\n", encoding="utf-8")
    assert 0 == local.tickwise("jobs", "edit", "edited", script).code
    job = local.tickwise("jobs", "show", "edited", "--json").json
    assert ("INTERVAL", {"REGION": "eu"}) == (job["schedule_type"], job["task"]["env"])
    assert "new eu\n" == local.tickwise("jobs", "run-now", "edited", "--follow").out


def test_a_new_script_keeps_the_packages_and_the_python_of_the_job(local: Local, tmp_path: Path) -> None:
    """Without them its next run would fail. A script that declares packages, or an option, takes their place."""
    script, packages = tmp_path / "packed.py", tmp_path / "requirements.txt"
    script.write_text("print('old')\n", encoding="utf-8")
    packages.write_text("tabulate\n", encoding="utf-8")
    stored(local, script, "--requirements", packages, "--on-demand")
    stored(local, script, "--python", sys.executable, "--start", "cold", "--on-demand", "--name", "pythonic")
    script.write_text("print('new')\n", encoding="utf-8")
    for name in ("packed", "pythonic"):
        assert 0 == local.tickwise("jobs", "edit", name, script).code
    tasks = [local.tickwise("jobs", "show", name, "--json").json["task"] for name in ("packed", "pythonic")]
    assert ["tabulate\n", None] == [task.get("requirements") for task in tasks]
    assert [(None, None), (sys.executable, "cold")] == [(task.get("python"), task.get("start")) for task in tasks]
    ran = local.tickwise("jobs", "edit", "pythonic", script, "--python", "none")
    assert (0, None) == (
        ran.code,
        local.tickwise("jobs", "show", "pythonic", "--json").json["task"].get("python"),
    ), ran.err
    script.write_text("# /// script\n# dependencies = ['attrs']\n# ///\nprint('own')\n", encoding="utf-8")
    assert 0 == local.tickwise("jobs", "edit", "packed", script).code
    assert "requirements" not in local.tickwise("jobs", "show", "packed", "--json").json["task"]


def test_an_edit_says_what_it_changes(local: Local, tmp_path: Path) -> None:
    """Before and after it, and in the audit log: lines of scripts, the names of files, and no values of variables."""
    script, helper = tmp_path / "said.py", tmp_path / "helper.py"
    script.write_text("import helper\nprint('Stadt')\n", encoding="utf-8")
    helper.write_text("X = 1\nY = 2\n", encoding="utf-8")
    stored(local, script, "--file", helper, "--env", "TOKEN=one", "--on-demand")
    script.write_text("import helper\nprint('Ort')\n", encoding="utf-8")
    helper.write_text("X = 1\nY = 3\n", encoding="utf-8")
    edit = ("jobs", "edit", "said", script, "--task-file", helper, "--env", "TOKEN=two", "--retries", "1")
    tried = local.tickwise(*edit, "--dry-run")
    lines = tried.out.splitlines()
    assert {"task.source", "- print('Stadt')", "+ print('Ort')", "task.files.helper.py", "- Y = 2", "+ Y = 3"} <= {
        *lines
    }
    assert {"task.env: TOKEN", "max_retries: 3 → 1"} <= {*lines}, lines
    assert [] == [line for line in lines if "one" in line or "two" in line]
    mixed = local.tickwise("jobs", "edit", "said", "--file", helper)
    assert (2, True) == (
        mixed.code,
        "a file that travels with the script is --task-file" in " ".join(mixed.err.split()),
    )
    names = ("max_retries", "task.source", "task.env", "task.files.helper.py")
    told = local.tickwise(*edit).out
    (changed,) = [line for line in told.splitlines() if line.startswith("Changed: ")]
    assert set(names) == set(changed.removeprefix("Changed: ").split(", "))
    logged = local.tickwise("audit", "list", "--target", "said", "--action", "job.changed", "--columns", "changed").out
    assert ["CHANGED", "task.files.helper.py: 12 → 12 bytes, task.source: 29 → 27 bytes, max_retries: null → 1"] == (
        logged.splitlines()
    )


def test_a_job_that_tells_a_channel_which_never_delivered_says_so(local: Local) -> None:
    """Else a failure at night tells nobody, and nobody knows. A channel that delivered is not doubted."""
    with socketserver.TCPServer(("127.0.0.1", 0), _Taking) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
        assert 0 == local.tickwise("channels", "add", "hook", address, "--allow-private").code
        made = local.tickwise("run", "--shell", "true", "--every", "1d", "--name", "telling", "--notify", "hook")
        assert "Warning: the channel hook has delivered nothing yet. Try it: tickwise channels test hook" in made.err
        assert 0 == local.tickwise("channels", "test", "hook").code
        edited = local.tickwise("jobs", "edit", "telling", "--notify", "hook")
        receiver.shutdown()
    assert (0, "") == (edited.code, edited.err)
    assert 0 == local.tickwise("channels", "add", "mail", "--to", "ada@example.com").code
    assert 1 == local.tickwise("channels", "test", "mail").code
    edited = local.tickwise("jobs", "edit", "telling", "--notify", "mail")
    assert "Warning: the channel mail could not deliver its newest message: no mail server" in edited.err
    private = local.tickwise(
        "channels", "add", "own", "smtp://127.0.0.1:25", "--to", "a@b.example", "--from", "c@d.example"
    )
    assert (4, True) == (private.code, "--allow-private" in private.err)


class _Taking(socketserver.StreamRequestHandler):
    """A receiver of webhooks."""

    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.rfile.read(length)
        self.wfile.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")


async def test_a_cancel_by_the_name_of_a_job_says_which_run_and_what_goes_on(local: Local) -> None:
    """Of runs that overlap, a name means the latest; the others are not forgotten."""
    job = stored(local, "--shell", "sleep 600", "--on-demand", "--name", "sleeper", "--overlap", "allow")
    runs = [local.tickwise("jobs", "run-now", "sleeper", "--json").json["run_id"] for _ in range(2)]
    listed = ("runs", "list", "--job", "sleeper", "--status", "RUNNING", "--json")
    await eventually(lambda: 2 == len(local.tickwise(*listed).json))
    ran = local.tickwise("runs", "cancel", "sleeper")
    assert (0, f"Run {runs[1]} will stop.\n") == (ran.code, ran.out), ran.err
    assert f"Of its job, 1 more still runs. All of them: tickwise runs cancel --job {job}" in ran.err
    last = local.tickwise("runs", "cancel", runs[0])
    assert (0, f"Run {runs[0]} will stop.\n", "") == (last.code, last.out, last.err)


# ------------------------------------------------------------------------------------------ when it runs


def test_a_queue_on_hold_is_said_instead_of_now(local: Local) -> None:
    """And a stop."""
    assert 0 == local.tickwise("queues", "hold", "slow", "--reason", "they move").code
    ran = local.tickwise("run", "--shell", "true", "--now", "--queue", "slow")
    assert "It waits: the queue slow is on hold by " in ran.out
    assert ": they move." in ran.out
    held = ". It waits{}: the queue slow is on hold by "
    ran = local.tickwise("run", "--shell", "true", "--at", "now", "--queue", "slow", "--name", "held back")
    assert held.format("") in ran.out
    ran = local.tickwise("run", "--shell", "true", "--every", "1d", "--queue", "slow", "--name", "held later")
    assert held.format(" then") in ran.out
    for words in (("show", "held back"), ("edit", "held later", "--priority", "7")):
        assert ". It waits" in " ".join(local.tickwise("jobs", *words).out.split()), words
    assert "It waits: the queue slow is on hold by " in local.tickwise("jobs", "run-now", "held later").out
    assert 0 == local.tickwise("queues", "hold", "slow", "--until", "1h").code
    assert "It waits" not in local.tickwise("run", "--shell", "true", "--every", "1d", "--queue", "slow").out
    assert 0 == local.tickwise("stops", "add", "--label", "team=moved", "--reason", "a move", "--yes").code
    ran = local.tickwise("run", "--shell", "true", "--now", "--label", "team=moved")
    assert "It waits: " in ran.out
    assert "It runs now." in local.tickwise("run", "--shell", "true", "--now").out
    body = {"name": "a", "schedule_type": "IMMEDIATE", "queue": "slow", "task": {"kind": "shell", "command": "true"}}
    assert "It waits: the queue slow" in local.tickwise("jobs", "create", stdin=json.dumps(body)).out
    assert 0 == local.tickwise("stops", "lift", "--all").code


def test_the_next_run_is_told_on_the_clock_of_the_job_too(local: Local) -> None:
    """Who asked for 02:30 looks for 02:30; where both clocks show the same, once is enough."""
    words = ("--shell", "true", "--cron", "30 2 * * *", "--timezone", "Asia/Tokyo", "--name", "far away")
    told = local.tickwise("run", *words, env={"TZ": "UTC"}).out
    assert re.search(r"Next run: \S+ 17:30:00 UTC \(.*\), \S+ 02:30 in Asia/Tokyo", told), told
    told = local.tickwise("jobs", "edit", "far away", "--priority", "7", env={"TZ": "UTC"}).out
    assert " 02:30 in Asia/Tokyo" in told
    assert (
        " in Asia/Tokyo"
        not in local.tickwise("jobs", "edit", "far away", "--priority", "6", env={"TZ": "Asia/Tokyo"}).out
    )


def test_the_next_run_is_one_that_calendars_skips_and_snoozes_let_run(local: Local) -> None:
    """As it is stored, in the list, and where the job is shown."""
    today = datetime.now(UTC).strftime("%a").lower()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%a").lower()
    assert 0 == local.tickwise("calendars", "put", "closed", "--weekly", f"{today},{tomorrow}").code
    made = local.tickwise("run", "--shell", "true", "--cron", "0 9 * * *", "--name", "workdays", "--calendar", "closed")
    listed = local.tickwise("jobs", "list", "--name", "workdays", "--columns", "next").out.splitlines()[1]
    shown = fields(local, "jobs", "show", "workdays")["next run"]
    (first, *_) = [
        fire for fire in local.tickwise("jobs", "preview", "workdays", "--json").json["fires"] if fire["due"]
    ]
    due = first["due"].replace("T", " ")[:19]
    assert timedelta(hours=24) < datetime.fromisoformat(first["due"]) - datetime.now(UTC)
    assert [True] * 3 == [due in text for text in (made.out, listed, shown)]
    stored(local, "--shell", "true", "--cron", "0 9 * * *", "--name", "skipped once")
    planned = fields(local, "jobs", "show", "skipped once")["next run"][:19]
    assert 0 == local.tickwise("jobs", "skip-next", "skipped once").code
    assert planned not in fields(local, "jobs", "show", "skipped once")["next run"]
    assert planned not in local.tickwise("jobs", "list", "--name", "skipped once", "--columns", "next").out


def test_what_moves_one_run_goes_with_what_closes_times(local: Local) -> None:
    """A snooze and a window, a skip and a calendar, a pause and a calendar, a snooze and a change of the clock."""

    def next_run(name: str) -> str:
        listed = local.tickwise("jobs", "list", "--name", name, "--columns", "next").out.splitlines()[1]
        shown = fields(local, "jobs", "show", name).get("next run", "–")
        assert shown[:19] == listed.strip()[:19]
        return shown[:16]

    stored(local, "--shell", "true", "--cron", "0 9 * * *", "--name", "pairs", "--start-at", "2098-12-31 12:00")
    # A run that was moved is a run of its own: a window that comes later closes the times around it.
    assert 0 == local.tickwise("jobs", "snooze", "pairs", "--until", "2099-01-01 11:00").code
    window = ("windows", "put", "pairs", "--from", "2099-01-01 8:00", "--to", "2099-01-02 10:00")
    assert 0 == local.tickwise(*window).code
    assert "2099-01-01 11:00" == next_run("pairs")
    assert ["2099-01-01T11:00:00Z", None, "2099-01-03T09:00:00Z"] == _dues(local, "pairs", 3)
    assert "The run of 2099-01-01 09:00:00 UTC" in local.tickwise("jobs", "skip-next", "pairs").out
    assert "2099-01-03 09:00" == next_run("pairs")
    # That of 2 January does not run anyway, so the one that a list names is skipped.
    assert "The run of 2099-01-03 09:00:00 UTC" in local.tickwise("jobs", "skip-next", "pairs").out
    assert "2099-01-04 09:00" == next_run("pairs")
    assert 0 == local.tickwise("windows", "delete", "pairs").code
    assert 0 == local.tickwise("calendars", "put", "pairs", "--dates", "2099-01-03..2099-01-04").code
    assert 0 == local.tickwise("jobs", "skip-next", "pairs").code
    assert 0 == local.tickwise("jobs", "edit", "pairs", "--calendar", "pairs").code
    assert "2099-01-05 09:00" == next_run("pairs")
    assert 0 == local.tickwise("jobs", "pause", "pairs", "--until", "2099-01-06 8:00").code
    assert "2099-01-06 09:00" == next_run("pairs")
    assert "2099-01-05 09:00" in local.tickwise("jobs", "resume", "pairs").out
    stored(local, "--shell", "true", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--name", "clock",
           "--start-at", "2027-03-27 12:00")  # fmt: skip
    assert "2027-03-28 01:00" == next_run("clock")
    ran = local.tickwise("jobs", "snooze", "clock", "--until", "2027-10-31 2:15")
    assert "02:15 on 2027-10-31 comes twice" in ran.err
    assert "starts at 2027-10-31 00:15:00 UTC" in ran.out
    assert "2027-03-29 00:30" == next_run("clock")


def _dues(local: Local, job: str, count: int) -> list[str | None]:
    """The due times of a preview; None: it is skipped."""
    fires = local.tickwise("jobs", "preview", job, "--count", str(count), "--json").json["fires"]
    return [fire["due"] for fire in fires]


def test_a_time_about_a_job_is_read_in_its_zone(local: Local) -> None:
    """Of `explain --at`, unless a zone is named; of a new time for it, too."""
    stored(local, "--shell", "true", "--cron", "0 3 * * *", "--timezone", "Asia/Tokyo", "--name", "in Tokyo")
    ran = local.tickwise("jobs", "explain", "in Tokyo", "--at", "2026-01-31 3:00")
    assert "is read in Asia/Tokyo, the zone of the job" in ran.err
    assert "the zone of the job" not in local.tickwise("jobs", "explain", "in Tokyo", "--at", "3:00", "--utc").err
    assert "the zone of the job" not in local.tickwise("jobs", "explain", "in Tokyo", "--at", "8 hours ago").err
    assert 0 == local.tickwise("jobs", "edit", "in Tokyo", "--at", "2099-01-01 9:00").code
    assert "2099-01-01T00:00:00Z" == local.tickwise("jobs", "show", "in Tokyo", "--json").json["schedule_time"]


def test_a_backfill_is_waited_for(local: Local) -> None:
    """The exit code tells how its runs ended."""
    stored(local, "--shell", "true", "--cron", "0 * * * *", "--name", "filled")
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)  # the newest of the four is due then
    span = ("--from", (until - timedelta(hours=3, minutes=30)).isoformat(), "--to", until.isoformat())
    ran = local.tickwise("jobs", "backfill", "filled", *span, "--yes", "--wait")
    assert (0, True) == (ran.code, "They have ended: 4 SUCCESS." in ran.out)


# ------------------------------------------------------------------------------------------ at one look


def test_status_says_what_runs_what_failed_and_who_is_there(local: Local) -> None:
    """Failures by job, with how many; nothing of what was before."""
    assert 0 == local.tickwise("run", "--shell", "sleep 300", "--name", "it goes on", "--now").code
    for _ in range(2):
        local.tickwise("run", "--shell", "exit 3", "--name", "it fails", "--retries", "0", "--replace", "--wait")
    _until_it_runs(local, "it goes on")
    out = local.tickwise("status", env={"COLUMNS": "80"}).out
    for said in ("it goes on", "it fails", "×2", "exit status 3", "1 executor", "since yesterday"):
        assert said in out
    found = local.tickwise("status", "--json").json
    assert ["it goes on"] == [found["names"][run["job_id"]] for run in found["running"]]
    assert [] == local.tickwise("status", "--since", "1ms", "--json").json["failed"]
    assert 2 == local.tickwise("status", "--since", "2099-01-01").code
    assert 0 == local.tickwise("jobs", "cancel", "it goes on").code


def test_top_draws_until_it_is_left(local: Local) -> None:
    """By q, by Ctrl-C, by SIGTERM; the terminal is as it was, and no line is wider than it."""
    for key, code in ((b"q", 0), (b"\x03", 130), (signal.SIGTERM, 143)):
        ended, screen, is_as_before = _top(local, key)
        assert (code, True) == (ended, is_as_before), key
        drawn = screen.split("\x1b[?1049l")[0].replace("\x1b[K", "").split("\x1b[H")[1].split("\r\n")
        assert any("1 executor" in line for line in drawn)
        assert [] == [line for line in drawn if cells.width(line.partition("\x1b")[0]) > 60]
        assert screen.rstrip().endswith("\x1b[?25h\x1b[?1049l")


def _top(local: Local, key: bytes | signal.Signals) -> tuple[int, str, bool]:
    """The exit code of `top` that is left by this key, what it wrote, and whether the terminal's modes came back."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [sys.executable, "-m", "tickwise", "top", "--data-dir", str(local.data_dir)],
        env={**local.environ, "TERM": "xterm", "NO_COLOR": "1"}, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    written = b""
    while b"\x1b[J" not in written:  # the end of the first picture
        written += os.read(ours, 65_536)
    if isinstance(key, bytes):
        os.write(ours, key)
    else:
        process.send_signal(key)
    code = process.wait(60)
    after = termios.tcgetattr(theirs)
    while select.select([ours], [], [], 0)[0]:
        written += os.read(ours, 65_536)
    os.close(ours)
    os.close(theirs)
    return code, written.decode(), before == after


def _until_it_runs(local: Local, name: str) -> None:
    """Watch the run until it is under way."""
    while "RUNNING" not in [run["status"] for run in local.tickwise("runs", "list", "--job", name, "--json").json]:
        pass


# ------------------------------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_of_jobs_and_queues_are_completed(local: Local, shell: str) -> None:
    """As the shells ask for it; without a server nothing is offered, and nothing is said."""
    stored(local, "--shell", "true", "--every", "1d", "--name", "completed", "--queue", "completing")
    assert ["completed"] == _offered(local, shell, "tickwise jobs show comple")
    assert ["completed"] == _offered(local, shell, "tickwise runs list --job comple")
    assert ["completing"] == _offered(local, shell, "tickwise queues show comple")
    assert [] == _offered(local, shell, "tickwise jobs show comple", TICKWISE_URL="http://127.0.0.1:1")


def _offered(local: Local, shell: str, line: str, **environ: str) -> list[str]:
    """The words that the shell is offered for the end of a line."""
    word = line.rpartition(" ")[2]
    asked = {"_TICKWISE_COMPLETE": f"{shell}_complete", "COMP_WORDS": line,
             "COMP_CWORD": word if shell == "fish" else str(line.count(" "))}  # fmt: skip
    ran = local.tickwise_with(**asked, **environ)
    assert "" == ran.err
    lines = ran.out.splitlines()
    if shell == "zsh":
        return lines[1::3]
    return [line.partition(",")[2].partition("\t")[0] for line in lines if line]
