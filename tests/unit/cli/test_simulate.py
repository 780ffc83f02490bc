"""`tickwise simulate` with files: no server, a line for each occurrence, or a summary for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tickwise.cli.failures import Exit
from tickwise.cli.main import main

HOUR = ("--from", "2027-03-01T00:00:00Z", "--to", "2027-03-01T01:00:00Z")


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What `simulate --json` says, object by object."""
    assert 0 == main(["simulate", "--json", *arguments])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def file_of(folder: Path, name: str, content: str | list[Any] | dict[str, Any]) -> str:
    """A file with this text, or this as JSON."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_a_crontab_is_simulated_without_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each occurrence, with the job's name and its nominal time."""
    name = file_of(tmp_path, "tab", "*/20 * * * * /usr/bin/backup\n")
    expected = [
        {"job": "backup", "nominal": f"2027-03-01T00:{minute}:00Z", "decision": "fire"} for minute in ("00", "20", "40")
    ]
    assert expected == lines(capsys, "--file", name, *HOUR)


def test_an_outage_leaves_a_line_that_stands_for_what_was_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its reason, its count and its range."""
    name = file_of(tmp_path, "jobs.json", [{"name": "often", "cron": "*/5 * * * *"}])
    outage = "2027-03-01T00:01:00Z..2027-03-01T00:47:00Z"
    skipped = [line for line in lines(capsys, "--file", name, "--outage", outage, *HOUR) if line["decision"] == "skip"]
    nominal, until = "2027-03-01T00:05:00Z", "2027-03-01T00:40:00Z"
    told = {"job": "often", "nominal": nominal, "decision": "skip", "reason": "misfire", "count": 8, "until": until}
    assert [told] == skipped


def test_calendars_and_windows_stand_beside_the_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job is deferred by its calendar, another is skipped by a window."""
    said = {
        "jobs": [
            {"name": "waits", "cron": "10 0 * * *", "calendars": [{"name": "night", "otherwise": "defer"}]},
            {"name": "skipped", "cron": "40 0 * * *", "labels": {"tier": "batch"}},
        ],
        "calendars": {"night": {"weekly": [{"days": ["mon"], "from": "00:00", "to": "00:30"}]}},
        "windows": {
            "upgrade": {
                "when": {"periods": [{"from": "2027-03-01T00:35:00Z", "to": "2027-03-01T00:50:00Z"}]},
                "labels": {"tier": "batch"},
            }
        },
    }
    found = lines(capsys, "--file", file_of(tmp_path, "jobs.json", said), *HOUR)
    assert [("waits", "2027-03-01T00:30:00Z", None), ("skipped", None, "maintenance")] == [
        (line["job"], line.get("due"), line.get("reason")) for line in found
    ]


def test_jobs_of_one_name_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By their ids."""
    name = file_of(tmp_path, "jobs.json", [{"name": "x", "cron": "0 * * * *"}, {"name": "x", "cron": "0 * * * *"}])
    assert 2 == len({line["job"] for line in lines(capsys, "--file", name, *HOUR)})


def test_people_get_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Totals, the busiest minute, collisions, and who never runs."""
    jobs = [
        {"name": "a", "cron": "*/30 * * * *"},
        {"name": "b", "cron": "0 * * * *"},
        {"name": "c", "cron": "0 5 * * *"},
    ]
    assert 0 == main(["simulate", "--file", file_of(tmp_path, "jobs.json", jobs), *HOUR])
    told = capsys.readouterr().out
    assert "3 jobs from 2027-03-01T00:00:00Z to 2027-03-01T01:00:00Z: 3 runs, 0 skipped" in told
    assert "busiest minute: 2027-03-01T00:00:00Z, 2 starts" in told
    assert "seconds in which more than one job starts: 1" in told
    assert "jobs that do not run in this time: 1\n  c" in told


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ([{"name": "x", "cron": "61 * * * *"}], Exit.REFUSED, "x: minute"),
        ([{"name": "x"}], Exit.REFUSED, "x: say when it shall run"),
        (
            [{"name": "x", "cron": "* * * * *", "calendars": [{"name": "gone"}]}],
            Exit.REFUSED,
            "there is no calendar 'gone'",
        ),
        ("{", Exit.USAGE, "is no JSON"),
        ([3], Exit.USAGE, "job 1 is no JSON object"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, code: Exit, said: str
) -> None:
    """With the job's name, and nothing is simulated."""
    assert code == main(["simulate", "--file", file_of(tmp_path, "jobs.json", content), *HOUR])
    shown = capsys.readouterr()
    assert said in shown.err
    assert "" == shown.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "2020-01-01T00:00:00Z"),
        ("--outage", "yesterday"),
        ("--outage", "2027-03-02..2027-03-01"),
        ("--run-time", "long"),
        ("--job", "x"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str]
) -> None:
    """As usage errors."""
    assert 2 == main(["simulate", "--file", file_of(tmp_path, "jobs.json", []), *arguments])
    assert arguments[0] in capsys.readouterr().err
