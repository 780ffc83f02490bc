"""The small processes whose children ordinary tasks are (`parent_program`), as the executor sees them.

    start(ShortTask) ──► ShortEnd   it ended within 50 ms: its folder is removed, unless it left files there
                     ├─► LongTask   it lives: it is watched here, like any task
                     ├─► `Unmade`   its folder could not be made here; nothing has begun (so with `NotWarm`)
                     └─► `OSError`  its program cannot be executed

A parent can be killed at any moment. Its tasks go on; those that the executor watches lose their exit status, as with
a starter (`task_starter`). Of those that it was not shown yet, the page that both processes share tells whether they
had begun: `StarterLost` is raised only of a task that has not begun and never will, `ShortTaskLost` of any other.

For one event loop, but for `reap`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import marshal
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from concurrent.futures import Future as ThreadFuture
from typing import Any, Final, NamedTuple

import structlog

from tickwise.adapters.runner.process.parent import parent_program
from tickwise.adapters.runner.process.parent.parent_program import LENGTH_BYTES, WORD
from tickwise.adapters.runner.process.task_starter import StartedTask, StarterLost
from tickwise.adapters.runner.process.tree import Moment, Process, Reaped, ReapedElsewhere, Tree, last_number
from tickwise.adapters.runner.process.warm.zygote import WarmRequest, Zygote
from tickwise.ports.clock import Clock

PARENTS: Final = max(1, min(2, (os.cpu_count() or 1)))
"""A start keeps one busy until the program is executed. More than two could start more than the executor can follow."""
PLACES: Final = 512
"""Tasks that one parent is asked for and has not answered of. Beyond them the executor starts tasks itself."""
READ_BYTES: Final = 1 << 16
DESCRIPTORS: Final = 64
"""Of one reading: each task that is shown brings two."""
ANSWER_SECONDS: Final = 2.0
"""A parent that says nothing of a start for so long is stopped, or starved: it is sent CONT."""
LOST_SECONDS: Final = 10.0
"""One that goes on saying nothing is ended."""
REAP_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 1.0
"""Between the loss of a parent and the next one. Meanwhile the executor starts tasks itself."""
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize

logger = structlog.get_logger("tickwise.executor")


class Unmade(Exception):
    """The folder of a task could not be made. Nothing of it has begun, and nothing of it is left."""


class NotWarm(Exception):
    """The zygote of a script is lost, or has no room for a child. Nothing has begun, and nothing is left."""


class ShortTaskLost(Exception):
    """The parent of a task was killed just after the task had begun, or may have begun. Its output is lost with its
    exit status."""


class TaskPlace(NamedTuple):
    """The folder of a task to start, and its mark."""

    folder: str
    """Made by the parent."""
    script: str
    """The file that takes the source; empty: it has none."""
    work: str
    """Its current folder."""
    number: int


class ShortTask(NamedTuple):
    """A program to start."""

    place: TaskPlace
    source: bytes
    arguments: Sequence[str]
    environment: Mapping[str, str]


class WarmTask(NamedTuple):
    """A script to fork from a zygote."""

    place: TaskPlace
    source: bytes
    zygote: Zygote
    request: WarmRequest


class ShortEnd(NamedTuple):
    """The end of a task of which nothing lives."""

    began: float
    """On the monotonic clock."""
    ended: float
    reaped: Reaped | None
    """None: its exit status is lost with its zygote."""
    output: bytes
    is_tidy: bool
    """Its folder is removed; else it has left files there."""


class LongTask(NamedTuple):
    """A task that lives, or has left processes that do."""

    task: StartedTask
    output: int
    """Our end of the pipe of its output."""
    began: float
    """On the monotonic clock."""


class LostTask:
    """The process of a task whose parent was killed before it was shown: it is known by its marks alone."""

    pid = 0

    def watch(self) -> int:
        """See `ReapedElsewhere`. Raises `ProcessLookupError`."""
        raise ProcessLookupError

    def holds_number(self) -> bool:
        """See `ReapedElsewhere`."""
        return False

    def reap(self) -> Reaped | None:
        """See `ReapedElsewhere`."""
        return None


def tree_of_child(task: ReapedElsewhere, *, mark: bytes, number: int, others: Mapping[int, Process]) -> Tree:
    """The marks by which a task with all that it starts is found: numbers come in their order, so all of it is younger
    than its own process."""
    since = Moment(task.pid - 1).checked(task.pid) if task.pid > 1 and last_number() else None
    return Tree(process=task, mark=mark, number=number, since=since, others=others)


class TaskParent:
    """One process of the program."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, page: mmap.mmap) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._control = control
        self._page = page
        self._places = deque(range(PLACES))
        self._asked: dict[int, tuple[asyncio.Future[ShortEnd | LongTask], int]] = {}
        """By key: the start, and its place in the page; the oldest first."""
        self._looks: tuple[int, int] = (0, 0)
        """The oldest key, and how many looks have found that it is not answered."""
        self._reaping: dict[int, ThreadFuture[Reaped]] = {}
        self._keys: dict[int, int] = {}
        """Of tasks that were shown, by process number."""
        self._zygotes: dict[int, Zygote] = {}
        """Those that it was let join, by key."""
        self._count = 0
        self._rights: list[int] = []
        """Descriptors that go with what is sent next."""
        self._outgoing = bytearray()
        self._is_flushing = False
        self._received = b""
        self._descriptors: deque[int] = deque()
        self._look: asyncio.TimerHandle | None = None
        self.is_ready = False
        self.is_lost = False
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._read)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def load(self) -> int:
        """The number of starts that it has not answered."""
        return len(self._asked)

    @property
    def has_room(self) -> bool:
        """It can be asked for a start."""
        return self.is_ready and not self.is_lost and bool(self._places)

    async def start(self, task: ShortTask, hurry: asyncio.Future[str]) -> ShortEnd | LongTask:
        """Start a task. `hurry`: when it is done, a task that lives is shown at once. Raises as the module says."""
        return await self._start("start", task[1:], task.place, hurry)

    def knows(self, zygote: Zygote) -> bool:
        """Check whether it was let join this zygote."""
        return zygote in self._zygotes.values()

    async def start_warm(self, task: WarmTask, hurry: asyncio.Future[str]) -> ShortEnd | LongTask:
        """Fork a script. Raises as `start`, and `NotWarm`."""
        zygote = task.zygote
        key = next((key for key, one in self._zygotes.items() if one is zygote), None)
        if key is None:
            key = self._join(zygote)
        zygote.count(1)
        is_long = False
        try:
            found = await self._start("warm", (task.source, key, task.request.content()), task.place, hurry)
            if isinstance(found, LongTask):
                is_long = True
                return found._replace(task=found.task.under(_ReaperOfWarm(self, zygote)))
            return found
        finally:
            if not is_long:
                zygote.count(-1)

    def _join(self, zygote: Zygote) -> int:
        """Raises `NotWarm`."""
        try:
            link = zygote.join()
        except OSError:
            raise NotWarm from None
        key = self._count = self._count + 1
        self._zygotes[key] = zygote
        self._rights.append(link)
        self._send("zygote", key, zygote.pid, zygote.number)
        return key

    async def _start(
        self, what: str, task: Sequence[Any], where: TaskPlace, hurry: asyncio.Future[str]
    ) -> ShortEnd | LongTask:
        key = self._count = self._count + 1
        place = self._places.popleft()
        WORD.pack_into(self._page, place * WORD.size, 0)
        answer: asyncio.Future[ShortEnd | LongTask] = self._loop.create_future()
        self._asked[key] = answer, place
        if self._look is None:
            self._look = self._loop.call_later(ANSWER_SECONDS, self._check)
        self._send(what, *task, key, place, *where)

        def show(_hurry: asyncio.Future[str]) -> None:
            self._send("show", key)

        hurry.add_done_callback(show)
        try:
            return await answer
        finally:
            hurry.remove_done_callback(show)

    def reap(self, pid: int) -> Reaped:
        """See `Reaper`. For threads other than that of the loop."""
        found: ThreadFuture[Reaped] = ThreadFuture()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ask_to_reap, pid, found)
        try:
            return found.result(REAP_SECONDS)
        except TimeoutError:
            # Somebody may have stopped it, and it holds what the outcome of a task depends on.
            with contextlib.suppress(OSError):
                self._process.send_signal(signal.SIGCONT)
        try:
            return found.result(REAP_SECONDS)
        except TimeoutError:
            raise ProcessLookupError from None

    def _ask_to_reap(self, pid: int, found: ThreadFuture[Reaped]) -> None:
        key = self._keys.pop(pid, None)
        if key is None or self.is_lost:
            found.set_exception(ProcessLookupError())
            return
        self._reaping[key] = found
        self._send("reap", key)

    # ------------------------------------------------------------------------------------------ messages

    def _send(self, *said: Any) -> None:
        text = marshal.dumps(said)
        self._outgoing += len(text).to_bytes(LENGTH_BYTES, "big") + text
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what one turn of the loop has gathered."""
        self._is_flushing = False
        if self.is_lost:
            return
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self._rights))] if self._rights else []
        try:
            sent = self._control.sendmsg([self._outgoing], rights) if rights else self._control.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.lose()
            return
        del self._outgoing[:sent]
        if sent:
            self._drop_rights()
        if self._outgoing:
            self._is_flushing = True
            self._loop.add_writer(self._control.fileno(), self._go_on)

    def _drop_rights(self) -> None:
        for descriptor in self._rights:
            os.close(descriptor)
        self._rights.clear()

    def _go_on(self) -> None:
        self._loop.remove_writer(self._control.fileno())
        self._flush()

    def _read(self) -> None:
        try:
            piece, ancillary, _, _ = self._control.recvmsg(
                READ_BYTES, socket.CMSG_SPACE(DESCRIPTORS * _DESCRIPTOR_BYTES), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            piece, ancillary = b"", []
        for _, _, data in ancillary:
            self._descriptors.extend(array.array("i", data))
        if not piece:
            self.lose()
            return
        content = self._received + piece
        begin = 0
        while len(content) >= begin + LENGTH_BYTES:
            end = begin + LENGTH_BYTES + int.from_bytes(content[begin : begin + LENGTH_BYTES], "big")
            if len(content) < end:
                break
            self._take(*marshal.loads(content[begin + LENGTH_BYTES : end]))
            begin = end
        self._received = content[begin:]

    def _take(self, what: str, *said: Any) -> None:
        if what == "ready":
            self.is_ready = True
            return
        key = said[0]
        if what == "zygote_lost":
            self._zygotes.pop(key).is_lost = True
            return
        if what == "reaped":
            reaped = _reaped(*said[1:])
            if reaped is None:
                self._reaping.pop(key).set_exception(ProcessLookupError())
            else:
                self._reaping.pop(key).set_result(reaped)
            return
        answer, place = self._asked.pop(key)
        self._places.append(place)
        if what == "ended":
            _, began, ended, status, seconds, peak, output, is_tidy = said
            answer.set_result(ShortEnd(began, ended, _reaped(status, seconds, peak), output, is_tidy))
        elif what == "lives":
            _, pid, began = said
            descriptor, output = self._descriptors.popleft(), self._descriptors.popleft()
            self._keys[pid] = key
            answer.set_result(LongTask(StartedTask(pid, descriptor, self), output, began))
        elif what == "failed":
            _, number, name = said
            answer.set_exception(OSError(number, os.strerror(number), os.fsdecode(name)))
        else:
            answer.set_exception(NotWarm() if what == "unwarm" else Unmade())

    # ------------------------------------------------------------------------------------------ end

    def _check(self) -> None:
        """Look whether it answers. Looks are counted, and not the time: if this process stood still itself, it heard
        nobody meanwhile."""
        self._look = None
        oldest = next(iter(self._asked), None)
        if oldest is None or self.is_lost:
            return
        before, looks = self._looks
        looks = looks + 1 if oldest == before else 1
        self._looks = oldest, looks
        silent_seconds = (looks - 1) * ANSWER_SECONDS
        if silent_seconds >= LOST_SECONDS:
            self.lose()
            return
        if silent_seconds >= ANSWER_SECONDS:
            self._process.send_signal(signal.SIGCONT)
        self._look = self._loop.call_later(ANSWER_SECONDS, self._check)

    def lose(self) -> None:
        """End it. What it has not answered is lost."""
        if self.is_lost:
            return
        self.close()
        logger.warning("task_parent_lost", pid=self.pid, starts=len(self._asked))
        for answer, place in self._asked.values():
            (begun,) = WORD.unpack_from(self._page, place * WORD.size)
            answer.set_exception(ShortTaskLost() if begun else StarterLost())
        self._asked.clear()
        for found in self._reaping.values():
            found.set_exception(ProcessLookupError())
        self._reaping.clear()

    def close(self) -> None:
        """End it. Of its tasks, none may be left that has not ended."""
        self.is_lost = True
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._control.fileno())
        if self._look is not None:
            self._look.cancel()
        self._control.close()
        self._drop_rights()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._process.kill()

    def wait(self) -> None:
        """Take its exit status. Blocking."""
        self._process.wait()


class _ReaperOfWarm:
    """Reaps a script that is a zygote's child."""

    def __init__(self, parent: TaskParent, zygote: Zygote) -> None:
        self._parent = parent
        self._zygote = zygote

    def reap(self, pid: int) -> Reaped:
        """See `Reaper`."""
        self._zygote.count(-1)
        return self._parent.reap(pid)


def _reaped(status: int | None, seconds: float, peak: int | None) -> Reaped | None:
    return None if status is None else Reaped(status, seconds, peak)


class TaskParents:
    """The parents of one executor's tasks. Each is started when tasks come that it would have served, in the
    background."""

    def __init__(self, threads: Executor, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._parents: list[TaskParent] = []
        self._starting: asyncio.Future[Any] | None = None
        self._not_before = float("-inf")
        self._is_usable = True

    def chosen(self) -> TaskParent | None:
        """The one with the least to do; None: there is none now."""
        best, active = None, 0
        for parent in self._parents:
            active += not parent.is_lost
            if parent.has_room and (best is None or parent.load < best.load):
                best = parent
        if active < PARENTS:
            self._replace()
        return best

    def chosen_for(self, zygote: Zygote) -> TaskParent | None:
        """The one that asks this zygote, because one sees all that has come of its children; None: there is none."""
        known = next((parent for parent in self._parents if parent.knows(zygote) and not parent.is_lost), None)
        if known is None:
            return self.chosen()
        return known if known.has_room else None

    def _replace(self) -> None:
        """Start one that is missing."""
        loop = asyncio.get_running_loop()
        for lost in [parent for parent in self._parents if parent.is_lost]:
            self._parents.remove(lost)
            self._threads.submit(lost.wait)
            # One that never was ready lacks something of the kernel's, and so would the next.
            self._is_usable &= lost.is_ready
            self._not_before = self._clock.monotonic() + AGAIN_SECONDS
        if self._starting is not None or not self._is_usable or len(self._parents) >= PARENTS:
            return
        if self._clock.monotonic() < self._not_before:
            return
        self._starting = loop.run_in_executor(self._threads, _begun)
        self._starting.add_done_callback(self._begun)

    def _begun(self, starting: asyncio.Future[tuple[subprocess.Popen[bytes], socket.socket, mmap.mmap]]) -> None:
        self._starting = None
        error = starting.exception()
        if error is not None:
            self._not_before = self._clock.monotonic() + AGAIN_SECONDS
            logger.warning("task_parent_failing", detail=str(error))
            return
        self._parents.append(TaskParent(*starting.result()))

    async def close(self) -> None:
        """End all. None of their tasks may be left."""
        self._is_usable = False
        loop = asyncio.get_running_loop()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        parents, self._parents = self._parents, []
        for parent in parents:
            if not parent.is_lost:
                parent.close()
            await loop.run_in_executor(self._threads, parent.wait)


def _begun() -> tuple[subprocess.Popen[bytes], socket.socket, mmap.mmap]:
    """Start the program. Blocking. Raises `OSError`."""
    ours, theirs = socket.socketpair()
    file = os.memfd_create("task-parent")
    try:
        os.ftruncate(file, PLACES * WORD.size)
        page = mmap.mmap(file, PLACES * WORD.size)
        with theirs:
            arguments = [str(theirs.fileno()), str(file), str(os.getpid())]
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", parent_program.__file__, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), file),
                cwd="/",
                env={"LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(file)
    return process, ours, page
