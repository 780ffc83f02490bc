"""At a change of the clock an imported job fires when the other system would have, by what each of them answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.crons import fire_after
from tests.unit.importers.acceptance import accepted
from tickwise.domain.cron import expression as cron
from tickwise.domain.zones import Dst, GapRule, RepeatRule
from tickwise.importers.celery import read_celery
from tickwise.importers.kubernetes import read_kubernetes
from tickwise.importers.systemd import read_systemd


def _kubernetes(line: str, zone: str) -> Mapping[str, Any]:
    pod = {"spec": {"containers": [{"name": "a", "command": ["/bin/a"]}]}}
    spec = {"schedule": line, "timeZone": zone, "jobTemplate": {"spec": {"template": pod}}}
    (job,) = read_kubernetes(
        json.dumps({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": spec}), source="a"
    ).jobs
    return job


def _systemd(event: str, zone: str) -> Mapping[str, Any]:
    files = {"a.timer": f"[Timer]\nOnCalendar={event} {zone}\n", "a.service": "[Service]\nExecStart=/bin/a\n"}
    (job,) = read_systemd(files).jobs
    return job


def _celery(line: str, zone: str) -> Mapping[str, Any]:
    schedule = {"timezone": zone, "beat_schedule": {"a": {"task": "b", "schedule": line}}}
    (job,) = read_celery(json.dumps(schedule), source="a.json").jobs
    return job


READERS = {"kubernetes": _kubernetes, "systemd": _systemd, "celery": _celery}
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"

ANSWERS = [
    # The tests of robfig/cron 3, which Kubernetes reads lines with: skipped times are lost, repeated ones run twice.
    ("kubernetes", "0 1 * * *", NEW_YORK, ["2012-03-11T01:00-05:00", "2012-03-12T01:00-04:00"]),
    ("kubernetes", "0 2 * * *", NEW_YORK, ["2012-03-10T02:00-05:00", "2012-03-12T02:00-04:00"]),
    ("kubernetes", "30 2 11 3 ?", NEW_YORK, ["2011-03-11T02:30-05:00", "2013-03-11T02:30-04:00"]),
    ("kubernetes", "0 * * * *", NEW_YORK, ["2012-03-11T01:00-05:00", "2012-03-11T03:00-04:00"]),
    ("kubernetes", "0 * * * *", NEW_YORK, ["2012-11-04T01:00-04:00", "2012-11-04T01:00-05:00"]),
    (
        "kubernetes",
        "0 1 * * *",
        NEW_YORK,
        ["2012-11-04T01:00-04:00", "2012-11-04T01:00-05:00", "2012-11-05T01:00-05:00"],
    ),
    ("kubernetes", "0 2 * * *", NEW_YORK, ["2012-11-04T02:00-05:00", "2012-11-05T02:00-05:00"]),
    # `systemd-analyze calendar --base-time` of systemd 252: skipped times are lost, the second pass of an hour too.
    ("systemd", "02:30", BERLIN, ["2027-03-27T02:30+01:00", "2027-03-29T02:30+02:00"]),
    ("systemd", "2..3:15", BERLIN, ["2027-03-27T03:15+01:00", "2027-03-28T03:15+02:00", "2027-03-29T02:15+02:00"]),
    ("systemd", "*:30", BERLIN, ["2027-03-28T01:30+01:00", "2027-03-28T03:30+02:00"]),
    ("systemd", "02:30", BERLIN, ["2027-10-30T02:30+02:00", "2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"]),
    ("systemd", "*:0/20", BERLIN, ["2027-10-31T02:40+02:00", "2027-10-31T03:00+01:00", "2027-10-31T03:20+01:00"]),
    # `crontab.is_due` of Celery 5.6, asked every five minutes: skipped times run an hour later, repeated ones once.
    ("celery", "30 2 * * *", BERLIN, ["2027-03-27T02:30+01:00", "2027-03-28T03:30+02:00", "2027-03-29T02:30+02:00"]),
    (
        "celery",
        "30 1,2,3 * * *",
        BERLIN,
        ["2027-03-28T01:30+01:00", "2027-03-28T03:30+02:00", "2027-03-29T01:30+02:00"],
    ),
    ("celery", "*/30 * * * *", BERLIN, ["2027-03-28T01:30+01:00", "2027-03-28T03:00+02:00", "2027-03-28T03:30+02:00"]),
    ("celery", "30 2 * * *", BERLIN, ["2027-10-30T02:30+02:00", "2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"]),
    ("celery", "*/30 * * * *", BERLIN, ["2027-10-31T02:30+02:00", "2027-10-31T03:00+01:00", "2027-10-31T03:30+01:00"]),
]


@pytest.mark.parametrize(("system", "line", "zone", "answers"), ANSWERS)
def test_the_clock_changes_as_it_did_before_the_import(system: str, line: str, zone: str, answers: list[str]) -> None:
    """The first answer, and each that follows it."""
    job = READERS[system](line, zone)
    accepted(job)
    rules = job["dst"]
    dst = Dst(GapRule(rules["gap"]), RepeatRule(rules["overlap"]))
    fires = cron.parse(job["cron_expression"])
    expected = [datetime.fromisoformat(answer) for answer in answers]
    at = expected[0] - timedelta(seconds=1)
    found: list[datetime] = []
    while len(found) < len(expected):
        following = fire_after(fires, at, ZoneInfo(job["timezone"]), dst)
        assert following is not None
        found.append(following)
        at = following
    assert expected == found
