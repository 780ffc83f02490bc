"""Crontabs that people wrote: each line that cron would run, or stumble over, has a verdict.

The lines below have one oddity each that was found in public crontabs. The files are whole crontabs: see `corpora`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.kinds import builtin_kinds
from tests.unit.importers.corpora import crontabs
from tickwise.adapters.runner.kinds import ShellKind
from tickwise.control.bodies import JobBody
from tickwise.control.jobs.composing import compose
from tickwise.control.jobs.scene import Scene
from tickwise.control.tasks import TaskCheck
from tickwise.domain.cron import expression as cron
from tickwise.domain.model import Principal
from tickwise.domain.zones import zone_named
from tickwise.importers.crontab import read_crontab
from tickwise.importers.crontab_export import write_crontab
from tickwise.importers.report import ImportReport

SAME, CHANGED, REFUSED = "same", "changed", "refused"

ODD_LINES = [
    # Times that daemons read in different ways.
    ("0/5 * * * * a", CHANGED),
    ("*/60 * * * * a", SAME),
    ("*/90 * * * * a", SAME),
    ("*/0 * * * * a", REFUSED),
    ("*/01 * * * * a", SAME),
    ("? 6 * * * a", REFUSED),
    ("_ */3 * * * * a", REFUSED),
    ("* 1 * * * * a", REFUSED),
    ("0 0 0 * * * a", REFUSED),
    ("47 6 * * 7 a", SAME),
    ("0 6 * * 5-7 a", SAME),
    ("0 6 * * 0-7 a", SAME),
    ("*/5 22-4 * * * a", CHANGED),
    ("0 6 * * FRI-MON a", CHANGED),
    ("0 6 * NOV-FEB * a", CHANGED),
    ("* * * * */2 a", SAME),
    ("5 4 1-7 * 0 a", SAME),
    ('0 10 1-7 * * [ "$(date +\\%u)" = "7" ] && a', SAME),
    ("0 24 * * * a", REFUSED),
    ("~ * * * * -ns a", CHANGED),
    ("* 1 * * MON-SAT a", SAME),
    ("0 12 * * monday a", REFUSED),
    ("0 0 L * * a", CHANGED),
    ("0 0 15W * * a", REFUSED),
    ("0 0 * * 5L a", CHANGED),
    ("0 0 * * MON#1 a", CHANGED),
    ("3-59/10 7-21/2 * * * a", SAME),
    ("*/11 * * * * a", SAME),
    ("0 0 31 2 * a", REFUSED),
    ("H H(9-16)/2 * * 1-5 a", CHANGED),
    ("@every 5m a", CHANGED),
    ("@reboot a", REFUSED),
    ("@midnight a", SAME),
    ("@annually a", SAME),
    ("@never a", REFUSED),
    ("00 05 * * * a", SAME),
    # Lines.
    ("0 5 * * *", REFUSED),
    ("0 5 * * * root a", REFUSED),
    ("* * * * * sleep $(( ( RANDOM % 600 ) + 1 ))m; a", REFUSED),
    ("* * * * * awk '{print strftime(\"%Y-%m\")}' a", REFUSED),
    ("* * * * * awk '{print strftime(\"\\%Y-\\%m\")}' a", SAME),
    ("* * * * * a#6 # comment", SAME),
    ('MAILTO=""  # comment', REFUSED),
    ("@daily ID=job a", SAME),
    ("@daily \t\t\t\t\t\ta", SAME),
    ("\t 5\t4 *  * *\ta \t", SAME),
    ("------", REFUSED),
    ("==========", REFUSED),
    ("text:", REFUSED),
    ("this is a sentence of more than six words", REFUSED),
    ("* * * * * nohup a &", CHANGED),
    ("* * * * * " + "a" * 1_200, CHANGED),
    ("* * * * * a\0b", REFUSED),
    ("* * * * * a\r", CHANGED),
    ("\x1b[31m* * * * * a", REFUSED),
    ("\u200b* * * * * a", REFUSED),
    ("\N{FULLWIDTH ASTERISK} * * * * a", REFUSED),
]


@pytest.mark.parametrize(("line", "verdict"), ODD_LINES)
def test_every_odd_line_has_its_verdict(line: str, verdict: str) -> None:
    """In a user's crontab of a machine in UTC."""
    (entry,) = read_crontab(f"{line}\n", source="odd", system=False, timezone="UTC").entries
    assert (entry.verdict.value, entry.reason, entry.changes) == (verdict, entry.reason, entry.changes)


def test_all_odd_lines_in_one_file_keep_their_verdicts() -> None:
    """No line spoils another."""
    text = "".join(f"{line}\n" for line, _ in ODD_LINES)
    report = read_crontab(text, source="odd", system=False, timezone="UTC")
    assert [verdict for _, verdict in ODD_LINES] == [entry.verdict.value for entry in report.entries]


def test_whatever_is_not_refused_is_a_job_that_the_product_takes() -> None:
    """Its body passes every check that `POST /jobs` makes."""
    text = 'MAILTO=ops\nA="b c"\nSHELL=/bin/bash\nRANDOM_DELAY=5\nCRON_TZ=Asia/Tokyo\n# said\n'
    text += "".join(f"{line}\n" for line, _ in ODD_LINES)
    scene = Scene(now=1_800_000_000.0, tasks={})
    check = TaskCheck({kind.name: kind for kind in builtin_kinds()})
    for system in (False, True):
        report = read_crontab(text.replace(" a", " daemon a") if system else text, source="/etc/crontab", system=system)
        assert len(report.jobs) > 25
        for job in report.jobs:
            body = msgspec.json.decode(msgspec.json.encode(job), type=JobBody)
            composed = compose(Principal("importer", "default", frozenset("*")), body, scene, check, bytes(10))
            assert composed.job.key == job["key"]


FILES = crontabs()


def _said(content: bytes) -> list[int]:
    """The numbers of the lines that are no blanks, comments or assignments, found in another way than the reader's."""
    found = []
    for number, line in enumerate(content.decode("latin-1").split("\n"), start=1):
        words = line.split()
        first = words[0] if words else "#"
        assigns = "=" in first.strip("=") or (len(words) > 1 and words[1].startswith("="))
        if not first.startswith("#") and not assigns:
            found.append(number)
    return found


def _check(report: ImportReport) -> None:
    for entry in report.entries:
        assert entry.as_json()["verdict"] in (SAME, CHANGED, REFUSED)
        if entry.job is not None:
            assert ShellKind().check(entry.job["task"]) == entry.job["task"]
            assert "cron_expression" not in entry.job or cron.parse(entry.job["cron_expression"]).explain()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_of_a_crontab_has_a_verdict(file: Path) -> None:
    """Whichever kind of crontab it is taken for."""
    content = file.read_bytes()
    for system in (None, False, True):
        report = read_crontab(content, source=file.name, system=system)
        assert [entry.line for entry in report.entries] == _said(content)
        _check(report)


def test_crontabs_are_hardly_ever_refused() -> None:
    """Of the lines that begin as an entry does, at most one of twenty."""
    entries = [entry for file in FILES for entry in read_crontab(file.read_bytes(), source=file.name).entries]
    entries = [entry for entry in entries if entry.text[0] in "*@0123456789"]
    refused = [entry.text for entry in entries if entry.job is None]
    assert len(refused) <= len(entries) / 20, refused


def _meanings(report: ImportReport) -> list[tuple[str, int | None]]:
    return sorted(
        (job["task"]["command"], cron.parse(job["cron_expression"]).next_second(0, zone_named(job["timezone"])))
        for job in report.jobs
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_crontab_comes_back_from_an_export(file: Path) -> None:
    """All of its jobs, with their commands and times."""
    report = read_crontab(file.read_bytes(), source=file.name, timezone="America/New_York")
    again = read_crontab(write_crontab(report.jobs), source="export", system=False)
    assert _meanings(report) == _meanings(again)
