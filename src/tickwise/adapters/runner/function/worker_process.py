"""One function worker as the executor sees it: its process, its socket, and the runs that it holds.

States: starting (until its `Hello`) → ready → ended. It ends once, for any cause, and then reports its end once.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec

from tickwise.adapters.runner.context import inherited_environment
from tickwise.adapters.runner.function.queue import QueuedRun
from tickwise.adapters.runner.function.wire import (
    Frames,
    Hello,
    ItemFields,
    OutgoingBatch,
    Recall,
    Report,
    Stop,
    frame,
)
from tickwise.adapters.runner.process.task_marks import WORKER_VARIABLE, Marks
from tickwise.adapters.runner.process.tree import (
    MAX_KILL_SECONDS,
    Survivors,
    Tree,
    exited,
    give_number,
    kill_tree,
    offer_first,
    reap,
    signal_group,
)
from tickwise.ports.clock import Clock

SOCKET_BUFFER_BYTES = 2 << 20
STDERR_TAIL_BYTES = 4_000


class WorkerEvents(Protocol):
    """The receiver of the reports of a worker."""

    def worker_ready(self, worker: WorkerProcess, hello: Hello) -> None: ...

    def worker_reported(self, worker: WorkerProcess, report: Report) -> None: ...

    def worker_ended(self, worker: WorkerProcess) -> None:
        """Its process and children are gone. `has_begun` tells of what it held, during this call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings for the start of a worker."""

    modules: Sequence[str]
    pass_environment: Sequence[str]
    clock: Clock
    threads: Executor
    survivors: Survivors
    marks: Marks
    events: WorkerEvents
    now: Callable[[], float]


class WorkerProcess(asyncio.Protocol):
    """See the module."""

    def __init__(self, settings: WorkerSettings, number: int) -> None:
        self._settings = settings
        self._number = number
        self._frames = Frames()
        self._decode = msgspec.msgpack.Decoder(Hello | Report).decode
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._progress: mmap.mmap | None = None
        self._lifetime: asyncio.Task[None] | None = None
        self._next_number = 1
        self.ready = False
        self.killed = False
        self.exit_status: int | None = None
        self.sacrificed = False
        """True: it was killed because one of its runs did not stop, with the other runs in it."""
        self.unkillable = False
        """It was killed and did not end in time."""
        self._patience: asyncio.TimerHandle | None = None
        self._no_patience = asyncio.Event()
        self.stderr_tail = b""
        self.held: dict[int, QueuedRun] = {}
        """Sent and not reported as ended, by number."""
        self.slow: set[int] = set()
        """The runs of `held` that have been running on the worker's loop for a while, beside others."""
        self.exclusive = False
        """A run that may hold its main thread for long is there: nothing is sent until it has ended."""
        self.reserved = False
        """True: it gets no more runs until it is free for a long one."""
        self.idle_since = 0.0

    @property
    def mark(self) -> bytes:
        """The piece of the environment by which everything that it started is found."""
        return f"{WORKER_VARIABLE}={self._settings.marks.worker}{self._number}\0".encode(errors="surrogateescape")

    def _tree(self, process: subprocess.Popen[bytes]) -> Tree:
        """The tree of the processes that a worker started."""
        return Tree(process=process, mark=self.mark, number=self._settings.marks.attempt(self._number))

    @property
    def brief(self) -> int:
        """The number of held runs that are not slow asynchronous ones."""
        return len(self.held) - len(self.slow)

    def start(self) -> None:
        """Begin its life. Returns at once; `worker_ready` or `worker_ended` follows."""
        self._lifetime = asyncio.get_running_loop().create_task(self._live())

    async def ended(self) -> None:
        """Wait until all of it is gone."""
        if self._lifetime is not None:
            await asyncio.wait([self._lifetime])

    def send(self, runs: Sequence[QueuedRun]) -> None:
        """Hand over runs, in order."""
        items: list[ItemFields] = []
        held = self.held
        number = self._next_number
        for run in runs:
            # Unpacked at once, and the ids without a call of Python code: this is done for every run there is.
            (
                run_id,
                token,
                job_id,
                namespace,
                attempt,
                due,
                nominal,
                _,
                payload,
                _,
                limits,
                _,
                parent,
                state,
                _,
                _,
                _,
            ) = run.assignment
            run.worker = self
            run.number = number
            held[number] = run
            items.append(
                (
                    number,
                    run.lane.name,
                    payload,
                    job_id.int.to_bytes(16, "big"),
                    run_id.int.to_bytes(16, "big"),
                    attempt,
                    nominal,
                    due,
                    token,
                    namespace,
                    limits.output_bytes,
                    parent,
                    state,
                )
            )
            number += 1
        self._next_number = number
        base = self._settings.now() - self._settings.clock.monotonic()
        self._write(OutgoingBatch(base, items))

    def ask_to_stop(self, run: QueuedRun) -> None:
        """Pass on that a run shall stop; the worker may obey."""
        self._write(Stop(run.number))

    def recall(self) -> None:
        """Ask for everything that has not begun; it comes back with the next reports."""
        self._write(Recall())

    def current(self) -> int:
        """The number of the run that holds its main thread now, or 0."""
        return 0 if self._progress is None else int.from_bytes(self._progress[:8], sys.byteorder)

    def has_begun(self, run: QueuedRun) -> bool:
        """True if a run that it holds had begun: it told so, or was killed before it could. Then the run held the main
        thread, or it is asynchronous and not younger than the last of those that began."""
        if run.started is not None or run.number == self.current():
            return True
        page = self._progress
        return page is not None and run.lane.is_async and run.number <= int.from_bytes(page[8:16], sys.byteorder)

    def kill(self) -> None:
        """End it now, with all that its functions started. `worker_ended` follows."""
        self.killed = True
        if self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(MAX_KILL_SECONDS, self._no_patience.set)
        if self._process is not None and self._process.returncode is None:
            signal_group(self._process.pid, signal.SIGKILL)

    # ---------------------------------------------------------------------------------------- its life

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        for end in (here, there):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
            end.setblocking(False)
        here_errors, there_errors = os.pipe()
        os.set_blocking(here_errors, False)
        try:
            await loop.create_unix_connection(lambda: self, sock=here)
            try:
                self._process = await loop.run_in_executor(self._settings.threads, self._spawn, there, there_errors)
            finally:
                there.close()
                os.close(there_errors)
            if self.killed:
                signal_group(self._process.pid, signal.SIGKILL)
            loop.add_reader(here_errors, self._read_errors, here_errors)
            await self._until_gone(self._process)
            self._read_errors(here_errors)
        except OSError as error:
            self.stderr_tail = f"the worker could not be started: {error}".encode()
        finally:
            loop.remove_reader(here_errors)
            os.close(here_errors)
            if self._transport is not None:
                self._transport.abort()
            if self._patience is not None:
                self._patience.cancel()
            self._settings.events.worker_ended(self)
            if self._progress is not None:
                self._progress.close()
                self._progress = None

    async def _until_gone(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it has ended, by itself or killed, and nothing of it lives; for a killed one, not for ever."""
        loop = asyncio.get_running_loop()
        end, impatience = loop.create_task(exited(process)), loop.create_task(self._no_patience.wait())
        await asyncio.wait({end, impatience}, return_when=asyncio.FIRST_COMPLETED)
        impatience.cancel()
        tree = self._tree(process)
        await kill_tree(tree, threads=self._settings.threads, clock=self._settings.clock)
        if end.done():
            reaped = reap(process)
            self.exit_status = None if reaped is None else reaped.status
            end.result()  # an error of ours, if it could not even be waited for
        else:
            self.unkillable = True
            self._settings.survivors.add(tree, end)

    def _spawn(self, there: socket.socket, errors: int) -> subprocess.Popen[bytes]:
        """In a thread: under some event loops starting a process is slow, and it always waits for the disk."""
        with tempfile.TemporaryFile() as file:
            file.truncate(mmap.PAGESIZE)
            self._progress = mmap.mmap(file.fileno(), mmap.PAGESIZE)
            environment = inherited_environment(
                ("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", *self._settings.pass_environment)
            )
            environment[WORKER_VARIABLE] = f"{self._settings.marks.worker}{self._number}"
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "tickwise.adapters.runner.function.worker"),
                    *(str(there.fileno()), str(file.fileno()), *self._settings.modules),
                ],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(there.fileno(), file.fileno()),
                env=environment,
                start_new_session=True,
            )
            give_number(process.pid, self._settings.marks.attempt(self._number))
            offer_first(process.pid)
            return process

    def _read_errors(self, descriptor: int) -> None:
        """Output of the process outside of any run, such as a crash's last words."""
        try:
            content = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        if content:
            self.stderr_tail = (self.stderr_tail + content)[-STDERR_TAIL_BYTES:]
        else:
            asyncio.get_running_loop().remove_reader(descriptor)

    # ---------------------------------------------------------------------------------------- its socket

    def _write(self, message: OutgoingBatch | Stop | Recall) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # not every loop's transports inherit from it

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            message = self._decode(body)
            if isinstance(message, Hello):
                self.ready = True
                self._settings.events.worker_ready(self, message)
            else:
                self._settings.events.worker_reported(self, message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the base class names it
        self._transport = None
        self.kill()
