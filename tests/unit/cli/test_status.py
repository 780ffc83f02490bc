"""`tickwise status` leaves out parts that the caller may not read, and lists live on without their extras."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.failures import Exit
from tickwise.cli.main import main
from tickwise.cli.overview import misses, store_wait
from tickwise.cli.overview.glance import AT_ONCE, Glance, as_json, together
from tickwise.cli.overview.lines import status_lines, unserved_words
from tickwise.cli.session import Session
from tickwise.domain.notices.judging import UNCHOSEN
from tickwise.sdk.client import Client, ProblemError

FORBIDDEN = Reply(403, {"code": "forbidden", "detail": "you need runs:read", "status": 403})
JOB: dict[str, Any] = {
    "job_id": "01a218ef-497c-8853-b7ff-72dca9ee10ea", "name": "nightly", "status": "SCHEDULED", "key": None,
    "schedule_type": "ON_DEMAND", "next_run_at": None, "queue": "default", "owner": "ada", "labels": {}, "task": None,
}  # fmt: skip


def test_a_caller_without_any_permission_sees_an_empty_look(capsys: pytest.CaptureFixture[str]) -> None:
    """And null for programs: not known is not none."""
    with serving(FORBIDDEN) as server:
        assert 0 == main(["status", "--url", server.url, "--api-key", "k"])
        assert ("", "") == tuple(capsys.readouterr())
        assert 0 == main(["status", "--json", "--url", server.url, "--api-key", "k"])
    found = json.loads(capsys.readouterr().out)
    parts = ("running", "failed", "counts", "late", "held_queues", "stops", "executors", "roles")
    assert [None] * len(parts) == [found[part] for part in parts]


def test_jobs_are_listed_to_a_caller_that_may_see_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Without their latest runs."""
    with serving(Reply(200, [JOB]), FORBIDDEN) as server:
        assert 0 == main(["jobs", "list", "--columns", "name,last_run", "--url", server.url, "--api-key", "k"])
    assert ["NAME     LAST RUN", "nightly  –"] == capsys.readouterr().out.splitlines()


EXECUTOR: dict[str, Any] = {
    "executor_id": "1",
    "name": "e",
    "alive": True,
    "queues": ["default"],
    "slots": 4,
    "held": 0,
}


def _late(queue: str) -> dict[str, Any]:
    return {**JOB, "next_run_at": "2027-01-15T08:00:00Z", "queue": queue}


@pytest.mark.parametrize(
    ("executors", "queues", "said"),
    [
        ([EXECUTOR], ["reports", "default", "reports"], ["reports"]),
        ([EXECUTOR], ["default"], []),
        ([], ["reports"], []),
    ],
)
def test_a_queue_of_a_late_job_that_nobody_serves_is_named(
    executors: list[dict[str, Any]], queues: list[str], said: list[str]
) -> None:
    """With what starts one, once for each queue. Where no executor is active at all, that is said instead."""
    found = Glance(
        seen_at=1_800_000_100.0, since=1_800_000_000.0, running=[], more_running=False, failed=[], more_failed=False,
        counts={}, late=[_late(queue) for queue in queues], held=[], stops=[], executors=executors, roles=[], names={},
    )  # fmt: skip
    lines = " ".join(" ".join(status_lines(Session(environ={}), found)).split())
    for queue in {*queues, "default"}:
        words = f"NO EXECUTOR serves the queue {queue}; start one: tickwise executor --queues {queue}"
        assert (queue in said) == (words in lines), lines
    assert (not executors) == ("NO EXECUTOR is active" in lines)
    assert said == as_json(found)["unserved_queues"]


def _glance(late: list[dict[str, Any]], *, is_local: bool = False) -> Glance:
    return Glance(
        seen_at=1_800_000_100.0, since=1_800_000_000.0, running=[], more_running=False, failed=[], more_failed=False,
        counts={}, late=late, held=[], stops=[], executors=[{**EXECUTOR, "labels": ["gpu", "task:shell"]}], roles=[],
        names={}, is_local=is_local,
    )  # fmt: skip


def test_what_starts_an_executor_names_the_labels_that_late_jobs_need() -> None:
    """Else its first start would change nothing. Labels of Tickwise's own are not given by people."""
    late = [{**_late("web1"), "requires": ["machine=web1", "task:shell"]}, _late("db1")]
    words = unserved_words(_glance(late))
    assert [
        "NO EXECUTOR serves the queue db1; start one: tickwise executor --queues db1",
        "NO EXECUTOR serves the queue web1; start one: tickwise executor --queues web1 --labels machine=web1",
    ] == words
    assert (
        "Or let the `up` of this machine serve them: tickwise down, then TICKWISE_LABELS=gpu,machine=web1 tickwise up "
        "--queues db1,default,web1, with its other options as before"
    ) == unserved_words(_glance(late, is_local=True))[-1]


def test_a_need_of_late_jobs_that_no_executor_meets_is_told_once() -> None:
    """In the words of the server, with the number of its jobs; other warnings are not about that."""
    missing = "no active executor of the queue 'default' has the labels machine=db1; its runs wait until one has"
    late = [{**_late("default"), "warnings": [missing, "the channel ops is gone"]} for _ in range(2)]
    found = _glance([*late, _late("default")], is_local=True)
    assert [f"2 jobs late: {missing}"] == unserved_words(found)
    assert {missing: 2} == as_json(found)["unmet_needs"]


def _skipped(job: str, due: str, until: str | None = None, times: int = 1) -> dict[str, Any]:
    return {
        "run_id": f"01a218ef-497c-8853-b7ff-{job * 12}", "job_id": job, "due_time": due, "until": until,
        "occurrences": times, "reason": "expired", "error_message": f"nobody could start {job}",
    }  # fmt: skip


def test_what_did_not_run_last_night_is_told_by_job() -> None:
    """The times that a record stands for are counted, and it counts if one of them is not before the look: an outage
    that began on Friday is told on Monday. Who may not read runs is told nothing of it."""
    since = 1_800_000_000.0  # 2027-01-15 08:00 UTC
    friday = _skipped("a", "2027-01-12T08:00:00Z", "2027-01-15T09:00:00Z", 70)
    expired = [_skipped("b", "2027-01-15T08:30:00Z"), _skipped("a", "2027-01-15T08:10:00Z")]
    answers = [expired, [friday, _skipped("c", "2027-01-15T07:59:00Z")], [], []]
    missed, more = misses.by_job(answers, since)
    assert ([("a", 71), ("b", 1)], False) == ([(each.newest["job_id"], each.times) for each in missed or ()], more)
    found = replace(_glance([]), missed=missed, names={"a": "backup", "b": "mail"})
    lines = [" ".join(line.split()) for line in status_lines(Session(environ={"TZ": "UTC"}), found)]
    title = next(line for line in lines if "did not run" in line)
    assert title.startswith("72 times of 2 jobs did not run since"), lines
    rows = lines[lines.index(title) + 2 :][:2]
    assert [True, True] == ["backup" in rows[0] and "×71" in rows[0], "nobody could start b" in rows[1]]
    assert [71, 1] == [each["times"] for each in as_json(found)["missed"]]
    assert (None, False) == misses.by_job([None, [], [], []], since)
    assert ([], True) == misses.by_job([[_skipped("c", "2027-01-15T07:59:00Z")] * 51, [], [], []], since)


def test_a_night_without_a_miss_has_no_line_of_it() -> None:
    """Nor have skips that somebody chose: only these reasons are asked for, and they are those of the rules."""
    assert not [line for line in status_lines(Session(environ={}), _glance([])) if "did not run" in line]
    assert {each.value for each in UNCHOSEN} == set(misses.REASONS)


def test_parts_are_asked_for_together() -> None:
    """Their answers come in order, whichever is there first: the first alone, the others `AT_ONCE` at a time."""
    going, most, lock = 0, 0, threading.Lock()
    full = threading.Barrier(AT_ONCE, timeout=30)

    def ask(number: int) -> list[dict[str, Any]]:
        nonlocal going, most
        with lock:
            going += 1
            most = max(most, going)
        if number == 0:
            assert 1 == going
        else:
            full.wait()
        with lock:
            going -= 1
        return [{"number": number}]

    asks = [partial(ask, number) for number in range(1 + 2 * AT_ONCE)]
    assert [[{"number": number}] for number in range(1 + 2 * AT_ONCE)] == together(asks)
    assert AT_ONCE == most


def test_a_part_that_fails_fails_the_look() -> None:
    """Unless the caller may not ask for it."""

    def refused(status: int) -> list[dict[str, Any]]:
        raise ProblemError(status, {"code": "some", "detail": "no"})

    def found() -> list[dict[str, Any]]:
        return []

    assert [[], None, []] == together([found, partial(refused, 403), found])
    with pytest.raises(ProblemError):
        together([found, found, partial(refused, 404), found])


def test_a_store_that_is_away_is_told_before_the_request_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The request itself is never answered here."""
    cause = "no keeper answers for this data, so nothing was done: start `tickwise keeper`"
    away = Reply(503, {"code": "store_unavailable", "detail": cause, "status": 503})
    with serving(Reply(hangs=True), away) as server:
        assert Exit.UNREACHABLE == main(["status", "--url", server.url, "--api-key", "k"])
        assert ["/api/v1/runs", "/readyz"] == [each.path.partition("?")[0] for each in server.received]
        assert "Authorization" not in server.received[1].headers
    assert cause in capsys.readouterr().err


@pytest.mark.parametrize("told", [None, {"code": "work_is_late", "detail": "late"}])
def test_a_server_that_is_only_slow_is_waited_for(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose work is late: it can be asked why."""
    monkeypatch.setattr(store_wait, "ANSWER_SECONDS", 0.01)
    probed = threading.Event()

    class Probed:
        def trouble(self, _seconds: float) -> Any:
            probed.set()
            return told

    def ask() -> str:
        probed.wait()
        return "answer"

    assert "answer" == store_wait.first_answer(ask, cast(Client, Probed()))


def test_a_refusal_is_raised_as_it_came() -> None:
    """By the thread that asked."""

    def ask() -> str:
        raise ProblemError(404, {"detail": "none"})

    with pytest.raises(ProblemError, match="none"):
        store_wait.first_answer(ask, cast(Client, object()))
