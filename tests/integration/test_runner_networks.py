"""The runner of processes gives each task with a list of destinations a network of its own, through one real proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.services import packages
from tests.support.waiting import eventually
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.process.sandbox.network import namespace_program
from tickwise.adapters.runner.process.sandbox.network.gate import (
    LOST,
    PROXY_PROGRAM,
    NetworkGate,
    NetworkTraffic,
    command,
)
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of

pytestmark = pytest.mark.asyncio
NAME = socket.gethostname()
"""A name that the servers of names of this machine know; it leads to this machine."""


class Greeter:
    """A server that says what it was sent."""

    def __init__(self) -> None:
        self.connections = 0
        self.said = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        """Listen at a free port of the address of `NAME`."""
        address = await asyncio.to_thread(socket.gethostbyname, NAME)
        self._server = await asyncio.start_server(self._serve, address, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(OSError):
            while said := await reader.read(100):
                self.said += 1
                writer.write(b"you said " + said)
                await writer.drain()
        writer.close()

    async def stop(self) -> None:
        """End it and its connections."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


class Shop:
    """A runner that allows tasks to reach the greeter."""

    def __init__(self, folder: Path) -> None:
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        self.greeter = Greeter()
        self.runner: ProcessRunner
        self._folder = folder

    async def open(self) -> None:
        packages.program("bwrap")
        await self.greeter.start()
        self.runner = ProcessRunner(
            RunnerSettings(
                blobs=self.blobs, clock=SystemClock(), work_root=self._folder / "work", kill_grace_seconds=0.2,
                http_allow=(self.entry,), isolation="sandbox",
            )
        )  # fmt: skip
        await self.runner.start(self.listener, time.time)

    @property
    def entry(self) -> str:
        return f"{NAME.lower()}:{self.greeter.port}"

    def launch(self, source: str, *destinations: str, **changes: Any) -> Assignment:
        """A script with this list."""
        confinement = Confinement(Isolation.SANDBOX, tuple(destinations))
        task = {"kind": "python", "source": textwrap.dedent(source)}
        given = assignment(task, confinement=confinement, **changes)
        self.runner.launch([given])
        return given

    async def ended(self, given: Assignment) -> tuple[Ending, str]:
        """The ending and the log of a run."""
        ending = await self.listener.ending_of(given)
        return ending, await log_of(self.blobs, given)


def proxies(of: int | None = None) -> list[psutil.Process]:
    """The proxies of a process."""
    found = []
    for child in psutil.Process(of).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if PROXY_PROGRAM in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """Below a folder that nobody else can enter, as a data folder of root's is."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    made = Shop(private)
    await made.open()
    yield made
    root = made.runner._folder.root if made.runner._folder is not None else None
    await made.runner.close()
    await made.greeter.stop()
    assert proxies() == []
    if root is not None and not root.is_relative_to(private):
        shutil.rmtree(root)


async def test_a_task_reaches_its_list_and_nothing_else(shop: Shop) -> None:
    """And its log says once what is missing."""
    given = shop.launch(
        f"""
        import json, os, socket
        found = []
        for host, port in (("{NAME}", {shop.greeter.port}), ("other.example.org", 443), ("other.example.org", 443)):
            try:
                with socket.create_connection((host, port), 60) as one:
                    one.sendall(b"hello")
                    found.append(one.recv(100).decode())
            except OSError as error:
                found.append(type(error).__name__)
        print("done", os.environ["HTTPS_PROXY"])
        json.dump(found, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
        """,
        shop.entry,
    )
    ending, log = await shop.ended(given)
    assert ending.verdict is Verdict.OK, (ending, log)
    assert json.loads(ending.result or "") == ["you said hello", "gaierror", "gaierror"]
    line = "network: blocked the name other.example.org; allow it with --allow-network other.example.org:PORT\n"
    assert log.count(line) == 1
    assert "done http://127.0.0.1:1080\n" in log
    assert ending.usage is not None
    assert len("hello" + "you said hello") == ending.usage.network_bytes


async def test_limits_hold_around_a_network(shop: Shop) -> None:
    """A task with limits starts behind a gate; so does one with a list."""
    source = f"import socket; print(socket.create_connection(('{NAME}', {shop.greeter.port}), 60).send(b'x'))"
    limits = TaskLimits(10_000, cpu_seconds=20.0, memory_bytes=256 << 20, processes=8)
    ending, log = await shop.ended(shop.launch(source, shop.entry, limits=limits))
    assert (ending.verdict, log) == (Verdict.OK, "1\n")


async def test_a_host_that_makes_no_such_network_gives_the_run_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another executor may have it; here it never runs with more of a network, or with less."""
    program = tmp_path / "namespace_program.py"
    source = Path(namespace_program.__file__).read_text()
    program.write_text(source.replace("CLONE_NEWUSER = 0x1000_0000", "CLONE_NEWUSER = 0x0000_0080"))
    monkeypatch.setattr(namespace_program, "__file__", str(program))
    ending, log = await shop.ended(shop.launch("print(1)", shop.entry))
    assert (ending.verdict, ending.reason, log) == (Verdict.UNOFFERED, "isolation_missing", "")
    assert "cannot hold a sandbox to a list of destinations" in (ending.error or "")


async def test_each_run_has_its_own_list(shop: Shop) -> None:
    """Two at once, through one proxy; one without a list has no network."""
    source = f"""
    import socket
    with socket.create_connection(("{NAME}", {shop.greeter.port}), 60) as one:
        one.sendall(b"hello")
        print(one.recv(100).decode())
    """
    first, second, third = shop.launch(source, shop.entry), shop.launch(source, "other.example.org:443"), assignment(
        {"kind": "python", "source": textwrap.dedent(source)}, confinement=Confinement(Isolation.SANDBOX)
    )  # fmt: skip
    shop.runner.launch([third])
    endings = [(await shop.ended(each))[0] for each in (first, second, third)]
    assert [Verdict.OK, Verdict.FAILED, Verdict.FAILED] == [each.verdict for each in endings], endings
    assert shop.greeter.connections == 1
    assert len(proxies()) == 1


async def test_the_first_runs_may_begin_at_one_moment(shop: Shop) -> None:
    """Each lays the files of a network if they are not there: none meets half of what another one lays."""
    networks = shop.runner._networks
    for _ in range(20):
        for laid in networks._folder.glob("network-*"):
            laid.unlink()
        assert [None] * 8 == await asyncio.gather(*(asyncio.to_thread(networks._reason_against) for _ in range(8)))


async def test_the_proxy_killed_closes_the_network_and_opens_nothing(shop: Shop) -> None:
    """What is open breaks, what is new is refused, the log says so; the next run has a network again."""
    given = shop.launch(
        f"""
        import socket, sys
        one = socket.create_connection(("{NAME}", {shop.greeter.port}), 60)
        one.sendall(b"hello")
        print(one.recv(100).decode())
        one.sendall(b"ready")
        def tried(work):
            try:
                return work() or "ended"
            except OSError as error:
                return type(error).__name__
        broken = tried(lambda: [*iter(lambda: one.recv(100), b"")] and "")
        print("broken:", broken in ("ended", "ConnectionResetError"))
        print("new:", tried(lambda: socket.create_connection(("127.64.0.1", {shop.greeter.port}), 60)))
        print("name:", tried(lambda: socket.getaddrinfo("{NAME}", 1)))
        print("around:", tried(lambda: socket.create_connection(("192.0.2.1", 1), 60)))
        """,
        shop.entry,
    )

    await eventually(lambda: shop.greeter.said == 2)
    (proxy,) = proxies()
    proxy.send_signal(signal.SIGKILL)
    ending, log = await shop.ended(given)
    assert ending.verdict is Verdict.OK, (ending, log)
    assert "broken: True\nnew: ConnectionRefusedError\nname: gaierror\naround: OSError\n" in log.replace(
        f"network: {LOST}\n", ""
    )
    assert log.count(f"network: {LOST}\n") == 1
    again = shop.launch(
        f"import socket; socket.create_connection(('{NAME}', {shop.greeter.port}), 60).sendall(b'x')", shop.entry
    )
    ending, log = await shop.ended(again)
    assert ending.verdict is Verdict.OK, (ending, log)
    assert proxy.pid not in [each.pid for each in proxies()]


async def test_a_storm_of_broken_connections_hurts_nobody(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    """Each is broken off at another step. The proxy goes on, says nothing to the executor's log, and holds nothing."""
    given = shop.launch(
        f"""
        import socket, struct, threading
        name, port, proxy = "{NAME}", {shop.greeter.port}, ("127.0.0.1", 1080)
        head = b" HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
        tries = [
            ((name, port), b""), ((name, port), b"x" * 300_000), (proxy, b"\\x05\\x01\\x00\\x05"), (proxy, b"junk"),
            (proxy, b"CONNECT {NAME}:{shop.greeter.port}" + head), (proxy, b"CONNECT other.test:1" + head),
            (proxy, b"GET http://{NAME}:{shop.greeter.port}/" + head), (("127.0.0.1", 53), b"\\x00\\x50" + b"x" * 90),
        ]
        def storm(first):
            for number in range(first, first + 32):
                where, what = tries[number % len(tries)]
                try:
                    with socket.create_connection(where, 10) as one:
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        one.settimeout(0.5)
                        one.sendall(what)
                        if number % 3 == 0:
                            one.recv(1)
                except OSError:
                    pass
        threads = [threading.Thread(target=storm, args=(first,)) for first in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        with socket.create_connection((name, port), 60) as one:
            one.sendall(b"hello")
            print(one.recv(100).decode())
        """,
        shop.entry,
    )
    ending, log = await shop.ended(given)
    assert (ending.verdict, "you said hello\n" in log) == (Verdict.OK, True), (ending, log)
    (proxy,) = proxies()
    await eventually(
        lambda: not [each for each in proxy.net_connections() if each.status != "NONE"], what="it is empty"
    )
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up")
async def test_the_proxy_has_no_right_and_no_secret(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root's child it is a user that nothing else is, and its environment is empty."""
    monkeypatch.setenv("TICKWISE_DATABASE_URL", "postgresql://secret")
    await shop.ended(shop.launch("print(1)", shop.entry))
    (proxy,) = proxies()
    assert min(proxy.uids()) >= 65_000
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    assert "CapEff:\t0000000000000000\n" in status
    assert "secret" not in Path(f"/proc/{proxy.pid}/environ").read_text()


async def test_the_gate_counts_what_a_run_carried() -> None:
    """Both ways, without names; of a proxy that was lost it is not known."""
    greeter, gate = Greeter(), NetworkGate([NAME])
    await greeter.start()
    try:
        opening = await gate.open("first", [f"{NAME}:{greeter.port}"], lambda line: None, namespace="a")
        source = f"import socket as s; o = s.create_connection(('127.0.0.1', 1080)); o.sendall(b'CONNECT {NAME}:"
        source += f"{greeter.port} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'); o.recv(99); o.sendall(b'hello'); o.recv(99)"
        program = command(sys.executable, Path(namespace_program.__file__))
        arguments = [*program, str(opening.descriptor), sys.executable, "-c", source]
        done = await asyncio.to_thread(subprocess.run, arguments, pass_fds=(opening.descriptor,), check=False)
        assert done.returncode == 0
        assert await gate.close(opening) == NetworkTraffic(5, len("you said hello"))
        opening = await gate.open("second", [f"{NAME}:{greeter.port}"], lambda line: None, namespace="a")
        (proxy,) = proxies()
        proxy.kill()
        proxy.wait(60)
        later = await gate.open("third", [f"{NAME}:{greeter.port}"], lambda line: None, namespace="a")
        assert await gate.close(opening) is None
        assert await gate.close(later) == NetworkTraffic(0, 0)
    finally:
        await gate.stop()
        await greeter.stop()


async def test_the_proxy_ends_with_its_executor(tmp_path: Path) -> None:
    """Also if that is killed at once."""
    source = """
    import asyncio, sys
    from tickwise.adapters.runner.process.sandbox.network.gate import NetworkGate
    async def main():
        opening = await NetworkGate([]).open("run", ["a.test:1"], print, namespace="a")
        print("open", flush=True)
        await asyncio.Event().wait()
    asyncio.run(main())
    """
    executor = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE)
    assert executor.stdout is not None
    try:
        assert await asyncio.to_thread(executor.stdout.readline) == b"open\n"
        # Until it has become its own program, it has the words of the one that it was forked from.
        (proxy,) = await eventually(lambda: proxies(executor.pid), what="the proxy is there")
    finally:
        executor.kill()
        executor.communicate()

    await eventually(lambda: not proxy.is_running() or proxy.status() == psutil.STATUS_ZOMBIE)
