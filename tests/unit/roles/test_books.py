"""What an executor knows of a run from the text of its definition."""

from __future__ import annotations

import msgspec
import pytest

from tickwise.documents.definition import OUTPUT_LIMIT_BYTES
from tickwise.domain.retry import OnUnknown
from tickwise.ports.runner import TaskLimits
from tickwise.roles.executor.held_runs import BODY_KEPT_LENGTH, read_body

PLAIN = '{"schedule_type":"CRON","task":{"kind":"function","name":"clean"},"payload":{"days":7}}'


def definition(more: str) -> str:
    """One that says more than the plain one."""
    return PLAIN.removesuffix("}") + "," + more + "}"


def test_a_plain_job_demands_nothing_of_its_start() -> None:
    """No recorded start, no limits but that of output, nobody who goes on from it."""
    body = read_body(PLAIN)
    assert "function" == body.kind
    assert b'{"days":7}' == body.payload
    assert TaskLimits(OUTPUT_LIMIT_BYTES) == body.limits
    assert (False, False, False) == (body.guarded, body.names_errors, body.is_followed)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (f'"on_unknown":"{OnUnknown.FAIL}"', (True, False, False)),
        (f'"on_unknown":"{OnUnknown.HOLD}"', (True, False, False)),
        ('"concurrency":{"limit":1}', (True, False, False)),
        ('"rate":{"limit":1}', (True, False, False)),
        ('"retry":{"on":{"error":{"ValueError":"fail"}}}', (False, True, False)),
        ('"then":["01234567-89ab-8def-8123-456789abcdef"]', (False, False, True)),
    ],
)
def test_what_a_job_demands_is_seen(more: str, expected: tuple[bool, bool, bool]) -> None:
    """A start on record, errors by name, a next job: each is paid only by the runs of a job that says so."""
    body = read_body(definition(more))
    assert expected == (body.guarded, body.names_errors, body.is_followed)


def test_limits_are_those_of_the_job() -> None:
    """All of them reach the runner."""
    said = '"limits":{"output_bytes":5,"cpu_seconds":1.5,"memory_bytes":7,"processes":3}'
    assert TaskLimits(5, 1.5, 7, 3) == read_body(definition(said)).limits


def test_a_text_that_comes_again_is_not_read_again() -> None:
    """The runs of one job bring the same text each time."""
    assert read_body(PLAIN) is read_body("".join(list(PLAIN)))


def test_a_long_text_is_not_remembered() -> None:
    """What is remembered takes some megabytes at most, whatever people submit."""
    text = definition('"description":"' + "x" * BODY_KEPT_LENGTH + '"')
    assert read_body(text) is not read_body(text)


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '{"task":{}}', '{"task":{"name":"no kind"}}'])
def test_a_text_that_cannot_be_read_is_refused_each_time(text: str) -> None:
    """Also the second time."""
    for _ in range(2):
        with pytest.raises((msgspec.MsgspecError, KeyError)):
            read_body(text)
