"""The command line against a whole Tickwise: what a person types, sees, and gets as an exit code."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.local_up import ROOT, Local, call_command, environment, local_up
from tickwise.cli.commands import configuration
from tickwise.cli.connection import read_local

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory: what is tested here is the terminal."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


def _run_id(local: Local, *arguments: str | Path) -> str:
    """The run of a job that was started now and waited for, whatever became of it."""
    ended = local.tickwise("run", *arguments, "--now", "--wait", "--json")
    assert ended.code in (0, 1), ended.err
    return str(ended.json["run_id"])


# ------------------------------------------------------------------------------------------ run


def test_run_follow_shows_the_log_and_exits_with_success(local: Local) -> None:
    """The log alone on stdout; remarks on stderr."""
    ran = local.tickwise("run", "--shell", "echo one; echo two", "--now", "--follow")
    assert (0, "one\ntwo\n") == (ran.code, ran.out)
    assert "SUCCESS" in ran.err


def test_a_job_with_a_schedule_can_run_once_now_as_well(local: Local) -> None:
    """Who schedules a script wants to see it run: the job is stored with its schedule, and the run is followed."""
    ran = local.tickwise("run", "--shell", "echo tried", "--name", "tried", "--cron", "0 3 * * *", "--now", "--follow")
    assert (0, True) == (ran.code, ran.out.endswith("tried\n")), ran.err
    shown = local.tickwise("jobs", "show", "tried", "--json").json
    assert ("CRON", "SCHEDULED", 1) == (shown["schedule_type"], shown["status"], len(shown["runs"]))
    again = local.tickwise(
        "run", "--shell", "echo more", "--name", "tried", "--every", "1d", "--now", "--wait", "--replace"
    )
    assert 0 == again.code, again.err
    shown = local.tickwise("jobs", "show", "tried", "--json").json
    assert ("INTERVAL", 2) == (shown["schedule_type"], len(shown["runs"]))
    assert 0 == local.tickwise("jobs", "cancel", "tried").code


def test_an_address_in_place_of_a_file_is_told_its_option(local: Local) -> None:
    """It is no missing file."""
    ran = local.tickwise("run", "https://example.org/health", "--every", "1h")
    assert (2, True) == (ran.code, "--http https://example.org/health" in ran.err)


def test_a_request_gets_another_address(local: Local) -> None:
    """Without an editor, and with the rest as it was."""
    made = local.tickwise("run", "--http", "https://example.org/a", "--method", "PUT", "--name", "hook", "--on-demand")
    assert 0 == made.code, made.err
    assert 0 == local.tickwise("jobs", "edit", "hook", "--http", "https://example.org/b").code
    task = local.tickwise("jobs", "show", "hook", "--json").json["task"]
    assert ("https://example.org/b", "PUT") == (task["url"], task["method"])
    assert 0 == local.tickwise("jobs", "cancel", "hook").code


def test_what_a_run_waits_for_is_shown_with_it_and_with_its_job(local: Local) -> None:
    """On a line of its own: here, a label that nobody has."""
    body = {"name": "a", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "date"}}
    created = local.tickwise("jobs", "create", "--json", stdin=json.dumps({**body, "requires": ["zone=mars"]}))
    job_id = created.json["job_id"]
    shown = local.tickwise("jobs", "show", job_id, "--json").json
    for arguments in (("runs", "show", shown["runs"][0]["run_id"]), ("jobs", "show", job_id)):
        assert re.search(r"warning 1 +no active executor .* has the labels zone=mars", local.tickwise(*arguments).out)
    assert 0 == local.tickwise("jobs", "cancel", job_id).code


def test_a_failed_run_exits_with_one_and_says_why(local: Local) -> None:
    """So that `tickwise run … && …` works."""
    ran = local.tickwise("run", "--shell", "echo before; exit 7", "--retries", "0", "--follow")
    assert (1, "before\n") == (ran.code, ran.out)
    assert re.search(r"FAILED.*7", ran.err)


def test_follow_shows_every_attempt(local: Local, tmp_path: Path) -> None:
    """Each with its own log, in order."""
    body = {
        "name": "flaky", "schedule_type": "IMMEDIATE", "max_retries": 2,
        "retry": {"backoff": "fixed", "base_seconds": 0.05, "jitter": 0},
        "task": {"kind": "shell", "command": 'echo "attempt $TICKWISE_ATTEMPT"; test "$TICKWISE_ATTEMPT" -ge 3'},
    }  # fmt: skip
    created = local.tickwise("jobs", "create", "-", "--json", stdin=json.dumps(body))
    run_id = local.tickwise("jobs", "show", created.json["job_id"], "--json").json["runs"][0]["run_id"]
    ran = local.tickwise("runs", "logs", "-f", run_id)
    assert (0, "attempt 1\nattempt 2\nattempt 3\n") == (ran.code, ran.out)
    assert "attempt 3" in ran.err
    shown = local.tickwise("runs", "show", run_id, "--json").json
    assert [1, 2, 3] == [each["attempt_number"] for each in shown["attempts"]]
    assert "attempt 2\n" == local.tickwise("runs", "logs", run_id, "--attempt", "2").out


def test_a_retry_never_begins_before_its_backoff_has_passed(local: Local) -> None:
    """Though executors take what is to come up to a second ahead."""
    body = {
        "name": "patient", "schedule_type": "IMMEDIATE", "max_retries": 1,
        "retry": {"backoff": "fixed", "base_seconds": 1.2, "jitter": 0}, "task": {"kind": "shell", "command": "exit 1"},
    }  # fmt: skip
    assert 0 == local.tickwise("jobs", "create", stdin=json.dumps(body)).code
    (run,) = local.tickwise("runs", "list", "--job", "patient", "--json").json
    assert 1 == local.tickwise("runs", "logs", "-f", run["run_id"]).code
    first, second = local.tickwise("runs", "show", run["run_id"], "--json").json["attempts"]
    ended, began = (datetime.fromisoformat(text) for text in (first["end_time"], second["start_time"]))
    assert (began - ended).total_seconds() >= 1.2


def test_a_script_is_sent_with_its_parameters(local: Local, tmp_path: Path) -> None:
    """The file may vanish afterwards; JSON values arrive as such."""
    script = tmp_path / "shout.py"
    script.write_text("import os, json\nprint(json.loads(os.environ['TICKWISE_PAYLOAD']))\n", encoding="utf-8")
    ran = local.tickwise("run", script, "--param", "count=3", "--param", "name=Ada", "--now", "--follow")
    assert (0, "{'count': 3, 'name': 'Ada'}\n") == (ran.code, ran.out)


def test_a_large_script_is_stored_once_and_named(local: Local, tmp_path: Path) -> None:
    """It runs all the same."""
    script = tmp_path / "large.py"
    script.write_text("print('large')\n" + "# padding\n" * 30_000, encoding="utf-8")
    ran = local.tickwise("run", script, "--now", "--follow")
    assert (0, "large\n") == (ran.code, ran.out)
    assert "stored once as task large.py" in ran.err


def test_a_script_that_does_not_compile_is_shown_at_its_line(local: Local, tmp_path: Path) -> None:
    """Refused at submit; exit code 4."""
    script = tmp_path / "broken.py"
    script.write_text("import os\n\ndef f(:\n    pass\n", encoding="utf-8")
    ran = local.tickwise("run", script, "--cron", "@daily")
    assert 4 == ran.code
    assert "broken.py, line 3:" in ran.err
    assert ">    3 | def f(:\n         |       ^\n" in ran.err


def test_a_cron_line_with_a_typo_is_marked_at_the_field(local: Local) -> None:
    """The mark stands under the field that is wrong."""
    ran = local.tickwise("run", "--shell", "date", "--cron", "*/5 25 * * *")
    assert 4 == ran.code
    assert "  --cron '*/5 25 * * *'\n              ^^\n" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--at", "2020-01-01 10:00"), "--at '2020-01-01 10:00'"),
        (("--every", "5m", "--timezone", "Moon/Base"), "--timezone Moon/Base"),
        (("--every", "5m", "--queue", "not a queue"), "--queue 'not a queue'"),
    ],
)
def test_a_refusal_names_the_option_that_said_it(local: Local, arguments: tuple[str, ...], said: str) -> None:
    """Not a field of a body that the person never saw."""
    ran = local.tickwise("run", "--shell", "date", *arguments)
    assert 4 == ran.code
    assert said in ran.err


def test_a_function_that_nobody_offers_is_warned_of(local: Local) -> None:
    """The job is stored all the same."""
    ran = local.tickwise("run", "--function", "nobody.offers.this", "--every", "1d")
    assert 0 == ran.code
    assert "Warning: " in ran.err
    assert "nobody.offers.this" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",), ("run", "--shell", "a", "--http", "http://x"), ("run", "--shell", "a", "--now", "--at", "10:00"),
        ("run", "--shell", "a", "--every", "5m", "--follow"), ("run", "--shell", "a", "--expect", "200"),
        ("run", "gone.py"), ("run", "--shell", "a", "--every", "often"), ("run", "--shell", "a", "--priority", "10"),
        ("run", "--shell", "a", "--every", "5"), ("jobs", "preview"), ("frobnicate",),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_exits_with_two(local: Local, arguments: tuple[str, ...]) -> None:
    """And nothing is sent."""
    ran = local.tickwise(*arguments)
    assert (2, "") == (ran.code, ran.out)
    assert "Error: " in ran.err
    assert "Traceback" not in ran.err


# ------------------------------------------------------------------------------------------ jobs


def test_the_life_of_a_recurring_job(local: Local) -> None:
    """Create, list, show, change, pause, resume, run now, cancel: by name, since only one job has it."""
    assert 0 == local.tickwise("run", "--shell", "echo hi", "--cron", "0 3 * * *", "--name", "a life").code
    listed = local.tickwise("jobs", "list", "--name", "a life")
    assert re.search(rf"^{UUID}  a life  SCHEDULED  –  .+ \(in .+\)  0 3 \* \* \*", listed.out, re.MULTILINE)
    shown = local.tickwise("jobs", "show", "a life")
    assert "0 3 * * *" in shown.out
    assert "UTC (in " in shown.out

    planned = local.tickwise("jobs", "edit", "a life", "--cron", "30 4 * * *", "--dry-run")
    assert "+ " in planned.out
    assert "04:30:00" in planned.out
    assert "0 3 * * *" == local.tickwise("jobs", "show", "a life", "--json").json["cron_expression"]
    assert 0 == local.tickwise("jobs", "edit", "a life", "--cron", "30 4 * * *", "--retries", "1").code
    changed = local.tickwise("jobs", "show", "a life", "--json").json
    assert ("30 4 * * *", 1) == (changed["cron_expression"], changed["max_retries"])

    assert "is paused" in local.tickwise("jobs", "pause", "a life", "--reason", "a test", "--until", "2d").out
    assert ["a life"] == [job["name"] for job in local.tickwise("jobs", "list", "--status", "paused", "--json").json]
    pause = r"by \S+, since .+, until .+: a test"
    assert re.search(rf"^paused +{pause}$", local.tickwise("jobs", "show", "a life").out, re.MULTILINE)
    assert re.search(rf"The job is paused {pause}", local.tickwise("jobs", "explain", "a life").out)
    assert "goes on" in local.tickwise("jobs", "resume", "a life").out
    ran = local.tickwise("jobs", "run-now", "a life", "--follow")
    assert (0, "hi\n") == (ran.code, ran.out)
    assert "is cancelled" in local.tickwise("jobs", "cancel", "a life").out
    again = local.tickwise("jobs", "run-now", "a life")
    assert 4 == again.code
    assert "cancelled" in again.err


def test_a_job_is_edited_in_the_persons_editor(local: Local, tmp_path: Path) -> None:
    """Only what was changed is sent; closing it unchanged changes nothing."""
    local.tickwise("run", "--shell", "true", "--every", "1d", "--name", "by editor")
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i \'s/"priority": 5/"priority": 8/\' "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    before = local.tickwise("jobs", "show", "by editor", "--json").json
    ran = local.tickwise_with("jobs", "edit", "by editor", EDITOR=str(editor))
    assert 0 == ran.code, ran.err
    after = local.tickwise("jobs", "show", "by editor", "--json").json
    assert (5, 8) == (before["priority"], after["priority"])
    assert before["next_run_at"] == after["next_run_at"]
    assert "Nothing was changed" in local.tickwise_with("jobs", "edit", "by editor", EDITOR=str(editor)).out


def test_many_jobs_come_from_one_file(local: Local) -> None:
    """The good ones are stored, the others explained by their place; with --atomic none is."""
    good = {"name": "of many", "every": "1d", "task": {"kind": "shell", "command": "true"}}
    bad = {**good, "colour": "red"}
    ran = local.tickwise("jobs", "create", stdin=json.dumps([good, bad]))
    assert 4 == ran.code
    assert "1 of 2 jobs are stored." in ran.out
    assert "Job 2 of the list" in ran.err
    assert "/colour" in ran.err
    assert 4 == local.tickwise("jobs", "create", "--atomic", stdin=json.dumps([good, bad])).code
    assert 1 == len(local.tickwise("jobs", "list", "--name", "of many", "--json").json)


def test_a_name_that_several_jobs_share_is_not_guessed(local: Local) -> None:
    """Their ids are shown instead."""
    for _ in range(2):
        local.tickwise("run", "--shell", "true", "--every", "1d", "--name", "twins")
    ran = local.tickwise("jobs", "show", "twins")
    assert 2 == ran.code
    assert 2 == len(re.findall(UUID, ran.err))


def test_what_is_not_there_exits_with_five(local: Local) -> None:
    """A job, a run, a task."""
    nowhere = "01a1fd82-9f65-831f-89c1-01763cd8874b"
    for arguments in (
        ("jobs", "show", "nope"),
        ("jobs", "show", nowhere),
        ("runs", "show", nowhere),
        ("runs", "show", "no-id"),
        ("runs", "logs", "-f", "0000ffff"),
        ("tasks", "show", "x"),
    ):
        ran = local.tickwise(*arguments)
        assert (5, "") == (ran.code, ran.out), arguments


def test_the_preview_shows_both_clocks_and_marks_clock_changes(local: Local) -> None:
    """For a schedule that is not saved."""
    ran = local.tickwise(
        "jobs", "preview", "--cron", "30 2 29 3 *", "--timezone", "Europe/Berlin", "--count", "5", "--utc"
    )
    assert 0 == ran.code
    assert "IN Europe/Berlin" in ran.out
    assert 5 == ran.out.count(" UTC  ")


def test_times_are_shown_in_the_zone_that_is_asked_for(local: Local) -> None:
    """That of TZ, of --timezone, or UTC."""
    local.tickwise("run", "--shell", "true", "--cron", "0 12 * * *", "--name", "noon")
    tokyo = local.tickwise("jobs", "list", "--name", "noon", "--timezone", "Asia/Tokyo").out
    assert "21:00:00 JST" in tokyo
    assert "21:00:00 JST" in local.tickwise_with("jobs", "list", "--name", "noon", TZ="Asia/Tokyo").out
    assert "12:00:00 UTC" in local.tickwise_with("jobs", "list", "--name", "noon", "--utc", TZ="Asia/Tokyo").out


# ------------------------------------------------------------------------------------------ runs


def test_runs_are_listed_and_found(local: Local) -> None:
    """By job and status, newest first."""
    failed = _run_id(local, "--shell", "exit 3", "--retries", "0", "--name", "listed")
    assert [failed] == [run["run_id"] for run in local.tickwise("runs", "list", "--job", "listed", "--json").json]
    table = local.tickwise("runs", "list", "--job", "listed", "--status", "failed", "--since", "1h").out
    assert re.search(rf"^{failed}  FAILED", table, re.MULTILINE)
    assert "No runs." in local.tickwise("runs", "list", "--job", "listed", "--status", "SUCCESS").err
    everything = local.tickwise("runs", "list").out
    assert re.search(rf"^{failed}  listed +FAILED", everything, re.MULTILINE)


def test_a_run_is_repeated_with_another_payload(local: Local) -> None:
    """As a new run, linked to the first."""
    first = _run_id(local, "--shell", 'echo "$TICKWISE_PAYLOAD"', "--param", "a=1")
    again = local.tickwise("runs", "retry", first, "--param", "a=2", "--follow")
    assert 0 == again.code
    assert {"a": 2} == json.loads(again.out)
    second = re.findall(UUID, again.err)[0]
    assert first == local.tickwise("runs", "show", second, "--json").json["retry_of"]


def test_a_running_run_is_cancelled(local: Local) -> None:
    """And whoever follows it sees it end, with exit code 1."""
    local.tickwise("run", "--shell", "echo begun; sleep 600", "--now", "--name", "long")
    (run,) = local.tickwise("runs", "list", "--job", "long", "--json").json
    follower = _follow(local, run["run_id"])
    assert follower.stdout is not None
    assert b"begun\n" == follower.stdout.readline()
    assert 0 == local.tickwise("runs", "cancel", run["run_id"]).code
    assert 1 == follower.wait(90)
    follower.stdout.close()
    assert "CANCELLED" == local.tickwise("runs", "show", run["run_id"], "--json").json["status"]


def _follow(local: Local, run_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tickwise", "runs", "logs", "-f", run_id, "--data-dir", str(local.data_dir)],
        env=dict(local.environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip


def test_ctrl_c_leaves_a_followed_log_cleanly(local: Local) -> None:
    """Exit code 130; the run goes on."""
    local.tickwise("run", "--shell", "echo begun; sleep 600", "--now", "--name", "watched")
    (run,) = local.tickwise("runs", "list", "--job", "watched", "--json").json
    follower = _follow(local, run["run_id"])
    assert follower.stdout is not None
    assert b"begun\n" == follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    assert 130 == follower.wait(90)
    follower.stdout.close()
    assert local.tickwise("runs", "show", run["run_id"], "--json").json["status"] not in {"FAILED", "CANCELLED"}
    local.tickwise("runs", "cancel", run["run_id"])


def test_a_log_of_bytes_comes_out_byte_for_byte(local: Local) -> None:
    """Also what is no text."""
    run_id = _run_id(local, "--shell", r"printf '\377\000\033[31mred'")
    done = subprocess.run(
        [sys.executable, "-m", "tickwise", "runs", "logs", run_id, "--data-dir", str(local.data_dir)],
        env=dict(local.environ), capture_output=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert b"\xff\x00\x1b[31mred" == done.stdout


def test_a_reader_that_has_seen_enough_is_no_error(local: Local) -> None:
    """`tickwise runs logs … | head -1` ends quietly."""
    run_id = _run_id(local, "--shell", "seq 200000")
    piped = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m tickwise runs logs {run_id} --data-dir {local.data_dir} | head -1"],
        env=dict(local.environ), capture_output=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert (b"1\n", b"") == (piped.stdout, piped.stderr)


# ------------------------------------------------------------------------------------------ the rest


def test_tasks_are_stored_listed_and_named_by_jobs(local: Local) -> None:
    """A script, under an id; the same content again is the same version."""
    for _ in range(2):
        stored = local.tickwise("tasks", "put", "examples/hello.py", "--id", "greet", "--json").json
        assert ("greet", 1) == (stored["taskId"], stored["version"])
    assert re.search(r"^greet +hello +1 ", local.tickwise("tasks", "list").out, re.MULTILINE)
    assert "python" in local.tickwise("tasks", "show", "greet").out
    body = {"taskId": "greet", "schedule_type": "IMMEDIATE", "params": {"name": "Grace"}}
    job_id = local.tickwise("jobs", "create", "--json", stdin=json.dumps(body)).json["job_id"]
    (run,) = local.tickwise("runs", "list", "--job", job_id, "--json").json
    assert "Hello, Grace!" in local.tickwise("runs", "logs", "-f", run["run_id"]).out


def test_bench_measures_the_running_server(local: Local) -> None:
    """Every job ran; the figures are positive."""
    ran = local.tickwise("bench", "--jobs", "20", "--json")
    assert 0 == ran.code, ran.err
    assert (20, 0) == (ran.json["jobs"], ran.json["failed"])
    assert ran.json["submitted_per_second"] > 0


def test_an_unknown_key_is_refused_with_what_to_do(local: Local) -> None:
    """Exit code 4."""
    ran = local.tickwise("--url", local.url, "--api-key", "wrong", "jobs", "list")
    assert 4 == ran.code
    assert "TICKWISE_API_KEY" in ran.err


def test_options_for_the_server_stand_before_or_after_the_command(local: Local) -> None:
    """As people write them."""
    server = ("--url", local.url, "--api-key", local.key, "--json")
    assert 0 == local.tickwise(*server, "jobs", "list").code
    assert 0 == local.tickwise("jobs", "list", *server).code


def test_no_colours_in_a_pipe_and_none_where_they_are_not_wanted(local: Local) -> None:
    """On a terminal there are some, unless NO_COLOR says otherwise."""
    local.tickwise("run", "--shell", "true", "--every", "1d", "--name", "colourful")
    assert "\x1b" not in local.tickwise("jobs", "list").out
    coloured, plain = _on_a_terminal(local), _on_a_terminal(local, NO_COLOR="1")
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain
    assert "SCHEDULED" in plain


def _on_a_terminal(local: Local, **environ: str) -> str:
    """What a person sees of that job's list."""
    ours, theirs = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "tickwise", "jobs", "list", "--name", "colourful", "--data-dir", str(local.data_dir)],
        env={**local.environ, "TERM": "xterm", **environ}, stdout=theirs, cwd=ROOT, check=True,
    )  # fmt: skip
    assert 0 == done.returncode
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        return terminal.read1(65_536).decode()


def test_config_shows_what_is_in_force_and_masks_secrets(local: Local) -> None:
    """With the place that each came from."""
    secret = "a-secret-that-nobody-may-see-0123456789"
    ran = local.tickwise_with("config", "--set", "--here", TICKWISE_BOOTSTRAP_KEY=secret, TICKWISE_PORT="9000")
    assert 0 == ran.code
    assert re.search(r"^port +9000 +TICKWISE_PORT", ran.out, re.MULTILINE)
    assert secret not in ran.out
    assert "the settings of this shell" in ran.err


def test_config_shows_the_settings_of_the_server_that_runs(local: Local) -> None:
    """Not those of the shell that asks, and it says whose they are."""
    told = {each["name"]: each for each in local.tickwise_with("config", "--json", TICKWISE_PORT="9000").json}
    assert ("0", "--port") == (told["port"]["value"], told["port"]["origin"])
    assert told["port"]["meaning"]
    assert f"(process {local.pid}) started" in local.tickwise("config").err


def test_config_says_that_no_server_runs(tmp_path: Path) -> None:
    """Also if one was killed and has left its file behind."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "client.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": ended.pid, "settings": []}))
    ran = call_command(["config", "--set", "--data-dir", tmp_path], environment())
    assert (0, True) == (ran.code, f"no server runs in {tmp_path}" in ran.err)
    assert "data_dir" in ran.out


def test_config_says_that_an_older_server_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the shell are shown as what they are."""
    (tmp_path / "client.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 1}))
    monkeypatch.setattr(configuration, "running_up", read_local)
    ran = call_command(["config", "--data-dir", tmp_path], environment())
    assert (0, True) == (ran.code, "has not written its own" in ran.err)


def test_a_job_without_a_schedule_runs_now_and_says_so(local: Local) -> None:
    """On stderr, with the options that give one. Not to a person who said so, or who watches it."""
    note = "No schedule is given, so it runs now, once. Give one with --cron, --every or --at."
    assert note in local.tickwise("run", "--shell", "true").err
    for options in (["--now"], ["--wait"], ["--in", "1h"]):
        assert note not in local.tickwise("run", "--shell", "true", *options).err


def test_a_job_that_no_executor_can_take_waits_and_says_so(local: Local) -> None:
    """What is said of its start agrees with the warning."""
    ran = local.tickwise("run", "--shell", "true", "--now", "--queue", "nobodys")
    assert (True, False) == ("It waits for an executor that can take it." in ran.out, "It runs now" in ran.out), ran
    assert "its runs wait until one does" in ran.err


def test_a_misspelt_setting_is_refused_before_anything_starts(local: Local) -> None:
    """With the nearest right name; exit code 6."""
    ran = local.tickwise_with("config", TICKWISE_DATABSE_URL="x")
    assert 6 == ran.code
    assert "TICKWISE_DATABASE_URL" in ran.err


def test_the_run_command_costs_little(local: Local) -> None:
    """From a job that is handed in to its end it waits, and does not turn in circles: processor time, the best of
    three, to which a busy machine adds nothing. How long it takes is a benchmark's to say (L1)."""
    assert min(_processor_seconds(local) for _ in range(3)) < 1.0


def _processor_seconds(local: Local) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert 0 == local.tickwise_with("run", "--shell", "true", "--now", "--wait").code
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
