"""The client of the command line: that of `tickwise_sdk` with the words of its commands.

    with Client("http://127.0.0.1:8470", key) as tickwise:
        job = tickwise.job_create({"name": "hello", "schedule_type": "IMMEDIATE", "task": {...}})

Bodies and answers are plain JSON here: commands hand on what people wrote, and show what came. Programs use
`tickwise_sdk.Client`, whose methods have types; these are not even loaded here.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from tickwise_sdk.errors import (
    ClearTextWarning,
    ClientError,
    Pending,
    ProblemError,
    Unreachable,
    Untrusted,
)
from tickwise_sdk.exchange import API, Answer, Json, ServerTrust, travels_in_clear
from tickwise_sdk.exchange import safe as _safe
from tickwise_sdk.federated import FederatedKey
from tickwise_sdk.http_library import httpx2
from tickwise_sdk.plain_client import PlainClient

__all__ = [
    "API",
    "Answer",
    "ClearTextWarning",
    "Client",
    "ClientError",
    "FederatedKey",
    "Json",
    "LogPart",
    "Pending",
    "ProblemError",
    "ServerTrust",
    "Unreachable",
    "Untrusted",
    "travels_in_clear",
]


class LogPart(NamedTuple):
    """A piece of a log and where the next one begins."""

    content: bytes
    next_offset: int


class Client(PlainClient):
    """One server, one key."""

    _waits_to_connect = False  # nearly always nothing listens there, and a person is watching

    def trouble(self, timeout_seconds: float) -> Json | None:
        """The problem for which the server should get no requests, as it says itself, without a key. None: it is ready,
        or says nothing in time."""
        try:
            answer = self._http.get(f"{self.url}/readyz", extensions=self._server.extensions, timeout=timeout_seconds)
            found = answer.json()
        except (httpx2.HTTPError, ValueError):
            return None
        return found if not answer.is_success and isinstance(found, dict) else None

    # ------------------------------------------------------------------------------------------ jobs

    def job_create(self, body: Json) -> Json:
        """Store one job; answers its `job_id` and warnings once it is durable. A server that buffers requests adds
        `"status": "pending"` and an `operation_id`."""
        answer: Json = self.request("POST", "/jobs", body=body).body
        return answer

    def jobs_create(self, jobs: list[Json], *, atomic: bool = False) -> Json:
        """Store up to 10,000 jobs in one transaction; its `results` give an id or a problem for each, in order. A
        server that buffers requests adds `"status": "pending"`, unless it is `atomic`."""
        query = {"atomic": "true"} if atomic else None
        answer: Json = self.request("POST", "/jobs:batch", body=jobs, query=query).body
        return answer

    def job_get(self, job_id: str) -> Json:
        """The full definition, with `next_run_at` and `version`."""
        answer: Json = self.request("GET", f"/jobs/{_safe(job_id)}").body
        return answer

    def job_by_key(self, key: str) -> Json:
        """The job that carries this `key`."""
        answer: Json = self.request("GET", f"/jobs/by-key/{_safe(key)}").body
        return answer

    def job_put(self, key: str, body: Json) -> Json:
        """Store the one job that carries this `key`, or change it to what is said; answers the job."""
        answer: Json = self.request("PUT", f"/jobs/by-key/{_safe(key)}", body=body).body
        return answer

    def job_change(
        self,
        job_id: str,
        changes: Json,
        *,
        etag: str | None = None,
        version: int | None = None,
        dry_run: bool = False,
    ) -> Json:
        """Change the fields that are given. With an `etag`, refused (412) if anything of the job is otherwise by now;
        with a `version`, only if somebody changed it: its runs may go on meanwhile."""
        headers = {"If-Match": etag} if etag else None
        query = {"dry_run": "true"} if dry_run else {}
        if version is not None:
            query["if_version"] = str(version)
        answer: Json = self.request("PUT", f"/jobs/{_safe(job_id)}", body=changes, headers=headers, query=query).body
        return answer

    def job_cancel(self, job_id: str) -> Any:
        """Cancel the job and ask its running attempt to stop."""
        return self.request("DELETE", f"/jobs/{_safe(job_id)}").body

    def job_pause(self, job_id: str, body: Json) -> Any:
        """Stop its schedule; `body` may give `reason` and `until`."""
        return self.request("POST", f"/jobs/{_safe(job_id)}/pause", body=body).body

    def job_move(self, job_id: str, namespace: str) -> Any:
        """Move it to another namespace."""
        return self.request("POST", f"/jobs/{_safe(job_id)}/move", body={"namespace": namespace}).body

    def job_resume(self, job_id: str, body: Json) -> Any:
        """Let its schedule go on; `body` may say what becomes of the `missed` occurrences."""
        return self.request("POST", f"/jobs/{_safe(job_id)}/resume", body=body).body

    def job_run_now(self, job_id: str, body: Json | None = None) -> Json:
        """Ask for one run beside the schedule; answers its `run_id`."""
        answer: Json = self.request("POST", f"/jobs/{_safe(job_id)}/runNow", body=body).body
        return answer

    def job_status(self, job_id: str) -> Json:
        """Its `latest_run`, which is null before the first."""
        answer: Json = self.request("GET", f"/jobs/{_safe(job_id)}/status").body
        return answer

    def job_runs(self, job_id: str, *, limit: int | None = None) -> list[Json]:
        """Its runs, newest first: up to `limit` of them, or the first page."""
        pages = self.pages(f"/jobs/{_safe(job_id)}/runs", {"limit": limit})
        if limit is None:
            return next(pages)
        return list(islice((run for page in pages for run in page), limit))

    # ------------------------------------------------------------------------------------------ schedules

    def job_preview(self, job_id: str, *, count: int | None = None, after: str | None = None) -> Json:
        """Its next fires, with calendars and maintenance windows applied; after an RFC 3339 time, else from now on."""
        query = {"count": count, "from": after}
        answer: Json = self.request("GET", f"/jobs/{_safe(job_id)}/preview", query=query).body
        return answer

    def schedule_preview(self, body: Json) -> Json:
        """The next fires of a schedule that is not saved, in the words of a job's body, with `count` and `from`."""
        answer: Json = self.request("POST", "/jobs:preview", body=body).body
        return answer

    def job_explain(self, job_id: str, *, at: str | None = None) -> Json:
        """The reason that it did, or did not, run at an RFC 3339 time; without one, that it does not run now."""
        answer: Json = self.request("GET", f"/jobs/{_safe(job_id)}/explain", query={"at": at}).body
        return answer

    def job_skip_next(self, job_id: str, body: Json | None = None) -> Json:
        """Skip its next occurrence; `body` may give a `reason`, and the `occurrence` that is meant."""
        answer: Json = self.request("POST", f"/jobs/{_safe(job_id)}/skipNext", body=body or {}).body
        return answer

    def job_snooze(self, job_id: str, body: Json) -> Json:
        """Let its next occurrence run at `until` instead."""
        answer: Json = self.request("POST", f"/jobs/{_safe(job_id)}/snooze", body=body).body
        return answer

    def job_backfill(self, job_id: str, body: Json) -> Json:
        """Run its occurrences of the past, `from` and `to` included; answers a `backfill_id` and how many runs."""
        answer: Json = self.request("POST", f"/jobs/{_safe(job_id)}/backfill", body=body).body
        return answer

    def job_backfill_cancel(self, job_id: str, backfill_id: str) -> Json:
        """End the runs of a backfill that have not ended; answers how many."""
        path = f"/jobs/{_safe(job_id)}/backfills/{_safe(backfill_id)}/cancel"
        answer: Json = self.request("POST", path).body
        return answer

    # ------------------------------------------------------------------------------------------ runs

    def run_get(self, run_id: str) -> Json:
        """One run with its attempts and stage times."""
        answer: Json = self.request("GET", f"/runs/{_safe(run_id)}").body
        return answer

    def run_explain(self, run_id: str) -> Json:
        """The reason that it was late, was skipped, waits, or ran as it did."""
        answer: Json = self.request("GET", f"/runs/{_safe(run_id)}/explain").body
        return answer

    def run_cancel(self, run_id: str) -> Any:
        """Ask it to stop."""
        return self.request("POST", f"/runs/{_safe(run_id)}/cancel").body

    def run_retry(self, run_id: str, body: Json | None = None) -> Json:
        """Ask for a new run like this one; answers its `run_id`."""
        answer: Json = self.request("POST", f"/runs/{_safe(run_id)}/retry", body=body).body
        return answer

    # ------------------------------------------------------------------------------------------ dead letters

    def letter_get(self, run_id: str) -> Json:
        """One dead letter with all attempts of its run, and its origin or its follow-up."""
        answer: Json = self.request("GET", f"/dead-letters/{_safe(run_id)}").body
        return answer

    def letter_redrive(self, run_id: str, body: Json | None = None) -> Json:
        """Ask for a new run in its place; answers its `run_id`. `body` may give a `payload` and a `note`."""
        answer: Json = self.request("POST", f"/dead-letters/{_safe(run_id)}/redrive", body=body or {}).body
        return answer

    def letter_discard(self, run_id: str, body: Json | None = None) -> Json:
        """Do nothing more about it; `body` may give a `note`."""
        answer: Json = self.request("POST", f"/dead-letters/{_safe(run_id)}/discard", body=body or {}).body
        return answer

    def letter_decide(self, run_id: str, body: Json) -> Json:
        """Say the `outcome` of a run whose outcome is unknown: `succeeded` or `failed`."""
        answer: Json = self.request("POST", f"/dead-letters/{_safe(run_id)}/decide", body=body).body
        return answer

    # ------------------------------------------------------------------------------------------ many at once

    def runs_cancel(self, body: Json) -> Json:
        """Cancel the runs that `filter` matches; answers an `operation_id`, with `dry_run` how many they are."""
        return self._bulk("/runs:cancel", body)

    def runs_retry(self, body: Json) -> Json:
        """Retry the runs that `filter` matches."""
        return self._bulk("/runs:retry", body)

    def jobs_pause(self, body: Json) -> Json:
        """Pause the jobs that `filter` matches; `body` may give `reason` and `until`."""
        return self._bulk("/jobs:pause", body)

    def jobs_resume(self, body: Json) -> Json:
        """Resume the jobs that `filter` matches; `body` may say what becomes of the `missed` occurrences."""
        return self._bulk("/jobs:resume", body)

    def jobs_cancel(self, body: Json) -> Json:
        """Cancel the jobs that `filter` matches, for good."""
        return self._bulk("/jobs:cancel", body)

    def letters_redrive(self, body: Json) -> Json:
        """Redrive the dead letters that `filter` matches; with a `payload`, all of them get it."""
        return self._bulk("/dead-letters:redrive", body)

    def letters_discard(self, body: Json) -> Json:
        """Discard the dead letters that `filter` matches."""
        return self._bulk("/dead-letters:discard", body)

    def _bulk(self, path: str, body: Json) -> Json:
        answer: Json = self.request("POST", path, body=body).body
        return answer

    def operation_get(self, operation_id: str) -> Json:
        """One operation: its `status`, and how many are `done` and `refused`. Of a request that was accepted and is not
        applied yet the `status` is `pending`, and that is all."""
        answer: Json = self.request("GET", f"/operations/{_safe(operation_id)}", until_there=False).body
        return answer

    def operation_cancel(self, operation_id: str) -> Json:
        """Let it go no further; what is done stays done."""
        answer: Json = self.request("POST", f"/operations/{_safe(operation_id)}/cancel").body
        return answer

    # ------------------------------------------------------------------------------------------ roles

    def roles_list(self) -> list[Json]:
        """Processes that said within the last seconds that they are alive, by role."""
        answer: list[Json] = self.request("GET", "/roles").body
        return answer

    # ------------------------------------------------------------------------------------------ pages

    def session_link(self) -> Json:
        """A link that opens the pages in a browser of the server's machine, once, signed in as this key: its path as
        `link`, and for how many seconds it works."""
        answer: Json = self.request("POST", "/auth/links").body
        return answer

    def executors_list(self) -> list[Json]:
        """Active executors, and those gone within the last hour; of a key for one namespace, those that may claim its
        runs."""
        answer: list[Json] = self.request("GET", "/executors").body
        return answer

    # ------------------------------------------------------------------------------------------ errors

    def error_get(self, error_id: str) -> Json:
        """One group of errors, with its `jobs` by their `failures` and its `hours`."""
        answer: Json = self.request("GET", f"/errors/{_safe(error_id)}").body
        return answer

    def error_resolve(self, error_id: str, body: Json | None = None) -> Json:
        """Resolve a group; it is open again when it fails again."""
        answer: Json = self.request("POST", f"/errors/{_safe(error_id)}/resolve", body=body or {}).body
        return answer

    def error_ignore(self, error_id: str, body: Json) -> Json:
        """Ignore a group `until` a time, or for a number of `failures`."""
        answer: Json = self.request("POST", f"/errors/{_safe(error_id)}/ignore", body=body).body
        return answer

    def error_reopen(self, error_id: str) -> Json:
        """Take back what was decided about a group."""
        answer: Json = self.request("POST", f"/errors/{_safe(error_id)}/reopen").body
        return answer

    # ------------------------------------------------------------------------------------------ queues

    def queues_list(self) -> list[Json]:
        """All queues, by name."""
        answer: list[Json] = self.request("GET", "/queues").body
        return answer

    def queue_get(self, queue: str) -> Json:
        """One queue: whether it is `held`, and how many runs are `queued`, `dispatched` and `running`."""
        answer: Json = self.request("GET", f"/queues/{_safe(queue)}").body
        return answer

    def queue_hold(self, queue: str, body: Json | None = None) -> Json:
        """Let nothing more of it begin; `body` may give `reason`, `from` and `until`."""
        answer: Json = self.request("POST", f"/queues/{_safe(queue)}/hold", body=body or {}).body
        return answer

    def queue_drain(self, queue: str, body: Json | None = None) -> Json:
        """Hold it from now on; answers what of it still runs. `body` may give `reason` and `until`."""
        answer: Json = self.request("POST", f"/queues/{_safe(queue)}/drain", body=body or {}).body
        return answer

    def queue_resume(self, queue: str) -> Json:
        """Let it go on."""
        answer: Json = self.request("POST", f"/queues/{_safe(queue)}/resume").body
        return answer

    # ------------------------------------------------------------------------------------------ stops

    def stops_list(self, *, standing: bool = True, limit: int = 50) -> list[Json]:
        """Stops of the namespace, the newest first: those in force or to come, or those that are over too."""
        query = {"standing": "true" if standing else "false", "limit": limit}
        answer: list[Json] = self.request("GET", "/stops", query=query).body
        return answer

    def stop_get(self, stop_id: str) -> Json:
        """One stop."""
        answer: Json = self.request("GET", f"/stops/{_safe(stop_id)}").body
        return answer

    def stop_preview(self, body: Json) -> Json:
        """Find what a stop would hold back: its `jobs`, `fires`, `waiting` and `running` runs. Nothing is changed."""
        answer: Json = self.request("POST", "/stops:preview", body=body).body
        return answer

    def stop_add(self, body: Json) -> Json:
        """Stop `all`, `labels`, a `queue` or a `job_id` for a `reason`, for an hour unless `until` says otherwise."""
        answer: Json = self.request("POST", "/stops", body=body).body
        return answer

    def stop_lift(self, stop_id: str) -> Json:
        """End a stop now."""
        answer: Json = self.request("POST", f"/stops/{_safe(stop_id)}/lift").body
        return answer

    # ------------------------------------------------------------------------------------------ logs

    def run_log(self, run_id: str, *, attempt: int, offset: int = 0) -> LogPart:
        """The output of an attempt from `offset` on, as far as it is there; empty at its present end."""
        query = {"attempt": attempt, "offset": offset}
        content = self.request_bytes(f"/runs/{_safe(run_id)}/logs", query=query)
        return LogPart(content, offset + len(content))

    def run_artefacts(self, run_id: str, attempt: int | None = None) -> list[Json]:
        """The files that an attempt left in its work folder; of the newest one if none is named."""
        answer: list[Json] = self.request("GET", f"/runs/{_safe(run_id)}/artefacts", query={"attempt": attempt}).body
        return answer

    def artefact_get(self, run_id: str, name: str, attempt: int | None = None) -> bytes:
        """The content of one of them."""
        return self.request_bytes(f"/runs/{_safe(run_id)}/artefacts/{_safe(name)}", query={"attempt": attempt})

    # ------------------------------------------------------------------------------------------ tasks

    def task_put(self, body: Json) -> Json:
        """Keep a task under an id and name, as a new version if its content is new."""
        answer: Json = self.request("POST", "/tasks", body=body).body
        return answer

    def script_put(self, task_id: str, script: bytes, *, name: str | None = None) -> Json:
        """Keep a Python script, as it lies in a file, as a new version of a task if its content is new."""
        headers = {"Content-Type": "text/x-python"}
        path, query = f"/tasks/{_safe(task_id)}", {"name": name}
        answer: Json = self.request("PUT", path, body=script, query=query, headers=headers).body
        return answer

    def script_get(self, task_id: str, version: int) -> bytes:
        """The text of the Python script that a version of a task runs."""
        return self.request_bytes(f"/tasks/{_safe(task_id)}/versions/{version}/source")

    def key_make(self, body: Json) -> Json:
        """Make a key; the answer is the only one that has its secret, under `key`."""
        answer: Json = self.request("POST", "/keys", body=body).body
        return answer

    def key_rotate(self, key_id: str, overlap_seconds: float | None = None) -> Json:
        """Give a key another secret, which the answer alone has, under `key`. The present one works for the overlap."""
        body = None if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        answer: Json = self.request("POST", f"/keys/{_safe(key_id)}/rotate", body=body).body
        return answer

    def key_revoke(self, key_id: str) -> Json:
        """Revoke a key for ever."""
        answer: Json = self.request("DELETE", f"/keys/{_safe(key_id)}").body
        return answer

    def task_get(self, task_id: str, version: int | None = None) -> Json:
        """A version of a stored task, the newest if none is named."""
        answer: Json = self.request("GET", f"/tasks/{_safe(task_id)}", query={"version": version}).body
        return answer

    # ------------------------------------------------------------------------------------------ calendars

    def calendar_put(self, name: str, body: Json) -> Json:
        """Create the calendar, or replace it as a whole."""
        answer: Json = self.request("PUT", f"/calendars/{_safe(name)}", body=body).body
        return answer

    def calendar_get(self, name: str) -> Json:
        """The calendar, as it was sent and as it was resolved."""
        answer: Json = self.request("GET", f"/calendars/{_safe(name)}").body
        return answer

    def calendar_delete(self, name: str) -> Json:
        """Delete the calendar; answers what it was."""
        answer: Json = self.request("DELETE", f"/calendars/{_safe(name)}").body
        return answer

    def calendar_covers(
        self, name: str, *, start: str | None = None, end: str | None = None, limit: int | None = None
    ) -> Json:
        """The times that it covers between two of RFC 3339, else in the next 30 days."""
        query = {"from": start, "to": end, "limit": limit}
        answer: Json = self.request("GET", f"/calendars/{_safe(name)}/covers", query=query).body
        return answer

    def calendar_preview(self, body: Json) -> Json:
        """The times that a calendar would cover; `body` has it as `calendar`, and `from` and `to`."""
        answer: Json = self.request("POST", "/calendars:preview", body=body).body
        return answer

    def window_put(self, name: str, body: Json) -> Json:
        """Create the maintenance window, or replace it as a whole."""
        answer: Json = self.request("PUT", f"/windows/{_safe(name)}", body=body).body
        return answer

    def window_get(self, name: str) -> Json:
        """The maintenance window, as it was sent and as it was resolved."""
        answer: Json = self.request("GET", f"/windows/{_safe(name)}").body
        return answer

    def window_delete(self, name: str) -> Json:
        """Delete the maintenance window; answers what it was."""
        answer: Json = self.request("DELETE", f"/windows/{_safe(name)}").body
        return answer

    def window_covers(
        self, name: str, *, start: str | None = None, end: str | None = None, limit: int | None = None
    ) -> Json:
        """The times that it covers between two of RFC 3339, else in the next 30 days."""
        query = {"from": start, "to": end, "limit": limit}
        answer: Json = self.request("GET", f"/windows/{_safe(name)}/covers", query=query).body
        return answer

    # ------------------------------------------------------------------------------------------ health

    def ready(self) -> bool:
        """Check whether the server is up and can serve. Never raises, also not for a server that is away."""
        return self.is_ready()
