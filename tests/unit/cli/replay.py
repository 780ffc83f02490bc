"""A server on loopback that gives the answers of a real one again, by method and address.

real server ──► recording proxy ──► answers.json ──► this server ──► the command line, at the time of the recording
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """The status, the media type, the `Link` and the body of an answer."""

    status: int
    media: str
    link: str
    body: str


Answers = dict[str, Answer]
"""By `GET /api/v1/jobs?limit=21`."""


@contextmanager
def _serving(answer: Callable[[BaseHTTPRequestHandler], Answer]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = answer(self)
            content = found.body.encode()
            self.send_response(found.status)
            headers = {"Content-Type": found.media, "Content-Length": str(len(content)), "Link": found.link}
            for name, value in headers.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Silence: a test says what was asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def recording(url: str, key: str, answers: Answers) -> Iterator[str]:
    """A server that asks the one at `url`, and keeps what it answers."""

    def answer(asked: BaseHTTPRequestHandler) -> Answer:
        request = urllib.request.Request(url + asked.path, headers={"Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request) as reply:
                found = Answer(
                    reply.status, reply.headers["Content-Type"], reply.headers.get("Link", ""), reply.read().decode()
                )
        except urllib.error.HTTPError as error:
            found = Answer(error.code, error.headers["Content-Type"], "", error.read().decode())
        answers[f"{asked.command} {asked.path}"] = found
        return found

    with _serving(answer) as address:
        yield address


@contextmanager
def replaying(answers: Answers) -> Iterator[str]:
    """A server with these answers. What it does not know it refuses by its address, which the command then shows."""

    def answer(asked: BaseHTTPRequestHandler) -> Answer:
        name = f"{asked.command} {asked.path}"
        return answers.get(name) or Answer(418, "application/json", "", f'{{"detail": "not recorded: {name}"}}')

    with _serving(answer) as address:
        yield address
