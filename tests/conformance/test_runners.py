"""Every runner keeps the promises of the port, with real processes and a real server; so do the kinds of tasks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast
from uuid import UUID

import pytest
import pytest_asyncio
from aiohttp import web

from tests.support.runners import OWN_USER, gone
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.function import runner
from tickwise.adapters.runner.function.runner import FunctionRunner
from tickwise.adapters.runner.http.runner import HttpRunner
from tickwise.adapters.runner.kinds import FunctionKind, HttpKind, PythonKind, ShellKind
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.scripts.checker import ScriptChecker
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.notices.channels import signing_secret
from tickwise.ports.runner import ScriptCheck, TaskKind
from tickwise.testing.contracts.runner import (
    RunnerAttemptsContract,
    RunnerBlobs,
    RunnerStage,
    RunnerStopsContract,
    RunnerSuite,
    Task,
)
from tickwise.testing.contracts.runner_kinds import TaskKindContract
from tickwise.testing.contracts.runner_output import RunnerOutputContract
from tickwise.testing.contracts.runner_scripts import ScriptCheckContract
from tickwise.testing.world import tasks as simulated
from tickwise.testing.world.loop import WorldLoop
from tickwise.testing.world.process import SimulatedProcess


def _settings(folder: Path, blobs: RunnerBlobs) -> RunnerSettings:
    return RunnerSettings(
        blobs=blobs,
        clock=SystemClock(),
        work_root=folder / "work",
        slots=1,
        kill_grace_seconds=0.2,
        http_allow=("127.0.0.1",),
        run_tasks_as=OWN_USER,
    )


class Files:
    """Tasks that run, as they say themselves: each in a file with the name of its run, which holds a process number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lives"
        self.folder.mkdir()

    def lives(self, run_id: UUID) -> bool:
        try:
            number = (self.folder / str(run_id)).read_text()
        except FileNotFoundError:
            return False
        return number.endswith("\n") and not gone(int(number))


class OwnRunner(RunnerSuite):
    """More than the port asks of a runner."""

    def test_its_labels_are_made_once(self, started: RunnerStage) -> None:
        """They are asked for before every claim."""
        assert started.runner.labels() is started.runner.labels()


# ---------------------------------------------------------------------------------------------- functions


class Function(RunnerSuite):
    @pytest.fixture
    def stage(self, tmp_path: Path, blobs: RunnerBlobs, monkeypatch: pytest.MonkeyPatch) -> RunnerStage:
        # On a busy machine an attempt may wait for longer; that it is then given back has a test of its own.
        monkeypatch.setattr(runner, "MAX_WAIT_SECONDS", 600.0)
        files = Files(tmp_path)
        return RunnerStage(
            runner=FunctionRunner(_settings(tmp_path, blobs), workers=1, modules=["tests.support.functions"]),
            quick={"kind": "function", "name": "tests.nothing"},
            lasting={"kind": "function", "name": "tests.last"},
            stubborn={"kind": "function", "name": "tests.last_stubbornly"},
            failing={"kind": "function", "name": "tests.fail"},
            payload={"folder": str(files.folder), "text": "hello"},
            lives=files.lives,
        )

    @pytest.fixture
    def talking(self) -> Task:
        return {"kind": "function", "name": "tests.speak"}

    @pytest.fixture
    def complaining(self) -> Task:
        return {"kind": "function", "name": "tests.fail"}


class TestFunctionAttempts(Function, OwnRunner, RunnerAttemptsContract):
    pass


class TestFunctionStops(Function, RunnerStopsContract):
    pass


class TestFunctionOutput(Function, RunnerOutputContract):
    says = "hello\nto the other stream\n"


# ---------------------------------------------------------------------------------------------- scripts


class Python(RunnerSuite):
    more: ClassVar[Mapping[str, str]] = {"start": "cold"}

    @pytest.fixture
    def stage(self, tmp_path: Path, blobs: RunnerBlobs) -> RunnerStage:
        files = Files(tmp_path)
        lasting = f"""\
import os, signal, time
if STUBBORN:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open({str(files.folder)!r} + "/" + os.environ["TICKWISE_RUN_ID"], "w") as file:
    print(os.getpid(), file=file)
time.sleep(600)
"""
        return RunnerStage(
            runner=ProcessRunner(_settings(tmp_path, blobs)),
            quick={"kind": "python", "source": "pass", **self.more},
            lasting={"kind": "python", "source": lasting.replace("STUBBORN", "False"), **self.more},
            stubborn={"kind": "python", "source": lasting.replace("STUBBORN", "True"), **self.more},
            failing={"kind": "python", "source": "raise ValueError('no')", **self.more},
            lives=files.lives,
        )

    @pytest.fixture
    def talking(self) -> Task:
        return {"kind": "python", "source": "print('hello')", **self.more}

    @pytest.fixture
    def complaining(self) -> Task:
        return {"kind": "python", "source": "raise ValueError('no')", **self.more}


class TestPythonAttempts(Python, OwnRunner, RunnerAttemptsContract):
    pass


class TestPythonStops(Python, RunnerStopsContract):
    pass


class TestPythonOutput(Python, RunnerOutputContract):
    pass


class WarmPython(Python):
    """Each script is forked from a zygote; the first waits until that is ready."""

    more: ClassVar[Mapping[str, str]] = {"start": "warm"}


class TestWarmPythonAttempts(WarmPython, OwnRunner, RunnerAttemptsContract):
    pass


class TestWarmPythonStops(WarmPython, RunnerStopsContract):
    pass


class TestWarmPythonOutput(WarmPython, RunnerOutputContract):
    pass


class Shell(RunnerSuite):
    @pytest.fixture
    def stage(self, tmp_path: Path, blobs: RunnerBlobs) -> RunnerStage:
        files = Files(tmp_path)
        says = f'echo $$ > "{files.folder}/$TICKWISE_RUN_ID"'
        return RunnerStage(
            runner=ProcessRunner(_settings(tmp_path, blobs)),
            quick={"kind": "shell", "argv": ["true"]},
            lasting={"kind": "shell", "command": f"{says}; exec sleep 600"},
            stubborn={"kind": "shell", "command": f"trap '' TERM; {says}; while :; do sleep 1; done"},
            failing={"kind": "shell", "command": "exit 3"},
            lives=files.lives,
        )

    @pytest.fixture
    def talking(self) -> Task:
        return {"kind": "shell", "command": "echo hello"}

    @pytest.fixture
    def complaining(self) -> Task:
        return {"kind": "shell", "command": "echo no >&2; exit 3"}


class TestShellAttempts(Shell, OwnRunner, RunnerAttemptsContract):
    pass


class TestShellStops(Shell, RunnerStopsContract):
    pass


class TestShellOutput(Shell, RunnerOutputContract):
    pass


# ---------------------------------------------------------------------------------------------- requests


class Server:
    """Answers at once, or never: then the request lives until the other side closes its connection."""

    def __init__(self) -> None:
        self._never = asyncio.Event()
        self._open: dict[UUID, socket.socket] = {}
        self._server: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/{path}", self._answer)
        self._server = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._server.setup()
        await web.TCPSite(self._server, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._server.addresses[0][1]}"

    async def stop(self) -> None:
        self._never.set()
        assert self._server is not None
        await self._server.cleanup()
        for connection in self._open.values():
            connection.close()

    def lives(self, run_id: UUID) -> bool:
        """The kernel knows that a connection is closed before a server has read it."""
        connection = self._open.get(run_id)
        if connection is None:
            return False
        with contextlib.suppress(BlockingIOError):
            return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        return True

    async def _answer(self, request: web.Request) -> web.Response:
        match request.path:
            case "/last":
                assert request.transport is not None
                descriptor = request.transport.get_extra_info("socket").fileno()
                self._open[UUID(request.headers["Tickwise-Run-Id"])] = socket.socket(fileno=os.dup(descriptor))
                await self._never.wait()
                return web.Response()
            case "/fail":
                return web.Response(status=503, text="not now")
            case "/talk":
                return web.Response(text="hello\n")
            case _:
                return web.Response(status=204)


class Http(RunnerSuite):
    @pytest_asyncio.fixture
    async def server(self) -> AsyncIterator[Server]:
        made = Server()
        await made.start()
        yield made
        await made.stop()

    @pytest.fixture
    def stage(self, tmp_path: Path, blobs: RunnerBlobs, server: Server) -> RunnerStage:
        return RunnerStage(
            runner=HttpRunner(_settings(tmp_path, blobs)),
            quick={"kind": "http", "url": f"{server.url}/nothing"},
            lasting={"kind": "http", "url": f"{server.url}/last"},
            failing={"kind": "http", "url": f"{server.url}/fail"},
            lives=server.lives,
        )

    @pytest.fixture
    def talking(self, server: Server) -> Task:
        return {"kind": "http", "url": f"{server.url}/talk"}

    @pytest.fixture
    def complaining(self, server: Server) -> Task:
        return {"kind": "http", "url": f"{server.url}/fail"}


class TestHttpAttempts(Http, OwnRunner, RunnerAttemptsContract):
    pass


class TestHttpStops(Http, RunnerStopsContract):
    pass


class TestHttpOutput(Http, RunnerOutputContract):
    pass


# ---------------------------------------------------------------------------------------------- simulated tasks


class Simulated(RunnerSuite):
    """On the loop of the test, in real time: a host and a process need timers alone. Its tasks write no output."""

    @pytest_asyncio.fixture
    async def stage(self) -> RunnerStage:
        loop = cast("WorldLoop", asyncio.get_running_loop())
        host = simulated.Host("host", loop, Random(0), SystemClock().now() - loop.time())
        kind = simulated.SimulatedTaskKind(simulated.SLOW)
        runner = simulated.SimulatedRunner(
            host, SimulatedProcess(loop, "executor"), kind, places=1, poisoned=lambda: None
        )
        return RunnerStage(
            runner=runner,
            quick={"kind": kind.name, "seconds": 0.0},
            lasting={"kind": kind.name, "seconds": 600.0},
            stubborn={"kind": kind.name, "seconds": 600.0, "stubborn": True},
            failing={"kind": kind.name, "seconds": 0.0, "fails": 1},
            lives=lambda run_id: any(run_id == name[0] for name in host.active),
        )


class TestSimulatedAttempts(Simulated, RunnerAttemptsContract):
    pass


class TestSimulatedStops(Simulated, RunnerStopsContract):
    pass


# ---------------------------------------------------------------------------------------------- kinds, scripts


class TestFunctionKind(TaskKindContract):
    @pytest.fixture
    def kind(self) -> TaskKind:
        return FunctionKind()

    @pytest.fixture
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        return [{"kind": "function", "name": "reports.nightly"}]


class TestPythonKind(TaskKindContract):
    @pytest.fixture
    def kind(self) -> TaskKind:
        return PythonKind()

    @pytest.fixture
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"kind": "python", "source": "print('ü')\n", "requirements": "rich\n"},
            {
                "kind": "python",
                "source": "print(1)\n",
                "python": "/srv/venv/bin/python",
                "start": "cold",
                "directory": "/srv",
                "env": {"A": "1"},
                "files": {"helper.py": "x = 1\n"},
            },
            {"kind": "python", "file": "sha256:" + "a" * 64, "lock": 'lock-version = "1.0"\n'},
        ]


class TestShellKind(TaskKindContract):
    @pytest.fixture
    def kind(self) -> TaskKind:
        return ShellKind()

    @pytest.fixture
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        around = {"directory": "/srv", "env": {"A": "1"}, "files": {"lib.sh": "f() { :; }\n"}}
        return [{"kind": "shell", "command": "set -e\ndf -h\n", **around}, {"kind": "shell", "argv": ["ls", "-l", ""]}]


class TestHttpKind(TaskKindContract):
    @pytest.fixture
    def kind(self) -> TaskKind:
        return HttpKind()

    @pytest.fixture
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        whole = {"method": "post", "headers": {"X-A": "b"}, "body": {"a": [1]}, "expect": ["2xx", 404]}
        proofs = {
            "sign": {"secrets": [signing_secret(b"s" * 32)]},
            "oauth": {"token_url": "https://host/token", "client_id": "me", "client_secret": "secret", "scope": "a b"},
            "tls": {"ca_file": "ca.pem", "minimum_version": "1.3"},
        }
        limits = {"connect_seconds": 5, "first_byte_seconds": 0.5, "answer_bytes": 1_000, "kept_bytes": 10}
        filled = {"url": "https://host/{{ payload.a }}", "query": {"b": "{{ run.id }}"}, "form": {"c": [1, "d", True]}}
        return [
            {"kind": "http", "url": "https://host/"},
            {"kind": "http", "url": "https://[::1]:8443/?x=1", **whole},
            {"kind": "http", "method": "POST", "templates": True, **filled, **proofs, **limits},
        ]


class TestSimulatedKind(TaskKindContract):
    @pytest.fixture
    def kind(self) -> TaskKind:
        return simulated.SimulatedTaskKind(simulated.SLOW)

    @pytest.fixture
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        rare = {"stubborn": True, "deadly": 1, "invalid": True, "asks_seconds": 2.0}
        return [{"kind": "slow", "seconds": 0.5, "fails": 1, "symptom": "2", **rare}]


class TestScriptChecker(ScriptCheckContract):
    @pytest_asyncio.fixture
    async def checker(self) -> AsyncIterator[ScriptCheck]:
        made = ScriptChecker()
        yield made
        await made.close()
