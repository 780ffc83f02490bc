"""The server as a child process, its log, and the remains of an earlier one.

watcher thread   starts the server and waits for its end: the kernel ties the parent-death signal to the thread
                 that started the child, so that thread lives as long as the child does
log thread       reads what the server says, keeps the last lines, writes all to a bounded file
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil
import structlog

from tickwise.adapters.embedded.programs import Account, as_account, environment, works
from tickwise.domain.errors import Unavailable

if TYPE_CHECKING:
    from tickwise.ports.clock import Clock

# One file and its predecessor: enough for the story of an incident, nothing for a disk.
LOG_FILE_BYTES = 10_000_000

# The children of a postmaster that was killed see it at their next wait, within milliseconds unless they are busy.
CHILDREN_NOTICE_SECONDS = 2.0
# A fast shutdown writes all dirty pages of 256 MB; seconds even on a slow disk.
FAST_STOP_SECONDS = 30.0
# An immediate shutdown writes nothing, and the postmaster itself kills its children after 5 s.
QUIT_SECONDS = 8.0
# What was killed is gone as soon as it gets a processor, or the disk answers that it waits for.
KILLED_SECONDS = 30.0

_POLL_SECONDS = 0.02

log = structlog.get_logger(__name__)


class BoundedLog:
    """A file that is begun anew at its limit; one predecessor is kept. A full disk costs lines, never the server."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = path.stat().st_size if path.exists() else 0

    def write(self, line: bytes) -> None:
        try:
            if self._size > LOG_FILE_BYTES:
                self._path.replace(self._path.with_suffix(".log.1"))
                self._size = 0
            with self._path.open("ab") as stream:
                stream.write(line)
            self._size += len(line)
        except OSError:
            return


class ServerProcess:
    """One run of the server. Made and awaited on the event loop."""

    def __init__(self, command: list[str | Path], *, account: Account | None, log_file: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._command = command
        self._account = account
        self._log = BoundedLog(log_file)
        self._started: asyncio.Future[subprocess.Popen[bytes]] = self._loop.create_future()
        self._process: subprocess.Popen[bytes] | None = None
        self.exit: asyncio.Future[int] = self._loop.create_future()
        self.last_words: deque[str] = deque(maxlen=40)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def runs(self) -> bool:
        return self._process is not None and not self.exit.done()

    async def launch(self) -> None:
        """Raises OSError if the program cannot be started."""
        threading.Thread(target=self._watch, name="postgres-watcher", daemon=True).start()
        # Shielded: a caller that is cancelled here must still learn of the process, to end it.
        self._process = await asyncio.shield(self._started)

    async def ended_within(self, seconds: float) -> bool:
        """Wait at most so long for the server to end; True as soon as it ended."""
        await asyncio.wait({self.exit}, timeout=seconds)
        return self.exit.done()

    async def end(self) -> int | None:
        """Fast shutdown, then an immediate one, then a kill, each bounded. Returns the exit code, None if unknown."""
        if self._process is None:
            try:
                self._process = await self._started
            except OSError:
                return None
        for number, seconds in (
            (signal.SIGINT, FAST_STOP_SECONDS),
            (signal.SIGQUIT, QUIT_SECONDS),
            (signal.SIGKILL, QUIT_SECONDS),
        ):
            if not self.exit.done():
                self._process.send_signal(number)
            if await self.ended_within(seconds):
                return self.exit.result()
            log.warning("embedded_postgres_stops_slowly", pid=self.pid, signal=number.name, waited_seconds=seconds)
        return None

    def _watch(self) -> None:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=environment(),
                start_new_session=True,
                **as_account(self._account),
            )
        except OSError as error:
            self._settle(partial(self._started.set_exception, error))
            return
        assert process.stdout is not None, "asked for a pipe"
        reader = threading.Thread(target=self._read, args=(process.stdout,), name="postgres-log", daemon=True)
        reader.start()
        self._settle(partial(self._started.set_result, process))
        code = process.wait()
        # Children of a killed server hold the pipe open for a while; all that was said before its end is read by then.
        reader.join(timeout=1)
        self._settle(partial(self.exit.set_result, code))

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.last_words.append(line.decode(errors="replace").rstrip())
                self._log.write(line)

    def _settle(self, settle: Callable[[], None]) -> None:
        """Settles a future from a thread; a closed loop has no waiting task."""
        try:
            self._loop.call_soon_threadsafe(settle)
        except RuntimeError:
            return


def dying_with_parent(command: list[str | Path]) -> list[str | Path]:
    """This command with a fast shutdown from the kernel when we are killed; unchanged if we cannot.

    `setpriv` does it without code between fork and exec. It becomes the server, so the process id is the server's.
    """
    helper = shutil.which("setpriv")
    prefix: list[str | Path] = [helper or "", "--pdeathsig", "INT", "--"]
    # The setpriv of busybox does not know the option.
    if helper is None or not works([*prefix, "/bin/true"], account=None):
        return command
    return [*prefix, *command]


async def clear_leftovers(data: Path, sockets: Path, clock: Clock) -> None:
    """Ends every process of an earlier server on this cluster, and removes the files that would keep a new one out.

    To be called only by the holder of the directory's lock, so a server that still runs is an orphan. Its files alone
    prove nothing: a process id comes back, and a dead process that nobody reaped still answers to a signal. A server
    process is known by its current folder, which is the cluster. Raises Unavailable if one cannot be ended.
    """
    survivors = await asyncio.to_thread(_processes_in, data)
    postmaster = next((each for each in survivors if each.pid == _recorded_pid(data)), None)
    if postmaster is not None:
        log.warning("embedded_postgres_orphan_found", pid=postmaster.pid, data=str(data))
        _signal([postmaster], signal.SIGINT)
        survivors = await _wait_gone(survivors, FAST_STOP_SECONDS, clock)
    elif survivors:
        survivors = await _wait_gone(survivors, CHILDREN_NOTICE_SECONDS, clock)
    patience_seconds = CHILDREN_NOTICE_SECONDS if postmaster is None else QUIT_SECONDS
    for number, seconds in ((signal.SIGQUIT, patience_seconds), (signal.SIGKILL, KILLED_SECONDS)):
        if survivors:
            log.warning("embedded_postgres_remains_killed", pids=[each.pid for each in survivors], signal=number.name)
            _signal(survivors, number)
            survivors = await _wait_gone(survivors, seconds, clock)
    if survivors:
        raise Unavailable(
            f"A process of an earlier PostgreSQL on {data} does not end: {survivors[0].pid}. It may wait for a disk. "
            "End it, or restart the machine, and start again."
        )
    await asyncio.to_thread(_remove_lock_files, data, sockets)


def _remove_lock_files(data: Path, sockets: Path) -> None:
    (data / "postmaster.pid").unlink(missing_ok=True)
    for file in sockets.glob(".s.PGSQL.*"):
        file.unlink(missing_ok=True)


def _processes_in(data: Path) -> list[psutil.Process]:
    """All live processes of PostgreSQL whose current folder is the cluster."""
    place = os.path.realpath(data)
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == place and _lives(process) and process.name().startswith("postgres"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return False


def _recorded_pid(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


async def _wait_gone(processes: list[psutil.Process], seconds: float, clock: Clock) -> list[psutil.Process]:
    """Wait until these processes have ended; those that still run after that time."""
    deadline = clock.monotonic() + seconds
    while processes := [each for each in processes if _lives(each)]:
        if clock.monotonic() >= deadline:
            break
        await clock.sleep(_POLL_SECONDS)
    return processes


def is_ready(data: Path, pid: int) -> bool:
    """Check whether the server reports in the eighth line of its lock file that it takes connections."""
    try:
        lines = (data / "postmaster.pid").read_text().split("\n")
    except OSError:
        return False
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"
