"""Many things at once from a terminal: a person is asked first, and told how far it comes."""

from __future__ import annotations

import io
import sys

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

OPERATION = "018f0000-0000-8000-8000-000000000001"
RUN = {"run_id": OPERATION, "status": "QUEUED", "job_id": OPERATION}


class Terminal(io.StringIO):
    """A stdin or stderr at which somebody sits."""

    def isatty(self) -> bool:
        return True


def matches(count: int, *, more: bool = False) -> Reply:
    return Reply(200, {"matches": count, "more": more, "sample": [RUN] if count else []})


ACCEPTED = Reply(202, {"operation_id": OPERATION, "matched": 2})


def progress(done: int, status: str = "running", refused: int = 0) -> Reply:
    problems = [{"id": OPERATION, "code": "run_ended", "detail": "the run has ended"}] * refused
    found = {"operation_id": OPERATION, "status": status, "matched": 2, "done": done, "refused": refused}
    return Reply(200, {**found, "problems": problems})


def typed(monkeypatch: pytest.MonkeyPatch, answer: str, url: str) -> int:
    """The exit code of `runs cancel` after this answer."""
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr("tickwise.cli.moments.pause", lambda _seconds: None)
    return int(main(["runs", "cancel", "--status", "queued", "--url", url, "--api-key", "k"]))


def test_who_says_no_changes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the trial was sent."""
    with serving(matches(2)) as server:
        assert 0 == typed(monkeypatch, "n\n", server.url)
    assert [True] == [each.body["dry_run"] for each in server.received]
    told = capsys.readouterr()
    assert ("Cancel 2 runs?" in told.err, "Nothing is done." in told.out) == (True, True)


def test_who_says_yes_is_told_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same filter in earnest, watched to its end."""
    with serving(matches(2), ACCEPTED, progress(1), progress(2, "done")) as server:
        assert 0 == typed(monkeypatch, "y\n", server.url)
    trial, asked, *_ = server.received
    assert {"filter": {"status": ["QUEUED"]}} == asked.body
    assert {**asked.body, "dry_run": True} == trial.body
    assert ["/api/v1/runs:cancel"] * 2 + [f"/api/v1/operations/{OPERATION}"] * 2 == [
        each.path for each in server.received
    ]
    assert "Done: 2 runs.\n" in capsys.readouterr().out


def test_nobody_is_asked_about_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said, and that is all."""
    with serving(matches(0)) as server:
        assert 0 == typed(monkeypatch, "", server.url)
    assert 1 == len(server.received)
    assert "No runs match" in capsys.readouterr().out


def test_more_than_are_counted_are_said_to_be_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anybody agrees."""
    with serving(matches(10_000, more=True)) as server:
        typed(monkeypatch, "n\n", server.url)
    assert "Cancel at least 10000 runs?" in capsys.readouterr().err
    with serving(matches(0, more=True)) as server:
        typed(monkeypatch, "n\n", server.url)
    assert "Cancel all runs that match, of which none is among the newest?" in capsys.readouterr().err


def test_what_could_not_be_done_is_an_exit_code_and_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """4, with which and why."""
    with serving(matches(2), ACCEPTED, progress(1, "done", refused=1)) as server:
        assert 4 == typed(monkeypatch, "y\n", server.url)
    told = capsys.readouterr()
    assert ("Done: 1 run.\n" in told.out, f"{OPERATION}  the run has ended" in told.err) == (True, True)


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, where it is in nobody's way."""
    screen = Terminal()
    with serving(matches(2), ACCEPTED, progress(1), progress(2, "done")) as server:
        monkeypatch.setattr(sys, "stderr", screen)
        assert 0 == typed(monkeypatch, "y\n", server.url)
    shown = screen.getvalue()
    assert 0 < shown.index("1/2") < shown.index("2/2")


def test_a_trial_names_the_jobs_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """An id alone says nobody what would be stopped. Names that the caller may not read are left out."""
    words = ["runs", "cancel", "--status", "queued", "--dry-run", "--api-key", "k"]
    with serving(matches(1), Reply(200, [{"job_id": OPERATION, "name": "nightly"}])) as server:
        assert 0 == main([*words, "--url", server.url])
    assert [OPERATION, "nightly", "QUEUED"] == capsys.readouterr().out.splitlines()[-1].split()
    with serving(matches(1), Reply(403, {"code": "forbidden", "detail": "no", "status": 403})) as server:
        assert 0 == main([*words, "--url", server.url])
    assert [OPERATION, "QUEUED"] == capsys.readouterr().out.splitlines()[-1].split()


@pytest.mark.parametrize(("words", "told"), [([], "The first one: "), (["--label", "machine=web9"], "No jobs match.")])
def test_an_empty_list_says_whether_a_filter_made_it_so(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there are forty jobs, nobody needs a first one."""
    with serving(Reply(200, [])) as server:
        assert 0 == main(["jobs", "list", *words, "--url", server.url, "--api-key", "k"])
    assert told in "".join(capsys.readouterr())
