"""The client's promises on bad days: nothing is done twice, nothing waits for ever, the key goes nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.services.server import free_port
from tests.unit.cli.loopback import Reply, serving
from tickwise.sdk.client import Client, ClientError, ProblemError, Unreachable


def _client(url: str, *, patience_seconds: float = 5.0) -> Client:
    return Client(url, "secret-key", patience_seconds=patience_seconds)


def test_a_post_whose_answer_was_lost_is_sent_again_under_the_same_key() -> None:
    """The server can thus tell that it is the same request."""
    with serving(Reply(broken=True), Reply(201, {"job_id": "j"})) as server, _client(server.url) as client:
        assert {"job_id": "j"} == client.job_create({"name": "x"})
    first, second = server.received
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_two_posts_have_two_keys() -> None:
    """What was asked for twice is done twice."""
    with serving(Reply(201, {})) as server, _client(server.url) as client:
        client.job_create({"name": "x"})
        client.job_create({"name": "x"})
    assert server.received[0].headers["Idempotency-Key"] != server.received[1].headers["Idempotency-Key"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_is_asked_again(status: int) -> None:
    """It said that it is only for now."""
    busy = Reply(status, {"detail": "later"}, {"Retry-After": "0"})
    with serving(busy, Reply(200, {"ok": True})) as server, _client(server.url) as client:
        assert {"ok": True} == client.job_get("j")


def test_a_server_that_stays_busy_is_given_up() -> None:
    """With its own words, and before a wait that would be in vain."""
    busy = Reply(503, {"detail": "the store is away"}, {"Retry-After": "60"})
    with serving(busy) as server, _client(server.url) as client, pytest.raises(Unreachable, match="the store is away"):
        client.job_get("j")
    assert 1 == len(server.received)


def test_a_refusal_is_raised_with_all_that_it_says() -> None:
    """Code, pointer, position and request id."""
    problem = {"detail": "no", "code": "cron_invalid", "pointer": "/cron_expression", "position": 4, "request_id": "r"}
    with serving(Reply(422, problem)) as server, _client(server.url) as client, pytest.raises(ProblemError) as caught:
        client.job_create({})
    error = caught.value
    assert (422, "cron_invalid", "/cron_expression", 4, "r", "no") == (
        error.status, error.code, error.pointer, error.position, error.request_id, error.detail,
    )  # fmt: skip


def test_a_page_that_is_shorter_than_its_limit_is_not_taken_for_the_last() -> None:
    """Pages of large items end early: the link says that there are more. What is enough is not asked for twice."""
    link = {"Link": '</api/v1/jobs/j/runs?limit=3&cursor=abc>; rel="next"'}
    replies = [Reply(200, [{"run_id": "c"}], link), Reply(200, [{"run_id": "b"}, {"run_id": "a"}], link)]
    with serving(*replies) as server, _client(server.url) as client:
        assert ["c", "b", "a"] == [run["run_id"] for run in client.job_runs("j", limit=3)]
    assert ["/api/v1/jobs/j/runs?limit=3", "/api/v1/jobs/j/runs?limit=3&cursor=abc"] == [
        each.path for each in server.received
    ]
    with serving(*replies) as server, _client(server.url) as client:
        assert ["c"] == [run["run_id"] for run in client.job_runs("j")]


def test_nobody_there_is_said_at_once() -> None:
    """A person is watching."""
    with _client(f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(Unreachable, match="nothing answers"):
            client.job_get("j")
        assert not client.ready()


def test_something_else_that_answers_is_recognised() -> None:
    """A page where JSON should be, an error page of something in between."""
    with serving(Reply(200, b"<html>")) as server, _client(server.url) as client:
        with pytest.raises(Unreachable, match="is it a Tickwise server"):
            client.job_get("j")
        server.replies = [Reply(418, b"<html>")]
        with pytest.raises(ProblemError, match="418"):
            client.job_get("j")
        server.replies = [Reply(302, b"", {"Location": "https://login.example/"})]
        with pytest.raises(Unreachable, match="login.example"):
            client.job_get("j")


def test_pages_are_followed_on_the_same_server_only() -> None:
    """A link to another host is followed on ours: the key must not travel there."""
    link = {"Link": '<http://elsewhere.example/api/v1/jobs?cursor=abc>; rel="next"'}
    with serving(Reply(200, [{"n": 1}], link), Reply(200, [{"n": 2}])) as server, _client(server.url) as client:
        assert [[{"n": 1}], [{"n": 2}]] == list(client.pages("/jobs", {"name": "a b"}))
    assert ["/api/v1/jobs?name=a+b", "/api/v1/jobs?cursor=abc"] == [each.path for each in server.received]


def test_an_id_cannot_reach_another_route() -> None:
    """Whatever a person passes as an id is one segment of the path."""
    with serving(Reply(200, {})) as server, _client(server.url) as client:
        client.job_get("../runs?x=1")
    assert "/api/v1/jobs/..%2Fruns%3Fx%3D1" == server.received[0].path


@pytest.mark.parametrize("url", ["", "127.0.0.1:8470", "ftp://x", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """With the form of one."""
    with pytest.raises(ClientError, match="http://127.0.0.1:8470"):
        Client(url, None)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not reach it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(Reply(200, {"ok": True})) as server, _client(server.url) as client:
        assert {"ok": True} == client.job_get("j")


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (lambda to: to.job_preview("a/b", count=2, after="T"), ("GET", "/jobs/a%2Fb/preview?count=2&from=T", None)),
        (lambda to: to.schedule_preview({"cron": "x"}), ("POST", "/jobs:preview", {"cron": "x"})),
        (lambda to: to.job_explain("j", at="T"), ("GET", "/jobs/j/explain?at=T", None)),
        (lambda to: to.run_explain("r"), ("GET", "/runs/r/explain", None)),
        (lambda to: to.job_skip_next("j"), ("POST", "/jobs/j/skipNext", {})),
        (lambda to: to.job_snooze("j", {"until": "T"}), ("POST", "/jobs/j/snooze", {"until": "T"})),
        (lambda to: to.job_backfill("j", {"from": "T"}), ("POST", "/jobs/j/backfill", {"from": "T"})),
        (lambda to: to.job_backfill_cancel("j", "b"), ("POST", "/jobs/j/backfills/b/cancel", None)),
        (lambda to: to.calendar_put("a b", {}), ("PUT", "/calendars/a%20b", {})),
        (lambda to: to.calendar_get("a"), ("GET", "/calendars/a", None)),
        (lambda to: to.calendar_delete("a"), ("DELETE", "/calendars/a", None)),
        (lambda to: to.calendar_covers("a", start="T", limit=3), ("GET", "/calendars/a/covers?from=T&limit=3", None)),
        (lambda to: to.calendar_preview({"calendar": {}}), ("POST", "/calendars:preview", {"calendar": {}})),
        (lambda to: to.window_put("a", {}), ("PUT", "/windows/a", {})),
        (lambda to: to.window_get("a"), ("GET", "/windows/a", None)),
        (lambda to: to.window_delete("a"), ("DELETE", "/windows/a", None)),
        (lambda to: to.window_covers("a", end="T"), ("GET", "/windows/a/covers?to=T", None)),
    ],
)
def test_each_call_of_schedules_has_its_route(call: Callable[[Client], object], sent: tuple[str, str, object]) -> None:
    """Names are one segment of the path, whatever they hold; what is not said is not sent."""
    with serving(Reply(200, {"ok": True})) as server, _client(server.url) as client:
        assert {"ok": True} == call(client)
    (request,) = server.received
    assert (sent[0], f"/api/v1{sent[1]}", sent[2]) == (request.method, request.path, request.body)
