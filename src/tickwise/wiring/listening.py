"""The port that the world sees: bound first, and served once everything behind it is there (`serving`)."""

from __future__ import annotations

import socket

from tickwise.domain.errors import Misconfigured


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Bound before anything else starts, so that a port in use costs nothing. `option`: the one that names the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as failure:
        sock.close()
        raise Misconfigured(
            f"port {port} of {host} cannot be opened: {failure.strerror}. Is another tickwise running? "
            f"Choose a free port with {option}, or stop the process that uses it."
        ) from failure
    return sock


def address_of(sock: socket.socket, *, tls: bool = False) -> str:
    """The URL of a bound socket."""
    host, port = sock.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
