"""Tells notification rules of the installation that the certificate of this process ends soon."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.roles.shared.expiries import LOOK_SECONDS, CertificateExpiry
from tickwise.roles.shared.service import wait_for
from tickwise.wiring.runtime import Runtime
from tickwise.wiring.tls.certificates import Certificates

logger = structlog.get_logger("tickwise.wiring")


@contextlib.asynccontextmanager
async def certificate_expiry(runtime: Runtime, certificates: Certificates | None) -> AsyncIterator[None]:
    """The certificate in force is looked at each hour while the block lasts; without one nothing is done."""
    if certificates is None:
        yield
        return
    stop = asyncio.Event()
    looking = asyncio.create_task(_look(runtime, certificates, stop))
    try:
        yield
    finally:
        stop.set()
        await looking


async def _look(runtime: Runtime, certificates: Certificates, stop: asyncio.Event) -> None:
    expiry = CertificateExpiry(runtime.store)
    while not stop.is_set():
        loaded = certificates.loaded
        try:
            await expiry.look(loaded.name or certificates.certificate.name, loaded.ends_at)
        except Unavailable as away:
            logger.warning("certificate_expiry_unnoted", error=away.detail)
        await wait_for(stop, LOOK_SECONDS)
