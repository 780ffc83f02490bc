"""The executor's side of the filtering proxy: it opens the network of one run, and closes it.

    open ──► NetworkOpening   the beginning of the command line, a descriptor, variables and files of the sandbox
         ──► the task goes on; lines for its log come meanwhile
    close ──► NetworkTraffic

The proxy begins with the first run that needs it, and again after it has ended. What was open then stays closed: its
tasks are refused every connection, and their logs say so.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import structlog

PROXY_PROGRAM: Final = "tickwise.adapters.runner.process.sandbox.network.proxy_program"
PROXY_ADDRESS: Final = "127.0.0.1:1080"
MESSAGE_BYTES: Final = 64 << 10
CLOSING_SECONDS: Final = 5.0
LOST: Final = "the proxy of this executor has ended; every connection of this run is refused from now on"
FILES: Final[Mapping[str, bytes]] = {
    "/etc/resolv.conf": b"nameserver 127.0.0.1\noptions timeout:5 attempts:2\n",
    "/etc/hosts": b"127.0.0.1 localhost\n::1 localhost\n",
}
"""The files of a sandbox with a list, by their paths in it."""
_PROXIED: Final = f"http://{PROXY_ADDRESS}"
_VARIABLES: Final = {
    "HTTP_PROXY": _PROXIED,
    "HTTPS_PROXY": _PROXIED,
    "ALL_PROXY": _PROXIED,  # libraries without SOCKS fail at its name; it is at the same port
    "NO_PROXY": "localhost,127.0.0.1,::1",
}
ENVIRONMENT: Final[Mapping[str, str]] = {
    **_VARIABLES, **{name.lower(): value for name, value in _VARIABLES.items()},
}  # fmt: skip
"""The variables of a sandbox with a list."""

logger = structlog.get_logger("tickwise.executor")


class NetworkTraffic(NamedTuple):
    """The bytes that the connections of one run carried, without those of names."""

    sent_bytes: int
    received_bytes: int


class NetworkOpening:
    """The network of one run. Its task is started with `command` before its own command, and with `descriptor`."""

    def __init__(self, run: str, descriptor: socket.socket, log: Callable[[str], None]) -> None:
        self.run = run
        self.log = log
        self.traffic: asyncio.Future[NetworkTraffic | None] = asyncio.get_running_loop().create_future()
        """Done with the end of the network; None: the proxy was lost, and what it counted."""
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        """The process of the task inherits it."""
        return self._descriptor.fileno()

    def begun(self) -> None:
        """The process has inherited the descriptor, or will never. May be called again."""
        self._descriptor.close()


def command(python: str, program: Path) -> Sequence[str]:
    """The beginning of the command line of a task that has the network of an opening: next come the number that its
    descriptor has in the task's process, and the command of the sandbox. The task's user can run `python`, and read
    `program`, a copy of `namespace_program`."""
    return [python, "-I", "-S", "-E", str(program)]


class NetworkGate:
    """The proxy of one executor. For one event loop."""

    def __init__(self, allow: Sequence[str]) -> None:
        """`allow`: the setting `http_allow`."""
        self._allow = list(allow)
        self._proxy: _Proxy | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    async def open(
        self, run: str, destinations: Sequence[str], log: Callable[[str], None], *, namespace: str
    ) -> NetworkOpening:
        """Open the network of a run, whose name is new. `log` gets lines for its log. Raises `OSError` if the proxy
        cannot be started."""
        async with self._starting:
            if self._proxy is not None and not self._proxy.has_ended:
                with contextlib.suppress(OSError):  # it was killed a moment ago
                    return self._proxy.open(run, destinations, log, namespace)
            if self._is_closed:
                raise OSError(0, "the executor ends")
            self._proxy = await _Proxy.start(self._allow)
            return self._proxy.open(run, destinations, log, namespace)

    async def close(self, opening: NetworkOpening) -> NetworkTraffic | None:
        """Close the network of a run, and say what it carried; None: that was lost with the proxy. Raises nothing."""
        opening.begun()
        if self._proxy is None:
            return None
        return await self._proxy.close_run(opening)

    async def stop(self) -> None:
        """End the proxy. May be called again."""
        self._is_closed = True
        async with self._starting:
            if self._proxy is not None:
                await self._proxy.stop()


class _Proxy:
    """One process of the proxy."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._open: dict[str, NetworkOpening] = {}
        self._reaping: asyncio.Future[int] | None = None
        self.has_ended = False
        asyncio.get_running_loop().add_reader(control, self._read)

    @classmethod
    async def start(cls, allow: Sequence[str]) -> _Proxy:
        """Raises `OSError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                process = await asyncio.to_thread(_started, theirs.fileno())
            except BaseException:
                ours.close()
                raise
        proxy = cls(process, ours)
        proxy._send({"allow": allow})
        return proxy

    def open(self, run: str, destinations: Sequence[str], log: Callable[[str], None], namespace: str) -> NetworkOpening:
        """Raises `OSError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        opening = NetworkOpening(run, theirs, log)
        try:
            with ours:
                self._send({"open": run, "of": namespace, "destinations": list(destinations)}, ours.fileno())
        except OSError:
            opening.begun()
            raise
        self._open[run] = opening
        return opening

    async def close_run(self, opening: NetworkOpening) -> NetworkTraffic | None:
        """Raises nothing."""
        if not opening.traffic.done():
            with contextlib.suppress(OSError):
                self._send({"close": opening.run})
            await asyncio.wait({opening.traffic}, timeout=CLOSING_SECONDS)
        if not opening.traffic.done():
            self._lose()  # it stands still, and what it holds must not stay open
        self._open.pop(opening.run, None)
        return await opening.traffic

    async def stop(self) -> None:
        """End the process."""
        self._lose(is_wanted=True)
        await asyncio.to_thread(self._process.wait)

    def _send(self, message: dict[str, Any], descriptor: int | None = None) -> None:
        """Raises `OSError` if the proxy has ended, or stands still."""
        rights = []
        if descriptor is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            self._control.sendmsg([msgspec.json.encode(message)], rights)
        except OSError:
            self._lose()
            raise

    def _read(self) -> None:
        try:
            content = self._control.recv(MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self._lose()
            return
        message = msgspec.json.decode(content)
        opening = self._open.get(message["run"])
        if opening is None:
            return
        if "line" in message:
            opening.log(message["line"])
        elif not opening.traffic.done():
            opening.traffic.set_result(NetworkTraffic(message["sent"], message["received"]))

    def _lose(self, *, is_wanted: bool = False) -> None:
        """It has ended, or is ended now: its sockets must be gone when this returns to a new start."""
        if self.has_ended:
            return
        self.has_ended = True
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if not is_wanted:
            logger.warning("network_proxy_lost", pid=self._process.pid, runs=len(self._open))
            self._reaping = asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        for opening in self._open.values():
            if not opening.traffic.done():
                if not is_wanted:
                    opening.log(LOST)
                opening.traffic.set_result(None)
        self._open.clear()


def _started(control: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-m", PROXY_PROGRAM, str(control)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(control,),
        cwd="/",
        env={"LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )
