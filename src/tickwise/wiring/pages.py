"""The pages beside the API on one port: what a path begins with decides."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from ipaddress import ip_network
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.requests import Request

from tickwise.api.clients.address import ClientAddresses
from tickwise.api.clients.pacing import Pacer
from tickwise.api.request_log import RequestLog
from tickwise.config import Settings, default_data_dir
from tickwise.control.control import Control
from tickwise.domain.model import Origin, Principal
from tickwise.ports.clock import Clock
from tickwise.web.app import Pages, PagesConfig
from tickwise.web.transport import Transport
from tickwise.web.visit import LocalFolder
from tickwise.web.vouching.headers import ProxyHeaders
from tickwise.wiring.runtime import Runtime
from tickwise.wiring.tls.clear_text import is_loopback

API_PATHS: Final = ("/api/", "/livez", "/readyz", "/healthz", "/metrics", "/openapi.json", "/.well-known/")
"""All else is of the pages."""


class SharedPort:
    """An ASGI application of two."""

    def __init__(self, api: Any, pages: Any) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Hand a request to the one that it is for; what is no request to the API."""
        is_page = scope["type"] == "http" and not scope["path"].startswith(API_PATHS)
        await (self._pages if is_page else self._api)(scope, receive, send)


class _Paces:
    """The paces of the API, for pages: a quota of a namespace counts here too."""

    def __init__(self, pacer: Pacer, control: Control) -> None:
        self._pacer = pacer
        self._directory = control.directory

    async def admit_address(self, address: str) -> None:
        """Raises `RateLimited`."""
        if self._pacer.counts_addresses:
            await self._pacer.admit_address(address, [])

    async def admit(self, principal: Principal) -> None:
        """Raises `RateLimited`."""
        rate = self._directory.rate(principal.namespace)
        if self._pacer.counts_callers or rate is not None:
            await self._pacer.admit(principal, [], rate)


def _local_folder(settings: Settings) -> LocalFolder:
    """For visitors on this machine: the data folder in which commands find this server, if it is that of a local `up`.
    Others are not told where files of the server are."""
    file = settings.data_dir.absolute() / "client.json"
    told = "" if settings.data_dir.absolute() == default_data_dir().absolute() else str(settings.data_dir.absolute())

    def folder(base: str, address: str | None) -> str | None:
        if address is None or not (is_loopback(address) and is_loopback(urlsplit(base).hostname or "")):
            return None
        try:
            named = urlsplit(json.loads(file.read_text(encoding="utf-8"))["url"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # no `up` of this folder serves
        return told if named.port == urlsplit(base).port else None

    return folder


def _proxy_headers(settings: Settings) -> ProxyHeaders:
    """The headers of proxies that sign people in, and the addresses on whose connections these count."""
    return ProxyHeaders(
        networks=tuple(ip_network(entry) for entry in settings.proxy_sign_in_from),
        name=settings.proxy_user_header,
        email=settings.proxy_email_header,
        groups=settings.proxy_groups_header,
    )


def pages_of(runtime: Runtime, control: Control, pacer: Pacer, addresses: ClientAddresses) -> Pages:
    """The pages as they are shipped."""
    settings: Settings = runtime.settings
    clock: Clock = runtime.clock
    metrics = runtime.metrics
    log = RequestLog(clock.monotonic, settings.log_requests_per_second)

    def answered(
        request: Request, route: str, status: int, seconds: float, who: Principal | None, origin: Origin
    ) -> None:
        metrics.answered(route, status, seconds)
        log.answered(
            method=request.method,
            route=route,
            status=status,
            seconds=seconds,
            request_id=origin.request_id,
            principal=who,
            address=origin.address,
        )

    config = PagesConfig(
        address=addresses.of,
        paces=_Paces(pacer, control),
        answered=answered,
        transport=Transport(tls_at_proxy=settings.tls_ends_at == "proxy", public_url=settings.public_url),
        local_folder=_local_folder(settings),
        proxies=_proxy_headers(settings),
    )
    return Pages(control, clock, config)
