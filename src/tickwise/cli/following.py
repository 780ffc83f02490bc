"""Follow a run: its log as it is written, until it has ended.

    log ──► stdout, byte for byte      what happens to the run ──► stderr

so that `tickwise runs logs -f RUN > file` holds what the task wrote and nothing else. A server that goes away in
between is waited for: what was written meanwhile is not lost.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from tickwise.cli import moments
from tickwise.cli.failures import CommandFailure, Exit

if TYPE_CHECKING:
    from tickwise.cli.session import Session

FINAL: Final = frozenset({"SUCCESS", "FAILED", "CANCELLED", "SKIPPED"})
_LOOK_SECONDS_LEAST: Final = 0.1
_MAX_LOOK_SECONDS: Final = 1.0
_MAX_AWAY_SECONDS: Final = 120.0
_MAX_APPEARS_SECONDS: Final = 10.0
_SAID_WAITING_AFTER_SECONDS: Final = 3.0


def exit_code(run: dict[str, Any]) -> Exit:
    """The exit code of a command that waited for this run."""
    return Exit.OK if run["status"] == "SUCCESS" else Exit.JOB_FAILED


def describe_end(run: dict[str, Any], *, with_log: bool = False) -> str:
    """The end in words. `with_log`: the output was shown; of the error, which repeats its lines, the cause is left."""
    began, ended = moments.instant(run.get("start_time")), moments.instant(run.get("end_time"))
    took = f" after {moments.length(ended - began)}" if began is not None and ended is not None else ""
    attempts = run.get("attempt_number") or 1
    tries = f" at attempt {attempts}" if attempts > 1 else ""
    error = run.get("error_message")
    if error and with_log:
        from tickwise.domain.excerpts import cause_line

        error = cause_line(error)
    why = f": {error}" if error else ""
    return f"{run['status']}{took}{tries}{why}"


def only_run_id(session: Session, job_id: str) -> str:
    """The run of a job that was created to run now. Its row is there with the job's, or a moment later. A job that is
    accepted and not stored yet is waited for, however long that takes."""
    from tickwise.sdk.client import Pending

    until = moments.monotonic() + _MAX_APPEARS_SECONDS
    said = False
    while True:
        try:
            found = session.client.job_runs(job_id, limit=1)
        except Pending:
            if not said:
                session.note(f"Job {job_id} is accepted, and not stored yet (pending); waiting for it …")
            said, until = True, moments.monotonic() + _MAX_APPEARS_SECONDS
            moments.pause(_MAX_LOOK_SECONDS)
            continue
        if found:
            return str(found[0]["run_id"])
        if moments.monotonic() > until:
            raise CommandFailure(f"job {job_id} is stored, but has no run yet.", Exit.UNREACHABLE)
        moments.pause(_LOOK_SECONDS_LEAST)


class Follower:
    """Watches one run."""

    def __init__(self, session: Session, run_id: str, *, with_log: bool) -> None:
        self._session = session
        self._run_id = run_id
        self._with_log = with_log
        self._attempt = 0
        self._offset = 0
        self._began_at = moments.monotonic()
        self._said_waiting = False
        self._seen = False
        self._away_since: float | None = None

    def follow(self) -> dict[str, Any]:
        """Watch the run until it has ended; return it as it is then. Ctrl-C ends the watching, not the run."""
        try:
            return self._followed()
        except KeyboardInterrupt:
            shown = self._session.short(self._run_id)
            self._session.note(f"The run goes on. Follow it again: tickwise runs logs -f {shown}")
            raise

    def _followed(self) -> dict[str, Any]:
        from tickwise.sdk.client import Unreachable

        pause_seconds = _LOOK_SECONDS_LEAST
        while True:
            try:
                run, wrote = self._look()
            except Unreachable as error:
                self._endure(error)
                pause_seconds = _MAX_LOOK_SECONDS
            else:
                self._away_since = None
                if run["status"] in FINAL:
                    return run
                self._say_waiting(run)
                pause_seconds = _LOOK_SECONDS_LEAST if wrote else min(pause_seconds * 1.5, _MAX_LOOK_SECONDS)
            moments.pause(pause_seconds)

    def _look(self) -> tuple[dict[str, Any], bool]:
        """The run as it is, and whether its log had anything new."""
        # The run is read before its log: what is final here has its whole log in the read that follows.
        run = self._session.client.run_get(self._run_id)
        self._seen = True
        return run, self._with_log and self._read_log(run)

    def _endure(self, error: Exception) -> None:
        """A server that was there may come back: a restart takes seconds. One that never was is not waited for."""
        at = moments.monotonic()
        if not self._seen or (self._away_since is not None and at - self._away_since > _MAX_AWAY_SECONDS):
            raise error
        if self._away_since is None:
            self._away_since = at
            self._session.note(f"The server is away, waiting for it ({error}) …")

    def _read_log(self, run: dict[str, Any]) -> bool:
        """Write the new part of the log; False if there was none."""
        wrote = False
        latest = int(run.get("attempt_number") or 0)
        for attempt in range(max(1, self._attempt), latest + 1):
            if attempt != self._attempt:
                if attempt > 1:
                    self._session.note(f"── attempt {attempt} ──")
                self._attempt, self._offset = attempt, 0
            wrote = self._read_attempt() or wrote
        return wrote

    def _read_attempt(self) -> bool:
        wrote = False
        while True:
            part = self._session.client.run_log(self._run_id, attempt=self._attempt, offset=self._offset)
            if not part.content:
                return wrote
            write_bytes(part.content)
            self._offset = part.next_offset
            wrote = True

    def _say_waiting(self, run: dict[str, Any]) -> None:
        """Once, when it takes long: why nothing seems to happen."""
        waited = moments.monotonic() - self._began_at
        if self._said_waiting or waited < _SAID_WAITING_AFTER_SECONDS or run["status"] not in {"QUEUED", "RETRYING"}:
            return
        self._said_waiting = True
        usual = "waiting for its next attempt" if run["status"] == "RETRYING" else "waiting for an executor"
        reasons = "; ".join(run.get("warnings") or [])
        self._session.note(f"Still {run['status']}{': ' + reasons if reasons else f'; {usual}'} …")


def write_bytes(content: bytes) -> None:
    """To stdout as it is; a task's output need not be text."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
