"""Starts, watches and stops the embedded server.

start ─► lock ─► find or make the cluster ─► end what an earlier server left ─► launch ─► ready ─► one connection
           ▲                                                                       │
           └── the caller calls start again when wait() returned ◄── it died ◄─────┘
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import asyncpg
import structlog

from tickwise.adapters.embedded import cluster as clusters
from tickwise.adapters.embedded.binaries import Binaries
from tickwise.adapters.embedded.cluster import Cluster, DirectoryLock
from tickwise.adapters.embedded.programs import failure, no_space
from tickwise.adapters.embedded.server import ServerProcess, clear_leftovers, dying_with_parent, is_ready
from tickwise.adapters.embedded.settings import Machine, memory_bytes, tuned
from tickwise.domain.errors import Bug, Misconfigured, TickwiseError, Unavailable

if TYPE_CHECKING:
    from tickwise.ports.clock import Clock

# A socket's address holds 108 bytes on Linux and 104 on macOS, with the zero at its end.
SOCKET_PATH_BYTES = 103

LAUNCH_ATTEMPTS = 5
READY_POLL_SECONDS = 0.01
STILL_STARTING_SECONDS = 5.0
CONNECT_TIMEOUT_SECONDS = 30.0

# Errors of a launch that the next launch may not have: remains of an earlier server, and a port that was just taken.
_PASSING = ("pre-existing shared memory block", "Is another postmaster", "Address already in use")

# The signs that a list of folders, a setting's value or an address would read as something else.
_SIGNS_IN_THE_WAY = frozenset(",\"'\\\n")

Result = TypeVar("Result")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """The address of the server: a Unix socket in a folder, or a port of 127.0.0.1 if the folder's path is too long."""

    sockets: Path
    port: int | None

    def settings(self) -> dict[str, str]:
        if self.port is None:
            return {
                "listen_addresses": "",
                "unix_socket_directories": str(self.sockets),
                "unix_socket_permissions": "0700",
            }
        return {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}

    def dsn(self, password: str) -> str:
        if self.port is None:
            return f"postgresql://tickwise:{password}@/tickwise?host={quote(str(self.sockets), safe='/')}"
        return f"postgresql://tickwise:{password}@127.0.0.1:{self.port}/tickwise"


class EmbeddedPostgres:
    """One embedded server on one data directory, for one event loop.

    After an unexpected end (`wait` returns) call `start` again: the address stays the same. `stop` may be called at
    any time, and again.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock,
        settings: Mapping[str, str] = MappingProxyType({}),
        api_port: int | None = None,
        binaries: Binaries | None = None,
        minimum_free_bytes: int = clusters.MINIMUM_FREE_BYTES,
    ) -> None:
        """`settings` are PostgreSQL's and win over ours. A second process that tries to use the directory is told
        `api_port`.

        `binaries` names the programs for a new cluster instead of the best that are found.
        """
        self._data_dir = Path(os.path.abspath(data_dir))
        self._clock = clock
        self._settings = dict(settings)
        self._wanted = clusters.Wanted(
            data_dir=self._data_dir,
            minimum_free_bytes=minimum_free_bytes,
            random_bytes=clock.random_bytes,
            binaries=binaries,
        )
        self._api_port = api_port
        self._lock = DirectoryLock(self._data_dir, api_port=api_port)
        self._outside_lock: DirectoryLock | None = None
        self._server: ServerProcess | None = None
        self._cluster: Cluster | None = None
        self._port: int | None = None

    @property
    def pid(self) -> int | None:
        """The server's process while it runs."""
        return self._server.pid if self._server is not None and self._server.runs else None

    @property
    def programs(self) -> Binaries:
        """The programs of its cluster, once it was started."""
        if self._cluster is None:
            raise Bug("the embedded server was never started")
        return self._cluster.binaries

    async def start(self) -> str:
        """Starts the server and returns the address for the product's own role.

        Waits as long as a recovery takes. Raises Misconfigured for all that an operator must change (directory in use,
        made by a newer version, full disk, no PostgreSQL), Unavailable if remains of an earlier server do not end.
        """
        if self.pid is not None:
            raise Bug(f"the embedded server runs already, as process {self.pid}")
        clusters.make_data_dir(self._data_dir)
        try:
            self._lock.take()
            return await self._start()
        except BaseException as error:
            await self.stop()
            if isinstance(error, OSError):
                raise _os_failure(error, self._data_dir) from error
            raise

    async def wait(self) -> int:
        """The exit code of the server, as soon as it ended, for any reason."""
        if self._server is None:
            raise Bug("the embedded server was never started")
        return await asyncio.shield(self._server.exit)

    async def stop(self) -> None:
        """Stops the server, if it runs, so that nothing of it is left, and lets the directory go."""
        try:
            if self._server is not None and await self._server.end() != 0 and self._cluster is not None:
                # It did not end in good order, so its children may live on.
                await clear_leftovers(self._cluster.data, self._cluster.sockets, self._clock)
        finally:
            for lock in (self._outside_lock, self._lock):
                if lock is not None:
                    lock.release()

    async def _start(self) -> str:
        cluster, password_was_lost = await _in_thread(clusters.prepare, self._wanted)
        self._cluster = cluster
        if not cluster.root.is_relative_to(self._data_dir):
            # A copy of the data directory points to the same cluster.
            self._outside_lock = self._outside_lock or DirectoryLock(cluster.root, api_port=self._api_port)
            self._outside_lock.take()
        await clear_leftovers(cluster.data, cluster.sockets, self._clock)
        if password_was_lost:
            log.warning("embedded_postgres_password_set_anew", cluster=str(cluster.root))
            await _in_thread(clusters.single_user, cluster, "password.sql", cluster.data)
        endpoint = await self._launch(cluster)
        await self._check_connection(endpoint.dsn(cluster.password))
        log.info(
            "embedded_postgres_ready",
            pid=self.pid,
            version=cluster.binaries.version,
            programs=cluster.binaries.source,
            cluster=str(cluster.root),
            port=endpoint.port,
        )
        return endpoint.dsn(cluster.password)

    async def _launch(self, cluster: Cluster) -> Endpoint:
        """Launches until the server is ready; what only passes is tried again."""
        for attempt in range(1, LAUNCH_ATTEMPTS + 1):
            endpoint = self._endpoint(cluster)
            command = await asyncio.to_thread(dying_with_parent, self._command(cluster, endpoint))
            server = ServerProcess(command, account=cluster.account, log_file=cluster.log_file)
            self._server = server
            await server.launch()
            if await self._becomes_ready(cluster, server):
                return endpoint
            words = "\n".join(server.last_words)
            if attempt == LAUNCH_ATTEMPTS or not any(passing in words for passing in _PASSING):
                break
            if "Address already in use" in words:
                self._port = None
            await clear_leftovers(cluster.data, cluster.sockets, self._clock)
        code = server.exit.result()
        what = f"PostgreSQL did not start (exit code {code}; all it said is in {cluster.log_file})"
        raise failure(what, words, cluster.root)

    async def _becomes_ready(self, cluster: Cluster, server: ServerProcess) -> bool:
        """False if it ends before. Without a limit: a recovery after a crash takes as long as it takes."""
        told_at = self._clock.monotonic()
        while not await server.ended_within(READY_POLL_SECONDS):
            if is_ready(cluster.data, server.pid):
                return True
            if self._clock.monotonic() - told_at >= STILL_STARTING_SECONDS:
                told_at = self._clock.monotonic()
                log.info("embedded_postgres_still_starting", pid=server.pid, said=list(server.last_words)[-1:])
        return False

    def _endpoint(self, cluster: Cluster) -> Endpoint:
        path = os.fsencode(cluster.sockets / ".s.PGSQL.5432")
        if len(path) <= SOCKET_PATH_BYTES and not _SIGNS_IN_THE_WAY & set(str(cluster.sockets)):
            return Endpoint(sockets=cluster.sockets, port=None)
        if self._port is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._port = probe.getsockname()[1]
        return Endpoint(sockets=cluster.sockets, port=self._port)

    def _command(self, cluster: Cluster, endpoint: Endpoint) -> list[str | Path]:
        machine = Machine(
            memory_bytes=memory_bytes(),
            free_disk_bytes=shutil.disk_usage(cluster.root).free,
            postgres_major=cluster.binaries.major,
        )
        settings = {**tuned(machine, self._settings), **endpoint.settings()}
        command: list[str | Path] = [cluster.program("postgres"), "-D", cluster.data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    async def _check_connection(self, dsn: str) -> None:
        """A server that is ready and lets us in: anything less is no start."""
        try:
            connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_SECONDS)
        except asyncpg.InvalidPasswordError:
            assert self._cluster is not None, "connected before there is a cluster"
            raise Misconfigured(
                f"PostgreSQL refuses the password in {self._cluster.root}/secret/password. Delete that file and start "
                "again: a new password is then set."
            ) from None
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise Unavailable(
                f"The embedded PostgreSQL is ready, but refuses a connection: {error}. Start again."
            ) from error
        await connection.close()


async def _in_thread(function: Callable[..., Result], *arguments: object) -> Result:
    """Runs blocking work to its end even when the caller is cancelled, so that the lock outlives the work."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def _os_failure(error: OSError, data_dir: Path) -> TickwiseError:
    where = error.filename or data_dir
    if error.errno == errno.ENOSPC:
        return no_space("The embedded PostgreSQL cannot start", data_dir)
    return Misconfigured(
        f"The embedded PostgreSQL cannot use {where}: {error.strerror or error}. Start as the user that owns the data "
        f"directory {data_dir}, or name another: --data-dir."
    )
