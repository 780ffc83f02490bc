"""Commands end quietly where nobody reads any more, and where a person has had enough."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli import interrupts
from tickwise.cli.failures import Exit
from tickwise.cli.main import main
from tickwise.cli.session import Session

READING = (
    ("status",), ("top",), ("jobs", "list"), ("jobs", "show", "nightly"), ("runs", "list"), ("runs", "show", "nightly"),
    ("runs", "logs", "-f", "nightly"), ("runs", "watch"), ("dead-letters", "list"), ("errors", "list"), ("analytics",),
    ("operations", "list"), ("queues", "list"), ("queues", "drain", "a", "--wait"), ("stops", "list"),
    ("tasks", "list"),
    ("channels", "list"), ("notify", "list"), ("alerts", "list"), ("notices", "list"), ("calendars", "list"),
    ("windows", "list"), ("whoami",), ("keys", "list"), ("users", "list"), ("namespaces", "list"), ("roles", "list"),
    ("executors", "list"), ("objectives", "list"), ("audit", "list"), ("run", "--shell", "true", "--wait"),
    ("jobs", "backfill", "nightly", "--from", "2h", "--to", "1h", "--yes"), ("runs", "cancel", "--all", "--yes"),
)  # fmt: skip
"""Commands that ask the server."""
SAYING = (
    ("--help",), ("jobs", "--help"), ("version",), ("completion", "bash"),
    ("schedule", "preview", "* * * * *", "--count", "10000"), ("jobs", "list", "--json"), ("frobnicate",),
)  # fmt: skip
"""Commands that say much or little, and one that is refused."""


@contextmanager
def _waiting_server() -> Iterator[str]:
    """A server that lets a request wait, and presses Ctrl-C for the person who waits."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(30)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - the names are the library's

        def log_message(self, *_arguments: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_ctrl_c_ends_a_command_quietly(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """While the server does not answer: exit code 130, no traceback."""
    with _waiting_server() as address:
        assert Exit.INTERRUPTED == main([*words, "--url", address, "--api-key", "k"])
    told = capsys.readouterr()
    assert ("", False) == (told.out, "Traceback" in told.err or "Error" in told.err)


@pytest.mark.parametrize("words", SAYING, ids=" ".join)
def test_a_reader_that_has_gone_ends_a_command_quietly(words: tuple[str, ...]) -> None:
    """As behind `| head -1` or `2>&1 | true`: without a traceback, which would find no reader, and exit code 0."""
    reads, writes = os.pipe()
    os.close(reads)
    jobs = [{"job_id": str(number), "name": "a" * 100} for number in range(2_000)]
    target = ("--url", "URL", "--api-key", "k") if words[0] == "jobs" else ()
    with serving(Reply(200, jobs)) as server, os.fdopen(writes, "w") as gone, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", gone)
        patched.setattr(sys, "stderr", gone)
        assert Exit.OK == main([*words, *(server.url if word == "URL" else word for word in target)])


def test_output_that_cannot_be_kept_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """As on a full disk: one sentence, and no bug of ours."""
    with open("/dev/full", "w") as full, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        assert Exit.MISCONFIGURED == main(["version"])
    assert "cannot be written: No space left on device" in capsys.readouterr().err


def test_ctrl_c_at_the_end_of_a_command_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While its connections are closed."""
    monkeypatch.setattr(Session, "close", lambda _session: signal.raise_signal(signal.SIGINT))
    assert Exit.INTERRUPTED == main(["version"])
    assert "" == capsys.readouterr().err


def test_an_error_that_a_library_makes_of_ctrl_c_is_none_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module of C that is being imported says that it cannot be imported."""

    def broken(_name: str) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("could not import module _socket")

    monkeypatch.setattr(interrupts, "_presses", [])
    monkeypatch.setattr("tickwise.cli.main.importlib.import_module", broken)
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        interrupts.heed_interrupts()
        assert Exit.INTERRUPTED == main(["version"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert "" == capsys.readouterr().err


IN_PROCESS = """
import os, signal, sys
from tickwise.__main__ import program
from tickwise.cli.interrupts import silent_interrupts
"""


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ("with silent_interrupts():\n  signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
        ("os.close(1); sys.stdout = None; sys.argv[1:] = ['version']; program(); os.fstat(1)", 0),
    ],
    ids=["Ctrl-C before the command", "a closed output"],
)
def test_a_process_says_nothing_where_it_should_not(program: str, wanted: int) -> None:
    """Ctrl-C ends it as the system does; no file takes the place of an output that the caller closed."""
    done = subprocess.run([sys.executable, "-c", IN_PROCESS + program], capture_output=True, text=True, check=False)
    assert (wanted, "", "") == (done.returncode, done.stdout, done.stderr)
