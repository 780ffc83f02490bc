"""The name of the host that an http task calls: the key of its circuit, and what people read of it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

USUAL_PORTS: Final = {"http": 80, "https": 443}


def host_of(url: str) -> str:
    """The host as people write it, with the port if it is not the usual one of the scheme. Raises `ValueError` for what
    is no URL."""
    parts = urlsplit(url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return name if parts.port in (None, USUAL_PORTS.get(parts.scheme)) else f"{name}:{parts.port}"
