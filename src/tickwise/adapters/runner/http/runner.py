"""Runs `http` tasks: one request, whose answer says how the attempt ended.

2xx (or what `expect` names)   success; a small JSON answer is the result's `body`
other 4xx                      the request is wrong: no retry, except for 408, 409, 425 and 429
anything else                  a failure that may be tried again, no earlier than `Retry-After` says

    values of the run ──composing──► request ──tokens──► its token ──connections──► answer ──answers──► output, result

Where a task may call is settled in `access`, for every hop of a chain of redirects, and for the address of tokens. A
redirect to another origin receives nothing of the task: no headers, no context, no body, no certificate.

A host that keeps failing the tasks of a namespace is left alone by them for a while (`circuit_breakers`): they are
given back as if they had not been offered, which counts no attempt. Of the tasks of one namespace, only so many call a
host at once as the setting says; the others wait without a slot, and their `timeout_seconds` has not begun.
"""

from __future__ import annotations

import asyncio
import email.utils
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess
from tickwise.adapters.outgoing.exchange import Answer, NoAnswer, Request, TlsFailure, UnusableAddress
from tickwise.adapters.runner.calls.credentials import OAUTH
from tickwise.adapters.runner.calls.reasons import ANSWER_LIMIT, TEMPLATE_ERROR, TLS_ERROR, TOKEN_ERROR
from tickwise.adapters.runner.calls.rendering import TemplateValueError
from tickwise.adapters.runner.calls.tls_fields import TLS
from tickwise.adapters.runner.checks import asked_pause_seconds
from tickwise.adapters.runner.http.answers import AnswerReader, AnswerTooLarge
from tickwise.adapters.runner.http.circuit_breakers import Breakers, Heard, Target
from tickwise.adapters.runner.http.composing import first_request, redirected
from tickwise.adapters.runner.http.connections import NamespaceClients
from tickwise.adapters.runner.http.secret_fields import with_secret_fields
from tickwise.adapters.runner.http.tls_contexts import TlsContexts
from tickwise.adapters.runner.http.tokens import TokenAsk, TokenFailure, Tokens
from tickwise.adapters.runner.kinds import HttpKind
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.domain.errors import Invalid
from tickwise.domain.hosts import host_of
from tickwise.domain.masking import masked_url
from tickwise.domain.retry import CIRCUIT_OPEN
from tickwise.ports.runner import Ending, Reports, Verdict

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

UNAUTHORIZED = 401

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
        self._breakers = breakers or Breakers()
        self._contexts = TlsContexts(settings.http_tls_folder)
        self._tokens = Tokens(self._access, settings.clock)
        self._clients = NamespaceClients(self._access, connections=2 * settings.slots, resolver=resolver)
        self._calling: Counter[Target] = Counter()

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        import tickwise.adapters.outgoing.client  # noqa: F401  # aiohttp: loaded now, and not by the first attempt

        await super().start(reports, now)

    async def release_resources(self) -> None:
        await self._tokens.close()
        await self._clients.close()

    def admit(self, _attempt: Attempt) -> bool:
        target, most = _own_target(_attempt), self._settings.http_per_host
        if most is not None and self._calling[target] >= most:
            return False
        self._calling[target] += 1
        return True

    async def perform(self, attempt: Attempt) -> Ending:
        target = _own_target(attempt)
        try:
            return await self._performed(attempt, target)
        finally:
            self._calling[target] -= 1
            if not self._calling[target]:
                del self._calling[target]

    async def _performed(self, attempt: Attempt, target: Target) -> Ending:
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
        def failed(verdict: Verdict, reason: str, error: str) -> Ending:
            return Ending(verdict, attempt.started, self._now(), reason, error)

        try:
            async with self._clients.client(attempt.assignment.namespace) as client:
                answer = await self._answer(attempt, client)
        except TlsFailure as error:
            return failed(Verdict.FAILED, TLS_ERROR, str(error))
        except NoAnswer as error:
            return failed(Verdict.FAILED, "http_error", f"no answer: {error}")
        except AnswerTooLarge as error:
            return failed(Verdict.FAILED, ANSWER_LIMIT, str(error))
        except TokenFailure as error:
            return failed(Verdict.INVALID if error.is_final else Verdict.FAILED, TOKEN_ERROR, str(error))
        except TemplateValueError as error:
            return failed(Verdict.INVALID, TEMPLATE_ERROR, str(error))
        except AddressRefused as error:
            return failed(Verdict.INVALID, "address_refused", str(error))
        except Invalid as error:
            return failed(Verdict.INVALID, "invalid", error.detail)
        return self._judge(attempt, answer)

    async def _answer(self, attempt: Attempt, client: HttpClient) -> Answer:
        """The answer to the task's request; with a token that was not accepted, to the same one with a new token."""
        assignment = with_secret_fields(attempt.assignment)
        request = first_request(assignment, self._access, now=self._settings.clock.now())
        if (tls := assignment.task.get(TLS)) is not None:
            own = await self._contexts.of(assignment.namespace, tls, with_certificate=True)
            elsewhere = await self._contexts.of(assignment.namespace, tls, with_certificate=False)
            request = replace(request, tls=own, tls_elsewhere=elsewhere)
        if (oauth := assignment.task.get(OAUTH)) is None:
            return await self._followed(attempt, client, request)
        ask = TokenAsk(assignment.namespace, oauth, client, request.tls_elsewhere)
        token = await self._tokens.token(ask)
        dropped = None if _expected(UNAUTHORIZED, assignment.task["expect"]) else UNAUTHORIZED
        answer = await self._followed(attempt, client, _bearing(request, token), dropped=dropped)
        if answer.status != dropped:
            return answer
        self._tokens.forget(ask, token)
        token = await self._tokens.token(ask)
        return await self._followed(attempt, client, _bearing(request, token))

    async def _followed(
        self, attempt: Attempt, client: HttpClient, request: Request, *, dropped: int | None = None
    ) -> Answer:
        """The last answer of the chain of redirects. One with the status `dropped` leaves no output. Raises `Invalid`
        if the chain leads nowhere."""
        expect = attempt.assignment.task["expect"]
        for _ in range(MAX_REDIRECTS + 1):
            reader = AnswerReader(attempt, result_bytes=self._settings.result_limit_bytes, dropped=dropped)
            answer = await self._ask(attempt, client, request, reader)
            target = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or target is None or _expected(answer.status, expect):
                return answer
            request = redirected(request, answer.status, target, self._access)
        raise Invalid(f"more than {MAX_REDIRECTS} redirects, the last one to {masked_url(str(request.url))}")

    async def _ask(self, attempt: Attempt, client: HttpClient, request: Request, reader: AnswerReader) -> Answer:
        """Send it, and tell the breaker what that says of the host."""
        target = _target(attempt, str(request.url))
        try:
            status, headers = await client.send(request, reader.take)
        except UnusableAddress:
            raise  # the task's fault
        except AnswerTooLarge:
            self._heard(target, attempt, Heard.WELL)
            raise
        except NoAnswer:
            self._heard(target, attempt, Heard.FAILED)
            raise
        except asyncio.CancelledError:
            why = attempt.trouble.result() if attempt.trouble.done() else "the program ends"
            self._heard(target, attempt, _CUT_SHORT.get(why, Heard.NOTHING))
            raise
        failed = status >= 500 and not _expected(status, attempt.assignment.task["expect"])
        self._heard(target, attempt, Heard.FAILED if failed else Heard.WELL)
        return Answer(status, headers, reader.beginning)

    def _judge(self, attempt: Attempt, answer: Answer) -> Ending:
        started, now = attempt.started, self._now()
        status = answer.status
        if _expected(status, attempt.assignment.task["expect"]):
            return Ending(Verdict.OK, started, now, result=self._result(answer))
        shown, forms = answer.body[:ERROR_BYTES], attempt.sink.forms
        # Now: cut off within a character, its end is none of a value any more.
        beginning = (shown if forms is None else forms.masked(shown)).decode(errors="replace").strip()
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


def _own_target(attempt: Attempt) -> Target:
    """The host that the task names. A template stands behind it, so it is known before the values are."""
    return _target(attempt, attempt.assignment.task["url"])


def _bearing(request: Request, token: str) -> Request:
    return replace(request, headers={**request.headers, "Authorization": f"Bearer {token}"})


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
