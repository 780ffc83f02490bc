"""The program inside a prepared sandbox: `holder_program.py SOCKET`.

    executor ──config──► holder: "ready"
             ──"fork", a network, an end of a link──► holder ──forks──► init: process 1 of a new PID namespace
             ── request ──────────────────────────── link ────────────► init: mounts, folder, walls
                                                                          └─forks─► the task: process 2
             ◄─ it ended / it lives, with descriptors / it could not begin ─ link ─ init

The holder keeps the rights that it has in its own user namespace, so that it can make namespaces and mounts. It runs
nothing of a task, reads nothing of a task, and is the parent of every init. An init makes the mounts, gives up all
rights, and puts itself behind the walls of a task (Landlock, seccomp) before it starts the task. Then it waits for the
end of the task, kills all that is left in its namespace, reports, and ends. If an init is killed, the kernel ends all
of its namespace. If the holder is killed, the kernel ends all of its tasks.

A program is started by `posix_spawn`, which copies no memory. A warm script is forked.

A task sees its own folder alone, at the place where the holder sees the folders of all of its tasks: the folder is
mounted over that place in a mount namespace of its own.

A network is a network namespace without a way out. The executor names one that no task is in. A network
namespace is used again after the end of its task, because making and removing one takes 1 ms of processor time. All
sockets of a task end with its processes, and a task has no right to change a network, so nothing stays in it.

It imports the standard library alone, has one thread, and works in every CPython from 3.9 on.
"""

_MAIN = dict(globals())
"""The names that the interpreter gives to the module of a script."""

import sys  # noqa: E402  # the names above must be those of a fresh module

_FRESH = frozenset(sys.modules)

import _signal  # type: ignore[import-not-found]  # noqa: E402  # the part of `signal` without its enums, which take 1 MB
import _socket  # noqa: E402  # after the names above were taken
import array  # noqa: E402  # after the names above were taken
import ctypes  # noqa: E402  # after the names above were taken
import errno  # noqa: E402  # after the names above were taken
import fcntl  # noqa: E402  # after the names above were taken
import gc  # noqa: E402  # after the names above were taken
import marshal  # noqa: E402  # after the names above were taken
import os  # noqa: E402  # after the names above were taken
import resource  # noqa: E402  # after the names above were taken
import select  # noqa: E402  # after the names above were taken
import stat  # noqa: E402  # after the names above were taken
import struct  # noqa: E402  # after the names above were taken
import time  # noqa: E402  # after the names above were taken

TYPE_CHECKING = False  # that of `typing`, which not every script wants
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND = 1, 2, 4, 8, 4096
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
SIOCSIFFLAGS, IFF_UP_RUNNING = 0x8914, 0x41
OPEN_TREE, MOVE_MOUNT = 428, 429
OPEN_TREE_CLONE, AT_RECURSIVE, AT_FDCWD, MOVE_MOUNT_F_EMPTY_PATH = 1, 0x8000, -100, 4
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
"""The numbers of calls: the same on every architecture."""
RLIMIT_LOCKS = 10
READ_BYTES = 1 << 16
MAX_OUTPUT_READS = 64
"""Of the rest of a pipe: at most the capacity of one."""
MAX_PACKET = 1 << 17
OOM_SCORE = b"500"  # as `tree.OOM_SCORE`
WORK = "work"
CONFIG, FORK, READY = b"C", b"F", b"H"
SHOW, KILL = b"S", b"K"
ENDED, LIVES, FAILED = b"E", b"L", b"X"
NETWORK = struct.Struct("<H")
LENGTH = struct.Struct("<I")
END = struct.Struct("<dddiqBI")
"""Begin and end on the monotonic clock, processor time, exit status, peak of the memory in units of 1,024 bytes (0: not
known), whether the folder is as it was made, and the length of the output, which follows."""
BEGAN = struct.Struct("<d")
FAILURE = struct.Struct("<iBI")
"""The number of an error, whether it is that of the program, and the length of the name, which follows."""


class Kernel:
    """Calls that Python does not offer. Each raises `OSError`."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        long, text = ctypes.c_ulong, ctypes.c_char_p
        self._libc.mount.argtypes = (text, text, text, long, text)
        self._libc.prctl.argtypes = (ctypes.c_int, long, long, long, long)
        self._libc.syscall.restype = ctypes.c_long
        self._nothing = (ctypes.c_uint32 * 6)()
        self._header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        self.landlock_abi = max(0, self._libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))

    def unshare(self, flags: int) -> None:
        """Go into new namespaces; of processes, only children do."""
        self._checked(self._libc.unshare(flags))

    def setns(self, file: int, kind: int) -> None:
        """Go into the namespace of this kind."""
        self._checked(self._libc.setns(file, kind))

    def mount(self, source: bytes, target: bytes, kind: "bytes | None", flags: int, options: "bytes | None") -> None:
        """Mount one file system."""
        self._checked(self._libc.mount(source, target, kind, flags, options), target)

    def opened_tree(self, path: str) -> int:
        """A copy of what is seen at this path, to be shown elsewhere."""
        flags = ctypes.c_uint32(OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC)
        return self._checked(self._libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(path), flags), os.fsencode(path))

    def show(self, tree: int, path: str) -> None:
        """Show a copy of `opened_tree` at this path. Closes it."""
        flags, name = ctypes.c_uint32(MOVE_MOUNT_F_EMPTY_PATH), os.fsencode(path)
        self._checked(self._libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, name, flags), name)
        os.close(tree)

    def prctl(self, what: int, value: int, more: int = 0) -> None:
        """Change a property of this process."""
        self._checked(self._libc.prctl(what, value, more, 0, 0))

    def drop_rights(self) -> None:
        """Give up all capabilities."""
        self._checked(self._libc.capset(self._header, self._nothing))

    def filter_of(self, program: bytes) -> "Any":
        """A seccomp filter, by its instructions of 8 bytes each; kept by the caller."""
        code = ctypes.create_string_buffer(program, len(program))
        described = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        return ctypes.create_string_buffer(described, len(described)), code

    def seccomp(self, made: "Any") -> None:
        """Take on a filter."""
        self.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(made[0]))

    def landlock(self, rules: "list[tuple[str, int]]") -> None:
        """Restrict this process to these rights below these folders, and to signals and abstract sockets of its own.
        An older kernel holds it to less; the mounts are the first wall."""
        abi = self.landlock_abi
        if not abi:
            return
        known = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
        attributes = struct.pack("QQQ", known, 0, 3)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
        call, none = self._libc.syscall, ctypes.c_uint32(0)
        made = self._checked(call(LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), none))
        for path, rights in rules:
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("<Qi", (known if rights < 0 else rights) & known, file)
            self._checked(call(LANDLOCK_ADD, ctypes.c_int(made), ctypes.c_int(1), rule, none))
            os.close(file)
        self._checked(call(LANDLOCK_RESTRICT, ctypes.c_int(made), none))
        os.close(made)

    @staticmethod
    def _checked(found: int, name: "bytes | None" = None) -> int:
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), *(() if name is None else (os.fsdecode(name),)))
        return found


class Config:
    """The surroundings of all tasks of one holder."""

    def __init__(self, kernel: Kernel, content: bytes) -> None:
        said = marshal.loads(content)
        self.place: str = said["place"]
        """The folder with the folders of all tasks; a task sees its own folder there."""
        self.temporary: list[tuple[bytes, bytes]] = [
            (os.fsencode(path), os.fsencode(options)) for path, options in said["temporary"]
        ]
        """The places of private file systems in memory, each with its options."""
        self.kept: list[str] = said["kept"]
        """Mounts of the holder in those places, which a task sees too."""
        self.has_terminals: bool = said["has_terminals"]
        """A task gets a `/dev/pts` of its own."""
        self.rules: list[tuple[str, int]] = [tuple(rule) for rule in said["rules"]]
        """Of Landlock; negative rights: all."""
        self.filter = kernel.filter_of(said["filter"])
        self.is_warm: bool = said["is_warm"]
        self.patience_seconds: float = said["patience_seconds"]
        """The age at which a task is handed to the executor, with its output."""
        self.root = os.open(self.place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


class TaskRequest:
    """The task that an init starts."""

    def __init__(self, content: bytes) -> None:
        (
            self.number,
            self.folder,
            self.is_new,
            self.script,
            self.source,
            self.work,
            self.arguments,
            self.environment,
            self.warm,
        ) = marshal.loads(content)
        # `folder`: its name in the place of all folders; `is_new`: it is to be made; `script`: the name of a file in
        # it, or none; `warm`: the content of a zygote's request, or None.


class Holder:
    """Makes inits, and no more."""

    def __init__(self, control: _socket.socket, kernel: Kernel) -> None:
        self._control = control
        self._kernel = kernel
        self._own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._networks: dict[int, int] = {}
        """The descriptors of network namespaces, by number."""
        content, *_ = control.recvmsg(MAX_PACKET)
        if content[:1] != CONFIG:
            os._exit(0)
        self.config = Config(kernel, content[1:])

    def make_ready(self) -> None:
        """Nothing that is started from here on gains a right. Nobody looks into this process. Raises `OSError`."""
        kernel = self._kernel
        with open("/proc/sys/kernel/cap_last_cap", "rb") as file:
            last = int(file.read())
        for number in range(last + 1):
            kernel.prctl(PR_CAPBSET_DROP, number)
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
        self._network_of(0)
        with open("/proc/sys/user/max_user_namespaces", "wb", buffering=0) as file:
            file.write(b"0")
        kernel.prctl(PR_SET_DUMPABLE, 0)
        # The kernel takes the exit statuses of inits: they have reported before they end.
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

    def serve(self) -> "TaskRequest":
        """Fork when asked to, until the executor is gone. Returns in the process of a warm script."""
        space = _socket.CMSG_SPACE(array.array("i").itemsize)
        while True:
            try:
                content, ancillary, _, _ = self._control.recvmsg(MAX_PACKET, space, _socket.MSG_CMSG_CLOEXEC)
            except OSError:
                content, ancillary = b"", []
            if not content:
                os._exit(0)
            descriptors = array.array("i")
            for _, _, data in ancillary:
                descriptors.frombytes(data)
            if content[:1] == FORK:
                found = self._forked(NETWORK.unpack(content[1:])[0], descriptors[0])
                if found is not None:
                    return found

    def _forked(self, network: int, link: int) -> "TaskRequest | None":
        """Fork an init. None in this process."""
        try:
            joined = self._network_of(network)
            self._kernel.unshare(CLONE_NEWPID)
            try:
                pid = os.fork()
            except OSError:
                self._kernel.setns(self._own_processes, CLONE_NEWPID)
                raise
        except OSError as error:
            _refuse(_socket.socket(fileno=link), error)
            return None
        if pid == 0:
            os.close(self._control.detach())
            return TaskInit(self._kernel, self.config, link, joined).run()
        self._kernel.setns(self._own_processes, CLONE_NEWPID)
        os.close(link)
        return None

    def _network_of(self, number: int) -> int:
        """The network namespace of this number. Raises `OSError`."""
        found = self._networks.get(number)
        if found is None:
            self._kernel.unshare(CLONE_NEWNET)
            one = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
            try:
                fcntl.ioctl(one.fileno(), SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP_RUNNING))
            finally:
                one.close()
            found = self._networks[number] = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return found


class TaskInit:
    """Process 1 of a task."""

    def __init__(self, kernel: Kernel, config: Config, link: int, network: int) -> None:
        self._kernel = kernel
        self._config = config
        self._link = _socket.socket(fileno=link)
        self._network = network
        self._pid = self._task = self._output = -1
        self._began = 0.0
        self._is_shown = False
        self._most_locks = resource.getrlimit(RLIMIT_LOCKS)[1]

    def run(self) -> "TaskRequest":
        """Returns in the process of a warm script; this process ends."""
        try:
            request = self._read()
            try:
                self._prepare(request)
            except OSError as error:
                _refuse(self._link, error)
                os._exit(0)
            self._output, theirs = os.pipe()
            self._began = _now()
            if request.warm is not None:
                self._pid = os.fork()
                if self._pid == 0:
                    return self._become(request, theirs)
            else:
                try:
                    self._pid = _spawned(request, theirs)
                except OSError as error:
                    _refuse(self._link, error, is_of_program=True)
                    os._exit(0)
            self._task = os.pidfd_open(self._pid)
            os.close(theirs)
            os.set_blocking(self._output, False)
            self._watch(request)
        except OSError:
            pass  # the executor is gone, and this ends all
        finally:
            if os.getpid() == 1:
                os._exit(0)
        raise AssertionError

    def _read(self) -> TaskRequest:
        """Raises `OSError`."""
        content = b""
        while len(content) < LENGTH.size or len(content) < LENGTH.size + LENGTH.unpack_from(content)[0]:
            piece = self._link.recv(1 << 18)
            if not piece:
                os._exit(0)  # the executor is gone, or has given this start up
            content += piece
        return TaskRequest(content[LENGTH.size :])

    # ------------------------------------------------------------------------------------------ before the task

    def _prepare(self, request: TaskRequest) -> None:
        """Make the namespaces, the folder and the mounts. Raises `OSError`."""
        kernel, config = self._kernel, self._config
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        kernel.prctl(PR_SET_DUMPABLE, 1)
        try:
            file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(file, OOM_SCORE)
            os.close(file)
        except OSError:
            pass  # the kernel chooses by size alone
        kernel.prctl(PR_SET_DUMPABLE, 0)
        try:
            resource.setrlimit(RLIMIT_LOCKS, (request.number, self._most_locks))
        except (OSError, ValueError):
            self._most_locks = 0  # it lives under a lower limit
        kernel.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)
        kernel.setns(self._network, CLONE_NEWNET)
        _make(config.root, request)
        kept = [(kernel.opened_tree(path), path) for path in config.kept]
        os.chdir(f"{config.place}/{request.folder}")
        for private, options in config.temporary:
            kernel.mount(b"tmpfs", private, b"tmpfs", MS_NOSUID | MS_NODEV, options)
        for tree, path in kept:
            _make_target(path, is_folder=stat.S_ISDIR(os.fstat(tree).st_mode))
            kernel.show(tree, path)
        _make_target(config.place, is_folder=True)
        kernel.mount(b".", os.fsencode(config.place), None, MS_BIND, None)
        # Read only: where the user of the task is root outside, files of the kernel's settings would be its own.
        kernel.mount(b"proc", b"/proc", b"proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
        if config.has_terminals:
            kernel.mount(
                b"devpts", b"/dev/pts", b"devpts", MS_NOSUID | MS_NOEXEC, b"newinstance,ptmxmode=0666,mode=620"
            )
        os.chdir(request.work)
        kernel.drop_rights()
        kernel.landlock(config.rules)
        kernel.seccomp(config.filter)

    def _become(self, request: TaskRequest, output: int) -> TaskRequest:
        """Become the process of a warm script."""
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        self._link.detach()
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        gc.enable()
        # As after the execution of a program: its own files in /proc are its own.
        self._kernel.prctl(PR_SET_DUMPABLE, 1)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        for ignored in (_signal.SIGHUP, _signal.SIGQUIT):  # by `nohup`, for all that it starts
            _signal.signal(ignored, _signal.SIG_DFL)
        return request

    # ------------------------------------------------------------------------------------------ while it lives

    def _watch(self, request: TaskRequest) -> None:
        """Until nothing of the task is left, and the executor knows. Raises `OSError`."""
        events = select.poll()
        events.register(self._task, select.POLLIN)
        events.register(self._link.fileno(), select.POLLIN)
        is_over, patience = False, self._began + self._config.patience_seconds
        while not is_over:
            left = None if self._is_shown else 1_000 * max(0.0, patience - _now())
            ready = [descriptor for descriptor, _ in events.poll(left)]
            if self._link.fileno() in ready:
                is_over = self._ordered()
            is_over = is_over or self._task in ready
            if not (is_over or self._is_shown) and _now() >= patience:
                self._show()
        self._end(request)

    def _ordered(self) -> bool:
        """Carry out the orders of the executor. True: all of the task is to end."""
        orders = self._link.recv(READ_BYTES)
        if not orders:
            os._exit(0)
        if SHOW in orders and not self._is_shown:
            self._show()
        return KILL in orders

    def _show(self) -> None:
        """Hand the task to the executor: a descriptor of this process, of the task's, and of its output."""
        self._is_shown = True
        own = os.pidfd_open(os.getpid())
        descriptors = array.array("i", [own, self._task, self._output])
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
        self._link.sendmsg([LIVES + BEGAN.pack(self._began)], rights)
        os.close(own)
        os.close(self._output)

    def _end(self, request: TaskRequest) -> None:
        """End what is left of the task, and report."""
        status, seconds, peak = self._killed()
        ended = _now()
        if request.warm is None and peak <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            peak = 0  # the kernel counts the memory that it shared before its program was executed
        output, is_clean = b"", False
        if not self._is_shown:
            output = _rest_of(self._output)
            is_clean = _is_clean(self._config.place, request)
        report = END.pack(self._began, ended, seconds, status, peak, is_clean, len(output))
        self._link.sendall(ENDED + report + output)

    def _killed(self) -> "tuple[int, float, int]":
        """Exit status, processor time and peak of the task's process. All that it has left is killed: no process of a
        namespace can fork while it has a KILL before it."""
        found = -9, 0.0, 0
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    os.kill(-1, _signal.SIGKILL)
                    pid, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                return found
            except ProcessLookupError:
                continue
            if pid == self._pid:
                found = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss


# ---------------------------------------------------------------------------------------------- folders


def _make(root: int, request: TaskRequest) -> None:
    """Make the folders of a task, or take those of an earlier one, with its script. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    if request.is_new:
        os.mkdir(request.folder, 0o700, dir_fd=root)
        os.mkdir(f"{request.folder}/{WORK}", dir_fd=root)
        flags |= os.O_CREAT | os.O_EXCL
    elif not request.source:
        flags |= os.O_TRUNC
    if request.script:
        content = request.source
        descriptor = os.open(f"{request.folder}/{request.script}", flags, 0o666, dir_fd=root)
        while content:
            content = content[os.write(descriptor, content) :]
        os.close(descriptor)


def _is_clean(place: str, request: TaskRequest) -> bool:
    """Check that a task has left its folder as it was made: then a later one can have it."""
    name = request.script
    work, own = f"{place}/{WORK}", f"{place}/{name}"
    kinds = {place: stat.S_IFDIR | 0o700, work: stat.S_IFDIR | 0o777 & ~_UMASK}
    if name:
        kinds[own] = stat.S_IFREG | 0o666 & ~_UMASK
    try:
        if os.listdir(work) or sorted(os.listdir(place)) != sorted([WORK, name] if name else [WORK]):
            return False
        for path, mode in kinds.items():
            found = os.lstat(path)
            if found.st_mode != mode or found.st_uid != _UID or (path == own and found.st_nlink != 1):
                return False
            if os.listxattr(path, follow_symlinks=False):
                return False
        if name:
            # To a byte: a file that was empty is written to the disk as soon as it is closed (ext4).
            os.truncate(own, min(1, os.path.getsize(own)))
    except OSError:
        return False
    return True


def _make_target(path: str, *, is_folder: bool) -> None:
    """Make what a mount is shown at, where the holder's is hidden. Raises `OSError`."""
    if os.path.lexists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), 0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


# ---------------------------------------------------------------------------------------------- reports


def _refuse(link: _socket.socket, error: OSError, *, is_of_program: bool = False) -> bool:
    """Say that nothing of the task has begun, and never will. `is_of_program`: wherever it is started. False: the
    executor does not hear it."""
    name = os.fsencode(error.filename if error.filename is not None else "")
    try:
        link.sendall(FAILED + FAILURE.pack(error.errno or errno.EIO, is_of_program, len(name)) + name)
    except OSError:
        return False
    finally:
        link.close()
    return True


def _spawned(request: TaskRequest, output: int) -> int:
    """Start a program in a session of its own, with the empty input of this process. Raises `OSError` with its name."""
    program, denied = request.arguments[0], None
    paths = [program]
    if "/" not in program:
        folders = request.environment.get("PATH", os.defpath).split(":")
        paths = [path for path in (f"{folder or '.'}/{program}" for folder in folders) if os.path.lexists(path)]
    for path in paths:
        try:
            return os.posix_spawn(
                path,
                request.arguments,
                request.environment,
                file_actions=((os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)),
                setsid=True,
                setsigmask=(),
                # Python ignores the first two, and `nohup` the others for all that it starts; tasks shall not.
                setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT),
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            denied = error.errno if denied is None else denied
    number = denied or errno.ENOENT
    raise OSError(number, os.strerror(number), program)


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


def _now() -> float:
    return time.monotonic()  # noqa: TID251  # it stands alone


# ---------------------------------------------------------------------------------------------- start


def _script_runner() -> "Any":
    """The part of a zygote that runs a script, from the file beside this one, with its modules loaded. It takes the
    folder of both out of `sys.path`."""
    found: Any = __import__("zygote_program")
    found.make_ready(_MAIN, _FRESH, __file__)
    return found


def main() -> "tuple[Any, TaskRequest]":
    """Until the executor is gone. Returns in the process of a warm script."""
    control = _socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    try:
        holder = Holder(control, Kernel())
        runner = _script_runner() if holder.config.is_warm else None
        holder.make_ready()
    except OSError as error:
        control.send(FAILED + os.fsencode(f"{error.strerror}: {error.filename or ''}"))
        sys.exit(1)
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would copy the memory that an init shares with the holder
    control.send(READY + b"\0".join(os.fsencode(path) for path in sys.path))
    return runner, holder.serve()


if __name__ == "__main__":
    _UID, _UMASK = os.getuid(), os.umask(0)
    os.umask(_UMASK)
    _runner, _request = main()
    assert _request.warm is not None
    _runner.run_and_end(_runner.Request(_request.warm))
