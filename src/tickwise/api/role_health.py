"""The small port of a role without an API: liveness, readiness, the health of each part, and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tickwise.api.edge.protection import PROTECTION
from tickwise.api.problems import MEDIA_TYPE, MethodNotAllowed, NoSuchRoute, detail_of, problem_of
from tickwise.api.wire import HealthDetails, HealthSummary, PartDetails, encode
from tickwise.domain.errors import TickwiseError
from tickwise.roles.shared.health import HealthReport, PartStatus

logger = structlog.get_logger("tickwise.api")


def create_health_app(
    check: Callable[[], Awaitable[None]],
    report: Callable[[], Awaitable[HealthReport]],
    render: Callable[[], Awaitable[bytes]],
    media_type: str,
) -> Starlette:
    """`check` raises a `TickwiseError` if the role cannot work; `report` says how each part is; `render` gives the
    metrics as `media_type`."""

    async def livez(_: Request) -> Response:
        return _protected(PlainTextResponse("alive\n"))

    async def readyz(_: Request) -> Response:
        try:
            await check()
        except TickwiseError as failure:
            logger.warning("not_ready", code=failure.code, reason=failure.detail)
            return _protected(PlainTextResponse(f"not ready: {detail_of(failure)}\n", 503))
        return _protected(PlainTextResponse("ready\n"))

    async def healthz(_: Request) -> Response:
        found = await report()
        body = encode(details_of(found))
        return _protected(Response(body, http_status_of(found), media_type="application/json"))

    async def metrics(_: Request) -> Response:
        return _protected(Response(await render(), media_type=media_type))

    routes = {"/livez": livez, "/readyz": readyz, "/healthz": healthz, "/metrics": metrics}
    return Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()],
        exception_handlers={HTTPException: _refused},
    )


async def _refused(request: Request, failure: Exception) -> Response:
    """A path or a method that is not served, as a problem."""
    known: TickwiseError = NoSuchRoute(f"nothing is served under {request.url.path[:200]!r}")
    if isinstance(failure, HTTPException) and failure.status_code == 405:
        known = MethodNotAllowed("GET, HEAD")
    problem, headers = problem_of(known)
    response = Response(encode(problem), problem.status, media_type=MEDIA_TYPE)
    response.raw_headers += headers
    return _protected(response)


def _protected(response: Response) -> Response:
    response.raw_headers += PROTECTION
    return response


# ------------------------------------------------------------------------------------------ the report on the wire


def summary_of(report: HealthReport) -> HealthSummary:
    """The part that anybody may know: no number, no name."""
    return HealthSummary(
        status=report.status.value, parts={name: part.status.value for name, part in report.parts.items()}
    )


def details_of(report: HealthReport) -> HealthDetails:
    """Each part with its sentence."""
    return HealthDetails(
        status=report.status.value,
        parts={
            name: PartDetails(status=part.status.value, detail=part.sentence) for name, part in report.parts.items()
        },
    )


def http_status_of(report: HealthReport) -> int:
    """503 if a part is failing, so that a monitor that reads no body sees it; a degraded one works."""
    return 503 if report.status is PartStatus.FAILING else 200
