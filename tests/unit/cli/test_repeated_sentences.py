"""A report of many entries says each sentence once, with the number of its entries; programs get all of it."""

from __future__ import annotations

from pathlib import Path

from tests.support.local_up import Ran, call_command, environment
from tickwise.cli.imports.repeated import RepeatedSentences
from tickwise.cli.sources import entries

MACHINE = """\
CRON_TZ=Asia/Tokyo
0 3 * * * root /srv/bin/one
0 4 * * * root /srv/bin/two
@reboot root /srv/bin/three
@reboot root /srv/bin/four
0/5 * * * * www-data /srv/bin/five
"""
ROOT = "cron runs it as the user root, here it runs as the user of the executor that takes it"
REBOOT = "@reboot runs when the machine starts"


def bring(*arguments: str | Path) -> Ran:
    """`tickwise import crontab ARGUMENTS --dry-run`, with no server to be found."""
    return call_command(("import", "crontab", *arguments, "--dry-run"), environment(TICKWISE_URL="http://127.0.0.1:1"))


def written(folder: Path) -> list[Path]:
    """The crontabs of three machines."""
    places = [folder / f"web{number}.cron" for number in (1, 2, 3)]
    for place in places:
        place.write_text(MACHINE, encoding="utf-8")
    return places


def test_a_sentence_of_several_entries_stands_once_with_their_number(tmp_path: Path) -> None:
    """Of three machines, changes and refusals alike; the entries bear its number."""
    ran = bring(*written(tmp_path), "--no-run-as")
    assert (0, 1, 1) == (ran.code, ran.out.count(ROOT), ran.out.count(REBOOT))
    heads = [line.rsplit("/", 1)[1] for line in ran.out.splitlines() if line.startswith(("changed", "refused"))]
    assert ["web1.cron:2  [1] [5]", "web1.cron:3  [1] [5]", "web1.cron:4  [2]", "web1.cron:5  [2]"] == heads[:4]
    below = ran.out.partition("15 entries: ")[2].splitlines()
    assert [f"  [1] {ROOT} (6 entries)", True] == [below[1], below[2].startswith(f"  [2] {REBOOT}")]
    assert below[2].endswith("(6 entries)")


def test_a_sentence_of_one_entry_stands_with_it(tmp_path: Path) -> None:
    """Nothing else is numbered."""
    place = tmp_path / "one.cron"
    place.write_text("0 3 * * * root /srv/bin/one\n0/5 * * * * /srv/bin/five\n", encoding="utf-8")
    ran = bring(place, "--system", "--timezone", "UTC", "--no-run-as")
    assert f"changed  line 1\n    0 3 * * * root /srv/bin/one\n  - {ROOT}\n" in ran.out
    assert "[1]" not in ran.out


def test_a_note_says_of_which_entries_it_is(tmp_path: Path) -> None:
    """By a number; one of all that is imported needs none, and refusals have none."""
    place = tmp_path / "one.cron"
    tested = "* * * * * [ -x /srv/bin/a ] && /srv/bin/a"
    place.write_text(f"MAILTO=ada@example.org\n{tested}\n5 * * * * date\n@reboot date\n", encoding="utf-8")
    ran = bring(place, "--timezone", "UTC")
    heads = [line for line in ran.out.splitlines() if line.startswith(("same", "refused"))]
    assert ["same     line 2  [1]", "same     line 3", "refused  line 4"] == heads
    first, second = ran.out.partition("3 entries: ")[2].splitlines()[1:]
    assert (True, True) == (first.startswith("  [1] [ … ] && command"), first.endswith("(1 entry)"))
    assert (True, True) == (second.startswith("  - MAILTO: "), second.endswith("(2 entries)"))


def test_a_warning_of_the_server_about_several_jobs_stands_once(tmp_path: Path) -> None:
    """Without a number where it is about all; one about a single job stands with its entry."""
    place = tmp_path / "one.cron"
    place.write_text("1 * * * * date\n2 * * * * date\n3 * * * * date\n", encoding="utf-8")
    found = entries((str(place),), "crontab", timezone="UTC")
    said = {0: ("nobody serves it", "no user", "alone"), 1: ("nobody serves it", "no user"), 2: ("nobody serves it",)}
    below = RepeatedSentences.of(found, said)
    assert ["[1] no user (2 entries)", "! nobody serves it (3 entries)"] == list(below.lines())
    assert ["[1]", "[1]", ""] == [below.marks(each, said[number]) for number, each in enumerate(found)]
    assert [["alone"], [], []] == [below.own_warnings(said[number]) for number in range(3)]


def test_programs_get_each_sentence_with_its_entry(tmp_path: Path) -> None:
    """Grouping is for people."""
    found = bring(*written(tmp_path), "--no-run-as", "--json").json["entries"]
    assert 6 == sum(ROOT in entry.get("changes", ()) for entry in found)
    assert 6 == sum(entry.get("reason", "").startswith(REBOOT) for entry in found)


def test_queue_label_and_requirement_are_those_of_each_job(tmp_path: Path) -> None:
    """The labels of an entry stay beside them."""
    options = ("--queue", "web", "--label", "machine=web1", "--requires", "disk=ssd", "--requires", "gpu")
    jobs = [each["job"] for each in bring(*written(tmp_path), *options, "--json").json["entries"] if "job" in each]
    assert [("web", ["disk=ssd", "gpu"], "web1")] * 9 == [
        (job["queue"], job["requires"], job["labels"]["machine"]) for job in jobs
    ]
    assert {"root", "www-data"} == {job["labels"]["cron_user"] for job in jobs}


def test_a_zone_of_the_file_is_told_once(tmp_path: Path) -> None:
    """Debian's cron ignores `CRON_TZ`; where the machine has that very zone there is nothing to say."""
    said = "CRON_TZ: times are in Asia/Tokyo, as cronie reads them"
    assert 1 == bring(*written(tmp_path)).out.count(said)
    assert f"{said}; Debian's cron ignores it" in bring(*written(tmp_path), "--timezone", "Europe/Berlin").out
    assert said not in bring(*written(tmp_path), "--timezone", "Asia/Tokyo").out


def test_files_of_machines_in_a_folder_called_crontabs_are_read_by_their_lines(tmp_path: Path) -> None:
    """A collection of crontabs is no spool of a daemon: lines that name users do so there too."""
    folder = tmp_path / "crontabs"
    folder.mkdir()
    found = bring(*written(folder), "--json").json["entries"]
    assert {"root", "www-data"} == {each["job"]["labels"]["cron_user"] for each in found if "job" in each}


def test_the_users_of_a_report_are_told_once_with_the_setting_that_executors_need(tmp_path: Path) -> None:
    """Each job says its own."""
    said = "by an executor that root starts with TICKWISE_RUN_AS_USERS=root,www-data (9 entries)"
    assert 1 == bring(*written(tmp_path)).out.count(said)
    jobs = [each["job"] for each in bring(*written(tmp_path), "--json").json["entries"] if "job" in each]
    assert {"root", "www-data"} == {job["run_as"] for job in jobs}
    assert "TICKWISE_RUN_AS_USERS" not in bring(*written(tmp_path), "--no-run-as").out
