"""`tickwise import` without a server: what its report says, to people and to programs, and what it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.local_up import Ran, call_command, environment, run_command

CRONTAB = "# nightly\n0 3 * * * /usr/local/bin/backup\nMAILTO=ops@example.org\n@reboot /bin/start\n*/5 * * * * date\n"


def bring(*arguments: str | Path) -> Ran:
    """`tickwise import ARGUMENTS`, with no server to be found."""
    return call_command(("import", *arguments), environment(TICKWISE_URL="http://127.0.0.1:1"))


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """Three entries: one of each verdict."""
    path = tmp_path / "tab"
    path.write_text(CRONTAB, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------ the report


def test_a_dry_run_is_one_object_with_an_entry_each(crontab: Path) -> None:
    """Each with its line, its text, its verdict, and what belongs to that."""
    ran = bring("crontab", crontab, "--timezone", "Europe/Berlin", "--dry-run", "--json")
    assert (0, "", ["entries"]) == (ran.code, ran.err, list(ran.json))
    same, refused, noted = ran.json["entries"]
    assert ["line", "text", "verdict", "job"] == list(same)
    assert (2, "0 3 * * * /usr/local/bin/backup", "same") == (same["line"], same["text"], same["verdict"])
    assert ("0 3 * * *", "Europe/Berlin") == (same["job"]["cron_expression"], same["job"]["timezone"])
    assert ["line", "text", "verdict", "reason"] == list(refused)
    assert (4, "@reboot /bin/start", "refused") == (refused["line"], refused["text"], refused["verdict"])
    assert ["line", "text", "verdict", "job", "notes"] == list(noted)
    assert "MAILTO" in noted["notes"][0]


def test_jobs_below_a_mailto_name_the_channel_that_is_told(crontab: Path) -> None:
    """With `--notify`; an entry without a recipient names none."""
    ran = bring("crontab", crontab, "--timezone", "Europe/Berlin", "--dry-run", "--json", "--notify", "on-call")
    same, _, noted = ran.json["entries"]
    assert (None, ["on-call"]) == (same["job"].get("notify"), noted["job"]["notify"])
    assert ["MAILTO: failures are told to the channel on-call; the output is kept with each run"] == noted["notes"]


def test_a_channel_that_no_job_is_told_by_is_a_warning(tmp_path: Path) -> None:
    """`--notify` is about the jobs below a MAILTO: without one it would do nothing, unsaid."""
    path = tmp_path / "tab"
    path.write_text("0 3 * * * /usr/local/bin/backup\n", encoding="utf-8")
    ran = bring("crontab", path, "--timezone", "Europe/Berlin", "--notify", "on-call")
    assert "Warning: no job is below a MAILTO with a recipient, so --notify on-call is in no job" in ran.err
    path.write_text("MAILTO=ada@example.org\n0 3 * * * /usr/local/bin/backup\n", encoding="utf-8")
    assert "Warning" not in bring("crontab", path, "--timezone", "Europe/Berlin", "--notify", "on-call").err


def test_of_several_files_each_entry_names_its_own(crontab: Path, tmp_path: Path) -> None:
    """With one file there is nothing to tell apart."""
    other = tmp_path / "other"
    other.write_text("5 * * * * date\n", encoding="utf-8")
    found = bring("crontab", crontab, other, "--dry-run", "--json").json["entries"]
    assert [str(crontab)] * 3 + [str(other)] == [entry["file"] for entry in found]
    assert f"{other}:1" in bring("crontab", crontab, other).out


def test_people_read_a_block_for_each_entry_and_a_sum(crontab: Path) -> None:
    """The verdict, the place, the entry, what changes or why not."""
    ran = bring("crontab", crontab, "--timezone", "Europe/Berlin", "--dry-run")
    assert (0, "") == (ran.code, ran.err)
    assert "same     line 2\n    0 3 * * * /usr/local/bin/backup\n" in ran.out
    assert "refused  line 4\n    @reboot /bin/start\n  - " in ran.out
    assert "same     line 5  [1]\n    */5 * * * * date\n" in ran.out
    assert "\n3 entries: 2 same, 0 changed, 1 refused\n  [1] MAILTO: " in ran.out
    assert ran.out.endswith("(1 entry)\n")


def test_without_either_option_it_reports_and_says_how_to_go_on(crontab: Path) -> None:
    """Nothing is stored by accident."""
    ran = bring("crontab", crontab)
    assert 0 == ran.code
    assert "Nothing is stored." in ran.err
    assert "--apply" in ran.err


def test_both_options_at_once_contradict_each_other(crontab: Path) -> None:
    """A usage error, and nothing is done."""
    ran = bring("crontab", crontab, "--dry-run", "--apply")
    assert (2, "") == (ran.code, ran.out)


def test_refused_entries_make_it_fail_only_where_that_is_wanted(crontab: Path, tmp_path: Path) -> None:
    """`--strict`: exit code 4."""
    assert 0 == bring("crontab", crontab, "--dry-run").code
    assert 4 == bring("crontab", crontab, "--dry-run", "--strict").code
    good = tmp_path / "good"
    good.write_text("0 3 * * * date\n", encoding="utf-8")
    assert 0 == bring("crontab", good, "--dry-run", "--strict").code


def test_control_characters_of_a_file_never_reach_the_terminal(tmp_path: Path) -> None:
    """Neither from an entry nor from the file's name."""
    path = tmp_path / "tab\x1b[31m"
    path.write_bytes(b"0 3 * * * echo '\x1b[31mred\x07'\n99 * * * * \x1b]0;title\x07\n\xff\xfe * * * * x\n")
    other = tmp_path / "other"
    other.write_bytes(b"\x00\x1b\n" * 3)
    ran = bring("crontab", path, other)
    assert 0 == ran.code
    assert not set("\x1b\x07\x00") & set(ran.out + ran.err)
    assert 0 == bring("crontab", path, other, "--dry-run", "--json").code


# ------------------------------------------------------------------------------------------ crontabs


def test_a_crontab_comes_from_a_pipe() -> None:
    """`crontab -l | tickwise import crontab -`."""
    ran = run_command(("import", "crontab", "-", "--dry-run", "--json"), environment(), stdin=CRONTAB)
    assert 0 == ran.code, ran.err
    assert [2, 4, 5] == [entry["line"] for entry in json.loads(ran.out)["entries"]]
    assert "crontab:stdin:" in json.loads(ran.out)["entries"][0]["job"]["key"]


def test_keys_tell_files_apart_by_their_places_and_machines_by_a_name(crontab: Path) -> None:
    """The same line in another file is another job; the same file from anywhere is the same."""
    said = bring("crontab", crontab, "--dry-run", "--json").json["entries"][0]["job"]["key"]
    assert said.startswith("crontab:")
    assert crontab.parent.name in said
    named = bring("crontab", crontab, "--source", "db1", "--dry-run", "--json").json["entries"][0]["job"]["key"]
    assert named.startswith("crontab:db1:")
    assert 2 == bring("crontab", crontab, crontab.parent, "--source", "db1").code


def test_a_file_that_is_named_twice_is_read_once(crontab: Path) -> None:
    """As a shell's pattern may name it."""
    assert 3 == len(bring("crontab", crontab, crontab, "--dry-run", "--json").json["entries"])


def test_whether_entries_name_a_user_can_be_said(tmp_path: Path) -> None:
    """Where it cannot be found out."""
    path = tmp_path / "tab"
    path.write_text("0 3 * * * backup --all\n", encoding="utf-8")
    found = {
        option: bring("crontab", path, option, "--dry-run", "--json").json["entries"][0]
        for option in ("--system", "--no-system")
    }
    assert {"cron_user": "backup"} == found["--system"]["job"]["labels"]
    assert "labels" not in found["--no-system"]["job"]
    same = bring("crontab", path, "--system", "--user", "backup", "--timezone", "UTC", "--dry-run", "--json")
    assert "same" == same.json["entries"][0]["verdict"]


def test_a_system_crontab_is_known_by_its_place(tmp_path: Path) -> None:
    """A file in a folder `cron.d`."""
    path = tmp_path / "cron.d" / "tool"
    path.parent.mkdir()
    path.write_text("0 3 * * * tool run\n", encoding="utf-8")
    assert {"cron_user": "tool"} == bring("crontab", path, "--dry-run", "--json").json["entries"][0]["job"]["labels"]


# ------------------------------------------------------------------------------------------ the others


TIMER = "[Timer]\nOnCalendar=daily\nPersistent=true\n"
SERVICE = "[Service]\nType=oneshot\nExecStart=/usr/bin/backup\n"


def test_the_service_of_a_timer_is_read_from_beside_it(tmp_path: Path) -> None:
    """With the drop-ins of both; other units are left alone."""
    (tmp_path / "backup.timer").write_text(TIMER, encoding="utf-8")
    (tmp_path / "backup.service").write_text(SERVICE, encoding="utf-8")
    (tmp_path / "other.timer").write_text(TIMER, encoding="utf-8")
    (tmp_path / "backup.service.d").mkdir()
    (tmp_path / "backup.service.d" / "more.conf").write_text(
        "[Service]\nExecStart=\nExecStart=/bin/other\n", encoding="utf-8"
    )
    (found,) = bring("systemd", tmp_path / "backup.timer", "--dry-run", "--json").json["entries"]
    assert ["/bin/other"] == found["job"]["task"]["argv"]


def test_a_timer_that_starts_another_service_is_read_with_that(tmp_path: Path) -> None:
    """As its setting `Unit` says."""
    (tmp_path / "a.timer").write_text(TIMER + "Unit=b.service\n", encoding="utf-8")
    (tmp_path / "b.service").write_text(SERVICE, encoding="utf-8")
    (found,) = bring("systemd", tmp_path / "a.timer", "--dry-run", "--json").json["entries"]
    assert ["/usr/bin/backup"] == found["job"]["task"]["argv"]


def test_a_folder_of_units_is_read_whole(tmp_path: Path) -> None:
    """Each entry names the file of its timer."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.timer").write_text(TIMER, encoding="utf-8")
        (tmp_path / f"{name}.service").write_text(SERVICE, encoding="utf-8")
    (tmp_path / "b@.service").write_text(SERVICE, encoding="utf-8")
    ran = bring("systemd", tmp_path, tmp_path / "a.timer", "--dry-run", "--json")
    assert [str(tmp_path / "a.timer"), str(tmp_path / "b.timer")] == [entry["file"] for entry in ran.json["entries"]]


def test_what_is_no_unit_is_refused_with_what_to_name(tmp_path: Path) -> None:
    """A file of another kind, or a folder without timers."""
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    assert (2, True) == ((ran := bring("systemd", tmp_path / "notes.txt")).code, "backup.timer" in ran.err)
    assert (2, True) == ((ran := bring("systemd", tmp_path)).code, ".timer" in ran.err)


CRONJOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop}
spec:
  schedule: "0 3 * * *"
  timeZone: Etc/UTC
  jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: i, command: [/bin/report]}]}}}}
"""


def test_the_same_name_in_two_files_is_refused_the_second_time(tmp_path: Path) -> None:
    """One import holds each key once; which one is meant is for the person to say."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(CRONJOB, encoding="utf-8")
    first, second = bring("k8s", tmp_path / "a.yaml", tmp_path / "b.yaml", "--dry-run", "--json").json["entries"]
    assert "k8s:shop:report" == first["job"]["key"]
    assert ("refused", False) == (second["verdict"], "job" in second)
    assert str(tmp_path / "a.yaml") in second["reason"]


def test_a_celery_module_is_read_and_not_run(tmp_path: Path) -> None:
    """Nothing of it is executed."""
    path = tmp_path / "celeryconfig.py"
    path.write_text(
        "open('/nonexistent/never')\n"
        "beat_schedule = {'nightly': {'task': 'shop.nightly', 'schedule': crontab(hour=3, minute=0)}}\n",
        encoding="utf-8",
    )
    (found,) = bring("celery", path, "--dry-run", "--json").json["entries"]
    assert ("celery:nightly", "0 3 * * *") == (found["job"]["key"], found["job"]["cron_expression"])


# ------------------------------------------------------------------------------------------ what cannot be


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("crontab",), "FILE"),
        (("crontab", "/nonexistent/tab"), "cannot be read"),
        (("crontab", "tests"), "cannot be read"),
        (("crontab", "pyproject.toml", "--timezone", "Moon/Base"), "--timezone"),
        (("k8s", "pyproject.toml", "--timezone", "Moon/Base"), "--timezone"),
        (("cron", "x"), "crontab"),
    ],
)
def test_what_cannot_be_understood_exits_with_two(arguments: tuple[str, ...], said: str) -> None:
    """With what to do, and no traceback."""
    ran = bring(*arguments)
    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_an_import_without_a_server_says_that_there_is_none(crontab: Path) -> None:
    """Exit code 3: the same may work later."""
    ran = bring("crontab", crontab, "--apply")
    assert (3, "") == (ran.code, ran.out)
    assert "127.0.0.1:1" in ran.err


def test_more_jobs_than_a_transaction_takes_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    """10,001 of them, in two files; there is no server to be asked."""
    for name, count in (("a", 10_000), ("b", 1)):
        lines = [f"{number % 60} 3 * * * job-{number}\n" for number in range(count)]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    ran = bring("crontab", tmp_path / "a", tmp_path / "b", "--apply")
    assert 4 == ran.code
    assert "these are 10001 jobs; at most 10000" in ran.err
