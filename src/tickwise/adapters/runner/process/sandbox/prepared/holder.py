"""One prepared sandbox (`holder_program`), as the executor sees it.

    start(PreparedTask) ──► ShortEnd   it ended within 50 ms
                        ├─► LivingTask it lives: it is watched here, like any task
                        ├─► `Unmade`   its sandbox could not be made here; nothing has begun: it starts another way
                        ├─► `ShortTaskLost`   its init was killed; all of the task ends with it
                        └─► `OSError`  its program cannot be executed

What passes between the executor and a task goes by a link of its own to the init of that task: the holder, from whose
memory later tasks are forked, reads nothing of it.

The end of a holder is the end of all of its tasks: the kernel ends a PID namespace with its process 1.

For one event loop, but for `begin` and `wait`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import marshal
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from tickwise.adapters.runner.process.cgroups import Group
from tickwise.adapters.runner.process.parent.parent_program import PATIENCE_SECONDS
from tickwise.adapters.runner.process.parent.task_parents import ShortEnd, ShortTaskLost, Unmade
from tickwise.adapters.runner.process.sandbox import landlock
from tickwise.adapters.runner.process.sandbox.plan import SHARED_MEMORY, TMP, SandboxPlan
from tickwise.adapters.runner.process.sandbox.prepared import holder_program
from tickwise.adapters.runner.process.sandbox.prepared.holder_program import (
    BEGAN,
    CONFIG,
    END,
    ENDED,
    FAILED,
    FAILURE,
    FORK,
    KILL,
    LENGTH,
    LIVES,
    NETWORK,
    READY,
    SHOW,
)
from tickwise.adapters.runner.process.sandbox.syscalls import seccomp_filter
from tickwise.adapters.runner.process.task_starter import StarterLost
from tickwise.adapters.runner.process.tree import Reaped
from tickwise.adapters.runner.process.warm import zygote_program

PROGRAMS: Final = "/run/tickwise"
"""The folder of the programs in a prepared sandbox."""
CAPABILITIES: Final = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_NET_ADMIN", "CAP_SYS_RESOURCE")
"""Of the holder, in its own user namespace: for namespaces and mounts; to give up rights; to begin a loopback; to
forbid user namespaces."""
OPTIONS: Final = (
    "--unshare-all",
    "--unshare-user",
    "--die-with-parent",
    "--new-session",
    "--as-pid-1",
    *(word for name in CAPABILITIES for word in ("--cap-add", name)),
)
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
NETWORKS: Final = 256
"""Tasks that a holder has at a time."""
MAX_REQUEST_BYTES: Final = 64 << 10
"""A link takes it at once. A task with more starts another way."""
READ_BYTES: Final = 1 << 17
READY_SECONDS: Final = 10.0
"""For a holder to begin: 0.1 s on an idle machine."""
LOST_SECONDS: Final = 10.0
"""A holder of which a start hears nothing for so long is stopped, or starved. It is ended."""
LATE_SECONDS: Final = 1.0
"""A timer that comes later than that shows that this process stood still."""
REAP_SECONDS: Final = 5.0
END_SECONDS: Final = 5.0
KILL_TRIES: Final = 40
"""Sweeps, 5 ms apart, after which an init that does not end its task is killed itself."""
_DESCRIPTORS: Final = 3
_RIGHTS_BYTES: Final = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)

logger = structlog.get_logger("tickwise.executor")


class HolderUser(NamedTuple):
    """The user of a holder and of all of its tasks."""

    uid: int
    gid: int
    groups: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderStart:
    """A holder to start."""

    bubblewrap: str
    """The path of the program."""
    plan: SandboxPlan
    """The surroundings of its tasks; `place` is one of its mounts, writable."""
    place: Path
    """The folder with the folders of its tasks, which exists. A task sees its own folder at this path."""
    python: Sequence[str]
    """The interpreter with its options."""
    environment: Mapping[str, str]
    """Of the interpreter: what its tasks have in common."""
    is_warm: bool = False
    """Its interpreter has loaded the modules of a zygote, and forks scripts."""
    user: HolderUser | None = None
    """None: the executor's own."""
    patience_seconds: float = PATIENCE_SECONDS
    """The age at which a task is handed to the executor, with its output."""


class TaskSlot(NamedTuple):
    """The room for one task in a holder."""

    folder: Path
    """The folder of the task. What is there after a task that was not tidy is the caller's."""
    is_new: bool
    """The folder is to be made."""
    network: int


class PreparedTask(NamedTuple):
    """A task to start. Paths are those that the task sees: its folder is at the place of its holder."""

    number: int
    """The limit that only it has (`tree`)."""
    script: str
    """The name of the file that takes the source; empty: it has none."""
    source: bytes
    work: str
    """Its current folder."""
    arguments: Sequence[str]
    environment: Mapping[str, str]
    warm: bytes | None = None
    """The request to a zygote (`WarmRequest.content`), for a script that is forked; None: `arguments` are executed."""


class _Link:
    """The way to one init."""

    def __init__(self, link: socket.socket, slot: TaskSlot, script: str, answer: asyncio.Future[Any]) -> None:
        self.socket = link
        self.slot = slot
        self.script = script
        self.answer = answer
        self.received = b""
        self.descriptors: list[int] = []
        self.timer: asyncio.TimerHandle | None = None


class PreparedProcess:
    """The process of a task that lives, which its init reaps (`ReapedElsewhere`)."""

    def __init__(self, holder: SandboxHolder, link: _Link) -> None:
        self._holder = holder
        self._link = link
        self._init, self._task = link.descriptors[:2]
        self._kills = 0
        self.pid = _pid_of(self._task)
        """0: it has ended, and its number is not known."""

    def watch(self) -> int:
        """Return a new descriptor that is readable when nothing of the task is left."""
        return os.dup(self._init)

    def holds_number(self) -> bool:
        """See `ReapedElsewhere`."""
        try:
            signal.pidfd_send_signal(self._task, 0)
        except OSError:
            return False
        return self.pid > 0

    def kill_all(self) -> None:
        """End all of the task: its init does, or is ended itself."""
        self._kills += 1
        try:
            if self._kills > KILL_TRIES:
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            elif self._kills == 1:
                self._link.socket.send(KILL, socket.MSG_DONTWAIT)
        except OSError:
            return  # it has ended

    def reap(self) -> Reaped | None:
        """Take its exit status; None: its init was killed. Blocking. Once."""
        link = self._link.socket
        content = self._link.received
        try:
            link.settimeout(REAP_SECONDS)
            while len(content) < 1 + END.size:
                piece = link.recv(READ_BYTES)
                if not piece:
                    break
                content += piece
        except OSError:
            content = b""
        for descriptor in (self._init, self._task):
            os.close(descriptor)
        self._holder.release_from_thread(self._link)
        if content[:1] != ENDED or len(content) < 1 + END.size:
            return None
        _, _, seconds, status, peak, *_ = END.unpack_from(content, 1)
        return Reaped(status, seconds, peak * 1024 or None)


class LivingTask(NamedTuple):
    """A task that lives."""

    process: PreparedProcess
    output: int
    """Our end of the pipe of its output."""
    began: float
    """On the monotonic clock."""


@dataclass(frozen=True, slots=True)
class TaskNamespace(Group):
    """The PID namespace of a task, where `tree` takes a control group."""

    process: PreparedProcess

    def members(self) -> set[int]:
        """None that the other marks do not find: when its init has ended, all of it has."""
        return set()

    def kill(self) -> None:
        """Kill all of it."""
        self.process.kill_all()


class SandboxHolder:
    """One process of the program, with all of its tasks."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, start: HolderStart, path: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._control = control
        self.place = start.place
        self.is_warm = start.is_warm
        self.path = path.split("\0")
        """The folders that its interpreter imports from."""
        self._free = list(range(NETWORKS))
        """The numbers of networks that no task is in. The last one that was in use is used next, so few are made."""
        self._links: set[_Link] = set()
        """Those that were not answered."""
        self._shown: set[_Link] = set()
        self._clean: dict[str, list[Path]] = {}
        """Folders that tasks have left as they were made, by the name of the script in them."""
        self._folders = count(1)
        self.starts = 0
        self.is_lost = False
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._hear)

    @staticmethod
    def begin(start: HolderStart) -> tuple[subprocess.Popen[bytes], socket.socket, HolderStart, str]:
        """Start the program, and wait until it is ready: the arguments of this class. Blocking, some 50 ms; the thread
        must live as long as the holder. Raises `StarterLost`, with its last words, if it does not become ready."""
        process, control = _spawned(start)
        try:
            control.settimeout(READY_SECONDS)
            control.send(CONFIG + marshal.dumps(_config(start)))
            said = control.recv(READ_BYTES)
        except OSError as error:
            said = os.fsencode(str(error))
        if said[:1] == READY:
            assert process.stderr is not None
            process.stderr.close()
            return process, control, start, os.fsdecode(said[1:])
        control.close()
        process.kill()
        _, words = process.communicate()
        raise StarterLost(f"{said[1:].decode(errors='replace')} {words.decode(errors='replace')}"[-500:].strip())

    @property
    def pid(self) -> int:
        """The number of bubblewrap's process."""
        return self._process.pid

    @property
    def tasks(self) -> int:
        """Those that live."""
        return len(self._links) + len(self._shown)

    @property
    def has_room(self) -> bool:
        """It can be asked for a start."""
        return bool(self._free) and not self.is_lost

    def slot(self, script: str) -> TaskSlot:
        """Take the room for a task whose script has this name (empty: it has none); `has_room` says that there is one.
        `start` gives it back."""
        clean, network = self._clean.get(script), self._free.pop()
        if clean:
            return TaskSlot(clean.pop(), False, network)
        return TaskSlot(self.place / f"task-{next(self._folders)}", True, network)

    async def start(self, slot: TaskSlot, task: PreparedTask, hurry: asyncio.Future[Any]) -> ShortEnd | LivingTask:
        """Start a task. `hurry`: when it is done, a task that lives is shown at once. Raises as the module says."""
        said: tuple[Any, ...] = (task.number, slot.folder.name, slot.is_new, *task[1:])
        text = marshal.dumps(said)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                if len(text) > MAX_REQUEST_BYTES or self.is_lost:
                    raise BlockingIOError
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
                ours.send(LENGTH.pack(len(text)) + text)
                self._control.sendmsg([FORK + NETWORK.pack(slot.network)], rights)
        except OSError as error:
            ours.close()
            self._free.append(slot.network)
            if not isinstance(error, BlockingIOError):
                self.lose()
            raise Unmade from error
        self.starts += 1
        link = _Link(ours, slot, task.script, self._loop.create_future())
        self._links.add(link)
        self._loop.add_reader(ours.fileno(), self._read, link)
        link.timer = self._loop.call_later(LOST_SECONDS, self._overdue, link)

        def show(_hurry: asyncio.Future[Any]) -> None:
            with contextlib.suppress(OSError):
                ours.send(SHOW)

        hurry.add_done_callback(show)
        try:
            return await link.answer  # type: ignore[no-any-return]  # a future of either
        finally:
            link.timer.cancel()
            hurry.remove_done_callback(show)

    # ------------------------------------------------------------------------------------------ answers

    def _read(self, link: _Link) -> None:
        try:
            piece, ancillary, _, _ = link.socket.recvmsg(READ_BYTES, _RIGHTS_BYTES, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            piece, ancillary = b"", []
        for _, _, data in ancillary:
            link.descriptors.extend(array.array("i", data))
        link.received += piece
        if not piece:
            self._over(link)
            _answer(link, ShortTaskLost())
            return
        kind, said = link.received[:1], link.received[1:]
        if kind == ENDED and len(said) >= END.size:
            began, ended, seconds, status, peak, is_clean, length = END.unpack_from(said)
            if len(said) < END.size + length:
                return
            self._over(link)
            self._free.append(link.slot.network)
            if is_clean:
                self._clean.setdefault(link.script, []).append(link.slot.folder)
            reaped = Reaped(status, seconds, peak * 1024 or None)
            _answer(link, ShortEnd(began, ended, reaped, said[END.size :], bool(is_clean)))
        elif kind == LIVES and len(said) >= BEGAN.size:
            self._links.discard(link)
            self._loop.remove_reader(link.socket.fileno())
            self._shown.add(link)
            link.received = said[BEGAN.size :]
            process = PreparedProcess(self, link)
            _answer(link, LivingTask(process, link.descriptors[2], *BEGAN.unpack_from(said)))
        elif kind == FAILED and len(said) >= FAILURE.size:
            number, is_of_program, length = FAILURE.unpack_from(said)
            self._over(link)
            self._free.append(link.slot.network)
            name = os.fsdecode(said[FAILURE.size : FAILURE.size + length])
            error = OSError(number, os.strerror(number), name)
            if not is_of_program:
                logger.warning("prepared_sandbox_unmade", detail=str(error))
            _answer(link, error if is_of_program else Unmade())

    def _over(self, link: _Link) -> None:
        """Nothing more comes from it."""
        self._links.discard(link)
        self._loop.remove_reader(link.socket.fileno())
        link.socket.close()

    def release_from_thread(self, link: _Link) -> None:
        """All of a task that was shown has ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._release, link)

    def _release(self, link: _Link) -> None:
        self._shown.discard(link)
        self._free.append(link.slot.network)
        link.socket.close()

    # ------------------------------------------------------------------------------------------ end

    def _hear(self) -> None:
        """The holder has ended: it says nothing else."""
        with contextlib.suppress(BlockingIOError):
            if not self._control.recv(READ_BYTES):
                self.lose()

    def _overdue(self, link: _Link) -> None:
        """Nothing was heard of a start. If this comes late, this process stood still, and perhaps all with it: then
        nobody could answer."""
        if link.answer.done():
            return  # it was read in this turn of the loop
        if link.timer is not None and self._loop.time() - link.timer.when() > LATE_SECONDS:
            link.timer = self._loop.call_later(LOST_SECONDS, self._overdue, link)
            return
        self.lose()

    def lose(self) -> None:
        """End it with all of its tasks. Those that were not answered are lost."""
        if self.is_lost:
            return
        logger.warning("prepared_sandbox_lost", pid=self.pid, starts=len(self._links))
        self.close()

    def close(self) -> None:
        """End it, and all that is left of its tasks."""
        if self.is_lost:
            return
        self.is_lost = True
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        self._process.kill()
        for link in [*self._links]:
            self._over(link)
            _answer(link, ShortTaskLost())

    def wait(self) -> None:
        """Take its exit status. Blocking."""
        self._process.wait()


def _answer(link: _Link, found: ShortEnd | LivingTask | Exception) -> None:
    if link.answer.done():
        return  # nobody waits
    if isinstance(found, Exception):
        link.answer.set_exception(found)
    else:
        link.answer.set_result(found)


def _pid_of(descriptor: int) -> int:
    """The number of a process by its descriptor, as this process sees it; 0: it was reaped."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
        for line in file:
            if line.startswith(b"Pid:"):
                return max(0, int(line[4:]))
    return 0


# ---------------------------------------------------------------------------------------------- the program


def _config(start: HolderStart) -> dict[str, Any]:
    """As `holder_program.Config` reads it."""
    sizes, home = start.plan.sizes, start.plan.home
    private = ((TMP, sizes.tmp, "1777"), (SHARED_MEMORY, sizes.shared_memory, "1777"), (home, sizes.home, "0700"))
    writable = [str(start.place), TMP, SHARED_MEMORY, home]
    devices = landlock.READ | landlock.WRITE_FILE | landlock.DEVICE_IOCTL
    return {
        "place": str(start.place),
        "temporary": [(path, f"size={size},mode={mode}") for path, size, mode in private],
        "kept": _kept(start),
        "has_terminals": _has_terminals(start),
        "rules": [("/", landlock.READ), ("/dev", devices), *((path, -1) for path in writable)],
        "filter": seccomp_filter(),
        "is_warm": start.is_warm,
        "patience_seconds": start.patience_seconds,
    }


def _has_terminals(start: HolderStart) -> bool:
    """Check whether tasks can have a `/dev/pts` of their own: the kernel makes one only where user 0 is somebody."""
    return (os.geteuid() if start.user is None else start.user.uid) == 0


def _options(start: HolderStart) -> list[str]:
    """The options of its plan. bubblewrap makes terminals in a user namespace around that of the holder, which then has
    no rights over its own namespaces. So a holder that cannot give terminals has none itself."""
    words = start.plan.options()
    if _has_terminals(start):
        return words
    place = words.index("--dev")
    devices = ["--tmpfs", "/dev"]
    for name in DEVICES:
        devices += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        devices += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    devices += ["--symlink", "/proc/self/fd", "/dev/fd"]
    return [*words[:place], *devices, *words[place + 2 :]]


def _kept(start: HolderStart) -> list[str]:
    """The mounts that lie in a private place, and would be hidden by it; from the outside to the inside."""
    private = (TMP, SHARED_MEMORY, start.plan.home)
    targets = {mount.target for mount in start.plan.mounts} - {str(start.place)}
    return sorted((each for each in targets if any(each.startswith(f"{one}/") for one in private)), key=len)


def _spawned(start: HolderStart) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Raises `StarterLost`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    files: list[int] = []
    try:
        words: list[str] = [*OPTIONS]
        for module in (holder_program, zygote_program):
            files.append(_in_memory(Path(str(module.__file__)).read_bytes()))
            words += ["--ro-bind-data", str(files[-1]), f"{PROGRAMS}/{Path(str(module.__file__)).name}"]
        words += _options(start)
        for name, value in start.environment.items():
            words += ["--setenv", name, value]
        files.append(_in_memory(b"".join(os.fsencode(word) + b"\0" for word in words)))
        program = f"{PROGRAMS}/{Path(holder_program.__file__).name}"
        with theirs:
            process = subprocess.Popen(
                [
                    *(start.bubblewrap, "--args", str(files[-1]), "--"),
                    *(*start.python, program, str(theirs.fileno())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(), *files),
                cwd="/",
                env={},
                **({} if start.user is None else _as_user(start.user)),
            )
    except OSError as error:
        ours.close()
        raise StarterLost(f"{start.bubblewrap}: {error.strerror}") from error
    finally:
        for file in files:
            os.close(file)
    return process, ours


def _as_user(user: HolderUser) -> dict[str, Any]:
    return {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)}


def _in_memory(content: bytes) -> int:
    """A file in memory with this content, to be read from its begin."""
    file = os.memfd_create("tickwise-sandbox", os.MFD_CLOEXEC)
    with open(file, "wb", closefd=False) as opened:
        opened.write(content)
    os.lseek(file, 0, os.SEEK_SET)
    return file
