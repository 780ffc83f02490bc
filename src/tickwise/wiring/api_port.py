"""The port of the API: the API as it is shipped, behind the web server. Only a process that serves it loads both."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, MutableMapping
from functools import partial
from typing import Any

from tickwise.api.app import create_app
from tickwise.api.clients.address import ClientAddresses
from tickwise.api.clients.pacing import Pacer, RequestPaces
from tickwise.api.edge.protection import PROTECTION
from tickwise.api.endpoint import ApiService
from tickwise.api.wire import API
from tickwise.config import Settings
from tickwise.control.control import Control
from tickwise.observability.metrics import CONTENT_TYPE
from tickwise.ports.limits import Pace
from tickwise.ports.store import StoreStats
from tickwise.roles.shared.health import HealthCheck
from tickwise.wiring.health_port import reachable
from tickwise.wiring.keys.page_link import WEB
from tickwise.wiring.runtime import Runtime
from tickwise.wiring.serving import limits_of, serving
from tickwise.wiring.tls.certificates import Certificates, tls_of


def api_needs_broker(settings: Settings) -> bool:
    """Check whether requests are submitted to the broker: the API then depends on the broker, and not on the store."""
    return settings.ingest == "buffered" and ApiService.JOBS in settings.api_serve


@contextlib.asynccontextmanager
async def api_port(
    runtime: Runtime,
    control: Control,
    sock: socket.socket,
    health: HealthCheck,
    certificates: Certificates | None = None,
) -> AsyncIterator[None]:
    """Served while the block lasts."""
    tls = tls_of(runtime.settings, certificates, "api")
    async with serving(_front(runtime, control, health), [sock], limits_of(runtime.settings), tls=tls):
        try:
            yield
        finally:
            # Before the server waits for requests under way: a stream would never end by itself.
            control.live.end_streams()


def _front(runtime: Runtime, control: Control, health: HealthCheck) -> Any:
    """The API, and the pages where they are served."""
    app, settings = _app(runtime, control, health), runtime.settings
    if WEB not in settings.api_serve:
        return WithoutPages(app, settings.public_url)
    from tickwise.wiring.pages import SharedPort, pages_of  # templates: only a process that serves them

    # The same counts as those of the API.
    pacer = Pacer(runtime.coordination.limits, _paces(settings))
    return SharedPort(app, pages_of(runtime, control, pacer, _addresses(settings)))


class WithoutPages:
    """An ASGI application that serves no pages: a browser that opens `/` is told where to go."""

    def __init__(self, api: Any, public_url: str | None) -> None:
        pages = public_url or "another process serves them: tickwise api --serve web"
        self._api = api
        self._text = (
            "This process serves the API of Tickwise, and no pages.\n\n"
            f"  pages        {pages}\n"
            f"  API          {API}, with a key; described at /openapi.json\n"
            "  health       /livez, /readyz, /healthz\n"
        ).encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer `GET /`, and hand on every other request."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] not in ("GET", "HEAD"):
            await self._api(scope, receive, send)
            return
        length = str(len(self._text)).encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), *PROTECTION]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else self._text})


def _app(runtime: Runtime, control: Control, health: HealthCheck) -> Any:
    """The API as it is shipped."""
    metrics, settings, broker = runtime.metrics, runtime.settings, runtime.broker

    def render(stats: StoreStats | None) -> bytes:
        metrics.observe_stats(stats)
        return metrics.render()

    return create_app(
        control,
        clock=runtime.clock,
        metrics=metrics,
        render_metrics=render,
        metrics_media=CONTENT_TYPE,
        serves=[ApiService(name) for name in settings.api_serve if name != WEB],
        accepts=partial(reachable, broker) if broker is not None and api_needs_broker(settings) else None,
        body_limit_bytes=settings.body_limit_bytes,
        batch_body_limit_bytes=settings.batch_body_limit_bytes,
        wrong_keys_per_second_most=settings.wrong_keys_per_second_most,
        log_requests_per_second=settings.log_requests_per_second,
        limits=runtime.coordination.limits,
        paces=_paces(settings),
        addresses=_addresses(settings),
        health=health,
        tracer=runtime.tracer,
        public_url=settings.public_url,
    )


def _addresses(settings: Settings) -> ClientAddresses:
    return ClientAddresses(settings.trusted_proxies, settings.client_address_header)


def _paces(settings: Settings) -> RequestPaces:
    return RequestPaces(
        key=_pace(settings.requests_per_second_most),
        address=_pace(settings.address_requests_per_second_most),
        namespace=_pace(settings.namespace_requests_per_second_most),
    )


def _pace(rate: float) -> Pace | None:
    return Pace.of_requests(rate) if rate else None
