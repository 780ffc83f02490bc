"""One sandbox with a list of destinations, made of the real parts: the program of its namespace, bubblewrap, and the
network of the run; only names are looked up in a table, for a test has no servers of names of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.services import packages
from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.outgoing.lookups import AddressInfo, Lookups, LookupShare
from tickwise.adapters.runner.process.sandbox import bubblewrap
from tickwise.adapters.runner.process.sandbox.etc_folder import EtcFolders, Person
from tickwise.adapters.runner.process.sandbox.levels import HOME
from tickwise.adapters.runner.process.sandbox.network import gate, namespace_program
from tickwise.adapters.runner.process.sandbox.network.destinations import AllowedDestinations
from tickwise.adapters.runner.process.sandbox.network.handover import made_sockets
from tickwise.adapters.runner.process.sandbox.network.namespace_program import GO
from tickwise.adapters.runner.process.sandbox.network.run_network import RunNetwork
from tickwise.adapters.runner.process.sandbox.plan import Mount, SandboxPlan
from tickwise.adapters.runner.process.sandbox.syscalls import seccomp_filter

SECONDS = 30.0
PYTHON = "/usr/bin/python3"


class TableLookups(LookupShare):
    """Names of a table instead of the machine's."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        super().__init__(Lookups())
        self._table = table
        self.asked: list[str] = []

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """The addresses of the table."""
        self.asked.append(host)
        if host not in self._table:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 6, "", (address, port)) for address in self._table[host]]


class Tried:
    """The end of a task in the sandbox."""

    def __init__(self, status: int, output: str) -> None:
        self.status = status
        self.output = output


def sandbox_command(folder: Path, etc: Path, files: Mapping[str, bytes]) -> tuple[list[str], list[int]]:
    """The command line of a real sandbox, up to the program, and the descriptors that its process inherits."""
    mounts = []
    for path, content in files.items():
        source = folder / path.rsplit("/", 1)[-1]
        source.write_bytes(content)
        source.chmod(0o644)
        mounts.append(Mount(str(source), path))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    mounts.append(Mount(str(work), str(work), is_writable=True))
    plan = SandboxPlan(work=str(work), home=HOME, etc=etc, mounts=tuple(mounts), shares_network=True)
    filter_descriptor = _in_memory(seccomp_filter())
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **gate.ENVIRONMENT}
    options = _in_memory(bubblewrap.options(plan, environment, filter_descriptor))
    return bubblewrap.command(packages.program("bwrap"), options, []), [filter_descriptor, options]


def _in_memory(content: bytes) -> int:
    descriptor = os.memfd_create("test")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class NetworkLab:
    """One run at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._etc = EtcFolders(folder)
        self.lines: list[str] = []
        self.names = TableLookups({})
        self.network: RunNetwork | None = None
        self.process: subprocess.Popen[bytes] | None = None

    async def begin(
        self,
        arguments: Sequence[str],
        destinations: Sequence[str],
        *,
        names: Mapping[str, Sequence[str]] | None = None,
        allow: Sequence[str] = (),
        says_go: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start a program in a sandbox with this list; its output is a pipe."""
        self.lines.clear()
        self.names = TableLookups(names or {})
        allowed = AllowedDestinations.of(destinations, HttpAccess.of(allow))
        self.network = RunNetwork(allowed, self.names, self.lines.append)
        etc = self._etc.of(Person(os.geteuid(), os.getegid(), "task", HOME))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command, inherited = sandbox_command(self._folder, etc, gate.FILES)
        program = gate.command(sys.executable, Path(namespace_program.__file__))
        with ours:
            with theirs:
                self.process = subprocess.Popen(
                    [*program, str(theirs.fileno()), *command, *arguments],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno(), *inherited], env={}, start_new_session=True,
                )  # fmt: skip
            for descriptor in inherited:
                os.close(descriptor)
            try:
                await self.network.serve(await made_sockets(ours, self.network.instruction()))
            except EOFError:
                pass  # the program says why
            else:
                if says_go:
                    ours.send(GO)
        return self.process

    async def run(self, arguments: Sequence[str], destinations: Sequence[str], **further: Any) -> Tried:
        """Start a program, and wait for its end."""
        process = await self.begin(arguments, destinations, **further)
        try:
            output, _ = await asyncio.wait_for(asyncio.to_thread(process.communicate), SECONDS)
        finally:
            process.kill()
            await self.close()
        return Tried(process.returncode, output.decode())

    async def python(self, source: str, destinations: Sequence[str], **further: Any) -> Tried:
        """Run a script in a sandbox."""
        return await self.run([PYTHON, "-c", textwrap.dedent(source)], destinations, **further)

    async def close(self) -> None:
        """End the network of the run."""
        if self.network is not None:
            await self.network.close()
