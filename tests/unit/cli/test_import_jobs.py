"""Storing what importers found: all or nothing, and each once; against a server that answers what a test tells it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.loopback import Loopback, Reply, serving
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.imports.import_jobs import MAX_BYTES, MAX_ROUNDS, ImportOutcome, differences, store
from tickwise.cli.terminal.progress import unseen
from tickwise.sdk.client import Client, ProblemError

FIRST = {"key": "a", "name": "first", "cron_expression": "0 3 * * *", "misfire": {"mode": "skip"}}
SECOND = {"key": "b", "name": "second", "cron_expression": "0 4 * * *"}
ID = "01a1fd82-9f65-831f-89c1-01763cd8874b"


def stored(*identifiers: str) -> Reply:
    """A batch that was taken."""
    return Reply(200, {"results": [{"status": 201, "job_id": each} for each in identifiers]})


def refused(*problems: dict[str, Any] | None) -> Reply:
    """An atomic batch that was not."""
    results = [{"status": 424} if each is None else {"status": each["status"], "problem": each} for each in problems]
    return Reply(422, {"code": "batch_refused", "detail": "no", "results": results})


TAKEN = {"status": 409, "code": "key_taken", "detail": "the key belongs to another job"}
WRONG = {"status": 422, "code": "invalid", "detail": "no such queue", "pointer": "/queue"}


def outcomes(*replies: Reply) -> tuple[list[tuple[str, ...]], Loopback]:
    """What became of both bodies, and what the server received."""
    with serving(*replies) as server, Client(server.url, "key") as client:
        return [(each.outcome.value, *each.fields) for each in store(client, [FIRST, SECOND], unseen)], server


def test_all_go_in_one_atomic_batch() -> None:
    """With their keys."""
    found, server = outcomes(stored(ID, ID))
    assert [("created",), ("created",)] == found
    (request,) = server.received
    assert ("POST", "/api/v1/jobs:batch?atomic=true", [FIRST, SECOND]) == (request.method, request.path, request.body)


def test_what_was_imported_before_is_left_alone_and_the_rest_is_stored() -> None:
    """The job that has the key is looked at, the others are sent again without it."""
    before = {**FIRST, "job_id": ID, "misfire": {"mode": "skip", "grace_seconds": 60.0}, "timezone": "UTC"}
    found, server = outcomes(refused(TAKEN, None), Reply(200, before), stored(ID))
    assert [("present",), ("created",)] == found
    assert ["/api/v1/jobs:batch?atomic=true", "/api/v1/jobs/by-key/a"] == [each.path for each in server.received[:2]]
    assert [SECOND] == server.received[2].body


def test_a_job_that_says_something_else_by_now_is_told_of() -> None:
    """With the fields that differ, and not changed."""
    before = {**FIRST, "job_id": ID, "cron_expression": "0 5 * * *"}
    found, server = outcomes(refused(TAKEN, None), Reply(200, before), stored(ID))
    assert [("different", "cron_expression"), ("created",)] == found
    assert {"POST", "GET"} == {each.method for each in server.received}


def test_a_key_that_is_free_again_is_used() -> None:
    """Its job was cancelled between our two requests."""
    gone = Reply(404, {"code": "not_found", "detail": "there is no job with the key"})
    assert [("created",), ("created",)] == outcomes(refused(TAKEN, None), gone, stored(ID, ID))[0]


def test_what_the_server_refuses_is_named_and_nothing_is_stored() -> None:
    """With its place, and the entry's name."""
    with pytest.raises(CommandFailure) as raised:
        outcomes(refused(TAKEN, WRONG))
    assert (Exit.REFUSED, "the server refuses 1 of 2 jobs, so none is stored.") == (
        raised.value.code,
        raised.value.detail,
    )
    assert "second: no such queue (at /queue)" in (raised.value.advice or "")


def test_a_refusal_that_is_about_no_single_job_stays_itself() -> None:
    """Such as a key that may not do this."""
    with pytest.raises(ProblemError) as raised:
        outcomes(Reply(403, {"code": "forbidden", "detail": "no"}))
    assert 403 == raised.value.status


def test_somebody_who_takes_and_leaves_keys_all_the_time_does_not_hold_us() -> None:
    """After some rounds it is said."""
    gone = Reply(404, {"code": "not_found", "detail": "gone"})
    with pytest.raises(CommandFailure, match="too many concurrent changes"):
        outcomes(*[refused(TAKEN, None), gone] * MAX_ROUNDS)


def test_more_bytes_than_a_transaction_takes_are_refused_before_anything_is_sent() -> None:
    """There is no server to be asked."""
    large = {"key": "a", "name": "x" * (MAX_BYTES + 1)}
    with Client("http://127.0.0.1:1", None) as client, pytest.raises(CommandFailure, match="at most 32 MB"):
        store(client, [large], unseen)


def test_nothing_is_nothing() -> None:
    """No request is sent for it."""
    with Client("http://127.0.0.1:1", None) as client:
        assert [] == store(client, [], unseen)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"start_at": "2027-01-01T01:00:00+01:00"}, {"start_at": "2027-01-01T00:00:00Z"}),
        ({"interval_seconds": 90}, {"interval_seconds": 90.0}),
        ({"misfire": {"mode": "skip"}}, {"misfire": {"mode": "skip", "grace_seconds": 60}}),
        ({"labels": {}}, {"labels": None}),
        ({"requires": ["a", "b"]}, {"requires": ["a", "b"]}),
    ],
)
def test_what_the_server_says_in_other_words_is_the_same(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Defaults filled in, times in UTC."""
    assert () == differences(wanted, found)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"start_at": "2027-01-01T01:00:00Z"}, {"start_at": "2027-01-01T00:00:00Z"}),
        ({"misfire": {"mode": "skip"}}, {"misfire": {"mode": "all"}}),
        ({"labels": {"a": "b"}}, {"labels": None}),
        ({"requires": ["a", "b"]}, {"requires": ["a"]}),
        ({"name": "a"}, {}),
    ],
)
def test_what_means_something_else_differs(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """By the name of its field."""
    assert tuple(wanted) == differences(wanted, found)


def test_outcomes_have_the_words_of_the_answer() -> None:
    """Scripts read them."""
    assert ["created", "present", "different"] == [outcome.value for outcome in ImportOutcome]
