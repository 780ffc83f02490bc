"""The filtering proxy of one executor: a process of its own, which begins with the first run that needs it.

    executor ──{"allow": […]}──────────────────────────► proxy        the setting http_allow, first
             ──{"open": run, "of": namespace, "destinations": […]} + descriptor──►  its other end: `namespace_program`
             ──{"close": run}──────────────────────────►
             ◄──{"run": …, "line": …}──────────────────               for the log of the run
             ◄──{"run": …, "sent": …, "received": …}───               the end of `close`

It holds no secret of the executor, and as root's child it gives up root. It ends when the executor does.

Invariant: while it does not live, no sandbox with a list reaches anything: all their sockets are here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import uvloop

from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.outgoing.lookups import Lookups
from tickwise.adapters.runner.process.sandbox.network import names
from tickwise.adapters.runner.process.sandbox.network.destinations import AllowedDestinations
from tickwise.adapters.runner.process.sandbox.network.handover import made_sockets, receive
from tickwise.adapters.runner.process.sandbox.network.namespace_program import GO
from tickwise.adapters.runner.process.sandbox.network.run_network import RunNetwork
from tickwise.adapters.seclusion import seclude
from tickwise.domain.errors import TickwiseError

SETUP_SECONDS: Final = 30.0
"""For the namespace of a run."""
USERS: Final = (0x7FFE_0000, 65_520, 65_534)
"""The user that the proxy is as root's child: the number after those of the tasks; where a container does not map it,
the one after systemd's; else `nobody`."""
OPEN_FILES: Final = 65_536


class ProxyProcess:
    """The runs whose network is here."""

    def __init__(self, executor: socket.socket) -> None:
        self._executor = executor
        self._access = HttpAccess()
        self._lookups = Lookups()
        self._runs: dict[str, RunNetwork] = {}
        self._openings: dict[str, asyncio.Task[None]] = {}
        self._closings: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def serve(self) -> None:
        """Until the executor is gone."""
        self._executor.setblocking(False)
        asyncio.get_running_loop().add_reader(self._executor, self._read)
        await self._ended.wait()

    def _read(self) -> None:
        try:
            content, descriptors = receive(self._executor)
        except BlockingIOError:
            return
        except OSError:
            content, descriptors = b"", []
        if not content:
            asyncio.get_running_loop().remove_reader(self._executor)
            self._ended.set()
            return
        message = msgspec.json.decode(content)
        if "allow" in message:
            self._access = HttpAccess.of(message["allow"])
        elif "open" in message:
            helper = socket.socket(fileno=descriptors[0])
            run = message["open"]
            task = asyncio.get_running_loop().create_task(self._open(run, message, helper))
            self._openings[run] = task
        else:
            task = asyncio.get_running_loop().create_task(self._close(message["close"]))
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)

    async def _open(self, run: str, message: Mapping[str, Any], helper: socket.socket) -> None:
        """Make the network of a run with `namespace_program`, which says itself what goes wrong there."""

        def log(line: str) -> None:
            self._tell({"run": run, "line": line})

        with helper:
            try:
                allowed = AllowedDestinations.of(message["destinations"], self._access)
                network = RunNetwork(allowed, self._lookups.share_of(message["of"]), log)
                self._runs[run] = network
                async with asyncio.timeout(SETUP_SECONDS):
                    sockets = await made_sockets(helper, network.instruction())
                await network.serve(sockets)
                helper.send(GO)
            except (OSError, EOFError, TimeoutError):
                pass  # its end is closed, so nothing begins
            except TickwiseError as error:
                log(f"nothing was started: {error.detail}")

    async def _close(self, run: str) -> None:
        opening, network = self._openings.pop(run, None), self._runs.pop(run, None)
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        network = network or self._runs.pop(run, None)
        sent, received = 0, 0
        if network is not None:
            await network.close()
            sent, received = network.sent_bytes, network.received_bytes
        self._tell({"run": run, "sent": sent, "received": received})

    def _tell(self, message: dict[str, Any]) -> None:
        # The executor reads at once, or stands still: then lines may be lost, and nothing waits for it.
        with contextlib.suppress(OSError):
            self._executor.send(msgspec.json.encode(message))


def renounce() -> None:
    """Give up root, and keep others out of this process."""
    if os.geteuid() == 0:
        for uid in USERS:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            except OSError:
                continue
            break
    seclude()


def warm_up() -> None:
    """Load what is imported late, while its files can be read."""
    import dns.message

    query = dns.message.make_query("localhost.", "A").to_wire()
    names.answer(query, AllowedDestinations.of(["localhost:1"], HttpAccess()), names.NameBook([]), lambda _: None)
    "localhost".encode("idna")


def main() -> None:
    """Until the executor is gone."""
    executor = socket.socket(fileno=int(sys.argv[1]))
    executor.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else OPEN_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(most, OPEN_FILES)), hard))
    warm_up()
    renounce()

    async def serve() -> None:
        await ProxyProcess(executor).serve()

    uvloop.run(serve())


if __name__ == "__main__":
    main()
