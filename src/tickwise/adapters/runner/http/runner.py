"""Runs `http` tasks: one request, whose answer says how the attempt ended.

2xx (or what `expect` names)   success; a small JSON answer is the result's `body`
other 4xx                      the request is wrong: no retry, except for 408, 409, 425 and 429
anything else                  a failure that may be tried again, no earlier than `Retry-After` says

Where a task may call is settled in `access`, for every hop of a chain of redirects. A redirect to another origin
receives nothing of the task: no headers, no context, no body.

A host that keeps failing the tasks of a namespace is left alone by them for a while (`circuit_breakers`): they are
given back as if they had not been offered, which counts no attempt.
"""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import msgspec
from yarl import URL

from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess, plain_host
from tickwise.adapters.outgoing.exchange import Answer, NoAnswer, Request, UnusableAddress
from tickwise.adapters.runner.checks import asked_pause_seconds
from tickwise.adapters.runner.context import context_headers
from tickwise.adapters.runner.http.circuit_breakers import Breakers, Heard, Target
from tickwise.adapters.runner.kinds import HttpKind, check_url
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.domain.errors import Invalid
from tickwise.domain.hosts import host_of
from tickwise.domain.masking import masked_url
from tickwise.domain.retry import CIRCUIT_OPEN
from tickwise.ports.runner import Assignment, Ending, Reports, Verdict

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from tickwise.adapters.outgoing.client import HttpClient

MAX_REDIRECTS = 5
ERROR_BYTES = 500
"""The part of an unexpected answer that an error quotes."""
BEGAN_SECONDS = 0.2
"""A request that takes so long is reported as begun; most are over by then."""
TRANSIENT = frozenset({408, 409, 425, 429})
"""Statuses of the 4xx class that may be different the next time."""

_SENT_WITH_PAYLOAD = ("POST", "PUT", "PATCH")
_REDIRECTS = (301, 302, 303, 307, 308)
_CUT_SHORT = {"timeout": Heard.FAILED, "output_limit": Heard.WELL}
"""The knowledge that a request which we ended gives of its host."""


class HttpRunner(SlotRunner):
    """The runner of kind `http`."""

    def __init__(
        self, settings: RunnerSettings, *, breakers: Breakers | None = None, resolver: AbstractResolver | None = None
    ) -> None:
        """`resolver` instead of the system's. Raises `Misconfigured` for an `http_allow` that cannot be read."""
        super().__init__(settings, (HttpKind(),))
        self._access = HttpAccess.of(settings.http_allow)
        self._resolver = resolver
        self._breakers = breakers or Breakers()
        self._client: HttpClient | None = None

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        from tickwise.adapters.outgoing.client import HttpClient  # aiohttp: only a runner that is started needs it

        await super().start(reports, now)
        self._client = HttpClient(self._access, connections=self._settings.slots, resolver=self._resolver)

    async def release_resources(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def perform(self, attempt: Attempt) -> Ending:
        target = _target(attempt, attempt.assignment.task["url"])
        wait = self._breakers.admit(target, attempt, self._settings.clock.monotonic())
        if wait is not None:
            now = self._now()
            error = f"{target.host} keeps failing, so it is left alone; this is tried again in {wait:.0f} s"
            return Ending(Verdict.UNOFFERED, now, now, CIRCUIT_OPEN, error, None, wait, (target.host,))
        try:
            return await self._carry_out(attempt)
        finally:
            self._heard(target, attempt, Heard.NOTHING)  # of no effect, unless it has not come to hear anything

    def _heard(self, target: Target, attempt: Attempt, what: Heard) -> None:
        self._breakers.heard(target, attempt, what, self._settings.clock.monotonic())

    async def _carry_out(self, attempt: Attempt) -> Ending:
        loop = asyncio.get_running_loop()
        assignment = attempt.assignment
        limit = assignment.timeout_seconds
        deadline = limit and loop.call_later(limit, attempt.end_early, "timeout", 0.0)
        began = loop.call_later(BEGAN_SECONDS, self._reports.began, assignment.run_id, attempt.started)
        exchange = loop.create_task(self._exchange(attempt))
        signs: set[asyncio.Future[Any]] = {exchange, attempt.trouble}
        await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
        began.cancel()
        if deadline:
            deadline.cancel()
        if attempt.trouble.done():
            exchange.cancel()
            await asyncio.wait({exchange})
            if exchange.cancelled() or exchange.exception() is not None or attempt.trouble.result() == "output_limit":
                return attempt.ending_for(attempt.trouble.result(), attempt.started, self._now())
        return exchange.result()

    async def _exchange(self, attempt: Attempt) -> Ending:
        try:
            answer = await self._answer(attempt)
        except NoAnswer as error:
            return Ending(Verdict.FAILED, attempt.started, self._now(), "http_error", f"no answer: {error}")
        except AddressRefused as error:
            return Ending(Verdict.INVALID, attempt.started, self._now(), "address_refused", str(error))
        except Invalid as error:
            return Ending(Verdict.INVALID, attempt.started, self._now(), "invalid", error.detail)
        return self._judge(attempt, answer)

    async def _answer(self, attempt: Attempt) -> Answer:
        """The last answer of the chain of redirects. Raises `Invalid` if that leads nowhere."""
        request = _first_request(attempt.assignment, self._access)
        expect = attempt.assignment.task["expect"]
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._ask(attempt, request)
            target = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or target is None or _expected(answer.status, expect):
                return answer
            request = _redirected(request, answer.status, target, self._access)
        raise Invalid(f"more than {MAX_REDIRECTS} redirects, the last one to {masked_url(str(request.url))}")

    async def _ask(self, attempt: Attempt, request: Request) -> Answer:
        """Send it, and tell the breaker what that says of the host."""
        target = _target(attempt, str(request.url))
        try:
            answer = await self._send(attempt, request)
        except UnusableAddress:
            raise  # the task's fault
        except NoAnswer:
            self._heard(target, attempt, Heard.FAILED)
            raise
        except asyncio.CancelledError:
            why = attempt.trouble.result() if attempt.trouble.done() else "the program ends"
            self._heard(target, attempt, _CUT_SHORT.get(why, Heard.NOTHING))
            raise
        failed = answer.status >= 500 and not _expected(answer.status, attempt.assignment.task["expect"])
        self._heard(target, attempt, Heard.FAILED if failed else Heard.WELL)
        return answer

    async def _send(self, attempt: Attempt, request: Request) -> Answer:
        assert self._client is not None
        kept = bytearray()

        async def take(piece: bytes) -> None:
            attempt.write(piece, grace_seconds=0.0)
            await attempt.sink.room()
            if len(kept) <= self._settings.result_limit_bytes:
                kept.extend(piece)

        status, headers = await self._client.send(request, take)
        return Answer(status, headers, bytes(kept))

    def _judge(self, attempt: Attempt, answer: Answer) -> Ending:
        started, now = attempt.started, self._now()
        status = answer.status
        if _expected(status, attempt.assignment.task["expect"]):
            return Ending(Verdict.OK, started, now, result=self._result(answer))
        beginning = answer.body[:ERROR_BYTES].decode(errors="replace").strip()
        message = f"status {status}: {beginning}" if beginning else f"status {status}"
        if 400 <= status < 500 and status not in TRANSIENT:
            return Ending(Verdict.INVALID, started, now, "http_status", message, symptoms=(str(status),))
        pause = retry_after_seconds(answer.headers.get("Retry-After"), self._settings.clock.now())
        return Ending(Verdict.FAILED, started, now, "http_status", message, None, pause, (str(status),))

    def _result(self, answer: Answer) -> str:
        """The status, and the body if it is JSON and small enough to be stored with the run."""
        plain = msgspec.json.encode({"status": answer.status}).decode()
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media_type != "application/json" and not media_type.endswith("+json"):
            return plain
        try:
            whole = msgspec.json.encode({"status": answer.status, "body": msgspec.json.decode(answer.body)})
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return plain
        return whole.decode() if len(whole) <= self._settings.result_limit_bytes else plain


def _target(attempt: Attempt, url: str) -> Target:
    return Target(attempt.assignment.namespace, host_of(url))


def _first_request(assignment: Assignment, access: HttpAccess) -> Request:
    task = assignment.task
    url = access.vet(task["url"])
    method = task["method"]
    if any(name.lower() == "traceparent" for name in task["headers"]):
        assignment = assignment._replace(traceparent=None)  # a trace that the task names itself stands
    headers = {**task["headers"], **context_headers(assignment)}
    body: bytes | None = None
    is_json = False
    if task.get("body") is not None:
        is_json = not isinstance(task["body"], str)
        body = msgspec.json.encode(task["body"]) if is_json else task["body"].encode()
    elif method in _SENT_WITH_PAYLOAD:
        body, is_json = assignment.payload, True
    if is_json and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return Request(method, url, headers, body)


def _redirected(request: Request, status: int, target: str, access: HttpAccess) -> Request:
    """The request to the new address, as RFC 9110 section 15.4 says. The task's headers and body stay with its origin:
    another one gets a bare request, and also what leads back from there."""
    url = access.vet(check_url(urljoin(str(request.url), target)))
    if request.url.scheme == "https" and url.scheme == "http":
        raise AddressRefused(
            f"a redirect leads from https to http, to {host_of(str(url))}; call the address that is meant"
        )
    method, headers, body = request.method, dict(request.headers), request.body
    if status == 303 or (status in (301, 302) and method == "POST"):
        method = "HEAD" if method == "HEAD" else "GET"
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        body = None
    if _origin(url) != _origin(request.url):
        headers, body = {}, None
    return Request(method, url, headers, body)


def _origin(url: URL) -> tuple[str, str, int | None]:
    return url.scheme, plain_host(url), url.port


def _expected(status: int, expect: Sequence[int | str]) -> bool:
    return status in expect or f"{status // 100}xx" in expect


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """The delay of a `Retry-After` header, in seconds or as a date; None if it cannot be read."""
    if value is None:
        return None
    if value.strip().isdecimal() and value.isascii():
        return asked_pause_seconds(float(value))
    try:
        moment = email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return asked_pause_seconds(max(moment - now, 0.0))  # a date that has passed means: now
