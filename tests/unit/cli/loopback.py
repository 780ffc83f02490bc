"""A real HTTP server on loopback that answers what a test tells it, for what a healthy server never does."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Reply(NamedTuple):
    """One answer; `broken` closes the connection instead. `cut` resets it in the midst of the body, `hangs_up` closes
    it after the answer without a word of that before, and `hangs` answers nothing until the server ends."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - a reply is made once and never changed
    broken: bool = False
    cut: bool = False
    hangs_up: bool = False
    hangs: bool = False


class Loopback:
    """The server's script and memory. The last reply is given again and again."""

    def __init__(self, url: str, replies: list[Reply]) -> None:
        self.url = url
        self.replies = replies
        self.received: list[Received] = []


@contextmanager
def serving(*replies: Reply, port: int = 0) -> Iterator[Loopback]:
    """A server that gives these replies in turn, at any free port if none is named."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            loopback.received.append(Received(self.command, self.path, dict(self.headers), body))
            reply = loopback.replies.pop(0) if len(loopback.replies) > 1 else loopback.replies[0]
            if reply.hangs:
                over.wait()
            if reply.broken or reply.hangs:
                self.close_connection = True
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response_only(reply.status)  # `send_response` adds a date of its own
            for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if reply.cut else content)
            if reply.cut:
                self.wfile.flush()
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            self.close_connection = reply.cut or reply.hangs_up

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names are the library's

        def log_message(self, *_arguments: Any) -> None:
            """Silence: tests look at `received`."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    loopback = Loopback(f"http://127.0.0.1:{server.server_address[1]}", list(replies))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield loopback
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
