"""A server that buffers requests: the command line says so, and waits where it has to."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main
from tickwise.sdk.client import Client, Pending

JOB = "01a1fd82-9f65-831f-89c1-01763cd88701"
RUN = "01a1fd82-9f65-831f-89c1-01763cd8874b"
TOLD = {"job_id": JOB, "operation_id": JOB, "status": "pending"}
ACCEPTED = Reply(202, TOLD)
NOT_YET = Reply(202, TOLD, {"Retry-After": "0"})
NOT_SOON = Reply(202, TOLD, {"Retry-After": "60"})


def test_a_job_that_is_accepted_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 0; what is said is that it is pending, and where to look."""
    with serving(ACCEPTED) as server:
        assert 0 == main(["run", "--shell", "true", "--every", "1h", "--url", server.url, "--api-key", "k"])
    told = capfd.readouterr().out
    assert f"Job {JOB} (true) is accepted (pending)." in told
    assert f"tickwise operations show {JOB}" in told
    assert 1 == len(server.received)


def test_a_cancel_that_is_accepted_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    """The same for a job that is there; as JSON, what the server said."""
    with serving(ACCEPTED) as server:
        assert 0 == main(["jobs", "cancel", JOB, "--url", server.url, "--api-key", "k"])
        assert "is accepted (pending)" in capfd.readouterr().out
        assert 0 == main(["--json", "jobs", "cancel", JOB, "--url", server.url, "--api-key", "k"])
        assert TOLD == json.loads(capfd.readouterr().out)


def test_a_list_of_jobs_that_is_accepted_is_counted(capfd: pytest.CaptureFixture[str], tmp_path: object) -> None:
    """Those that were refused are told as ever."""
    file = f"{tmp_path}/jobs.json"
    with open(file, "w") as stream:
        json.dump([{"name": "a"}, {"name": "b"}], stream)
    results = [{"status": 202, "job_id": JOB}, {"status": 422, "problem": {"detail": "no", "code": "invalid"}}]
    with serving(Reply(202, {"accepted": 1, "refused": 1, "status": "pending", "results": results})) as server:
        assert 4 == main(["jobs", "create", file, "--url", server.url, "--api-key", "k"])
    told = capfd.readouterr()
    assert "1 of 2 jobs are accepted (pending)." in told.out
    assert "Job 2 of the list: no" in told.err


def test_who_follows_a_job_waits_until_it_is_applied(capfd: pytest.CaptureFixture[str]) -> None:
    """However long that takes; then it is as if it had been stored at once."""
    run = {"run_id": RUN, "status": "SUCCESS", "attempt_number": 1, "error_message": None}
    ended = run | {"start_time": "2026-11-21T10:00:00Z", "end_time": "2026-11-21T10:00:02Z"}
    job = Reply(200, {"task": {"kind": "shell"}, "isolation": "sandbox", "allow_network": False})
    output = [Reply(200, b"one\n"), Reply(200, b"")]
    replies = [ACCEPTED, NOT_SOON, NOT_YET, Reply(200, [run]), job, Reply(200, ended), *output]
    with serving(*replies) as server:
        assert 0 == main(["run", "--shell", "true", "--follow", "--url", server.url, "--api-key", "k"])
    told = capfd.readouterr()
    assert "one\n" == told.out
    assert "is accepted, and not stored yet (pending); waiting for it" in told.err
    assert "It runs in a sandbox that reaches no network (--allow-network)." in told.err


def test_a_read_of_what_is_not_there_yet_is_waited_for() -> None:
    """Like a server that is away for now; what does not come in time is raised as pending."""
    with serving(NOT_YET, Reply(200, {"name": "a"})) as server, Client(server.url, "k") as client:
        assert {"name": "a"} == client.job_get(JOB)
    with serving(NOT_SOON) as server, Client(server.url, "k") as client, pytest.raises(Pending, match="not stored yet"):
        client.job_get(JOB)


def test_an_operation_says_itself_that_it_is_pending(capfd: pytest.CaptureFixture[str]) -> None:
    """It is not waited for, unless that is asked."""
    over = {"operation_id": JOB, "kind": "job:cancel", "status": "done", "done": 1, "refused": 0, "matched": 1}
    with serving(NOT_SOON, NOT_SOON, Reply(200, over | {"problems": []})) as server:
        assert 0 == main(["operations", "show", JOB, "--url", server.url, "--api-key", "k"])
        assert "pending" in capfd.readouterr().out
        assert 0 == main(["operations", "show", JOB, "--wait", "--url", server.url, "--api-key", "k"])
        assert "done" in capfd.readouterr().out
