"""A list of destinations from the command line to the task, and what the terminal shows of it."""

from __future__ import annotations

import socket
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.services import packages
from tests.support.local_up import Local, local_up

NAME = socket.gethostname().lower()


class _Well(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"well")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """The port of a server of HTTP on the address of this machine's name."""
    with ThreadingHTTPServer((socket.gethostbyname(NAME), 0), _Well) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield int(found.server_address[1])
        found.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, server: int) -> Iterator[Local]:
    """An installation whose operator allows the server."""
    packages.program("bwrap")
    folder = tmp_path_factory.mktemp("up")
    with local_up(
        folder, "--database", "memory://", TICKWISE_ISOLATION="sandbox", TICKWISE_HTTP_ALLOW=f"{NAME}:{server}"
    ) as up:
        yield up


def test_a_followed_run_shows_what_was_blocked_and_how_to_allow_it(local: Local, server: int, tmp_path: Path) -> None:
    """The line is an option that can be copied; with it, the proxy lets the task through."""
    script = tmp_path / "reads.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import urllib.request
            print(urllib.request.urlopen("http://{NAME}:{server}/", timeout=60).read().decode())
            """
        )
    )
    run = ("run", script, "--retries", "0", "--now", "--follow")
    blocked = local.tickwise(*run, "--allow-network", "api.example.com:443")
    option = f"--allow-network {NAME}:{server}"
    assert (1, 1) == (blocked.code, blocked.out.count(f"network: blocked {NAME}:{server}; allow it with {option}\n"))
    assert "HTTP Error 403" in blocked.out
    allowed = local.tickwise(*run, *option.split())
    assert (0, "well\n") == (allowed.code, allowed.out)


def test_without_a_list_a_sandbox_has_no_network(local: Local, server: int) -> None:
    """Its programs fail at once."""
    command = f"curl -sS --max-time 5 http://{NAME}:{server}/"
    run = ("run", "--shell", command, "--isolation", "sandbox", "--retries", "0", "--now", "--follow")
    assert 1 == local.tickwise(*run).code
