"""The program whose children ordinary tasks are: `parent_program.py SOCKET PAGE EXECUTOR`.

    in    length (4 bytes), marshalled ("start", …), ("warm", …), ("zygote", …) with a descriptor, ("show", key) or
          ("reap", key)
    out   length (4 bytes), marshalled ("ended", …), ("lives", …) with two descriptors, ("failed", …), ("unmade", key)
          or ("reaped", …)

    start ──► folder, script ──► posix_spawn ──ends within PATIENCE_SECONDS──► nothing of it left ──► ended
                                     ├── lives longer, or the executor asks ──► lives: the executor watches it
                                     └── ends, and has left processes ────────► lives: the executor ends those

A short task costs its executor one message in each direction: its folder, its start, its output, its exit status and
the removal of its folder are the work of this process, which has one thread and little memory. `posix_spawn` shares
that memory with the child until its program is executed (`vfork`).

The kernel makes this process the parent of all that a task has left (PR_SET_CHILD_SUBREAPER). So a task is gone when
its own process is, and this process has no child that it does not know: also one that left its group cannot hide.

A warm script is forked by a zygote, which is a parent of the same kind (`subreaper_program`), and reaps it. Its request
goes from the executor to the child as it is.

The PAGE tells the executor what had begun if this process is killed: a word for each place, 0, then BEGINS, then the
number of the process.

A disk takes longer to make and remove three files than a short task runs (ext4: 0.4 ms of processor time, and more with
each that was removed in the last seconds). So a folder that a task has left as it was is kept, empty, for a later one.

Invariants: it starts nothing when its executor is dead; it never
reaps a task that the executor knows by its number, until it is asked to.
"""

import _signal  # type: ignore[import-not-found]  # the part of `signal` without its enums, which take 1 MB
import _socket
import array
import errno
import gc
import marshal
import mmap
import os
import resource
import select
import stat
import struct
import sys
import time
from collections import deque

TYPE_CHECKING = False  # that of `typing`, which nothing here needs
if TYPE_CHECKING:
    from typing import Any

PATIENCE_SECONDS = 0.05
"""The age at which a task is handed to the executor, with its output."""
LOOK_SECONDS = 1.0
"""Between two looks, while there are tasks, for what they have left and for zygotes that stand still."""
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
RLIMIT_LOCKS = 10
READ_BYTES = 1 << 16
PROC_BYTES = 1 << 12
"""The kernel gives no more of a list of children at once."""
MAX_OUTPUT_READS = 64
"""Of the rest of a pipe: at most the capacity of one."""
BEGINS = -1
"""In the page: the program is being executed."""
WORD = struct.Struct("=q")
LENGTH_BYTES = 4
RIGHTS_BYTES = _socket.CMSG_SPACE(8 * array.array("i").itemsize)
LOST = (None, 0.0, None)
"""For an exit status, with processor time and a peak of memory."""
OOM_SCORE = b"500"  # as `tree.OOM_SCORE`
LIMIT_LINE = b"\nMax file locks"
WORK = "work"
MAX_SPARES = 32
"""Of one name of a script. They are removed when nothing happens for a second."""
ATTEMPTS = 10_000_000  # as `orphan_reaper_program.ATTEMPTS`
FORK, REAP, SWEEP = b"F", b"R", b"S"
NUMBER = struct.Struct("<q")
REAPED = struct.Struct("<iidq")
"""As in `zygote_program`."""
FORK_SECONDS = 2.0
"""For the number of a zygote's child. A zygote that takes longer is stopped or starved: the script starts cold."""
STOPPED_SECONDS = 5.0
"""A zygote that gives no exit status for so long is sent CONT; after twice as long it is lost."""


class ChildTask:
    """A task, by the key that the executor gave it. `script`: the file for its source; empty: it has none. `work`: its
    current folder. `place`: in the page."""

    __slots__ = (
        *("began", "descriptor", "folder", "key", "number", "output", "pid", "place", "report", "request", "script"),
        *("work", "zygote"),
    )

    def __init__(self, key: int, place: int, folder: str, script: str, work: str, number: int) -> None:
        self.key = key
        self.place = place
        self.folder = folder
        self.script = script
        self.work = work
        self.number = number
        self.pid = self.descriptor = self.output = -1
        self.began = 0.0
        self.zygote: ZygoteLink | None = None
        """None: it is a child of this process."""
        self.report: _socket.socket | None = None
        """Of a warm script: it says there that it cannot begin, or closes it."""
        self.request = b""


class ZygoteLink:
    """A zygote that this process asks for children."""

    def __init__(self, key: int, link: _socket.socket, pid: int, number: int) -> None:
        self.key = key
        self.link = link
        self.pid = pid
        self.number = number
        """That of its own limit, which a child has until it reads its request."""
        self.children = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
        self.names: set[bytes] = set()
        """Of the tasks that are its children, by process number in the form of `/proc`."""
        self.forking: dict[int, ChildTask] = {}
        """By the descriptor of the report: those that wait for their number, the oldest first."""
        self.reaping: deque[tuple[str, ChildTask, float]] = deque()
        """The tasks whose exit status it was asked for, in this order, each with the purpose and the time."""


class Parent:
    """Its children, and what is asked of it."""

    def __init__(self, asker: _socket.socket, page: mmap.mmap, executor: int) -> None:
        self._asker = asker
        self._page = page
        self._executor = executor
        self._received = b""
        self._descriptors: deque[int] = deque()
        self._answers = bytearray()
        self._tasks: dict[int, ChildTask] = {}
        """Those that have begun and were not reaped."""
        self._young: dict[int, ChildTask] = {}
        """Those of them that the executor has not been shown, the oldest first."""
        self._watched: dict[int, ChildTask] = {}
        """By their descriptors."""
        self._names: set[bytes] = set()
        """Of those that are children of this process."""
        self._zygotes: dict[int, ZygoteLink] = {}
        self._links: dict[int, ZygoteLink] = {}
        self._forking: dict[int, ChildTask] = {}
        self._spares: dict[str, list[str]] = {}
        """Folders that were used, by the name of the script in them."""
        self._children = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
        self._lock_limits = resource.getrlimit(RLIMIT_LOCKS)
        self._spare_count = 0
        self._uid, mask = os.geteuid(), os.umask(0)
        os.umask(mask)
        self._modes = (stat.S_IFDIR | 0o700, stat.S_IFDIR | 0o777 & ~mask, stat.S_IFREG | 0o666 & ~mask)
        """Of a folder, of a work folder and of a script as they are made."""
        self._own_peak = 0
        self._has_strangers = False
        """Tasks have left processes that were not reaped yet, perhaps."""
        self._events = select.epoll()
        self._events.register(asker.fileno(), select.EPOLLIN)

    def serve(self) -> None:
        """Until the executor is gone."""
        asker = self._asker.fileno()
        while True:
            ready = [descriptor for descriptor, _ in self._events.poll(self._pause_seconds())]
            for descriptor in ready:
                if descriptor in self._watched:
                    self._end(self._watched[descriptor])
                elif descriptor in self._links:
                    self._hear(self._links[descriptor])
            # These last, because a task that begins may get the descriptor of one that has ended.
            for descriptor in ready:
                if descriptor in self._forking:
                    self._forked(self._forking[descriptor])
            if asker in ready:
                self._take()
            if self._young:
                self._show_old()
            if not ready:
                self._remove_spares()
                self._has_strangers = bool(self._strangers(None))
            if self._links:
                self._look_at_zygotes()
            self._flush()

    def _pause_seconds(self) -> float:
        for task in self._young.values():
            return max(0.0, task.began + PATIENCE_SECONDS - _now())
        is_idle = not (self._tasks or self._forking or self._has_strangers or self._spares)
        return -1.0 if is_idle else LOOK_SECONDS

    # ------------------------------------------------------------------------------------------ messages

    def _take(self) -> None:
        """Carry out what has come."""
        piece, ancillary, _, _ = self._asker.recvmsg(READ_BYTES, RIGHTS_BYTES, _socket.MSG_CMSG_CLOEXEC)
        if not piece:
            os._exit(0)
        for _, _, data in ancillary:
            self._descriptors.extend(array.array("i", data))
        content, begin = self._received + piece, 0
        carry: dict[str, Any] = {"start": self._start, "warm": self._warm, "zygote": self._join}
        carry |= {"show": self._asked, "reap": self._reap}
        while len(content) >= begin + LENGTH_BYTES:
            end = begin + LENGTH_BYTES + int.from_bytes(content[begin : begin + LENGTH_BYTES], "big")
            if len(content) < end:
                break
            what, *said = marshal.loads(content[begin + LENGTH_BYTES : end])
            begin = end
            carry[what](*said)
        self._received = content[begin:]

    def _answer(self, *said: "Any") -> None:
        text = marshal.dumps(said)
        self._answers += len(text).to_bytes(LENGTH_BYTES, "big") + text

    def _flush(self) -> None:
        if self._answers:
            self._asker.sendall(self._answers)
            self._answers.clear()

    # ------------------------------------------------------------------------------------------ start

    def _start(self, source: bytes, arguments: "list[str]", environment: "dict[str, str]", *where: "Any") -> None:
        task = ChildTask(*where)
        try:
            task.output, theirs = self._made(task.folder, task.script, source)
        except OSError:
            self._answer("unmade", task.key)
            return
        try:
            os.chdir(task.work)
            self._take_number(task.number)
            self._note(task, BEGINS)
            task.pid = _spawned(arguments, environment, theirs)
            self._note(task, task.pid)
        except OSError as error:
            self._note(task, 0)
            os.close(task.output)
            self._answer("failed", task.key, error.errno or errno.EIO, os.fsencode(error.filename or task.work))
            return
        finally:
            resource.setrlimit(RLIMIT_LOCKS, self._lock_limits)
            os.close(theirs)
            os.chdir("/")
        task.descriptor = os.pidfd_open(task.pid)
        _offer_first(task.pid)
        self._names.add(str(task.pid).encode())
        self._begun(task)

    def _take_number(self, number: int) -> None:
        """For the child, which has it before its first instruction."""
        try:
            resource.setrlimit(RLIMIT_LOCKS, (number, self._lock_limits[1]))
        except (OSError, ValueError):
            return  # it lives under a lower limit: the other marks remain

    def _note(self, task: ChildTask, state: int) -> None:
        """Write into the page how far it is. Nothing begins without an executor."""
        if state == BEGINS and os.getppid() != self._executor:
            os._exit(0)
        WORD.pack_into(self._page, task.place * WORD.size, state)

    def _begun(self, task: ChildTask) -> None:
        task.began = _now()
        self._tasks[task.key] = self._young[task.key] = self._watched[task.descriptor] = task
        self._events.register(task.descriptor, select.EPOLLIN)

    def _made(self, folder: str, script: str, source: bytes) -> "tuple[int, int]":
        """Make the folders of a task, with its script, and the pipe of its output. Raises `OSError`, and then leaves
        nothing."""
        try:
            if not self._took_spare(folder, script, source):
                os.mkdir(folder, 0o700)
                os.mkdir(f"{folder}/{WORK}")
                if script:
                    _write(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL, source)
            ours, theirs = os.pipe()
        except OSError as error:
            if not isinstance(error, FileExistsError):
                _removed(folder, script)
            raise
        os.set_blocking(ours, False)
        return ours, theirs

    def _took_spare(self, folder: str, script: str, source: bytes) -> bool:
        spares = self._spares.get(os.path.basename(script))
        if not spares:
            return False
        spare = spares.pop()
        try:
            os.rename(spare, folder)
            if script:
                _write(script, os.O_WRONLY | os.O_NOFOLLOW | (0 if source else os.O_TRUNC), source)
        except OSError:
            # Its last task has done something to it that no look has shown, or somebody has removed it.
            _removed(spare, f"{spare}/{os.path.basename(script)}" if script else "")
            _removed(folder, script)
            return False
        return True

    def _is_spared(self, task: ChildTask) -> bool:
        """Keep the folder of a task that has left it as it was. None of its processes lives."""
        name = os.path.basename(task.script)
        spares = self._spares.setdefault(name, [])
        if len(spares) >= MAX_SPARES:
            return False
        work, names = f"{task.folder}/{WORK}", [WORK, name] if name else [WORK]
        try:
            if os.listdir(work) or sorted(os.listdir(task.folder)) != sorted(names):
                return False
            for path, mode in zip((task.folder, work, task.script), self._modes, strict=True):
                if path:
                    found = os.lstat(path)
                    is_linked = path == task.script and found.st_nlink != 1
                    if found.st_mode != mode or found.st_uid != self._uid or is_linked:
                        return False
                    if os.listxattr(path, follow_symlinks=False):
                        return False
            if name:
                # To a byte: a file that was empty is written to the disk as soon as it is closed (ext4).
                os.truncate(task.script, min(1, os.path.getsize(task.script)))
            self._spare_count += 1
            spare = f"{os.path.dirname(task.folder)}/spare-{os.getpid()}-{self._spare_count}"
            os.rename(task.folder, spare)
        except OSError:
            return False
        spares.append(spare)
        return True

    def _remove_spares(self) -> None:
        for name, spares in self._spares.items():
            for spare in spares:
                _removed(spare, f"{spare}/{name}" if name else "")
        self._spares.clear()

    # ------------------------------------------------------------------------------------------ warm

    def _join(self, key: int, pid: int, number: int) -> None:
        """Ask a zygote for children from now on."""
        link = _socket.socket(fileno=self._descriptors.popleft())
        link.setblocking(False)
        try:
            zygote = ZygoteLink(key, link, pid, number)
        except OSError:
            link.close()  # it has ended
            return
        self._zygotes[key] = self._links[link.fileno()] = zygote
        self._events.register(link.fileno(), select.EPOLLIN)

    def _warm(self, source: bytes, zygote: int, request: bytes, *where: "Any") -> None:
        task = ChildTask(*where)
        task.zygote, task.request = self._zygotes.get(zygote), request
        if task.zygote is None:
            self._answer("unwarm", task.key)
            return
        try:
            task.output, theirs = self._made(task.folder, task.script, source)
        except OSError:
            self._answer("unmade", task.key)
            return
        task.report, reports = _socket.socketpair()
        descriptors = array.array("i", [reports.fileno(), theirs])
        try:
            task.zygote.link.sendmsg([FORK], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        except OSError:
            self._give_up(task)
            self._lose(task.zygote)
            return
        finally:
            reports.close()
            os.close(theirs)
        task.report.setblocking(False)
        task.began = _now()
        self._forking[task.report.fileno()] = task.zygote.forking[task.report.fileno()] = task
        self._events.register(task.report.fileno(), select.EPOLLIN)

    def _forked(self, task: ChildTask) -> None:
        """The child of a zygote has said its number. Send it its request."""
        assert task.zygote is not None
        assert task.report is not None
        self._forks_no_more(task)
        number = 0
        try:
            said = task.report.recv(NUMBER.size)
            number = NUMBER.unpack(said)[0] if len(said) == NUMBER.size else 0
            if number <= 0 or int(_stat(b"%d" % number)[1]) != task.zygote.pid:
                raise ProcessLookupError
            task.pid = number
            task.descriptor = os.pidfd_open(number)
            self._note(task, BEGINS)
            task.report.sendall(task.request)
        except OSError:
            self._note(task, 0)
            self._give_up(task)
            if -number not in (errno.EAGAIN, errno.ENOMEM):  # else the machine has no room
                self._lose(task.zygote)
            return
        task.request = b""
        self._note(task, task.pid)
        task.zygote.names.add(str(task.pid).encode())
        self._begun(task)

    def _forks_no_more(self, task: ChildTask) -> None:
        assert task.zygote is not None
        assert task.report is not None
        self._events.unregister(task.report.fileno())
        del self._forking[task.report.fileno()], task.zygote.forking[task.report.fileno()]

    def _give_up(self, task: ChildTask) -> None:
        """A script that has not begun, and never will: its child ends without its request."""
        assert task.report is not None
        task.report.close()
        os.close(task.output)
        if task.pid > 0:
            os.kill(task.pid, _signal.SIGKILL)
        if task.descriptor >= 0:
            os.close(task.descriptor)
        _removed(task.folder, task.script)
        self._answer("unwarm", task.key)

    def _refusal(self, task: ChildTask) -> "int | None":
        """The number of the error for which a warm script could not begin; 0: it has begun; None: it may yet."""
        if task.report is None:
            return 0
        try:
            said = task.report.recv(NUMBER.size)
        except BlockingIOError:
            return None
        except OSError:
            said = b""
        task.report.close()
        task.report = None
        return -int(NUMBER.unpack(said)[0]) if len(said) == NUMBER.size else 0

    def _ask(self, what: str, task: ChildTask) -> None:
        """Ask its zygote for the exit status of a task."""
        assert task.zygote is not None
        try:
            task.zygote.link.send(REAP + NUMBER.pack(task.pid))
        except OSError:
            self._lose(task.zygote)
            self._know(what, task, LOST)
            return
        task.zygote.reaping.append((what, task, _now()))

    def _hear(self, zygote: ZygoteLink) -> None:
        """Take the answers of a zygote."""
        try:
            while zygote.reaping:
                said = zygote.link.recv(REAPED.size)
                if len(said) != REAPED.size:
                    break
                what, task, _ = zygote.reaping.popleft()
                failure, status, seconds, peak = REAPED.unpack(said)
                self._know(what, task, LOST if failure else (status, seconds, peak * 1024))
            else:
                if zygote.link.recv(1, _socket.MSG_PEEK):
                    self._lose(zygote)  # it says what nobody asked
                    return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._lose(zygote)

    def _look_at_zygotes(self) -> None:
        now = _now()
        for zygote in [*self._links.values()]:
            if any(now - task.began > FORK_SECONDS for task in zygote.forking.values()):
                self._lose(zygote)
            if zygote.reaping and zygote.key in self._zygotes:
                age = now - zygote.reaping[0][2]
                if age > 2 * STOPPED_SECONDS:
                    self._lose(zygote)
                elif age > STOPPED_SECONDS:
                    # Somebody may have stopped it, and it holds what the outcome of a task depends on.
                    os.kill(zygote.pid, _signal.SIGCONT)

    def _lose(self, zygote: ZygoteLink) -> None:
        """Ask it no more. Its tasks go on; their exit statuses are lost."""
        if self._zygotes.pop(zygote.key, None) is None:
            return
        del self._links[zygote.link.fileno()]
        self._events.unregister(zygote.link.fileno())
        zygote.link.close()
        os.close(zygote.children)
        self._answer("zygote_lost", zygote.key)
        for task in [*zygote.forking.values()]:
            self._forks_no_more(task)
            self._give_up(task)
        for what, task, _ in zygote.reaping:
            self._know(what, task, LOST)
        zygote.reaping.clear()

    # ------------------------------------------------------------------------------------------ end

    def _end(self, task: ChildTask) -> None:
        """The process of a task has ended that the executor does not watch."""
        refusal = self._refusal(task)
        if refusal:
            self._fail(task, refusal)
        elif (task.zygote is not None and task.zygote.key not in self._zygotes) or self._has_left(task):
            self._show(task)
        else:
            self._unwatch(task)
            if task.zygote is None:
                self._know("end", task, self._reaped(task))
            else:
                self._ask("end", task)

    def _know(self, what: str, task: ChildTask, end: "tuple[int | None, float, int | None]") -> None:
        """The exit status of a task is known, or lost."""
        self._tasks.pop(task.key, None)
        name = str(task.pid).encode()
        if task.zygote is None:
            self._names.discard(name)
        else:
            task.zygote.names.discard(name)
        if what == "end":
            ended, output = _now(), _rest_of(task.output)
            os.close(task.output)
            os.close(task.descriptor)
            self._answer(
                "ended",
                task.key,
                task.began,
                ended,
                *end,
                output,
                self._is_spared(task) or _removed(task.folder, task.script),
            )
        elif what == "reap":
            self._answer("reaped", task.key, *end)

    def _fail(self, task: ChildTask, number: int) -> None:
        """A warm script could not begin, and its process has ended."""
        self._unwatch(task)
        os.close(task.output)
        os.close(task.descriptor)
        self._answer("failed", task.key, number, os.fsencode(task.work))
        self._ask("nothing", task)

    def _has_left(self, task: ChildTask) -> bool:
        """Check whether a process of the task may live although its own has ended."""
        zygote = task.zygote
        for name in self._strangers(zygote):
            number = _number_of(name)
            if zygote is not None and number == zygote.number:
                continue  # a child that has not read its request
            # A process with the number of another task of this executor belongs to that one.
            if number == task.number or number // ATTEMPTS != task.number // ATTEMPTS:
                return True
        return False

    def _strangers(self, zygote: "ZygoteLink | None") -> "list[bytes]":
        """The children that live and are no task's own process: tasks have left them. Those that have ended are
        reaped. `zygote`: None, for those of this process."""
        file, names = (self._children, self._names) if zygote is None else (zygote.children, zygote.names)
        found = []
        for name in _children_of(file):
            if name in names:
                continue
            if zygote is None:
                try:
                    ended, _ = os.waitpid(int(name), os.WNOHANG)
                except OSError:
                    continue
                if not ended:
                    found.append(name)
            elif _has_ended(name):
                try:
                    zygote.link.send(SWEEP + NUMBER.pack(int(name)))
                except OSError:
                    continue
            else:
                found.append(name)
        return found

    def _show_old(self) -> None:
        now = _now()
        for task in [*self._young.values()]:
            if task.began + PATIENCE_SECONDS > now:
                return
            refusal = self._refusal(task)
            if refusal:
                self._fail(task, refusal)
            elif refusal is None:
                # It is slow to begin, and may say yet that it cannot.
                del self._young[task.key]
                self._young[task.key] = task
                task.began = now
            else:
                self._show(task)

    def _show(self, task: ChildTask) -> None:
        """Let the executor watch it."""
        self._unwatch(task)
        self._answer("lives", task.key, task.pid, task.began)
        descriptors = array.array("i", [task.descriptor, task.output])
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
        sent = self._asker.sendmsg([self._answers], rights)
        del self._answers[:sent]
        for descriptor in descriptors:
            os.close(descriptor)

    def _unwatch(self, task: ChildTask) -> None:
        del self._young[task.key]
        del self._watched[task.descriptor]
        self._events.unregister(task.descriptor)

    def _asked(self, key: int) -> None:
        """The executor wants to watch a task now."""
        if key in self._young:
            self._show(self._young[key])

    def _reap(self, key: int) -> None:
        """The executor wants the exit status of a task that it watches, all of which has ended."""
        task = self._tasks[key]
        self._has_strangers = True
        if task.zygote is None:
            self._know("reap", task, self._reaped(task))
        elif task.zygote.key in self._zygotes:
            self._ask("reap", task)
        else:
            self._know("reap", task, LOST)

    def _reaped(self, task: ChildTask) -> "tuple[int, float, int | None]":
        _, status, usage = os.wait4(task.pid, 0)
        peak = usage.ru_maxrss
        if peak > self._own_peak:
            # The kernel counts the memory that a child shares before it executes its program as the child's.
            self._own_peak = _own_peak()
        known = peak * 1024 if peak > self._own_peak else None
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, known


def _now() -> float:
    return time.monotonic()  # noqa: TID251  # it stands alone


def _children_of(file: int) -> "list[bytes]":
    """The numbers of a process's children, from this file of `/proc`."""
    content = piece = os.pread(file, PROC_BYTES, 0)
    while len(piece) > PROC_BYTES // 2:
        piece = os.pread(file, PROC_BYTES, len(content))
        content += piece
    return content.split()


def _has_ended(name: bytes) -> bool:
    try:
        return _stat(name)[0] in (b"Z", b"X")
    except OSError:
        return True


def _stat(name: bytes) -> "list[bytes]":
    return _content(b"/proc/%s/stat" % name).rpartition(b")")[2].split()


def _write(file: str, flags: int, content: bytes) -> None:
    """Raises `OSError`."""
    descriptor = os.open(file, flags, 0o666)
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    finally:
        os.close(descriptor)


def _removed(folder: str, script: str) -> bool:
    """Remove a folder with nothing in it but an empty work folder and a script; False: there is more."""
    for remove, path in ((os.rmdir, f"{folder}/{WORK}"), (os.unlink, script), (os.rmdir, folder)):
        try:
            if path:
                remove(path)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _spawned(arguments: "list[str]", environment: "dict[str, str]", output: int) -> int:
    """Start it in a session of its own; its input is empty, as that of this process. Raises `OSError`, which names the
    program."""
    program = arguments[0]
    denied = None
    for path in _paths(program, environment):
        try:
            return os.posix_spawn(
                path,
                arguments,
                environment,
                file_actions=((os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)),
                setsid=True,
                setsigmask=(),
                setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),  # Python ignores them; tasks shall not
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            denied = error.errno if denied is None else denied
    number = denied or errno.ENOENT
    raise OSError(number, os.strerror(number), program)


def _paths(program: str, environment: "dict[str, str]") -> "list[str]":
    """The files that a program may be, by the `PATH` of the task."""
    if "/" in program:
        return [program]
    paths = [f"{folder or '.'}/{program}" for folder in environment.get("PATH", os.defpath).split(":")]
    return [path for path in paths if os.path.lexists(path)]  # each try costs a process


def _rest_of(output: int) -> bytes:
    """The content of a pipe whose writers are gone."""
    pieces = []
    for _ in range(MAX_OUTPUT_READS):
        try:
            piece = os.read(output, READ_BYTES)
        except BlockingIOError:
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)


def _number_of(name: bytes) -> int:
    """As `tree.number_of`; 0: it has none, or has ended."""
    try:
        said = _content(b"/proc/%s/limits" % name).partition(LIMIT_LINE)[2].split(None, 1)[:1]
    except OSError:
        return 0
    return int(said[0]) if said and said[0].isdigit() else 0


def _offer_first(pid: int) -> None:
    """As `tree.offer_first`."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
            file.write(OOM_SCORE)
    except OSError:
        return


def _own_peak() -> int:
    """The peak of the memory of this process, in units of 1,024 bytes."""
    return int(_content(b"/proc/self/status").partition(b"VmHWM:")[2].split(None, 1)[0])


def _content(file: bytes) -> bytes:
    with open(file, "rb", buffering=0) as opened:
        return opened.read()


def _secluded() -> None:
    """Become the parent of orphans. Nobody looks into this process: it has had the variables of tasks. Raises
    `OSError`."""
    import ctypes

    libc, none = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    for what, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_DUMPABLE, 0)):
        if libc.prctl(what, ctypes.c_ulong(value), none, none, none) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def main() -> None:
    """Until the executor is gone. A kernel that lacks what is needed ends it at once."""
    asker = _socket.socket(fileno=int(sys.argv[1]))
    file = int(sys.argv[2])
    page = mmap.mmap(file, os.fstat(file).st_size)
    os.close(file)
    os.set_inheritable(asker.fileno(), False)
    _secluded()
    parent = Parent(asker, page, int(sys.argv[3]))
    gc.freeze()
    gc.disable()  # nothing here makes circles
    text = marshal.dumps(("ready",))
    asker.sendall(len(text).to_bytes(LENGTH_BYTES, "big") + text)
    try:
        parent.serve()
    except ConnectionError:
        os._exit(0)


if __name__ == "__main__":
    main()
