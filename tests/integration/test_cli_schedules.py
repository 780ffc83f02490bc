"""Schedules on the command line against a whole Tickwise: imports, calendars, windows, and single occurrences."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_up import ROOT, Local, Ran, local_up

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
YEARLY = "0 3 1 1 *"
"""No test lives to see it fire."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory: what is tested here is the terminal."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


def _job(local: Local, name: str, *options: str) -> dict[str, Any]:
    """A job that does nothing, as the server has it."""
    ran = local.tickwise("run", "--shell", "true", "--name", name, *options)
    assert 0 == ran.code, ran.err
    shown: dict[str, Any] = local.tickwise("jobs", "show", name, "--json").json
    return shown


def _at_a_terminal(local: Local, arguments: Sequence[str], typed: str) -> tuple[int, str]:
    """How a command ends that a person answers, and what that person sees."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tickwise", *arguments, "--data-dir", str(local.data_dir)],
        env={**local.environ, "TERM": "dumb", "COLUMNS": "500"}, cwd=ROOT,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    while select.select([ours], [], [], 60.0)[0]:
        try:
            read = os.read(ours, 65_536)
        except OSError:  # what Linux says when nobody has the terminal any more
            break
        if not read:
            break
        seen += read
    os.close(ours)
    return process.wait(60), seen.decode()


def _keyed(local: Local, key: str) -> dict[str, Any]:
    shown: dict[str, Any] = local.tickwise("jobs", "show", key, "--json").json
    return shown


# ------------------------------------------------------------------------------------------ import


def _apply(local: Local, path: Path, *options: str) -> Ran:
    return local.tickwise("import", "crontab", path, "--timezone", "Europe/Berlin", "--apply", *options)


def test_an_import_stores_what_is_not_refused(local: Local, tmp_path: Path) -> None:
    """The rest is told of; the exit code is that of success unless everything was wanted."""
    path = tmp_path / "tab"
    path.write_text("# yearly\n0 3 1 1 * true\n@reboot true\n", encoding="utf-8")
    ran = _apply(local, path)
    assert 0 == ran.code, ran.err
    assert re.search(f"^  = job {UUID} is stored$", ran.out, re.MULTILINE)
    assert "1 of 1 jobs are stored." in ran.err
    assert "2 entries: 1 same, 0 changed, 1 refused" in ran.out
    again = _apply(local, path, "--strict", "--json")
    assert 4 == again.code
    entry, refused = again.json["entries"]
    assert ("present", "refused", False) == (entry["outcome"], refused["verdict"], "outcome" in refused)
    assert ("yearly", "Europe/Berlin") == (entry["job"]["description"], _keyed(local, entry["job"]["key"])["timezone"])


def test_importing_twice_is_importing_once(local: Local, tmp_path: Path) -> None:
    """And a line that came since is the only one that is stored."""
    path = tmp_path / "twice"
    path.write_text("0 3 1 1 * true\n0 4 1 1 * true\n", encoding="utf-8")
    first = _apply(local, path, "--json").json["entries"]
    path.write_text(path.read_text(encoding="utf-8") + "0 5 1 1 * true\n", encoding="utf-8")
    second = _apply(local, path, "--json").json["entries"]
    assert ["created", "created"] == [each["outcome"] for each in first]
    assert ["present", "present", "created"] == [each["outcome"] for each in second]
    assert [each["job_id"] for each in first] == [each["job_id"] for each in second[:2]]
    assert "0 of 3 jobs are stored, 3 were imported before." in _apply(local, path).err


def test_mailto_becomes_the_mail_channel_that_fits(local: Local, tmp_path: Path) -> None:
    """It has all the recipients, and the fewest others. Where there is none, that is said."""
    path = tmp_path / "mailed"
    path.write_text(
        "MAILTO=Ops@example.org\n0 3 1 1 * true mailed\nMAILTO=root\n0 4 1 1 * true rooted\n"
        "MAILTO=ops@example.org,boss@example.org\n0 5 1 1 * true both\nMAILTO=eve@example.org\n0 6 1 1 * true eve\n",
        encoding="utf-8",
    )
    url = ("smtp://mail.example.com", "--from", "tickwise@example.org")
    for name, to in (("all", ("ops@example.org", "boss@example.org")), ("ops", ("ops@example.org",))):
        recipients = [word for each in to for word in ("--to", each)]
        made = local.tickwise("channels", "add", name, *url, *recipients)
        assert 0 == made.code, made.err
    ran = _apply(local, path, "--json")
    assert 0 == ran.code, ran.err
    entries = ran.json["entries"]
    assert [["ops"], None, ["all"], None] == [each["job"].get("notify") for each in entries]
    assert ["ops"] == _keyed(local, entries[0]["job"]["key"])["notify"]
    notes = [each["notes"][0] for each in entries]
    assert notes[0].startswith("MAILTO: failures are told to the channel ops")
    assert "it names a user of the old machine: name a channel with --notify" in notes[1]
    assert "no e-mail channel has eve@example.org: tickwise channels add mail --to eve@example.org" in notes[3]
    assert ["present"] * 4 == [each["outcome"] for each in _apply(local, path, "--json").json["entries"]]


def test_imports_at_once_are_one_import(local: Local, tmp_path: Path) -> None:
    """Whoever comes first stores a job, the others find it."""
    path = tmp_path / "at-once"
    path.write_text("".join(f"{minute} 3 1 1 * true\n" for minute in range(40)), encoding="utf-8")
    line = ("import", "crontab", path, "--timezone", "UTC", "--apply", "--json")
    with ThreadPoolExecutor(3) as pool:
        ran = list(pool.map(lambda _: local.tickwise_with(*line), range(3)))
    assert [0, 0, 0] == [each.code for each in ran], ran
    outcomes = [[entry["outcome"] for entry in each.json["entries"]] for each in ran]
    assert 40 == sum(each.count("created") for each in outcomes)
    assert 80 == sum(each.count("present") for each in outcomes)
    identifiers = [{entry["job_id"] for entry in each.json["entries"]} for each in ran]
    assert 40 == len(identifiers[0])
    assert identifiers[0] == identifiers[1] == identifiers[2]


def test_what_was_changed_since_its_import_is_told_of_and_left_alone(local: Local, tmp_path: Path) -> None:
    """With the fields that differ."""
    path = tmp_path / "changed"
    path.write_text("0 3 1 1 * true\n", encoding="utf-8")
    (entry,) = _apply(local, path, "--json").json["entries"]
    assert 0 == local.tickwise("jobs", "edit", entry["job_id"], "--overlap", "queue_one").code
    (again,) = _apply(local, path, "--json").json["entries"]
    assert ("different", ["overlap"], entry["job_id"]) == (again["outcome"], again["differs_in"], again["job_id"])
    ran = _apply(local, path, "--strict")
    assert 4 == ran.code
    assert "says something else now (overlap)" in ran.out
    assert "queue_one" == _keyed(local, entry["job"]["key"])["overlap"]


def test_a_job_that_was_cancelled_is_imported_anew(local: Local, tmp_path: Path) -> None:
    """Its key is free again."""
    path = tmp_path / "cancelled"
    path.write_text("0 3 1 1 * true\n", encoding="utf-8")
    (entry,) = _apply(local, path, "--json").json["entries"]
    assert 0 == local.tickwise("jobs", "cancel", entry["job_id"]).code
    (again,) = _apply(local, path, "--json").json["entries"]
    assert "created" == again["outcome"]
    assert entry["job_id"] != again["job_id"]


def test_what_is_imported_is_exported_as_it_was(local: Local, tmp_path: Path) -> None:
    """Times, zone, comment and command; by label, or by name."""
    path = tmp_path / "round"
    path.write_text("# goes round\n7 3 1 1 * echo 100\\% sure\n", encoding="utf-8")
    (entry,) = _apply(local, path, "--json").json["entries"]
    ran = local.tickwise("export", "crontab", entry["job"]["key"])
    assert 0 == ran.code, ran.err
    assert "CRON_TZ=Europe/Berlin\n" in ran.out
    assert "# goes round\n7 3 1 1 * echo 100\\% sure\n" in ran.out
    whole = local.tickwise("export", "crontab", "--json").json
    assert "7 3 1 1 * echo 100\\% sure\n" in whole["crontab"]
    assert whole["jobs"] == len(re.findall(r"^# Tickwise: job ", whole["crontab"], re.MULTILINE))


def test_an_export_of_nothing_is_an_empty_crontab(local: Local) -> None:
    """With a remark beside it; both ways to choose at once are a usage error."""
    ran = local.tickwise("export", "crontab", "--label", "team=nobody")
    assert 0 == ran.code
    assert "There are no such jobs" in ran.err
    assert not [line for line in ran.out.splitlines() if line and not line.startswith("#")]
    assert 2 == local.tickwise("export", "crontab", "a", "--label", "a=b").code
    assert 5 == local.tickwise("export", "crontab", "nope").code


# ------------------------------------------------------------------------------------------ options of schedules


def test_a_job_is_created_with_all_that_a_schedule_knows(local: Local) -> None:
    """And an edit of a part leaves the rest as it is."""
    job = _job(
        local, "knows", "--cron", "30 2 1 1 *", "--timezone", "Europe/Berlin", "--jitter", "90s", "--misfire", "all",
        "--max-catchup", "3", "--overlap", "queue_one", "--start-at", "2030-01-01", "--end-at", "2040-01-01",
        "--max-runs", "5", "--dst-gap", "skip", "--fuse", "10",
    )  # fmt: skip
    assert {"mode": "all", "grace_seconds": 60.0, "max_catchup": 3} == job["misfire"]
    assert ("2029-12-31T23:00:00Z", "2039-12-31T23:00:00Z", 5) == (job["start_at"], job["end_at"], job["max_runs"])
    assert (90.0, "queue_one", "skip", 10) == (
        job["jitter_seconds"], job["overlap"], job["dst"]["gap"], job["fuse_per_minute"],
    )  # fmt: skip
    changed = local.tickwise("jobs", "edit", "knows", "--grace", "5m", "--end-at", "none", "--json").json
    assert {"mode": "all", "grace_seconds": 300.0, "max_catchup": 3} == changed["misfire"]
    assert (None, "2029-12-31T23:00:00Z") == (changed["end_at"], changed["start_at"])


def test_options_beside_a_file_of_jobs_hold_for_all_of_them(local: Local) -> None:
    """And win over the file."""
    job = {"name": "of a file", "cron": YEARLY, "overlap": "allow", "task": {"kind": "shell", "command": "true"}}
    ran = local.tickwise("jobs", "create", "--overlap", "queue_all", stdin=json.dumps([job, job]))
    assert 0 == ran.code, ran.err
    found = local.tickwise("jobs", "list", "--name", "of a file", "--json").json
    assert ["queue_all", "queue_all"] == [each["overlap"] for each in found]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cron", YEARLY, "--jitter", "2d"), "--jitter 2d"),
        (("--cron", YEARLY, "--jitter", "1m", "--window", "1m"), "--window 1m"),
        (("--every", "1d", "--dst-gap", "skip"), "--dst-gap skip"),
        (("--cron", YEARLY, "--calendar", "nobody-has-this"), "--calendar nobody-has-this"),
        (("--cron", YEARLY, "--start-at", "2030-01-02", "--end-at", "2030-01-01"), "--end-at 2030-01-01"),
    ],
)
def test_a_refusal_names_the_option_that_said_it(local: Local, options: tuple[str, ...], said: str) -> None:
    """Not a field of a body that the person never saw."""
    ran = local.tickwise("run", "--shell", "true", *options)
    assert 4 == ran.code
    assert said in ran.err


def test_a_dry_run_of_an_edit_shows_what_goes_comes_and_stays(local: Local) -> None:
    """Of an hourly job that runs twice every other hour: half of the fires go, half of the new ones were there."""
    _job(local, "planned", "--cron", "0 * * * *")
    ran = local.tickwise("jobs", "edit", "planned", "--cron", "0,30 */2 * * *", "--dry-run")
    assert 0 == ran.code, ran.err
    signs = [line[:2] for line in ran.out.splitlines()]
    gone, new, kept = signs.count("- "), signs.count("+ "), signs.count("  ")
    assert (10, 10, 10) == (gone, new, kept)
    assert f"{gone} would go, {new} would come and {kept} would stay" in ran.err
    assert "0 * * * *" == local.tickwise("jobs", "show", "planned", "--json").json["cron_expression"]


def test_an_edited_cron_line_keeps_the_zone_of_its_job(local: Local) -> None:
    """Unless another one is named. Skipped runs are listed with the time at which they were due."""
    _job(local, "zoned", "--cron", "0 9 * * *", "--timezone", "Europe/Berlin")
    ran = local.tickwise("jobs", "edit", "zoned", "--cron", "0 10 * * *")
    assert (0, True) == (ran.code, "goes on in Europe/Berlin" in ran.err), ran.err
    assert "Europe/Berlin" == local.tickwise("jobs", "show", "zoned", "--json").json["timezone"]
    assert 0 == local.tickwise("jobs", "edit", "zoned", "--cron", "0 11 * * *", "--timezone", "Asia/Tokyo").code
    assert "Asia/Tokyo" == local.tickwise("jobs", "show", "zoned", "--json").json["timezone"]
    assert 0 == local.tickwise("jobs", "skip-next", "zoned").code
    listed = local.tickwise("runs", "list", "--job", "zoned", "--status", "SKIPPED")
    assert "due 2" in listed.out, listed.out


def test_a_new_schedule_by_editor_keeps_what_the_text_says(local: Local, tmp_path: Path) -> None:
    """Zone, bounds and rules stand in it, so they are meant."""
    _job(
        local, "edited", "--cron", YEARLY, "--timezone", "Europe/Berlin", "--end-at", "2040-01-01", "--dst-gap", "skip"
    )
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i \'s/"0 3 1 1 \\*"/"0 4 1 1 *"/\' "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    ran = local.tickwise_with("jobs", "edit", "edited", EDITOR=str(editor))
    assert 0 == ran.code, ran.err
    job = local.tickwise("jobs", "show", "edited", "--json").json
    assert ("0 4 1 1 *", "Europe/Berlin", "2039-12-31T23:00:00Z", "skip") == (
        job["cron_expression"], job["timezone"], job["end_at"], job["dst"]["gap"],
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ single occurrences


def test_a_preview_begins_after_the_time_that_is_asked_for(local: Local) -> None:
    """Of a saved job and of an unsaved schedule, with its rules."""
    _job(local, "previewed", "--cron", "0 3 * * *")
    shown = local.tickwise("jobs", "preview", "previewed", "--from", "2030-01-01T03:00:00Z", "--count", "1", "--json")
    assert ["2030-01-02T03:00:00Z"] == [fire["utc"] for fire in shown.json["fires"]]
    unsaved = local.tickwise(
        "jobs", "preview", "--cron", "0 3 * * *", "--max-runs", "2", "--from", "2030-01-01", "--json"
    )
    assert 2 == len(unsaved.json["fires"])
    assert 2 == local.tickwise("jobs", "preview", "previewed", "--overlap", "skip").code


def test_the_next_run_is_skipped_and_the_one_after_is_not(local: Local) -> None:
    """It is in the time line with what was said."""
    job = _job(local, "skipped", "--cron", "0 3 1 * *")
    ran = local.tickwise("jobs", "skip-next", "skipped", "--reason", "a holiday")
    assert 0 == ran.code, ran.err
    assert "is skipped." in ran.out
    after = local.tickwise("jobs", "show", "skipped", "--json").json
    assert job["next_run_at"] < after["next_run_at"]
    line = local.tickwise("jobs", "occurrences", "skipped", "--to", "100d")
    assert re.search(rf"SKIPPED +1 +{UUID} +.*a holiday", line.out)
    found = local.tickwise("jobs", "occurrences", "skipped", "--to", "100d", "--json").json
    assert ["SKIPPED", "fire"] == [each["outcome"] for each in found[:2]]
    assert job["next_run_at"] == found[0]["nominal_time"]


def test_a_time_line_that_is_cut_says_how_to_see_the_rest(local: Local) -> None:
    """On stderr: which option shows more, and the time to go on from. What is shown whole says nothing."""
    _job(local, "often", "--cron", "0 * * * *")
    options = ("jobs", "occurrences", "often", "--from", "2030-01-01T00:00Z", "--to", "2030-01-01T09:30Z")
    cut = local.tickwise(*options, "--limit", "4", "--json")
    assert 4 == len(cut.json)
    said = re.search(r"There are more than these 4. --limit shows more, --from (\S+) the rest.", cut.err)
    assert said
    rest = local.tickwise(*options[:4], said[1], *options[5:], "--json").json
    whole = local.tickwise(*options, "--limit", "10", "--json")
    assert (10, "") == (len(whole.json), whole.err)
    names = [each["nominal_time"] for each in [*cut.json, *rest]]
    assert sorted(set(names)) == [each["nominal_time"] for each in whole.json]


def test_the_next_run_is_moved_and_the_one_after_is_not(local: Local) -> None:
    """It keeps its nominal time; an earlier time is refused with the option that said it."""
    job = _job(local, "snoozed", "--cron", "0 3 1 1 *")
    nominal = datetime.fromisoformat(job["next_run_at"])
    early = local.tickwise("jobs", "snooze", "snoozed", "--until", (nominal - timedelta(hours=1)).isoformat())
    assert 4 == early.code
    assert "--until" in early.err
    until = (nominal + timedelta(hours=5)).isoformat()
    ran = local.tickwise("jobs", "snooze", "snoozed", "--until", until, "--utc")
    assert 0 == ran.code, ran.err
    assert re.search(r"01-01 03:00:00 UTC .* starts at .*01-01 08:00:00 UTC", ran.out)
    moved = local.tickwise("jobs", "snooze", "snoozed", "--until", "often")
    assert (2, True) == (moved.code, "--until: 'often' is no time" in moved.err)


def test_a_range_of_the_past_is_run_and_listed(local: Local) -> None:
    """The earliest first, each with its nominal time."""
    _job(local, "filled", "--cron", "0 3 1 1 *")
    ran = local.tickwise("jobs", "backfill", "filled", "--from", "2020-01-01", "--to", "2022-12-31", "--yes", "--utc")
    assert 0 == ran.code, ran.err
    assert "3 runs are asked for, from 2020-01-01 03:00:00 UTC to 2022-01-01 03:00:00 UTC." in ran.out
    backfill = re.findall(UUID, ran.out)[-1]
    found = local.tickwise("runs", "list", "--backfill", backfill, "--trigger", "backfill", "--json").json
    assert ["2020-01-01T03:00:00Z", "2021-01-01T03:00:00Z", "2022-01-01T03:00:00Z"] == sorted(
        run["nominal_time"] for run in found
    )


def test_a_range_of_durations_lies_around_now(local: Local) -> None:
    """`--from` counts into the past, as `runs list --since` does, and `--to` into the time to come: so two hours is
    before one hour."""
    _job(local, "around", "--cron", YEARLY)
    ran = local.tickwise("jobs", "occurrences", "around", "--from", "2h", "--to", "1h")
    assert 0 == ran.code, ran.err
    wrong = local.tickwise("jobs", "occurrences", "around", "--to", "2027-01-01", "--from", "2027-01-02")
    assert (4, True) == (wrong.code, "must not come before from" in wrong.err)


def test_a_backfill_is_bounded_and_can_be_ended(local: Local) -> None:
    """What waits for its turn never begins, what runs is asked to stop."""
    ran = local.tickwise("run", "--shell", "sleep 600", "--name", "long", "--cron", "0 3 1 1 *")
    assert 0 == ran.code, ran.err
    line = ("jobs", "backfill", "long", "--from", "2010-01-01")
    asked = local.tickwise(*line, "--to", "2020-01-01", "--limit", "2", "--yes", "--json").json
    assert (2, True) == (asked["count"], asked["more"])
    assert {"cancelled": 2} == local.tickwise("jobs", "backfill-cancel", "long", asked["backfill_id"], "--json").json
    found = local.tickwise("runs", "list", "--backfill", asked["backfill_id"], "--json").json
    assert "CANCELLED" == max(found, key=lambda run: str(run["nominal_time"]))["status"]
    assert 2 == local.tickwise("jobs", "backfill-cancel", "long", "no-id").code
    future = local.tickwise(*line, "--to", "2999-01-01", "--yes")
    assert (4, True) == (future.code, "--to 2999-01-01" in future.err)


def test_a_backfill_asks_first_where_somebody_can_answer(local: Local) -> None:
    """How many runs it would be; without an answer nothing is run, and in a script it wants to be told."""
    job = _job(local, "asked", "--cron", "0 3 1 1 *")
    line = ("jobs", "backfill", "asked", "--from", "2020-01-01T03:00:00Z", "--to", "2022-01-01T03:00:00Z")
    assert (2, True) == ((ran := local.tickwise(*line)).code, "--yes" in ran.err)
    code, seen = _at_a_terminal(local, line, "n\n")
    assert 0 == code, seen
    assert "up to 3 times" in seen
    assert "Nothing is run." in seen
    assert [] == local.tickwise("runs", "list", "--job", job["job_id"], "--json").json
    code, seen = _at_a_terminal(local, line, "y\n")
    assert 0 == code, seen
    assert "3 runs are asked for" in seen


def test_why_a_job_does_not_run_is_one_sentence(local: Local) -> None:
    """Now, at a time to come, and before it was there; each with a code for programs."""
    _job(local, "explained", "--cron", "0 3 1 1 *")
    for at, code, said in (
        ((), "not_due", "not due until"),
        (("--at", "2040-01-01T03:00:00Z"), "will_fire", "will run"),
        (("--at", "2040-01-01T04:00:00Z"), "not_an_occurrence", ""),
        (("--at", "yesterday 03:00"), "not_yet_created", "not there yet"),
    ):
        ran = local.tickwise("jobs", "explain", "explained", *at)
        assert (0, True) == (ran.code, said in ran.out.splitlines()[0]), ran
        assert code == local.tickwise("jobs", "explain", "explained", *at, "--json").json["code"]
    wrong = local.tickwise("jobs", "explain", "explained", "--at", "once upon a time")
    assert (2, True) == (wrong.code, "--at" in wrong.err)


def test_why_a_run_did_what_it_did_is_one_sentence(local: Local) -> None:
    """Of one that was skipped by a person: by whom and why; control characters are shown, not obeyed."""
    _job(local, "why", "--cron", "0 3 1 1 *")
    moved = local.tickwise("jobs", "skip-next", "why", "--reason", "a \x1b[31mred day", "--json").json
    ran = local.tickwise("runs", "explain", moved["run_id"])
    assert (0, True) == (ran.code, "was skipped" in ran.out), ran
    assert r"a \x1b[31mred day" in ran.out
    assert "skipped_requested" == local.tickwise("runs", "explain", moved["run_id"], "--json").json["code"]
    told = local.tickwise("jobs", "explain", "why", "--at", moved["nominal_time"])
    assert f"tickwise runs show {moved['run_id']}" in told.err


# ------------------------------------------------------------------------------------------ calendars and windows


def test_the_life_of_a_calendar(local: Local) -> None:
    """Put, listed, shown, gone by, covering, not deleted while it is gone by."""
    put = local.tickwise("calendars", "put", "rest", "--dates", "2030-01-01..2030-01-03", "--timezone", "Europe/Berlin")
    assert (0, True) == (put.code, "Calendar rest is stored." in put.out)
    assert re.search(r"^rest +Europe/Berlin +1 ", local.tickwise("calendars", "list").out, re.MULTILINE)
    assert re.search(r"dates +2030-01-01\.\.2030-01-03", local.tickwise("calendars", "show", "rest").out)
    _job(local, "resting", "--cron", "0 12 * * *", "--calendar", "rest")
    fires = local.tickwise("jobs", "preview", "resting", "--from", "2029-12-30", "--count", "4", "--json").json["fires"]
    assert ["fire", "fire", "skip", "skip"] == [fire["decision"] for fire in fires]
    line = local.tickwise("calendars", "covers", "rest", "--from", "2029-12-01", "--to", "2030-02-01", "--utc")
    assert re.search(r"^2029-12-31 23:00:00 UTC  2030-01-03 23:00:00 UTC +3 d ", line.out, re.MULTILINE)
    kept = local.tickwise("calendars", "delete", "rest")
    assert (4, True) == (kept.code, "resting" in kept.err or "jobs go by" in kept.err)
    assert 0 == local.tickwise("jobs", "edit", "resting", "--calendar", "none").code
    assert 0 == local.tickwise("calendars", "delete", "rest").code
    assert 5 == local.tickwise("calendars", "show", "rest").code


def test_the_life_of_a_window(local: Local) -> None:
    """Put for some jobs, listed, shown, covering, replaced from JSON, deleted."""
    put = local.tickwise(
        "windows", "put", "patching", "--cron", "0 2 1 1 *", "--duration", "3h", "--label", "site=mars", "--action",
        "defer", "--reason", "patch day",
    )  # fmt: skip
    assert (0, True) == (put.code, "Maintenance window patching is stored." in put.out)
    assert re.search(
        r"^patching +UTC +site=mars +defer +patch day", local.tickwise("windows", "list").out, re.MULTILINE
    )
    assert re.search(r"recurring +0 2 1 1 \* for 3h", local.tickwise("windows", "show", "patching").out)
    covers = local.tickwise(
        "windows", "covers", "patching", "--from", "2030-01-01", "--to", "2030-02-01", "--json"
    ).json
    assert [("2030-01-01T02:00:00Z", "2030-01-01T05:00:00Z")] == [
        (each["from"], each["to"]) for each in covers["covers"]
    ]
    body = {"when": {"dates": ["2031-01-01"]}, "labels": {"a": "b"}}
    again = local.tickwise("windows", "put", "patching", "-", "--reason", "other", stdin=json.dumps(body))
    assert (0, True) == (again.code, "is replaced." in again.out)
    shown = local.tickwise("windows", "show", "patching", "--json").json
    assert ({"a": "b"}, "other", "skip") == (shown["labels"], shown["reason"], shown["action"])
    assert 0 == local.tickwise("windows", "delete", "patching").code
    assert 5 == local.tickwise("windows", "delete", "patching").code


def test_a_calendar_is_tried_before_it_is_stored(local: Local) -> None:
    """A dry run shows what it covers."""
    today = datetime.now(UTC).date() + timedelta(days=2)
    ran = local.tickwise("calendars", "put", "tried", "--dates", today.isoformat(), "--dry-run", "--json")
    assert [f"{today}T00:00:00Z"] == [each["from"] for each in ran.json["covers"]]
    assert 5 == local.tickwise("calendars", "show", "tried").code


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--dates", "2030-13-01"), 4, "--dates 2030-13-01"),
        (("--weekly", "mon 09:00-25:00"), 4, "--weekly 'mon 09:00-25:00'"),
        (("--cron", "0 0 * * 9", "--duration", "1h"), 4, "--cron '0 0 * * 9'\n"),
        (("--dates", "2030-01-01", "--timezone", "Moon/Base"), 4, "--timezone Moon/Base"),
        (("--weekly", "always"), 2, "write days and hours"),
        ((), 2, "say which times"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused_with_its_option(
    local: Local, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """For calendars and for windows."""
    for kind in ("calendars", "windows"):
        ran = local.tickwise(kind, "put", "wrong", *arguments)
        assert (code, True) == (ran.code, said in ran.err), ran.err


def test_a_name_with_a_slash_is_refused_here(local: Local) -> None:
    """It would lead to another address."""
    ran = local.tickwise("calendars", "put", "a/b", "--dates", "2030-01-01")
    assert (2, True) == (ran.code, "slash" in ran.err)


# ------------------------------------------------------------------------------------------ import of many machines


def test_an_import_places_labels_names_and_pauses_its_jobs(local: Local, tmp_path: Path) -> None:
    """With the queue, labels and prefix of the command; nothing runs before it is resumed by its label."""
    path = tmp_path / "web1"
    path.write_text("* * * * * tar a /srv/orders\n* * * * * tar a /srv/images\n", encoding="utf-8")
    words = ("--queue", "web1", "--requires", "zone=eu", "--label", "machine=web1", "--prefix", "web1 ", "--paused")
    ran = _apply(local, path, *words, "--json")
    assert (0, True) == (ran.code, "2 of 2 jobs are stored and paused." in ran.err), ran
    jobs = [_keyed(local, entry["job"]["key"]) for entry in ran.json["entries"]]
    assert ["web1 tar orders", "web1 tar images"] == [job["name"] for job in jobs]
    for job in jobs:
        assert ("PAUSED", "web1", ["zone=eu"], {"machine": "web1"}, 60) == tuple(
            job[name] for name in ("status", "queue", "requires", "labels", "start_deadline_seconds")
        )
    again = _apply(local, path, *words, "--json").json["entries"]
    assert ["present", "present"] == [each["outcome"] for each in again]
    assert 2 == local.tickwise("import", "crontab", path, "--paused").code
    resumed = local.tickwise("jobs", "resume", "--label", "machine=web1", "--yes")
    assert (0, True) == (resumed.code, "2 jobs" in resumed.out), resumed


def test_a_simulation_names_jobs_by_their_position(local: Local, tmp_path: Path) -> None:
    """Of jobs in a file that share a name; a crontab's are told apart by a word."""
    job = {"name": "same", "cron": "0 3 * * *"}
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps([job, job]), encoding="utf-8")
    ran = local.tickwise("simulate", "--file", path, "--from", "2027-01-01", "--to", "2027-01-02")
    assert (0, True, False) == (ran.code, "same (job 2)" in ran.out, "0000" in ran.out.split("runs a job")[1]), ran
