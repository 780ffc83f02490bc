"""The ASGI application: one front for all requests, the hottest route before the framework, the rest by Starlette.

    request ──► Front: request id, key ──┬─ POST /api/v1/jobs, the lists ───► serve(endpoint)
                                         └─ everything else ──► Starlette ──► serve(endpoint)

Starlette finds the route of a request, and starts and stops the application (docs/decisions/0035). The front answers
the hottest routes by itself, with the same `serve`, because Starlette's stack costs about as much as a whole submit.

Invariant: each answer is the route's or a problem, and has an X-Request-Id.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from tickwise.api.auth import CONNECTION, MISSES_PER_SECOND, Authenticator, Line
from tickwise.api.clients.address import ClientAddresses
from tickwise.api.clients.pacing import Pacer, RequestPaces
from tickwise.api.conditions import conditions_of
from tickwise.api.edge.protection import PROTECTION
from tickwise.api.endpoint import (
    BODY_BYTES_MAX,
    NAMESPACE_CHARACTERS_MAX,
    ApiService,
    Call,
    Claim,
    Endpoint,
    Reply,
    replayed,
    tagged,
)
from tickwise.api.health import HealthRoutes
from tickwise.api.negotiation import COMPRESSED_BYTES_MIN, check_accept, encoded, without_suffix
from tickwise.api.openapi import describe
from tickwise.api.pending import unless_awaited
from tickwise.api.problems import (
    MEDIA_TYPE,
    BadParameter,
    Headers,
    MethodNotAllowed,
    NoSuchRoute,
    NotServedHere,
    RateLimited,
    problem_of,
)
from tickwise.api.reading import (
    LARGE_BYTES,
    ClientGone,
    LargeBodies,
    Receive,
    check_media,
    decode,
    decode_query,
    read_body,
)
from tickwise.api.request_log import PER_SECOND, RequestLog
from tickwise.api.request_spans import describe_request, trace_sent
from tickwise.api.resources import RESOURCES
from tickwise.api.spelling import as_spelled
from tickwise.api.wire import API, encode
from tickwise.control.access import admitted
from tickwise.control.audit.denials import Denials
from tickwise.control.control import Control
from tickwise.control.namespaces.directory import NamespaceDirectory
from tickwise.control.receipts import Once
from tickwise.domain.callers import Caller, rights_digest
from tickwise.domain.errors import (
    Bug,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    StoreUnavailable,
    TickwiseError,
    Unavailable,
)
from tickwise.domain.model import Origin, Principal
from tickwise.domain.permissions import EVERYTHING
from tickwise.domain.trace_context import TraceContext
from tickwise.observability.tracing import Tracer
from tickwise.ports.clock import Clock
from tickwise.ports.limits import RateLimits
from tickwise.ports.missing import watch_missing
from tickwise.ports.store import StoreStats
from tickwise.roles.shared.health import HealthCheck

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]
Lifespan = Callable[[], AbstractAsyncContextManager[None]]

EXCHANGE: Final = "tickwise.exchange"
NAMESPACE_HEADER: Final = b"tickwise-namespace"
MISSING_HEADER: Final = b"tickwise-missing-shards"
"""The namespace that a request is about. Left out: that of the key."""
IDEMPOTENCY_KEY_MAX: Final = 255
HOT: Final = frozenset({("POST", f"{API}/jobs"), ("GET", f"{API}/jobs"), ("GET", f"{API}/runs")})
PROBES: Final = frozenset({"/livez", "/readyz", "/healthz"})
"""Not counted: a probe that is refused takes a server out of service that works. Not recorded as traces either."""

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
NOBODY: Final = Principal("nobody", "", frozenset())
"""The principal of open routes."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_JSON_HEADER: Final = (b"content-type", b"application/json")
UNPACED: Final = RequestPaces()
DIRECT: Final = ClientAddresses()
"""No proxy is trusted."""

logger = structlog.get_logger("tickwise.api")


class ExactRoute(Route):
    """A route that ends where its path ends: `$`, with which Starlette's pattern ends, also stands before a line
    break."""

    def __init__(self, path: str, endpoint: Callable[..., Any], *, methods: list[str], name: str) -> None:
        super().__init__(path, endpoint, methods=methods, name=name)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A route that takes no query parameters."""


class NoBody(msgspec.Struct, forbid_unknown_fields=True):
    """A route that takes no body."""


_no_body: Final = msgspec.json.Decoder(NoBody)


class RequestMetrics(Protocol):
    """The log record of each request."""

    def answered(self, route: str, status: int, seconds: float) -> None:
        """`route` is the template of the path."""
        ...


@dataclass(slots=True)
class Exchange:
    """The front's knowledge of a request that it hands on."""

    request_id: str
    headers: Mapping[bytes, bytes]
    principal: Principal | None
    address: str = ""
    """The client's, as `ClientAddresses` tells it; empty if it is unknown."""
    caller: Caller | None = None
    caller_now: Callable[[], Awaitable[Caller]] | None = None
    trace: TraceContext | None = None
    """The trace that the caller sent; if this request is recorded, its own place in the trace."""
    route: str = "unknown"
    paced: Headers = field(default_factory=list)
    """The headers of its answer about rate limits."""
    missing: set[int] = field(default_factory=set)
    """The shards that the answer is without, as they were away (`ports.missing`)."""

    def told(self) -> Headers:
        """The headers that its answer gets here."""
        if not self.missing:
            return self.paced
        return [*self.paced, (MISSING_HEADER, ", ".join(map(str, sorted(self.missing))).encode())]


class Server:
    """Serves endpoints: the same steps for each of them, by any router."""

    def __init__(
        self,
        control: Control,
        clock: Clock,
        limits: Mapping[str, int],
        elsewhere: Mapping[str, ApiService],
        job_bytes_max: int = BODY_BYTES_MAX,
        public_url: str | None = None,
    ) -> None:
        """`limits`: body bytes by operation, where they differ from what the endpoint says. `elsewhere`: the operations
        that other processes serve, and as what. `job_bytes_max`: of one job, also within a batch."""
        self._job_bytes_max = job_bytes_max
        self._public_url = public_url
        self._control = control
        self._clock = clock
        self._limits = limits
        self._elsewhere = elsewhere
        self._in_flight: set[tuple[str, str, str]] = set()
        self._large = LargeBodies()

    async def serve(
        self, endpoint: Endpoint, exchange: Exchange, scope: Scope, receive: Receive, values: Mapping[str, str]
    ) -> Reply:
        """The answer to a request. Raises `TickwiseError`, `ClientGone`."""
        exchange.route = endpoint.path
        if endpoint.name in self._elsewhere:
            raise NotServedHere(self._elsewhere[endpoint.name])
        principal = exchange.principal
        headers = exchange.headers
        if not endpoint.is_open:
            if principal is None:
                raise Bug("a request without a principal came through to a route that needs one")
            if endpoint.permission_names and EVERYTHING not in principal.scopes:
                admitted(principal, *endpoint.permission_names, by_labels=endpoint.by_labels)
            check_accept(headers.get(b"accept"), scope["headers"], endpoint.answer_media)
        call = Call(
            control=self._control,
            principal=principal or NOBODY,
            caller=exchange.caller,
            caller_now=exchange.caller_now,
            request_id=exchange.request_id,
            headers=headers,
            path=scope["path"],
            scheme=scope.get("scheme", "http"),
            public_url=self._public_url,
            address=exchange.address,
            job_bytes_max=self._job_bytes_max,
            path_values=values,
            is_head=scope["method"] == "HEAD",
        )
        text = scope["query_string"]
        if text or endpoint.query is not None:
            call.query_text = text
            call.query = decode_query(text, endpoint.query or NoQuery)
        if endpoint.conditional:
            call.conditions = conditions_of(without_suffix(scope["headers"]))
            if endpoint.method == "GET":
                return tagged(call, await self._answer(endpoint, call))
        if endpoint.method in WITH_BODY:
            limit = self._limits.get(endpoint.name, endpoint.body_bytes_max)
            if limit > LARGE_BYTES:
                with self._large.share() as share:
                    call.body = await read_body(receive, headers, limit, share.take)
                    async with share.turn():
                        return await self._answer_to_body(endpoint, call)
            call.body = await read_body(receive, headers, limit)
            return await self._answer_to_body(endpoint, call)
        return await self._answer(endpoint, call)

    async def _answer_to_body(self, endpoint: Endpoint, call: Call) -> Reply:
        """The answer to a request whose body was read."""
        self._check_body(endpoint, call)
        try:
            if endpoint.method == "POST" and b"idempotency-key" in call.headers and not endpoint.secret:
                return await self._once(endpoint, call)
            return await self._answer(endpoint, call)
        except Refused as refusal:
            if refusal.pointer and endpoint.body is not None:
                refusal.pointer = as_spelled(endpoint.body, call.body, refusal.pointer)
            raise

    async def _answer(self, endpoint: Endpoint, call: Call) -> Reply:
        """The answer of its handler. What it does not find may be a job that is still on its way to the store."""
        try:
            return await endpoint.handler(call)
        except (NotFound, StoreUnavailable) as failure:
            return await unless_awaited(call, endpoint.method, failure)

    def _check_body(self, endpoint: Endpoint, call: Call) -> None:
        if endpoint.body is None:
            if call.body.strip():
                # The empty object that many clients send with every POST says nothing, and is refused nothing.
                check_media(call.headers)
                decode(_no_body, call.body)
            call.body = b""
        elif call.body or not endpoint.optional_body:
            call.media = check_media(call.headers, endpoint.media)

    async def _once(self, endpoint: Endpoint, call: Call) -> Reply:
        """Under an Idempotency-Key: the stored answer, or a new one that is stored."""
        key = _idempotency_key(call.headers[b"idempotency-key"])
        # Path and query are part of what was asked, so they are part of what must be the same. So are the rights of the
        # caller: an answer shows what these let it see, and must not show it to the caller that may do less by now.
        rights = b"" if call.caller is None else rights_digest(call.caller.grants)
        asked = call.path.encode() + b"?" + call.query_text + b"\0" + rights + call.body
        once = Once(f"{endpoint.method} {endpoint.path}", key, hashlib.sha256(asked).digest())
        claim = Claim(call.principal, once)
        place = (call.principal.answers_name, once.route, key)
        if place in self._in_flight:
            raise Conflict(
                "a request with this Idempotency-Key is under way; wait for its answer",
                code="idempotency_key_in_flight",
            )
        self._in_flight.add(place)
        try:
            call.claim = claim
            call.headers_of = endpoint.headers_of
            if endpoint.keyed:
                return await self._answer(endpoint, call)
            found = await self._control.receipts.find(claim.who, once)
            if found is not None:
                return replayed(call, found)
            answer = await self._answer(endpoint, call)
            return answer if endpoint.foretold else await self._kept(call, claim, answer)
        finally:
            self._in_flight.discard(place)

    async def _kept(self, call: Call, claim: Claim, answer: Reply) -> Reply:
        """The answer to keep, or the one that was kept before."""
        try:
            earlier = await self._control.receipts.keep(claim.who, claim.once, answer.status, answer.body)
        except Unavailable as away:
            # Its effect is there, and the same again is the same once: without a receipt it is done anew.
            logger.warning("receipt_not_kept", request_id=call.request_id, reason=away.detail)
            return answer
        return answer if earlier is None or earlier.body == answer.body else replayed(call, earlier)


def _idempotency_key(text: bytes) -> str:
    key = text.strip().decode("latin-1")
    if not 0 < len(key) <= IDEMPOTENCY_KEY_MAX or not key.isascii() or not key.isprintable():
        raise BadParameter(
            f"an Idempotency-Key has 1 to {IDEMPOTENCY_KEY_MAX} printable ASCII characters", parameter="Idempotency-Key"
        )
    return key


class Front:
    """The outermost application."""

    def __init__(
        self,
        inner: ASGI,
        server: Server,
        endpoints: Iterable[Endpoint],
        *,
        authenticator: Authenticator,
        directory: NamespaceDirectory,
        denials: Denials,
        clock: Clock,
        metrics: RequestMetrics,
        pacer: Pacer,
        addresses: ClientAddresses,
        log: RequestLog,
        tracer: Tracer | None,
    ) -> None:
        self._inner = inner
        self._tracer = tracer
        self._log = log
        self._server = server
        self._authenticator = authenticator
        self._directory = directory
        self._denials = denials
        self._clock = clock
        self._metrics = metrics
        self._pacer = pacer
        self._addresses = addresses
        known = {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints}
        # Unique without a draw for each: ids of requests are names, not secrets.
        self._prefix = clock.random_bytes(8).hex()
        self._count = itertools.count(1)
        self._hot = {place: known[place] for place in HOT}
        opened = [endpoint for endpoint in known.values() if endpoint.is_open]
        # By method too: the path of one may be a value in the path of another, which is not open.
        self._open = frozenset(
            (method, endpoint.path)
            for endpoint in opened
            for method in (endpoint.method, *(["HEAD"] if endpoint.method == "GET" else []))
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = dict(scope["headers"])
        exchange = Exchange(self._request_id(headers), headers, None, self._addresses.of(scope))
        exchange.missing = watch_missing()
        if b"traceparent" in headers:
            exchange.trace = trace_sent(scope["headers"])
        tracer = None if scope["path"] in PROBES else self._tracer
        if tracer is None or (span := tracer.request(scope["method"], exchange.trace)) is None:
            await self._exchanged(exchange, scope, receive, send)
            return
        exchange.trace = span.context
        with tracer.within(span):
            status = await self._exchanged(exchange, scope, receive, send)
            describe_request(
                span,
                method=scope["method"],
                route=exchange.route,
                status=status,
                request_id=exchange.request_id,
                principal=exchange.principal,
            )

    async def _exchanged(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request; the status, 499 if its client was gone before the answer."""
        began = self._clock.monotonic()
        headers = exchange.headers
        line = scope.pop(CONNECTION, None)  # taken out: a connection and its scope would keep each other in memory
        status = 499  # as nginx calls it: the client was gone before the answer
        path = scope["path"]
        try:
            is_open = (scope["method"], path) in self._open
            if self._pacer.counts_addresses and not (is_open and path in PROBES):
                await self._pacer.admit_address(exchange.address, exchange.paced)
            if not is_open:
                said = headers.get(b"authorization")
                caller = self._authenticator.remembered(said)
                if caller is None:
                    caller = await self._authenticator.caller(said, exchange.address, line)
                named = headers.get(NAMESPACE_HEADER)
                place = None if named is None else _namespace(named)
                exchange.caller = caller
                exchange.caller_now = partial(self._caller_now, said, exchange.address)
                try:
                    principal = self._directory.known(caller, place) or await self._directory.principal(caller, place)
                except Forbidden:
                    exchange.principal = caller.principal().with_origin(exchange.address, exchange.request_id)
                    raise
                exchange.principal = principal.with_origin(exchange.address, exchange.request_id, exchange.trace)
                rate = self._directory.rate(exchange.principal.namespace)
                if self._pacer.counts_callers or rate is not None:
                    await self._pacer.admit(exchange.principal, exchange.paced, rate)
            endpoint = self._hot.get((scope["method"], path))
            if endpoint is not None:
                found = await self._server.serve(endpoint, exchange, scope, receive, {})
            else:
                structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
                if exchange.trace is not None:
                    structlog.contextvars.bind_contextvars(trace_id=exchange.trace.trace_text)
                scope[EXCHANGE] = exchange
                found = None
                status = await self._pass_on(scope, receive, send)
        except ClientGone:
            found = None
        except Exception as failure:  # noqa: BLE001 - at any failure the caller gets a problem as the answer
            found = problem_answer(failure, exchange.request_id)
        if found is not None:
            status = found.status
            if len(found.body) >= COMPRESSED_BYTES_MIN:
                found = await encoded(found, headers)
            await _send(send, line, found, exchange, head=scope["method"] == "HEAD")
        seconds = self._clock.monotonic() - began
        self._metrics.answered(exchange.route, status, seconds)
        if status in (401, 403) and not is_open:
            self._note_refusal(exchange, status, f"{scope['method']} {exchange.route}")
        if not is_open or status >= 400:
            self._log.answered(
                method=scope["method"],
                route=exchange.route,
                status=status,
                seconds=seconds,
                request_id=exchange.request_id,
                principal=exchange.principal,
                address=exchange.address,
                trace=exchange.trace,
            )
        return status

    async def _caller_now(self, said: bytes | None, address: str) -> Caller:
        return self._authenticator.remembered(said) or await self._authenticator.caller(said, address)

    def _note_refusal(self, exchange: Exchange, status: int, route: str) -> None:
        """Note a refused request for the audit log."""
        if exchange.principal is None:
            self._denials.stranger(Origin(exchange.address, exchange.request_id), status)
        else:
            self._denials.denied(exchange.principal, route, status)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Let the framework answer; the status that it sent."""
        sent = 0
        exchange: Exchange = scope[EXCHANGE]
        known = (b"x-request-id", exchange.request_id.encode())

        async def send_with_id(message: MutableMapping[str, Any]) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                sent = message["status"]
                message["headers"] = [*message["headers"], known, *exchange.told()]
            await send(message)

        try:
            await self._inner(scope, receive, send_with_id)
        except TickwiseError as failure:
            if not sent:
                raise
            # The server cuts the connection, so the client sees that its answer is no whole one.
            logger.warning("answer_cut", request_id=exchange.request_id, code=failure.code, reason=failure.detail)
        return sent

    def _request_id(self, headers: Mapping[bytes, bytes]) -> str:
        said = headers.get(b"x-request-id")
        if said is not None and _REQUEST_ID.fullmatch(said):
            return said.decode()
        return f"{self._prefix}{next(self._count):08x}"


def _namespace(text: bytes) -> str:
    """The namespace of the header. Raises `BadParameter`."""
    name = text.strip().decode("latin-1")
    if not 0 < len(name) <= NAMESPACE_CHARACTERS_MAX or not name.isascii() or not name.isprintable():
        raise BadParameter(
            f"the name of a namespace has 1 to {NAMESPACE_CHARACTERS_MAX} printable ASCII characters",
            parameter="Tickwise-Namespace",
        )
    return name


def problem_answer(failure: Exception, request_id: str) -> Reply:
    """Any failure in our shape. An internal error is logged with its trace, an outage with its cause."""
    if not isinstance(failure, TickwiseError) or problem_of(failure)[0].status == 500:
        logger.error("request_failed", request_id=request_id, exc_info=failure)
    elif isinstance(failure, Unavailable) and not isinstance(failure, RateLimited):
        logger.warning("request_put_off", request_id=request_id, code=failure.code, reason=failure.detail)
    known = failure if isinstance(failure, TickwiseError) else Bug(repr(failure))
    problem, headers = problem_of(known, request_id)
    return Reply(problem.status, encode(problem), headers, MEDIA_TYPE.encode())


async def _send(send: Send, line: Line | None, answer: Reply, exchange: Exchange, *, head: bool) -> None:
    """Send an answer: in one piece where the connection is ours, else as ASGI has it."""
    headers = [
        _JSON_HEADER if answer.media == b"application/json" else (b"content-type", answer.media),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", exchange.request_id.encode()),
        *exchange.told(),
        *answer.headers,
        *PROTECTION,
    ]
    body = b"" if head else answer.body
    if line is not None:
        await line.answer(answer.status, headers, body)
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# ------------------------------------------------------------------------------------------ the application


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def create_app(
    control: Control,
    *,
    clock: Clock,
    metrics: RequestMetrics,
    render_metrics: Callable[[StoreStats | None], bytes],
    metrics_media: str,
    lifespan: Lifespan = _nothing,
    serves: Collection[ApiService] = tuple(ApiService),
    accepts: Callable[[], None] | None = None,
    limits: RateLimits,
    paces: RequestPaces = UNPACED,
    addresses: ClientAddresses = DIRECT,
    body_limit_bytes: int = 1 << 20,
    batch_body_limit_bytes: int = 32 << 20,
    wrong_keys_per_second_most: float = MISSES_PER_SECOND,
    log_requests_per_second: int = PER_SECOND,
    late_limit_seconds: float = 60.0,
    health: HealthCheck | None = None,
    tracer: Tracer | None = None,
    public_url: str | None = None,
) -> ASGI:
    """The application over a control that is started (by `lifespan`, or before).

    `render_metrics` gives the text of `/metrics`, with the store's own figures if it could be reached. `serves`: the
    parts of the API that are served here; the others' routes are 421. `accepts` and `health`: see `HealthRoutes`.
    `limits` counts requests, and `paces` says which ones. `addresses` tells the address of a client. `tracer` records
    traces. `public_url`: the address of the pages; None: that at which a client asks.
    """
    probes = HealthRoutes(
        control,
        clock,
        late_limit_seconds=late_limit_seconds,
        metrics=render_metrics,
        metrics_media=metrics_media,
        accepts=accepts,
        health=health,
    )
    served = [*RESOURCES, *probes.endpoints()]
    endpoints = [*served, describe(served, control.task_kinds)]
    usual = [endpoint.name for endpoint in endpoints if endpoint.body_bytes_max == BODY_BYTES_MAX]
    sizes = dict.fromkeys(usual, body_limit_bytes) | {"createJobs": batch_body_limit_bytes}
    elsewhere = {each.name: each.service for each in endpoints if each.service and each.service not in serves}
    server = Server(control, clock, sizes, elsewhere, body_limit_bytes, public_url)
    framework = _framework(server, endpoints, lifespan)
    return Front(
        framework,
        server,
        endpoints,
        authenticator=Authenticator(
            control.credentials.find,
            clock,
            stale_seconds=control.credentials.stale_seconds,
            news=control.credentials.news,
            bearer=control.bearers.find,
            fault=control.credentials.fault,
            misses_per_second=wrong_keys_per_second_most,
        ),
        directory=control.directory,
        denials=control.denials,
        clock=clock,
        metrics=metrics,
        pacer=Pacer(limits, paces),
        addresses=addresses,
        log=RequestLog(clock.monotonic, log_requests_per_second),
        tracer=tracer,
    )


def _framework(server: Server, endpoints: list[Endpoint], lifespan: Lifespan) -> Starlette:
    """Starlette with a route for every endpoint. Each GET has its HEAD (RFC 9110, section 9.3.2)."""

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        async with lifespan():
            yield

    framework = Starlette(
        routes=[
            ExactRoute(_pattern(each), _route(server, each), methods=[each.method], name=each.name)
            for each in endpoints
        ],
        exception_handlers={HTTPException: _framework_refused},
        lifespan=life,
    )
    framework.router.redirect_slashes = False
    return framework


def _pattern(endpoint: Endpoint) -> str:
    """The path of a route as the framework reads it."""
    return (
        endpoint.path.replace(f"{{{endpoint.rest}}}", f"{{{endpoint.rest}:path}}") if endpoint.rest else endpoint.path
    )


def _route(server: Server, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        scope = request.scope
        exchange: Exchange = scope[EXCHANGE]
        try:
            answer = await server.serve(endpoint, exchange, scope, request.receive, request.path_params)
        except ClientGone:
            return Response(status_code=499)
        except Exception as failure:  # noqa: BLE001 - at any failure the caller gets a problem as the answer
            answer = problem_answer(failure, exchange.request_id)
        head = request.method == "HEAD"
        if head and answer.stream is not None:
            # Begun, so that it can end: what it holds is given back where its generator is left.
            await anext(answer.stream, None)
            await answer.stream.aclose()
        return _response(await encoded(answer, exchange.headers), head=head)

    return route


def _response(answer: Reply, *, head: bool) -> Response:
    if answer.stream is not None and not head:
        response: Response = StreamingResponse(answer.stream, answer.status)
        response.raw_headers += [(b"content-type", answer.media), *answer.headers, *PROTECTION]
        return response
    response = Response(answer.body, answer.status)
    media = [] if answer.status == 304 else [(b"content-type", answer.media)]
    response.raw_headers += [*media, *answer.headers, *PROTECTION]
    if head:
        response.body = b""  # its length stays in the headers
        if any(name == b"content-length" for name, _ in answer.headers):  # of a file that was not read
            response.raw_headers.remove((b"content-length", b"0"))
    return response


def _allowed(request: Request) -> str:
    """The methods of every route under this path; the framework names those of one."""
    found: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


async def _framework_refused(request: Request, failure: Exception) -> Response:
    """Refusals of the framework: paths and methods that are not served."""
    exchange: Exchange = request.scope[EXCHANGE]
    status = failure.status_code if isinstance(failure, HTTPException) else 500
    if status == 405:
        known: TickwiseError = MethodNotAllowed(_allowed(request))
    else:
        known = NoSuchRoute(f"nothing is served under {request.scope['path'][:200]!r}")
    return _response(problem_answer(known, exchange.request_id), head=request.method == "HEAD")
