"""Talk to a Tickwise server over HTTP: a small synchronous client that stands alone.

    with Client("http://127.0.0.1:8470", key) as tickwise:
        job = tickwise.job_create({"name": "hello", "schedule_type": "IMMEDIATE", "task": {...}})

Every POST carries an Idempotency-Key, so a request whose answer got lost on the way is sent again and is still
carried out once. A refusal of the server is raised as `ProblemError`; a server that is away, or says that it is
for now, is waited for up to `patience_seconds` and then raised as `Unreachable`.

A server that buffers requests answers a create, change or cancel with `"status": "pending"` once it is accepted. A read
of what is accepted and not there yet is waited for like an absent server, and then raised as `Pending`.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx2

API: Final = "/api/v1"
_RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})
_PENDING: Final = 202
"""Of a read: what it asks for is accepted, and not there yet."""
# A connection that cannot be made is not waited for: nearly always nothing listens there, and a person is watching.
_BROKEN_ON_THE_WAY: Final = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)

Json = dict[str, Any]


class ClientError(Exception):
    """The root of what this module raises. `detail` is a sentence for people."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Unreachable(ClientError):
    """The server did not answer, or cannot serve for now. The same call may succeed later."""

    def __init__(self, detail: str, *, status: int | None = None, request_id: str | None = None) -> None:
        """`status` is the last HTTP status, None if there was no answer at all; `request_id` finds it in the logs."""
        super().__init__(detail)
        self.status = status
        self.request_id = request_id


class Untrusted(Unreachable):
    """Something answers, and its certificate is not trusted."""


class Pending(Unreachable):
    """The server accepted the request and has not carried it out yet."""


class ProblemError(ClientError):
    """The server refused: an RFC 9457 problem."""

    def __init__(self, status: int, problem: Json) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"the server answered {status}"))
        self.status = status
        self.problem = problem
        self.code: str = str(problem.get("code") or "")
        self.pointer: str | None = problem.get("pointer")
        self.position: int | None = problem.get("position")
        self.request_id: str | None = problem.get("request_id")


class ClearTextWarning(UserWarning):
    """A key travels to another machine without encryption."""


class ServerTrust(NamedTuple):
    """The certificates that a client takes for the server's."""

    ca_file: str | None = None
    """PEM certificates of authorities, or of the server itself: these alone are trusted. None: the machine's."""
    server_name: str | None = None
    """The name that the certificate must be for, if it is not that of the address."""
    insecure: bool = False
    """Send keys to other machines without TLS, too, and say nothing."""

    def verify(self) -> ssl.SSLContext | bool:
        """The argument for httpx. Raises `ClientError` for a file that has no certificates."""
        if self.ca_file is None:
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ClientError(f"{self.ca_file} cannot be read as certificates (PEM): {error}") from None
        # A certificate that is named itself is trusted, also if it is not the one that signed itself.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


def travels_in_clear(url: str) -> bool:
    """Check whether requests to this address leave the machine unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_local(parts.hostname or "")


def _is_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


class Answer(NamedTuple):
    """An answer: the parsed JSON (None if there is no body) and the headers that callers need."""

    status: int
    body: Any
    etag: str | None
    next_path: str | None
    """The target of the `Link` header with `rel="next"`, if there is a further page."""


class _Request(NamedTuple):
    """A request without method and address, and the statuses that are no answer yet."""

    query: Mapping[str, Any] | None = None
    body: Any = None
    headers: Mapping[str, str] | None = None
    for_now: frozenset[int] = _RETRIED_STATUSES


class LogPart(NamedTuple):
    """A piece of a log and where the next one begins."""

    content: bytes
    next_offset: int


class Client:
    """One server, one key. Not for use from several threads at once."""

    def __init__(
        self,
        url: str,
        key: str | Callable[[], str] | None,
        *,
        namespace: str | None = None,
        timeout_seconds: float = 30.0,
        patience_seconds: float = 10.0,
        trust: ServerTrust | None = None,
    ) -> None:
        """`key` is an API key or an access token; a callable is asked at each request, since tokens end. `namespace` is
        the one that requests are about; None: that of the key. `trust` says whose certificate is good, and whether a
        key may travel without one; None: the machine's authorities, and a `ClearTextWarning` for a key that travels
        unencrypted."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ClientError(f"{url!r} is no server address; write one such as http://127.0.0.1:8470")
        trust = trust or ServerTrust()
        if key and not trust.insecure and travels_in_clear(url):
            warnings.warn(
                f"your key travels to {parts.hostname} unencrypted, and can be read on its way; use https",
                ClearTextWarning,
                stacklevel=2,
            )
        self.url = url.rstrip("/").removesuffix(API)
        self.patience_seconds = patience_seconds
        headers = {"Accept": "application/json", "User-Agent": "tickwise-client"}
        self.namespace = namespace
        if namespace:
            headers["Tickwise-Namespace"] = namespace
        self._key = key
        self._http = httpx2.Client(
            headers=headers,
            timeout=timeout_seconds,
            # A proxy from the environment can reach no server on this machine; and without TLS, loading the
            # certificates of the world would be most of a command's time.
            trust_env=not _is_local(parts.hostname),
            verify=trust.verify() if parts.scheme == "https" else False,
        )
        self._extensions = {"sni_hostname": trust.server_name} if trust.server_name else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the connections."""
        self._http.close()

    # ------------------------------------------------------------------------------------------ the frame

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        until_there: bool = True,
    ) -> Answer:
        """Send one request below `/api/v1` and read the answer as JSON. `body` is sent as JSON unless it is bytes.

        A read waits for an object that is not there yet; with `until_there=False` the answer says `pending`."""
        for_now = _RETRIED_STATUSES | {_PENDING} if method == "GET" and until_there else _RETRIED_STATUSES
        sent = _Request(query=query, body=body, headers=headers, for_now=for_now)
        response = self._exchange(method, self._address(path), sent)
        following = response.links.get("next", {}).get("url")
        content = response.content
        try:
            parsed = json.loads(content) if content.strip() else None
        except ValueError:
            raise Unreachable(f"{self.url} answered something that is not JSON; is it a Tickwise server?") from None
        return Answer(response.status_code, parsed, response.headers.get("ETag"), following)

    def _address(self, path: str) -> str:
        """A full address for a path of the API, or for one that the server gave (`Link`, `log_url`)."""
        if path.startswith(("http://", "https://")):
            # The server's link may name another host than the one through which we reach it; the key must not go there.
            parts = urlsplit(path)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
        return self.url + (path if path.startswith((API, "/readyz", "/livez")) else API + path)

    def _exchange(self, method: str, address: str, request: _Request) -> httpx2.Response:
        """Send until there is an answer that is not "for now", or patience ends. Raises the module's errors."""
        sent = {"Idempotency-Key": str(uuid4())} if method == "POST" else {}
        content: bytes | None = None
        body = request.body
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        key = self._key() if callable(self._key) else self._key
        if key:
            sent["Authorization"] = f"Bearer {key}"
        sent.update(request.headers or {})
        params = {name: value for name, value in (request.query or {}).items() if value is not None}
        until = time.monotonic() + self.patience_seconds
        pause_seconds = 0.2
        while True:
            try:
                response = self._http.request(
                    method, address, params=params or None, content=content, headers=sent, extensions=self._extensions
                )
            except httpx2.ConnectError as error:
                raise _not_connected(self.url, error) from error
            except httpx2.TimeoutException as error:
                raise Unreachable(f"{self.url} did not answer in time") from error
            except _BROKEN_ON_THE_WAY as error:
                if time.monotonic() + pause_seconds > until:
                    raise Unreachable(f"the connection to {self.url} broke: {error}") from error
            except httpx2.HTTPError as error:
                raise Unreachable(f"{self.url} cannot be reached: {error}") from error
            else:
                if response.status_code not in request.for_now:
                    return _checked(response)
                pause_seconds = max(pause_seconds, _retry_after_seconds(response))
                if time.monotonic() + pause_seconds > until:
                    raise _not_there(response) if response.status_code == _PENDING else _unable(response)
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 2.0)

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[list[Json]]:
        """Every page of a listing, following `Link`. A page of large items is shorter than the `limit` of the query."""
        answer = self.request("GET", path, query=query)
        yield answer.body
        while answer.next_path:
            answer = self.request("GET", answer.next_path)
            yield answer.body

    def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[bytes]:
        """The content of a long answer, piece by piece as it comes. It is asked for once: what broke is asked for anew
        by the caller. Raises the module's errors."""
        key = self._key() if callable(self._key) else self._key
        sent = {"Accept": "*/*", **({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        params = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            with self._http.stream("GET", self._address(path), params=params or None, headers=sent) as response:
                if not response.is_success:
                    response.read()
                    _checked(response)
                yield from response.iter_bytes()
        except httpx2.TimeoutException as error:
            raise Unreachable(f"{self.url} did not answer in time") from error
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self.url} cannot be reached: {error}") from error

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
        address = self._address(f"/runs/{_safe(run_id)}/logs")
        query = {"attempt": attempt, "offset": offset}
        response = self._exchange("GET", address, _Request(query=query, headers={"Accept": "*/*"}))
        return LogPart(response.content, offset + len(response.content))

    def run_artefacts(self, run_id: str, attempt: int | None = None) -> list[Json]:
        """The files that an attempt left in its work folder; of the newest one if none is named."""
        answer: list[Json] = self.request("GET", f"/runs/{_safe(run_id)}/artefacts", query={"attempt": attempt}).body
        return answer

    def artefact_get(self, run_id: str, name: str, attempt: int | None = None) -> bytes:
        """The content of one of them."""
        address = self._address(f"/runs/{_safe(run_id)}/artefacts/{_safe(name)}")
        query = {"attempt": attempt}
        return self._exchange("GET", address, _Request(query=query, headers={"Accept": "*/*"})).content

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
        address = self._address(f"/tasks/{_safe(task_id)}/versions/{version}/source")
        return self._exchange("GET", address, _Request(for_now=_RETRIED_STATUSES)).content

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
        try:
            return self._http.get(f"{self.url}/readyz", extensions=self._extensions).status_code == 200
        except httpx2.HTTPError:
            return False


def _not_connected(url: str, error: httpx2.ConnectError) -> Unreachable:
    """The reason that there is no connection, and what to do about one that TLS refused."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return Untrusted(
            f"the certificate of {url} is not trusted ({said.partition('certificate verify failed: ')[2] or said}); "
            "name the file with its authority: --ca-file, or TICKWISE_CA_FILE"
        )
    if "WRONG_VERSION_NUMBER" in said or "RECORD_LAYER_FAILURE" in said:
        return Untrusted(f"{url} speaks no TLS; is its address http://…?")
    return Unreachable(f"nothing answers at {url} ({error})")


def _safe(segment: str) -> str:
    """A text as one segment of a path; no text can reach another route."""
    return quote(segment, safe="")


def _checked(response: httpx2.Response) -> httpx2.Response:
    if response.is_success:
        return response
    if response.status_code >= 500:
        raise _unable(response)
    if response.is_redirect:
        raise Unreachable(f"{response.url} points elsewhere ({response.headers.get('Location')}); use that address")
    raise ProblemError(response.status_code, _refusal(response)[1])


def _unable(response: httpx2.Response) -> Unreachable:
    """The detail of a server that cannot serve."""
    detail, problem = _refusal(response)
    return Unreachable(detail, status=response.status_code, request_id=problem.get("request_id"))


def _not_there(response: httpx2.Response) -> Pending:
    """The detail of a request that is under way."""
    return Pending(
        "this is accepted, and not stored yet (pending); ask again a little later", status=response.status_code
    )


def _refusal(response: httpx2.Response) -> tuple[str, Json]:
    """The server's own words, or ours where something in between answered."""
    try:
        problem = json.loads(response.content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        detail = f"the server answered {response.status_code} {response.reason_phrase}".rstrip()
        return detail, {"detail": detail, "status": response.status_code}
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered {response.status_code}")
    return detail, problem


def _retry_after_seconds(response: httpx2.Response) -> float:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return 0.0
