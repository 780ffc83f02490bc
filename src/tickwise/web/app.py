"""The application of the pages: each request goes through the same steps.

    request ──► pace ──► form from our own page? ──► cookie ──► caller ──► namespace ──► permission ──► view ──► headers
                                    │                   └─ none: /login, and what was typed goes with it
                                    └─ no: refused
    /status/SLUG ──► what is kept of a public status page (`status`): for everybody, at no cost

Invariant: each answer is a page or a file with the headers of `headers`, and has an X-Request-Id.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tickwise.control.access import access_of, admitted
from tickwise.control.control import Control
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Bug, Forbidden, Malformed, NotFound, TickwiseError, TooLarge, Unavailable
from tickwise.domain.model import Origin, Principal
from tickwise.domain.stops import Stop
from tickwise.ports.clock import Clock
from tickwise.web import forms
from tickwise.web.assets import PREFIX, Assets, takes_gzip
from tickwise.web.cookies import Cookies
from tickwise.web.failures import failure_of
from tickwise.web.headers import PRIVATE, PROTECTION
from tickwise.web.page import WebPage
from tickwise.web.sessions import Sessions
from tickwise.web.status.board import StatusBoard
from tickwise.web.status.port import PATH, StatusPort
from tickwise.web.templating import Templates, compressed
from tickwise.web.transport import SAFE, Transport, is_host
from tickwise.web.views import PAGES
from tickwise.web.views.sign_in import asked_to_sign_in
from tickwise.web.visit import NAMESPACE, LocalFolder, Visit
from tickwise.web.vouching.headers import ProxyHeaders

UNKNOWN: Final = "unknown"
"""The name of the page that answers for paths without a page."""
FORM_BYTES_MAX: Final = 1 << 20
FORM_FIELDS_MAX: Final = 200
NAMESPACE_CHARACTERS_MAX: Final = 200
SPACES_MAX: Final = 100
"""Namespaces in the switch; all others are reached by their address."""

STOPS_MAX: Final = 101
"""All stops of a namespace that can stand, and one."""

Scope = MutableMapping[str, Any]

logger = structlog.get_logger("tickwise.web")


class Paces(Protocol):
    """The paces of requests, shared with the API."""

    async def admit_address(self, address: str) -> None:
        """Raises `Busy` or `Unavailable` for one too many."""
        ...

    async def admit(self, principal: Principal) -> None:
        """Raises `Busy` or `Unavailable` for one too many."""
        ...


class Answered(Protocol):
    """Told of each answer, for metrics and the log."""

    def __call__(
        self, request: Request, route: str, status: int, seconds: float, who: Principal | None, origin: Origin
    ) -> None:
        """`route` is the template of the path."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesConfig:
    """The parts of the process that the pages need."""

    address: Callable[[Mapping[str, Any]], str]
    """Tells the address of a client from the scope of its request."""
    paces: Paces
    answered: Answered
    transport: Transport
    local_folder: LocalFolder = lambda _base, _address: None
    proxies: ProxyHeaders = field(default_factory=ProxyHeaders)
    """Those that sign people in before the pages."""


class Pages:
    """The pages as an ASGI application."""

    def __init__(self, control: Control, clock: Clock, config: PagesConfig, pages: Iterable[WebPage] = PAGES) -> None:
        self._control = control
        self._clock = clock
        self._config = config
        self._assets = Assets()
        self._templates = Templates(self._assets)
        self._sessions = Sessions(control.browsers.find, clock)
        self._cookies = Cookies(lambda: control.context.store.upkeep.cluster_id)
        self._prefix = clock.random_bytes(8).hex()
        self._count = itertools.count(1)
        board = StatusBoard(
            control.status_pages, clock, now=control.context.time.at_best, render=self._templates.render
        )
        self._status = StatusPort(board, self._templates.render)
        self._framework = Starlette(
            routes=[
                Route(PATH, self._public, methods=["GET"], name="status"),
                *(Route(each.path, self._route(each), methods=[each.method], name=each.name) for each in pages),
            ],
            exception_handlers={HTTPException: self._unrouted},
        )
        self._framework.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve a request. For the rest of ASGI there is nothing to do."""
        if scope["type"] != "http":
            return
        if not all(is_host(value.decode("latin-1")) for name, value in scope["headers"] if name == b"host"):
            await Response("the Host header is no name of a host\n", 400, PROTECTION, "text/plain")(
                scope, receive, send
            )
            return
        try:
            await self._framework(scope, receive, send)
        except TickwiseError as failure:
            # Of a download, whose status is out: any other failure has become a page. The server cuts the connection.
            logger.warning("page_cut", code=failure.code, reason=failure.detail)

    def _route(self, page: WebPage) -> Callable[[Request], Awaitable[Response]]:
        async def route(request: Request) -> Response:
            return await self._serve(page, request)

        return route

    async def _public(self, request: Request) -> Response:
        """A status page, which is for everybody."""
        began, origin = self._clock.monotonic(), self._origin(request)
        response = await self._status.answer(request)
        response.headers["x-request-id"] = origin.request_id
        seconds = self._clock.monotonic() - began
        self._config.answered(request, PATH, response.status_code, seconds, None, origin)
        return response

    def _origin(self, request: Request) -> Origin:
        return Origin(self._config.address(request.scope), f"{self._prefix}{next(self._count):08x}")

    async def _unrouted(self, request: Request, error: Exception) -> Response:
        """A path that no page has, or a static file."""
        if request.url.path.startswith(PREFIX) and request.method in SAFE:
            response = self._assets.response(request)
            response.headers.update(PROTECTION)
            return response
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = f"there is no page {request.url.path[:200]!r}"
        if status == 405:
            detail = f"{request.url.path[:200]!r} is not for {request.method}"
        return await self._serve(
            WebPage(method=request.method, path=UNKNOWN, name=UNKNOWN, handler=_missing(detail)), request
        )

    async def _serve(self, page: WebPage, request: Request) -> Response:
        began = self._clock.monotonic()
        origin = self._origin(request)
        visit = Visit(
            control=self._control,
            templates=self._templates,
            sessions=self._sessions,
            cookies=self._cookies,
            transport=self._config.transport,
            local_folder=self._config.local_folder,
            proxies=self._config.proxies,
            request=request,
            origin=origin,
            is_stream=page.is_stream,
        )
        try:
            response = await self._answer(page, visit)
        except ClientDisconnect:
            response = Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - at any failure the visitor gets a page as the answer
            response = self._failed(visit, error)
        self._finish(page, visit, response)
        status, seconds = response.status_code, self._clock.monotonic() - began
        self._config.answered(request, page.path, status, seconds, visit.principal, origin)
        if status == 403 and visit.principal is not None:
            self._control.denials.denied(visit.principal, f"{page.method} {page.path}", status)
        return response

    async def _answer(self, page: WebPage, visit: Visit) -> Response:
        request = visit.request
        await self._config.paces.admit_address(visit.origin.address)
        self._config.transport.check_form(request)
        if request.method not in SAFE:
            visit.form = await _form(request)
        visit.cookie = self._cookies.read(request)
        if visit.cookie is not None and self._config.transport.is_private(request):
            found = await self._sessions.find(visit.cookie, used=visit.is_document)
            if found is not None and self._config.proxies.vouches(request, found.provider):
                visit.caller = found.caller
        if visit.caller is None:
            if page.is_open:
                return await page.handler(visit)
            if visit.cookie is not None:
                self._control.denials.stranger(visit.origin, 401)
            return asked_to_sign_in(visit)
        visit.principal = await self._principal(visit)
        await self._config.paces.admit(visit.principal)
        if visit.is_document:
            visit.spaces, visit.stops = await asyncio.gather(self._spaces(visit), self._stops(visit))
        for method in page.control:
            access = access_of(method)
            if access is None:
                raise Bug(f"{page.name} names a method that declares no permission")
            if access.permissions:
                admitted(visit.principal, *access.permissions, by_labels=access.by_labels)
        if page.name != UNKNOWN and not page.takes_any_query:
            forms.check_names(visit.query, page.query)
        return await page.handler(visit)

    async def _principal(self, visit: Visit) -> Principal:
        """The caller in the namespace that the address names. Raises `Forbidden`, `NotFound`."""
        caller = visit.caller
        if caller is None:
            raise Bug("nobody is signed in")
        origin = visit.origin
        # A failure has a page of its own, which says who is signed in.
        visit.principal = caller.principal().with_origin(*origin)
        named = visit.query.get(NAMESPACE) or None
        if named is not None and len(named) > NAMESPACE_CHARACTERS_MAX:
            raise NotFound("there is no namespace with so long a name")
        return (await self._control.directory.principal(caller, named)).with_origin(*origin)

    async def _spaces(self, visit: Visit) -> Sequence[str]:
        """The namespaces that the visitor can switch to, by name."""
        caller, service = visit.caller, self._control.namespaces
        if caller is None:
            return ()
        names = {caller.home, visit.who.namespace, *(name for name in caller.namespaces if name != INSTALLATION)}
        if INSTALLATION in caller.namespaces and visit.may(type(service).page):
            names |= {row.name for row in await service.page(visit.who, None, SPACES_MAX)}
        return sorted(names)[:SPACES_MAX]

    async def _stops(self, visit: Visit) -> Sequence[Stop]:
        """The stops that are in force in the namespace, the newest first. A page without them is better than none."""
        service = self._control.stops
        if not visit.may(type(service).page):
            return ()
        try:
            found = await service.page(visit.who, standing=True, before=None, limit=STOPS_MAX)
        except (Forbidden, Unavailable):
            return ()
        return [stop for stop in found if stop.is_on(visit.now)]

    def _failed(self, visit: Visit, error: Exception) -> Response:
        failure = failure_of(error)
        if failure.status == 500:
            logger.error("page_failed", request_id=visit.origin.request_id, exc_info=error)
        elif isinstance(error, Unavailable) and failure.status == 503:
            logger.warning("page_put_off", request_id=visit.origin.request_id, reason=error.detail)
        pointer = error.pointer if isinstance(error, TickwiseError) and hasattr(error, "pointer") else None
        passing = isinstance(error, Unavailable) and visit.request.method not in SAFE
        typed = forms.kept_fields(visit.form) if passing else {}
        values = {"failure": failure, "pointer": pointer, "typed": typed}
        return visit.page("failure.html", values, failure.status)

    def _finish(self, page: WebPage, visit: Visit, response: Response) -> None:
        response.headers["x-request-id"] = visit.origin.request_id
        response.headers.update({name: value for name, value in PROTECTION.items() if name not in response.headers})
        if "cache-control" not in response.headers:
            response.headers.update(PRIVATE)
        ended = visit.cookie is not None and visit.caller is None and response.status_code in (401, 303)
        if ended and not page.is_open:
            self._cookies.drop(response)
        if response.media_type == "text/html" and takes_gzip(visit.request):
            compressed(response)


def _missing(detail: str) -> Callable[[Visit], Awaitable[Response]]:
    async def missing(_visit: Visit) -> Response:
        raise NotFound(detail)

    return missing


async def _form(request: Request) -> Mapping[str, str]:
    """The fields of a form. Raises `TooLarge`, `Malformed`."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            raise TooLarge(f"a form has {FORM_BYTES_MAX >> 20} MiB at most")
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and media != "application/x-www-form-urlencoded":
        raise Malformed("send the form as application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        raise Malformed(f"the form is no UTF-8, or has more than {FORM_FIELDS_MAX} fields") from None
    return dict(pairs)
