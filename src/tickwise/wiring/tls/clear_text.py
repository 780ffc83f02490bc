"""Says where keys and passwords would travel unencrypted between machines."""

from __future__ import annotations

import ipaddress

import structlog

from tickwise.config import Settings

CURE = (
    "set TICKWISE_TLS_CERT_FILE and TICKWISE_TLS_KEY_FILE, or TICKWISE_TLS_ENDS_AT=proxy where a proxy ends TLS and "
    "the way from it is private (docs/how-to/tls.md)"
)


logger = structlog.get_logger("tickwise.wiring")


def warn_of_clear_text(settings: Settings) -> None:
    """At the start of an API."""
    said = clear_text(settings)
    if said is not None:
        logger.warning("clear_text", detail=said, advice=CURE)


def clear_text(settings: Settings) -> str | None:
    """A sentence if the API of these settings can be reached from other machines without TLS; else None."""
    if settings.tls_cert_file is not None and "api" in settings.tls_ports:
        return None
    if settings.tls_ends_at == "proxy" or is_loopback(settings.host):
        return None
    return f"the API listens on {settings.host} without TLS: keys and passwords can be read on their way"


def is_loopback(host: str) -> bool:
    """Check whether only this machine reaches that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
