"""The command line against a whole Tickwise: dead letters, many things at once, queues, limits and sequences."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_up import Local, local_up

MAX_WAIT_SECONDS = 60.0
"""Of a machine that is busy with other things."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory: what is tested here is the terminal."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


def created(local: Local, **body: Any) -> str:
    """A stored job's id."""
    task = {"kind": "shell", "command": "true"}
    made = local.tickwise("jobs", "create", "--json", stdin=json.dumps({"name": "a", "task": task, **body}))
    assert 0 == made.code, made.err
    return str(made.json["job_id"])


def failed(local: Local, name: str) -> str:
    """The id of a run that failed for good."""
    ended = local.tickwise("run", "--shell", "exit 7", "--name", name, "--retries", "0", "--now", "--wait", "--json")
    assert 1 == ended.code, ended.err
    return str(ended.json["run_id"])


def soon(look: Callable[[], Any]) -> Any:
    """What `look` finds as soon as it finds something."""
    until = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)  # noqa: TID251 - what is awaited happens in other processes
    raise AssertionError("it did not come about in time")


# ------------------------------------------------------------------------------------------ dead letters


def test_a_dead_letter_is_looked_at_redriven_and_linked(local: Local) -> None:
    """From the list to the new run and back."""
    run_id = failed(local, "one letter")
    listed = local.tickwise("dead-letters", "list", "--status", "open", "--reason", "exit_code")
    assert (0, True) == (listed.code, run_id in listed.out)
    shown = local.tickwise("dead-letters", "show", run_id)
    assert (0, True, True) == (shown.code, "one letter" in shown.out, "TRY" in shown.out)
    again = local.tickwise(
        "dead-letters", "redrive", run_id, "--note", "once more", "--param", "a=1", "--wait", "--json"
    )
    assert 1 == again.code, again.err
    new = again.json["run_id"]
    found = local.tickwise("dead-letters", "show", run_id, "--json").json
    assert ("redriven", new, "once more", [run_id, new]) == tuple(
        found[name] for name in ("status", "redriven_as", "note", "chain")
    )
    assert {"a": 1} == local.tickwise("runs", "show", new, "--json").json["payload"]
    refused = local.tickwise("dead-letters", "redrive", run_id)
    assert (4, True) == (refused.code, new in refused.err)


def test_a_dead_letter_is_discarded(local: Local) -> None:
    """With a note; what cannot be decided is refused, and what is no letter is not found."""
    run_id = failed(local, "discarded letter")
    assert "is discarded" in local.tickwise("dead-letters", "discard", run_id, "--note", "known").out
    assert "known" == local.tickwise("dead-letters", "show", run_id, "--json").json["note"]
    other = failed(local, "known letter")
    assert 4 == local.tickwise("dead-letters", "decide", other, "succeeded").code
    assert 5 == local.tickwise("dead-letters", "show", "018f0000-0000-8000-8000-000000000001").code
    assert 5 == local.tickwise("dead-letters", "show", "nothing").code


def test_many_letters_are_tried_first_and_then_redriven(local: Local) -> None:
    """The trial changes nothing, the operation tells how many were done."""
    job_id = created(
        local,
        name="many letters",
        schedule_type="ON_DEMAND",
        max_retries=0,
        task={"kind": "shell", "command": "exit 7"},
    )
    runs = {local.tickwise("jobs", "run-now", job_id, "--wait", "--json").json["run_id"] for _ in range(3)}
    of_job = ("dead-letters", "redrive", "--job", job_id, "--status", "open", "--reason", "exit_code")
    trial = local.tickwise(*of_job, "--dry-run")
    assert (0, True) == (trial.code, "It would redrive 3 dead letters. Nothing is changed." in trial.out), trial.out
    assert all(run in trial.out for run in runs)
    done = local.tickwise(*of_job, "--yes", "--json")
    assert (0, "done", 3, 0) == (done.code, *(done.json[name] for name in ("status", "done", "refused")))
    letters = local.tickwise("dead-letters", "list", "--job", job_id, "--status", "redriven", "--json").json
    assert runs == {each["run_id"] for each in letters}

    def all_ended() -> bool:
        found = local.tickwise("runs", "list", "--job", job_id, "--json").json
        return [each["status"] for each in found] == ["FAILED"] * 6

    soon(all_ended)


# ------------------------------------------------------------------------------------------ many at once


@pytest.mark.parametrize("command", [("runs", "cancel"), ("jobs", "pause"), ("dead-letters", "discard")])
def test_many_are_not_changed_unless_somebody_says_so(local: Local, command: tuple[str, str]) -> None:
    """Neither without a word of which, nor where nobody can be asked; nor both one and many."""
    assert 2 == local.tickwise(*command).code
    unasked = local.tickwise(*command, "--all")
    assert (2, True) == (unasked.code, "--yes" in unasked.err)
    both = local.tickwise(*command, "018f0000-0000-8000-8000-000000000001", "--all", "--yes")
    assert (2, True) == (both.code, "not both" in both.err)


def test_what_matches_nothing_is_said_to(local: Local) -> None:
    """It is no failure."""
    ran = local.tickwise("runs", "retry", "--reason", "never_seen", "--yes")
    assert (0, True, True) == (ran.code, "No runs match" in ran.err, "0 runs" in ran.out)


def test_waiting_runs_are_cancelled_by_a_filter(local: Local) -> None:
    """Only those of the job."""
    job_id = created(local, name="nobody takes it", schedule_type="ON_DEMAND", requires=["zone=mars"])
    for _ in range(3):
        assert 0 == local.tickwise("jobs", "run-now", job_id).code
    done = local.tickwise("runs", "cancel", "--job", job_id, "--status", "queued", "--yes")
    assert (0, "Done: 3 runs.\n") == (done.code, done.out)
    runs = local.tickwise("runs", "list", "--job", job_id, "--json").json
    assert ["CANCELLED"] * 3 == [run["status"] for run in runs]
    assert 4 == local.tickwise("runs", "cancel", "--status", "success", "--yes").code


def test_jobs_are_paused_resumed_and_cancelled_by_their_label(local: Local) -> None:
    """Those that do not recur are told of, one by one."""
    for _ in range(2):
        created(local, name="hourly", every="1h", labels={"team": "data"})
    once = created(local, name="once", at="2999-01-01T00:00:00Z", labels={"team": "data"})
    paused = local.tickwise("jobs", "pause", "--label", "team=data", "--reason", "moving", "--yes")
    assert (4, "Done: 2 jobs.\n", True) == (paused.code, paused.out, once in paused.err)
    jobs = local.tickwise("jobs", "list", "--label", "team=data", "--status", "paused", "--json").json
    assert ["moving"] * 2 == [job["pause_reason"] for job in jobs]
    both = ("--status", "paused", "--status", "scheduled")
    assert 3 == len(local.tickwise("jobs", "list", "--label", "team=data", *both, "--json").json)
    assert "Done: 2 jobs.\n" == local.tickwise("jobs", "resume", "--label", "team=data", "--yes").out
    assert "Done: 3 jobs.\n" == local.tickwise("jobs", "cancel", "--label", "team=data", *both, "--yes").out


def test_an_operation_is_listed_shown_and_stopped(local: Local) -> None:
    """Also by whoever did not wait for it."""
    asked = local.tickwise("runs", "retry", "--reason", "nothing_like_it", "--yes", "--no-wait", "--json")
    operation = asked.json["operation_id"]
    assert operation in local.tickwise("operations", "list").out
    shown = local.tickwise("operations", "show", operation, "--wait")
    assert (0, True) == (shown.code, "runs:retry" in shown.out)
    stopped = local.tickwise("operations", "cancel", operation, "--json").json
    assert ("done", 0) == (stopped["status"], stopped["done"])
    assert 2 == local.tickwise("operations", "show", "nothing").code
    assert 5 == local.tickwise("operations", "show", "018f0000-0000-8000-8000-000000000001").code


# ------------------------------------------------------------------------------------------ queues


def test_a_queue_is_held_and_resumed(local: Local) -> None:
    """What waits is seen, and goes on."""
    assert 0 == local.tickwise("queues", "hold", "default", "--reason", "upgrade", "--until", "2h").code
    try:
        listed = local.tickwise("queues", "list")
        assert (True, True) == ("on hold until" in listed.out, "upgrade" in listed.out)
        job_id = created(local, name="held back", schedule_type="IMMEDIATE")
        drained = local.tickwise("queues", "drain", "default", "--reason", "upgrade", "--wait", "--json").json
        assert (True, 0, 0) == tuple(drained[name] for name in ("held", "dispatched", "running"))
        assert drained["queued"] >= 1
        why = local.tickwise("jobs", "explain", job_id, "--json").json
        assert "waiting_queue_held" == why["code"]
    finally:
        resumed = local.tickwise("queues", "resume", "default")
    assert (0, True) == (resumed.code, "open" in resumed.out)
    soon(lambda: local.tickwise("jobs", "show", job_id, "--json").json["runs"][0]["status"] == "SUCCESS")
    assert not local.tickwise("queues", "show", "default", "--json").json["held"]
    assert 5 == local.tickwise("queues", "show", "nothing").code


# ------------------------------------------------------------------------------------------ another namespace


def test_a_job_is_moved_to_another_namespace(local: Local) -> None:
    """With its schedule; in the former namespace it is not found any more. Moved again to where it is, nothing
    changes."""
    assert 0 == local.tickwise("namespaces", "add", "team-a").code
    job_id = created(local, name="moves", key="moving", every="1h")
    ran = local.tickwise("jobs", "move", "moving", "--to", "team-a")
    assert (0, True) == (ran.code, f"Job {job_id} (moves) is in team-a now.\nNext run: " in ran.out), ran
    gone = local.tickwise("jobs", "show", job_id)
    assert (5, True) == (gone.code, job_id in gone.err), gone
    there = local.tickwise("--namespace", "team-a", "jobs", "show", "moving", "--json").json
    assert (job_id, "SCHEDULED") == (there["job_id"], there["status"])
    again = local.tickwise("--namespace", "team-a", "jobs", "move", "moving", "--to", "team-a", "--json").json
    assert (job_id, there["version"]) == (again["job_id"], again["version"])


def test_a_move_that_is_refused_changes_nothing(local: Local) -> None:
    """A namespace that is not there, one where the key is taken, and none at all."""
    job_id = created(local, name="stays", key="staying", every="1h")
    assert 0 == local.tickwise("namespaces", "add", "team-b").code
    taken = json.dumps({"name": "b", "key": "staying", "every": "1h", "task": {"kind": "shell", "command": "true"}})
    assert 0 == local.tickwise("--namespace", "team-b", "jobs", "create", stdin=taken).code
    for options, code, text in (
        (("--to", "no-such-team"), 5, "no-such-team"),
        (("--to", "team-b"), 4, "staying"),
        (("--to", "Not A Name"), 5, "Not A Name"),
        ((), 2, "--to"),
    ):
        ran = local.tickwise("jobs", "move", "staying", *options)
        assert (code, True) == (ran.code, text in ran.err), ran
    assert job_id == local.tickwise("jobs", "show", "staying", "--json").json["job_id"]


# ------------------------------------------------------------------------------------------ executors


def test_executors_are_listed_with_the_namespaces_that_they_take(local: Local, tmp_path: Path) -> None:
    """One that takes all, and one that is bound to two."""
    (all_of_them,) = local.tickwise("executors", "list", "--json").json
    listed = local.tickwise("executors", "list")
    (line,) = [line for line in listed.out.splitlines() if all_of_them["executor_id"] in line]
    assert (0, True) == (listed.code, re.search(r"\bactive +default +all\b", line) is not None), listed
    with local_up(tmp_path, "--database", "memory://", TICKWISE_EXECUTOR_NAMESPACES="team-a,default") as bound:
        (row,) = bound.tickwise("executors", "list", "--json").json
        assert {"team-a", "default"} == set(row["namespaces"])
        assert re.search(
            r"\bactive +default +(team-a default|default team-a)\b", bound.tickwise("executors", "list").out
        )


# ------------------------------------------------------------------------------------------ limits and sequences


def test_the_options_of_limits_and_successors_become_fields(local: Local) -> None:
    """On create and on edit; `none` takes away."""
    load = created(local, name="load", key="the-load", schedule_type="ON_DEMAND")
    assert 0 == local.tickwise(
        "run", "--shell", "date", "--name", "limited", "--every", "1h", "--then", "the-load", "--on-failure", load,
        "--on-unknown", "hold", "--concurrency", "2:queue", "--rate", "10/1m:key:mail", "--cpu-limit", "30s",
        "--memory-limit", "256M", "--process-limit", "20",
    ).code  # fmt: skip
    found = local.tickwise("jobs", "show", "limited", "--json").json
    assert ([load], [load], "hold") == (found["then"], found["on_failure"], found["on_unknown"])
    assert {"limit": 2, "key": "queue"} == found["concurrency"]
    assert {"limit": 10, "per_seconds": 60.0, "key": "key:mail"} == found["rate"]
    assert (30.0, 256 << 20, 20) == tuple(
        found["limits"][name] for name in ("cpu_seconds", "memory_bytes", "processes")
    )
    edited = local.tickwise(
        "jobs", "edit", "limited", "--then", "none", "--rate", "none", "--cpu-limit", "1m", "--json"
    )
    assert ([], None, 60.0, 256 << 20) == (
        edited.json["then"],
        edited.json["rate"],
        edited.json["limits"]["cpu_seconds"],
        edited.json["limits"]["memory_bytes"],
    )
    for option, value in (("--concurrency", "many"), ("--rate", "10"), ("--memory-limit", "a lot")):
        assert 2 == local.tickwise("jobs", "edit", "limited", option, value).code
    refused = local.tickwise("jobs", "edit", "limited", "--then", "nobody")
    assert (4, True) == (refused.code, "--then nobody" in refused.err)


def test_a_sequence_runs_from_one_job_to_the_next(local: Local) -> None:
    """The result of one is the payload of the next; on failure the next one is told why."""
    told = created(
        local,
        name="told",
        schedule_type="ON_DEMAND",
        task={"kind": "shell", "command": 'echo "$TICKWISE_PAYLOAD"'},
    )
    fetch = created(
        local,
        name="fetch",
        schedule_type="ON_DEMAND",
        then=told,
        on_failure=told,
        max_retries=0,
        task={"kind": "shell", "command": 'echo "{\\"rows\\": 3}" > "$TICKWISE_RESULT_FILE"; exit ${1:-0}'},
    )
    first = local.tickwise("jobs", "run-now", fetch, "--wait", "--json")
    assert 0 == first.code, first.err

    def of_sequence(number: int) -> Any:
        runs = local.tickwise("runs", "list", "--job", told, "--trigger", "sequence", "--json").json
        ended = [run for run in runs if run["status"] == "SUCCESS"]
        return ended if len(ended) == number else None

    [run] = soon(lambda: of_sequence(1))
    assert first.json["run_id"] == run["started_by"]
    assert {"rows": 3} == json.loads(local.tickwise("runs", "logs", run["run_id"]).out)
    changed = local.tickwise(
        "jobs", "edit", fetch, "--file", "-", stdin='{"task": {"kind": "shell", "command": "exit 3"}}'
    )
    assert 0 == changed.code, changed.err
    second = local.tickwise("jobs", "run-now", fetch, "--wait", "--json")
    assert 1 == second.code
    runs = soon(lambda: of_sequence(2))
    [run] = [each for each in runs if each["started_by"] == second.json["run_id"]]
    payload = json.loads(local.tickwise("runs", "logs", run["run_id"]).out)
    assert (second.json["run_id"], "exit_code") == (payload["run_id"], payload["reason"])


def test_a_job_on_demand_says_when_it_runs(local: Local) -> None:
    """Only when it is asked to."""
    stored = local.tickwise("run", "--shell", "date", "--name", "asked", "--on-demand")
    assert (0, True) == (stored.code, "tickwise jobs run-now" in stored.out)
    listed = local.tickwise("jobs", "list", "--type", "on_demand", "--name", "asked")
    assert "on demand" in listed.out
    assert 0 == local.tickwise("jobs", "run-now", "asked", "--wait").code


# ------------------------------------------------------------------------------------------ keys


def test_a_key_is_made_used_listed_and_revoked(local: Local) -> None:
    """The secret alone is on stdout, for a shell to take."""
    made = local.tickwise("keys", "create", "ci", "--scope", "jobs:read", "--expires", "90d")
    assert 0 == made.code, made.err
    secret = made.out.splitlines()[-1]
    assert 0 == local.tickwise("jobs", "list", "--api-key", secret, "--url", local.url).code
    assert 4 == local.tickwise("queues", "list", "--api-key", secret, "--url", local.url).code
    listed = local.tickwise("keys", "list")
    assert (True, True, False) == ("ci" in listed.out, "good until" in listed.out, secret in listed.out)
    [key_id] = [key["key_id"] for key in local.tickwise("keys", "list", "--json").json if key["name"] == "ci"]
    rotated = local.tickwise("keys", "rotate", key_id, "--overlap", "1h")
    assert (0, True) == (rotated.code, "works until" in rotated.err)
    for each in (secret, rotated.out.strip()):
        assert 0 == local.tickwise("jobs", "list", "--api-key", each, "--url", local.url).code
    assert "its earlier secret until" in local.tickwise("keys", "list").out
    secret = rotated.out.strip()
    gone = local.tickwise("keys", "revoke", key_id)
    assert (0, True) == (gone.code, "is revoked" in gone.out)
    assert 4 == local.tickwise("jobs", "list", "--api-key", secret, "--url", local.url).code
    assert "revoked" in local.tickwise("keys", "list").out


def test_a_key_that_would_be_stronger_than_its_maker_is_refused(local: Local) -> None:
    """With the option that says so."""
    weak = local.tickwise("keys", "create", "weak", "--scope", "keys:admin", "--json").json["key"]
    server = ("--url", local.url, "--api-key", weak)
    refused = local.tickwise("keys", "create", "strong", "--scope", "jobs:write", *server)
    assert (4, True) == (refused.code, "jobs:write" in refused.err)


def test_a_job_without_a_task_is_refused_unless_its_function_is_offered(local: Local) -> None:
    """An executor is active and has no such function: the job would wait for ever. One that names it may wait."""
    body = {"name": "x", "every": "1d"}
    refused = local.tickwise("jobs", "create", stdin=json.dumps(body))
    assert (4, True, True) == (refused.code, "no task" in refused.err, '"kind": "shell"' in refused.err), refused
    named = local.tickwise("jobs", "create", stdin=json.dumps({**body, "task": {"kind": "function", "name": "x"}}))
    assert (0, True) == (named.code, "no active executor offers" in named.err), named
