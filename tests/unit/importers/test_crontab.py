"""What reading a crontab promises: the job means what the entry meant to cron, and every difference is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.adapters.runner.kinds import ShellKind
from tickwise.domain.cron import expression as cron
from tickwise.domain.errors import Invalid
from tickwise.importers.crontab import MAX_ENVIRONMENT_CHARACTERS, MAX_LINES, read_crontab
from tickwise.importers.report import ImportEntry, ImportReport, ImportVerdict

BERLIN = "Europe/Berlin"


def read(text: str | bytes, **options: Any) -> ImportReport:
    """A crontab of a machine in Berlin."""
    return read_crontab(text, **{"source": "test", "timezone": BERLIN, **options})


def only(text: str | bytes, **options: Any) -> ImportEntry:
    """The one entry of a crontab."""
    (entry,) = read(text, **options).entries
    return entry


def job(text: str | bytes, **options: Any) -> Mapping[str, Any]:
    """The job of a crontab's one entry."""
    entry = only(text, **options)
    assert entry.job is not None, entry.reason
    return entry.job


def command(text: str | bytes, **options: Any) -> str:
    """What the job of a crontab's one entry gives to the shell."""
    return str(job(text, **options)["task"]["command"])


# ------------------------------------------------------------------------------------------------- whole entries


def test_a_plain_entry_becomes_a_job_that_means_the_same() -> None:
    """Times, zone, home folder, no retry, nothing made up, and a run whatever still runs: all as with cron."""
    entry = only("# Nightly backup\n30 2 * * 1-5 /usr/local/bin/backup --all\n")
    assert entry.as_json() == {
        "line": 2,
        "text": "30 2 * * 1-5 /usr/local/bin/backup --all",
        "verdict": "same",
        "job": {
            "name": "backup",
            "key": "crontab:test:" + str(entry.job and entry.job["key"]).rpartition(":")[2],
            "description": "Nightly backup",
            "schedule_type": "CRON",
            "cron_expression": "30 2 * * 1-5",
            "timezone": BERLIN,
            "task": {
                "kind": "shell",
                "command": "cd || exit\n/usr/local/bin/backup --all",
                "env": {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"},
            },
            "isolation": "process",
            "max_retries": 0,
            "overlap": "allow",
            "misfire": {"grace_seconds": 60, "mode": "skip"},
            "start_deadline_seconds": 60,
        },
    }


@pytest.mark.parametrize("line", ["* * * * *", "*/5 * * * *", "*/15 * * * *", "0-59/3 * * * *"])
def test_without_a_zone_only_a_line_that_depends_on_it_is_changed(line: str) -> None:
    """Clocks differ by whole quarters of an hour, so a line of every few minutes is the same on each of them."""
    assert only(f"{line} poll\n", timezone=None).verdict is ImportVerdict.SAME


@pytest.mark.parametrize(
    "line", ["0 5 * * *", "0 * * * *", "*/10 * * * *", "* * 1 * *", "0,15,30,45 0-23 * * *", "@daily"]
)
def test_without_a_zone_a_line_that_depends_on_it_says_how_to_give_one(line: str) -> None:
    """The machine's zone is not in the file; UTC is said to be a guess."""
    entry = only(f"{line} poll\n", timezone=None)
    assert entry.verdict is ImportVerdict.CHANGED
    assert [change for change in entry.changes if "--timezone" in change] == list(entry.changes)
    assert entry.job is not None
    assert entry.job["timezone"] == "UTC"


def test_cron_tz_moves_the_entries_below_it() -> None:
    """It wins over the machine's zone, from its line on, until it is set to nothing."""
    text = "0 5 * * * a\nCRON_TZ=Asia/Tokyo\n0 5 * * * b\nCRON_TZ=\n0 5 * * * c\n"
    assert [found["timezone"] for found in read(text).jobs] == [BERLIN, "Asia/Tokyo", BERLIN]


def test_tz_is_for_the_command_alone() -> None:
    """As with cron, `TZ` is a variable of the command and moves no schedule."""
    found = job("TZ=Asia/Tokyo\n0 5 * * * report\n")
    assert found["timezone"] == BERLIN
    assert found["task"]["command"].splitlines()[0] == "export TZ=Asia/Tokyo"


def test_a_zone_of_the_command_is_told_to_move_no_times() -> None:
    """People write `TZ` and expect it to; a line that each clock fires alike is told nothing."""
    told, untold = read("TZ=Asia/Tokyo\n0 5 * * * report\n*/5 * * * * poll\n").entries
    assert ["TZ: Asia/Tokyo is the zone of the command alone, and moves no times, as in cron"] == list(told.notes)
    assert () == untold.notes
    assert () == only(f"TZ={BERLIN}\n0 5 * * * report\n").notes


def test_an_unknown_zone_in_the_file_refuses_its_entries() -> None:
    """libc would silently take UTC."""
    entry = only("CRON_TZ=Europe/Berlim\n0 5 * * * report\n")
    assert entry.verdict is ImportVerdict.REFUSED
    assert "Europe/Berlin" in str(entry.reason)


def test_an_unknown_zone_of_the_caller_is_an_error() -> None:
    """It is no fault of the file."""
    with pytest.raises(Invalid, match="no time zone"):
        read_crontab("0 5 * * * a\n", source="test", timezone="Nowhere")


def test_reading_twice_gives_the_same_keys_and_equal_entries_differ() -> None:
    """Importing a file again changes jobs, it does not add them; keys can stand in a path."""
    text = "* * * * * a\n* * * * * a\n* * * * * b\n"
    keys = [found["key"] for found in read(text, source="/etc/cron.d/x", system=False).jobs]
    assert keys == [found["key"] for found in read("\n# moved\n" + text, source="/etc/cron.d/x", system=False).jobs]
    assert len(set(keys)) == 3
    assert {key.rpartition(":")[0] for key in keys} == {"crontab:etc.cron.d.x"}


# ---------------------------------------------------------------------------------------- the lines around entries


def test_comments_right_above_an_entry_describe_it() -> None:
    """Not those above a blank line or an assignment, and not for the entry after."""
    text = "# File head\n\n# one\n#  two\n* * * * * a\n* * * * * b\n# no\nX=1\n* * * * * c\n"
    assert [found.get("description") for found in read(text).jobs] == ["one\ntwo", None, None]


@pytest.mark.parametrize(
    "comment",
    [
        "#0 5 * * * /old/command",
        "# @daily /old/command",
        "#@reboot /old/command",
        "# m h  dom mon dow   command",
        "# -------------------",
        "#MAILTO=root",
        "# DO NOT EDIT THIS FILE - edit the master and reinstall.",
        "# Tickwise: cron does not retry (max_retries 3)",
    ],
)
def test_a_comment_that_says_nothing_of_the_entry_is_no_description(comment: str) -> None:
    """What is commented out, drawn, or the head of a table."""
    assert job(f"# Backup\n{comment}\n* * * * * a\n")["description"] == "Backup"


def test_variables_hold_for_the_entries_below_them() -> None:
    """Each entry has those above it, with the values that they have there, unexpanded."""
    text = "* * * * * a\nPATH=/opt/bin:$HOME/bin\n A = 'b  c' \n* * * * * b\nA=\n* * * * * c\n"
    assert [found["task"]["command"] for found in read(text).jobs] == [
        "cd || exit\na",
        "export PATH='/opt/bin:$HOME/bin'\nexport A='b  c'\ncd || exit\nb",
        "export PATH='/opt/bin:$HOME/bin'\nexport A=''\ncd || exit\nc",
    ]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X=root HOME=/ ", "root HOME=/"),
        ("X = a b  ", "a b"),
        ('X=" a "', " a "),
        ("X=a # b", "a # b"),
        ("X='a\"b'", 'a"b'),
        ("\tX=$Y", "$Y"),
        ('"X"=1', "1"),
    ],
)
def test_an_assignment_is_read_as_cron_reads_it(line: str, value: str) -> None:
    """One variable a line, quotes stripped, blanks at the end trimmed, nothing expanded."""
    assert read(f"{line}\n* * * * * a\n").jobs == read(f"X={chr(39) if chr(34) in value else chr(34)}{value}"
        f"{chr(39) if chr(34) in value else chr(34)}\n* * * * * a\n").jobs  # fmt: skip


def test_text_after_a_quoted_value_is_refused_with_what_to_write() -> None:
    """cron takes the line for an entry, and stumbles."""
    entry = only('MAILTO=""  # nobody\n')
    assert entry.verdict is ImportVerdict.REFUSED
    assert "line of its own" in str(entry.reason)


def test_mailto_is_noted_unless_it_is_empty() -> None:
    """No mail is sent. When and what runs is the same, so is the verdict."""
    text = 'MAILTO=ops@example.org\n0 5 * * * a\nMAILTO=""\n0 5 * * * b\n'
    first, second = read(text).entries
    assert (ImportVerdict.SAME, ImportVerdict.SAME) == (first.verdict, second.verdict)
    assert ("no mail is sent" in first.notes[0], ()) == (True, second.notes)
    assert "failures are told by an e-mail channel for ops@example.org: --apply finds it" in first.notes[0]
    assert (("ops@example.org",), ()) == (first.recipients, second.recipients)
    assert ("a@b.org", "root") == read("MAILTO=a@b.org, root\n0 5 * * * a\n").entries[0].recipients


def test_variables_for_cron_itself_reach_only_a_command_that_reads_them() -> None:
    """`MAILTO` is noise in a job, unless its command uses it."""
    text = "MAILTO=\nRANDOM_DELAY=0\n* * * * * a\n* * * * * a | mail $MAILTO\n"
    assert [found["task"]["command"] for found in read(text).jobs] == [
        "cd || exit\na",
        "export MAILTO=''\ncd || exit\na | mail $MAILTO",
    ]


def test_logname_is_the_users_whatever_the_file_says() -> None:
    """cron does not let it be set; a command that reads it finds the user that runs it."""
    assert command("LOGNAME=nobody\n* * * * * echo $LOGNAME\n") == (
        'export LOGNAME="$(id -un)"\ncd || exit\necho $LOGNAME'
    )


def test_another_shell_runs_the_command() -> None:
    """The task's own shell only hands over."""
    assert command("SHELL=/bin/bash\n* * * * * [[ 'a' == a ]] && b\n") == (
        "export SHELL=/bin/bash\ncd || exit\nexec /bin/bash -c '[[ '\"'\"'a'\"'\"' == a ]] && b'"
    )


def test_a_random_delay_becomes_a_jitter() -> None:
    """In seconds, where cronie says minutes; that each run has its own is said."""
    entry = only("RANDOM_DELAY=45\n0 5 * * * a\n")
    assert (ImportVerdict.CHANGED, 2_700) == (entry.verdict, (entry.job or {})["jitter_seconds"])


def test_an_anacrontab_is_refused() -> None:
    """Its lines look like a crontab's, and mean something else."""
    entry = only("START_HOURS_RANGE=3-22\n@monthly 45 cron.monthly nice run-parts /etc/cron.monthly\n")
    assert "anacrontab" in str(entry.reason)


# ------------------------------------------------------------------------------------------------------- users

SYSTEM_ENTRY = "17 * * * * www-data /srv/tidy\n"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (SYSTEM_ENTRY, "test"),
        ("17 * * * * app /srv/tidy\n", "/etc/cron.d/app"),
        ("17 * * * * app /srv/tidy\n", "etc/crontab"),
        ("# m h dom mon dow user  command\n17 * * * * app /srv/tidy\n", "test"),
        ("# *  *  *  *  * user-name  command (day of week)\n17 * * * * root /srv/tidy\n", "test"),
        ("17 * * * * s-user [ -x /srv/tidy ] && /srv/tidy\n", "test"),
        ("@daily root /srv/tidy\n", "test"),
        ("17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly\n", "test"),
    ],
)
def test_a_system_crontab_is_found_out(text: str, source: str) -> None:
    """By its place, its head, or the users and programs that it names."""
    entry = only(text, source=source)
    assert entry.verdict is ImportVerdict.SAME
    assert entry.job is not None
    assert entry.job["labels"]["cron_user"] == entry.job["run_as"]
    assert "env" not in entry.job["task"]
    without = only(text, source=source, run_as=False)
    assert without.job is not None
    assert "run_as" not in without.job
    assert [entry.job["run_as"] in change for change in without.changes] == [True]


def test_a_user_crontab_runs_as_the_user_that_is_said() -> None:
    """Or, without `run_as`, as the executors say: then its user is theirs."""
    said = only("17 * * * * /srv/tidy\n", user="alice")
    assert said.job is not None
    assert ("alice", ImportVerdict.SAME) == (said.job["run_as"], said.verdict)
    assert "run_as" not in (only("17 * * * * /srv/tidy\n").job or {})
    theirs = only("17 * * * * alice /srv/tidy\n", system=True, user="alice", run_as=False)
    assert ("run_as" in (theirs.job or {}), theirs.verdict) == (False, ImportVerdict.SAME)


def test_a_user_that_no_job_can_name_is_a_change() -> None:
    """FreeBSD adds a group and a class."""
    entry = only("17 * * * * www:www/daemon /srv/tidy\n", system=True)
    assert entry.job is not None
    assert "run_as" not in entry.job
    assert any("www:www/daemon" in change for change in entry.changes)


@pytest.mark.parametrize(
    ("head", "env"),
    [
        ("", {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}),
        ("PATH=/opt/bin\n", {"SHELL": "/bin/sh"}),
        ("SHELL=/bin/bash\n", {"PATH": "/usr/bin:/bin"}),
        ("PATH=/opt/bin\nSHELL=/bin/bash\n", None),
    ],
)
def test_a_command_has_the_variables_of_cron_that_its_file_does_not_set(head: str, env: dict[str, str] | None) -> None:
    """Those of the file are in the command itself."""
    entry = only(f"{head}17 * * * * /srv/tidy\n")
    assert entry.job is not None
    assert env == entry.job["task"].get("env")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("17 * * * * app /srv/tidy\n", "test"),
        ("17 * * * * /srv/tidy\n", "test"),
        ("17 * * * * php /srv/tidy.php\n", "test"),
        ("17 * * * * app /srv/tidy\n", "/var/spool/cron/crontabs/alice"),
        ("# m h  dom mon dow   command\n17 * * * * operator /srv/tidy\n", "test"),
        ("", "test"),
    ],
)
def test_a_users_crontab_is_found_out(text: str, source: str) -> None:
    """The word after the times is the command."""
    assert [entry.verdict for entry in read(text, source=source).entries] == [ImportVerdict.SAME] * bool(text)


def test_the_caller_may_say_which_kind_it_is() -> None:
    """Then nothing is guessed."""
    assert command("0 5 * * * app tidy\n", system=True) == "cd || exit\ntidy"
    assert command("0 5 * * * daemon tidy\n", system=False) == "cd || exit\ndaemon tidy"


def test_an_entry_of_the_user_that_executors_run_as_is_the_same() -> None:
    """So naming that user leaves only real changes."""
    assert only(SYSTEM_ENTRY, user="www-data").verdict is ImportVerdict.SAME


@pytest.mark.parametrize("line", ["0 5 * * * /srv/tidy --all", "0 5 * * * env tidy", "0 5 * * * root", "0 5 * * *"])
def test_a_system_entry_without_user_or_command_is_refused(line: str) -> None:
    """cron refuses an unknown user, and so do we."""
    assert only(line + "\n", system=True).verdict is ImportVerdict.REFUSED


@pytest.mark.parametrize("user", ["root", "www-data"])
def test_a_user_in_a_users_crontab_is_refused(user: str) -> None:
    """cron would look for a program of that name."""
    entries = read(f"0 5 * * * /a\n0 6 * * * /b\n0 7 * * * {user} /c\n").entries
    assert [ImportVerdict.SAME, ImportVerdict.SAME, ImportVerdict.REFUSED] == [entry.verdict for entry in entries]
    assert "--system" in str(entries[2].reason)


# ------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("times", "expression"),
    [
        ("0-23/2 1 * * *", None),
        ("\t5\t4  * *\tSun", "5 4 * * Sun"),
        ("*/60 * * * *", None),
        ("*/90 * * * *", "*/60 * * * *"),
        ("0 */25 * * *", "0 */24 * * *"),
        ("0 0 */40 * 5", "0 0 */31 * 5"),
        ("0 0 * * 0-7/9", "0 0 * * 0-7/7"),
        ("-5 4 * * *", "5 4 * * *"),
        ("0 0 * jan,JUL mon-fri", None),
        ("00 05 01 * 7", None),
        ("0 10 1-7 * 0", None),
        ("@daily", None),
        ("@midnight", None),
        ("@every_minute", "* * * * *"),
    ],
)
def test_times_that_cron_knows_are_the_same(times: str, expression: str | None) -> None:
    """As they stand, or written so that our cron reads what Debian's does."""
    entry = only(f"{times} a\n")
    assert entry.changes == ()
    assert (entry.job or {})["cron_expression"] == expression or times


@pytest.mark.parametrize(
    "times",
    [
        "0/5 * * * *",
        "0 22-4 * * *",
        "0 0 * * fri-mon",
        "0 0 L * *",
        "0 0 * * 5L",
        "0 0 * * mon#1",
        "0 9 ? * 1",
        "@Daily",
    ],
)
def test_times_that_cron_refuses_or_never_runs_are_changed(times: str) -> None:
    """We read them; that cron did not is said."""
    entry = only(f"{times} a\n")
    assert entry.verdict is ImportVerdict.CHANGED
    assert "cron" in entry.changes[0]


def test_a_random_time_becomes_a_stable_one() -> None:
    """`~` is drawn at each start of cron, `H` once and for all."""
    entry = only("~ 3~5 * * * a\n")
    assert (ImportVerdict.CHANGED, "H H(3-5) * * *") == (entry.verdict, (entry.job or {})["cron_expression"])


@pytest.mark.parametrize(("times", "seconds"), [("@600", 600), ("@every 1h30m", 5_400), ("@every_second", 1)])
def test_times_by_interval_become_intervals(times: str, seconds: float) -> None:
    """From where they count is said."""
    entry = only(f"{times} a b\n")
    assert entry.job is not None
    assert ("INTERVAL", seconds) == (entry.job["schedule_type"], entry.job["interval_seconds"])
    assert entry.job["task"]["command"] == "cd || exit\na b"
    assert (ImportVerdict.CHANGED, 1) == (entry.verdict, len(entry.changes))


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("@reboot /usr/bin/start", "systemd unit"),
        ("@fortnightly a", "@monthly"),
        ("@every soon a", "90s"),
        ("@every", "duration"),
        ("@0 a", "1 second"),
        ("0 24 * * * a", "0-23"),
        ("*/0 * * * * a", "1 to 60"),
        ("0 0 30 2 * a", "L for the last day"),
        ("* 1 * * * * a", "five time fields"),
        ("0 30 2 * * ? a", "0-23"),
        ("0 0 12 * * 1 a", "five time fields"),
        ("0 5 * * *", "write one"),
        ("0 5 * * * %text", "before the first %"),
        ("------", "NAME=value"),
        ("a sentence after the job, of many words", "0-59"),
        ("0 5\N{NO-BREAK SPACE}* * * a", "ASCII"),
        ('0 5 * * * date +"%F" > /tmp/x', r"\%"),
        ("0 5 * * * sleep $(( RANDOM % 600 ))", r"\%"),
        ("0 5 * * * a\0b", "NUL"),
    ],
)
def test_what_is_no_entry_is_refused_with_what_to_write(line: str, advice: str) -> None:
    """Also where cron itself would say no more than "bad minute"."""
    entry = only(line + "\n")
    assert (ImportVerdict.REFUSED, None, ()) == (entry.verdict, entry.job, entry.changes)
    assert advice in str(entry.reason)


# ----------------------------------------------------------------------------------------------------- commands


def test_a_percent_sign_ends_the_command_and_begins_its_input() -> None:
    """Later ones break lines; a backslash keeps one as it is."""
    assert command("0 5 * * * mail -s '5\\% off' joe%Hello,%%100\\% yours\n") == (
        "cd || exit\nexec <<'END_OF_INPUT'\nHello,\n\n100% yours\nEND_OF_INPUT\nmail -s '5% off' joe"
    )


def test_doubled_backslashes_are_halved_as_in_debian_and_said() -> None:
    """cronie would leave them."""
    entry = only(r"0 5 * * * printf 'a\\b\c'" + "\n")
    assert entry.verdict is ImportVerdict.CHANGED
    assert (entry.job or {})["task"]["command"] == "cd || exit\n" + r"printf 'a\b\c'"


@pytest.mark.parametrize("text", ["serve &", "a & b", "nohup a", "setsid a"])
def test_a_command_that_leaves_something_running_is_changed(text: str) -> None:
    """A run ends with all its processes."""
    assert ["background" in change for change in only(f"0 5 * * * {text}\n").changes] == [True]


@pytest.mark.parametrize(
    "text", ["a && b", "a >/dev/null 2>&1", "a &>/dev/null", "echo 'a & b'", 'echo "&"', r"a \& b"]
)
def test_other_ampersands_leave_nothing_running(text: str) -> None:
    """They join, redirect, or are quoted."""
    assert only(f"0 5 * * * {text}\n").changes == ()


def test_flags_of_openbsd_are_no_command() -> None:
    """`-s` is one run at a time."""
    entry = only("0 5 * * * -ns tidy\n")
    assert entry.job is not None
    assert ("skip", "cd || exit\ntidy") == (entry.job["overlap"], entry.job["task"]["command"])
    assert entry.verdict is ImportVerdict.CHANGED


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/usr/local/bin/backup.sh --full >/dev/null 2>&1", "backup.sh"),
        ("cd /srv/shop && /usr/bin/php artisan schedule:run >> /dev/null", "php artisan"),
        ("[ -x /usr/bin/tidy ] && /usr/bin/tidy --all", "tidy"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "run-parts"),
        ("A=1 nice -n 10 sudo -u www-data /opt/x", "x"),
        ("flock -n /run/a.lock timeout 60 python3 -u /opt/report.py", "python3 report.py"),
        ("$SCRIPT", "$SCRIPT"),
        ("cd /tmp", "cd"),
        ("'", "cron job"),
    ],
)
def test_a_job_is_named_for_the_program_that_matters(text: str, name: str) -> None:
    """Short, and without what only leads to it."""
    assert job(f"0 5 * * * {text}\n")["name"] == name


# --------------------------------------------------------------------------------------------- files as they come


def test_line_ends_of_windows_are_no_part_of_commands() -> None:
    """cron would hand the CR to the command, which is said."""
    entry = only("SHELL=/bin/sh\r\n\r\n0 5 * * * a\r\n")
    assert (entry.job or {})["task"]["command"] == "cd || exit\na"
    assert ["CR" in change for change in entry.changes] == [True]


def test_a_last_line_without_its_line_break_is_read_and_said() -> None:
    """Debian's cron ignores such a file."""
    entries = read("0 5 * * * a\n0 6 * * * b").entries
    assert [ImportVerdict.SAME, ImportVerdict.CHANGED] == [entry.verdict for entry in entries]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    """Before a comment it goes unnoticed, before an entry it is said."""
    assert only("\ufeff# head\n0 5 * * * a\n".encode()).verdict is ImportVerdict.SAME
    assert ["byte order mark" in change for change in only("\ufeff0 5 * * * a\n".encode()).changes] == [True]


def test_bytes_that_are_no_utf8_matter_only_inside_an_entry() -> None:
    """A comment in an old encoding costs nothing but its letters."""
    first, second = read("# für alle\n0 5 * * * a\n0 6 * * * grüße\n".encode("latin-1")).entries
    assert (ImportVerdict.SAME, "f\N{REPLACEMENT CHARACTER}r alle") == (first.verdict, (first.job or {})["description"])
    assert "UTF-8" in str(second.reason)


def test_a_command_longer_than_cron_takes_runs_whole_and_is_said() -> None:
    """Debian's cron takes 998 characters; a task takes far more, and what is more still is refused."""
    assert only(f"0 5 * * * {'a' * 998}\n").verdict is ImportVerdict.SAME
    assert only(f"0 5 * * * {'a' * 999}\n").verdict is ImportVerdict.CHANGED
    assert only(f"0 5 * * * {'a' * 200_000}\n").verdict is ImportVerdict.REFUSED


def test_a_report_is_bounded_by_its_source() -> None:
    """Neither many lines nor many variables make it grow beyond."""
    many = read("* * * * * a\n" * (MAX_LINES + 2)).entries
    assert [ImportVerdict.SAME, ImportVerdict.REFUSED, ImportVerdict.REFUSED] == [
        entry.verdict for entry in many[MAX_LINES - 1 :]
    ]
    variables = "".join(f"V{number}={'x' * 90}\n" for number in range(MAX_ENVIRONMENT_CHARACTERS // 90 + 1))
    assert only(f"{variables}* * * * * a\n").verdict is ImportVerdict.REFUSED


LINES = st.one_of(
    st.text(max_size=80),
    st.builds(
        " ".join,
        st.lists(
            st.sampled_from(
                ["*", "*/5", "0", "~", "1-5", "22-4", "H", "?", "@daily", "@reboot", "@every", "5m", "@", "-", "-s",
                 "root", "www-data", "cmd", "%", "\\%", "\\", "'", '"', "$(", "\t", "\r", "\0", "\udcff", "A=b", "=",
                 "#", "&"]
            ),
            max_size=10,
        ),
    ),
)  # fmt: skip


@given(st.lists(LINES, max_size=8).map("\n".join), st.sampled_from([None, True, False]))
def test_any_text_gives_a_verdict_for_every_line_that_says_something(text: str, system: bool | None) -> None:
    """Nothing raises, nothing is dropped, verdict and contents agree, and what is imported can be stored and run."""
    report = read_crontab(text, source="any", system=system)
    found = {entry.line: entry for entry in report.entries}
    assert list(found) == sorted(found)
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.removeprefix("\ufeff" if number == 1 else "").lstrip(" \t").removesuffix("\r")
        if not words or words.startswith("#"):
            assert number not in found
        elif "=" not in words:
            assert number in found
    for entry in report.entries:
        assert entry.text.encode()
        assert (entry.verdict is ImportVerdict.REFUSED) == (entry.job is None) == (entry.reason is not None)
        assert (entry.verdict is ImportVerdict.CHANGED) == bool(entry.changes)
        if entry.job is not None:
            assert ShellKind().check(entry.job["task"]) == entry.job["task"]
            assert 0 < len(entry.job["key"]) <= 200
            assert "/" not in entry.job["key"]
            assert 0 < len(entry.job["name"]) <= 200
            if entry.job["schedule_type"] == "CRON":
                assert cron.parse(entry.job["cron_expression"]).ever_fires()


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(content: bytes) -> None:
    """A crontab may be no crontab at all."""
    for entry in read_crontab(content, source=content.decode("latin-1")).entries:
        assert entry.as_json()["verdict"] in ("same", "changed", "refused")
        assert entry.text.encode()


def test_a_false_test_at_the_end_is_told() -> None:
    """Cron looks at no exit code; here the run fails. As Debian's PHP has it."""
    [note] = only(f"TZ={BERLIN}\n5 * * * * [ -x /a ] && if [ ! -d /b ]; then /a; fi\n").notes
    assert "write [ … ] || exit 0; command" in note


def test_a_lock_that_is_not_waited_for_is_told() -> None:
    """With the two ways out; one that is waited for is left alone."""
    [note] = only(f"TZ={BERLIN}\n5 * * * * flock -n /run/a.lock /a\n").notes
    assert "write flock -n -E 0, or leave flock out and let the job say overlap: skip" in note
    assert () == only(f"TZ={BERLIN}\n5 * * * * flock /run/a.lock /a\n").notes
