"""A whole Tickwise of its own for the tests of a module, as a person starts it: `tickwise up` in a process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.roles import Forked, fork, may_fork
from tickwise.cli.main import main
from tickwise.sdk.client import Client, ServerTrust

ROOT = Path(__file__).resolve().parents[2]
MAX_READY_SECONDS = 100.0
ENDED_SECONDS = 60.0
"""The database writes what it has, and tasks may use the grace that they have."""
OWN_TASKS = {"TICKWISE_RUN_TASKS_AS": "root"} if os.geteuid() == 0 else {}
"""For tests whose tasks work on files of the user who runs the tests. As shipped, root's tasks are other users."""


@dataclass(frozen=True)
class Ran:
    """The result of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one JSON value."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Local:
    """A running `up`."""

    data_dir: Path
    url: str
    key: str
    pid: int
    environ: Mapping[str, str]

    def tickwise(self, *arguments: str | Path, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Ran:
        """One command line, finding this `up` as a person's would. In this process, which saves its imports."""
        environ = {**self.environ, "TICKWISE_DATA_DIR": str(self.data_dir), **(env or {})}
        return call_command(arguments, environ, stdin=stdin)

    def tickwise_with(self, *arguments: str | Path, **environ: str) -> Ran:
        """Run the command line in a process of its own, in another environment."""
        return run_command(arguments, {**self.environ, "TICKWISE_DATA_DIR": str(self.data_dir), **environ})


def environment(**more: str) -> dict[str, str]:
    """The caller's environment without what would point commands elsewhere or colour their output. Tasks are plain
    processes, for many work on files of a test: sandboxes have tests of their own, which say so."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TICKWISE_", "_TICKWISE"))}
    return {
        **{name: value for name, value in kept.items() if name != "COLUMNS"},
        "TZ": "UTC",
        "TICKWISE_ISOLATION": "process",
        **more,
    }


def run_command(arguments: Sequence[str | Path], environ: Mapping[str, str], *, stdin: str | None = None) -> Ran:
    """`tickwise ARGUMENTS`."""
    done = subprocess.run(
        [sys.executable, "-m", "tickwise", *map(str, arguments)],
        env=dict(environ), input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True, text=True, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def call_command(arguments: Sequence[str | Path], environ: Mapping[str, str], *, stdin: str | None = None) -> Ran:
    """`tickwise ARGUMENTS`, without a process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patched:
        for name in set(os.environ) - set(environ):
            patched.delenv(name)
        for name, value in environ.items():
            patched.setenv(name, value)
        time.tzset()
        patched.chdir(ROOT)
        patched.setattr(sys, "stdin", io.StringIO(stdin or ""))
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    time.tzset()
    return Ran(int(code), *(stream.buffer.getvalue().decode() for stream in (out, err)))


@contextmanager
def local_up(data_dir: Path, *options: str, **environ: str) -> Iterator[Local]:
    """`tickwise up` on a data folder, in the foreground of a process; stopped by SIGTERM at the end."""
    env = environment(**environ)
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "test-up.log"
    arguments = ["up", "--data-dir", str(data_dir), "--port", "0", *options]
    process: subprocess.Popen[bytes] | Forked
    with log.open("wb") as output:
        if may_fork(arguments, env):
            process = fork(arguments, env, output)
        else:
            process = subprocess.Popen(
                [sys.executable, "-m", "tickwise", *arguments],
                env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=ROOT,
            )  # fmt: skip
    try:
        yield _await_ready(process, data_dir, env, log)
    finally:
        process.terminate()
        try:
            process.wait(ENDED_SECONDS)
        except subprocess.TimeoutExpired:
            # Everything that it started is in its session.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


def _await_ready(process: subprocess.Popen[bytes] | Forked, data_dir: Path, env: dict[str, str], log: Path) -> Local:
    end = time.monotonic() + MAX_READY_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(f"`up` ended with {process.returncode}:\n{log.read_text(errors='replace')}")
        try:
            found = json.loads((data_dir / "client.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = {}
        if found.get("pid") == process.pid:
            trust = ServerTrust(found["ca_file"], found["server_name"])
            with Client(found["url"], found["key"], trust=trust) as client:
                if client.ready():
                    return Local(data_dir, found["url"], found["key"], process.pid, env)
        time.sleep(0.05)  # noqa: TID251 - between two looks at another process, as `eventually` does for coroutines
    raise AssertionError(f"`up` was not ready:\n{log.read_text(errors='replace')}")
