"""The program that starts tasks as other users: `task_starter_program.py SOCKET [no-new-privileges]`.

    in    length (4 bytes), marshalled ("start", …) with the descriptors of its report, its output, its input (if it
          has one) and those that its program asks for by their numbers, ("reap", pid), or ("stop", uid)
    out   length (4 bytes), marshalled answer

The process that becomes a task reports to the executor itself, so that its start is known if this program is killed:

    report   marshalled ("begins", pid) with the descriptor of the process, just before its program is executed; then
             ("error", number, name) if it cannot be; the end of the report: it is executed, or has ended

Only root can become another user, and to fork an executor, with all that it has in memory, would take as long as a
task. This process is small, so its forks are quick. It stands alone, without `site` and without a package, does nothing
else, and knows nothing but what it starts. Its children are its own: it takes their exit status when it is asked to. It
ends when its executor does; its children are then the orphan reaper's.

Invariants: between fork and exec a child gives up all rights of root, or it ends; it imports nothing, because as
another user it may not reach its own modules. A child that stops a user's processes has no right over those of others.
"""

import _signal  # type: ignore[import-not-found]  # the part of `signal` without its enums, which take 1 MB
import _socket
import array
import errno
import gc
import marshal
import os
import resource
import sys

TYPE_CHECKING = False  # that of `typing`, which nothing here needs
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NO_NEW_PRIVILEGES = "no-new-privileges"
PR_SET_NO_NEW_PRIVS = 38
RLIMIT_LOCKS = 10
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""The number of this call of the kernel."""
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
LANDLOCK_SCOPES = 3
"""Abstract sockets and signals."""
KEYCTL_JOIN_SESSION_KEYRING = 1
KEYCTL_SETPERM = 5
MAX_DESCRIPTORS = 8
READ_BYTES = 1 << 16
REPORT_BYTES = 1 << 12


class Starter:
    """Its children, and what is asked of it."""

    def __init__(self, asker: _socket.socket, scope: "Callable[[], None] | None" = None) -> None:
        """`scope`: lets a child that becomes a sandbox reach nothing outside of it."""
        self._asker = asker
        self._scope = scope
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._children: set[int] = set()

    def serve(self) -> None:
        """Until the asker is gone."""
        while True:
            request, descriptors = self._request()
            try:
                answer = self._answer(request, descriptors)
            except OSError as error:
                answer = ("error", error.errno or errno.EIO, os.fsencode(error.filename or b""))
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            text = marshal.dumps(answer)
            self._asker.sendall(len(text).to_bytes(4, "big") + text)

    def _request(self) -> "tuple[tuple[Any, ...], array.array[int]]":
        space = _socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        content, ancillary, _, _ = self._asker.recvmsg(READ_BYTES, space, _socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        while len(content) < 4 or len(content) < 4 + int.from_bytes(content[:4], "big"):
            piece = self._asker.recv(READ_BYTES) if content else b""
            if not piece:
                raise EOFError
            content += piece
        return marshal.loads(content[4:]), descriptors

    def _answer(self, request: "tuple[Any, ...]", descriptors: "array.array[int]") -> "tuple[Any, ...]":
        if request[0] == "start":
            return self._start(request, descriptors)
        return self._reap(request[1]) if request[0] == "reap" else _stop_all(request[1])

    def _start(self, request: "tuple[Any, ...]", descriptors: "array.array[int]") -> "tuple[Any, ...]":
        pid = os.fork()
        if pid == 0:
            self._become(request, descriptors)
        self._children.add(pid)
        return ("started", pid)

    def _become(self, request: "tuple[Any, ...]", descriptors: "array.array[int]") -> "NoReturn":
        """The child: become the task."""
        report = _socket.socket(fileno=descriptors[0])
        try:
            _, arguments, work, environment, uid, gid, groups, number, further, is_sandboxed = request
            last = len(descriptors) - len(further)
            os.setsid()
            os.dup2(descriptors[2] if last > 2 else self._nothing, 0)
            for there, descriptor in zip(further, descriptors[last:], strict=True):
                os.dup2(descriptor, there)
            os.dup2(descriptors[1], 1)
            os.dup2(descriptors[1], 2)
            _take_number(number)
            if is_sandboxed and self._scope is not None:
                self._scope()
            itself = os.pidfd_open(os.getpid())
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            os.chdir(work)
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [itself]))]
            report.sendmsg([marshal.dumps(("begins", os.getpid()))], rights)
            _execute(arguments, environment)
        except OSError as error:
            report.send(marshal.dumps(("error", error.errno or errno.EIO, os.fsencode(error.filename or b""))))
        except BaseException as error:  # noqa: BLE001  # this child must never go on as a starter
            report.send(marshal.dumps(("error", errno.EINVAL, repr(error)[:200].encode())))
        finally:
            os._exit(127)

    def _reap(self, pid: int) -> "tuple[Any, ...]":
        if pid not in self._children:
            raise ChildProcessError(errno.ECHILD, "")
        self._children.remove(pid)
        _, status, usage = os.wait4(pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        return ("reaped", os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss, own_peak())


def own_peak() -> "int | None":
    """The peak of the memory of this process since its program was executed, in units of 1,024 bytes."""
    try:
        with open("/proc/self/status", "rb") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(b"VmHWM:"))
    except (OSError, StopIteration):
        return None


def peak_bytes(peak: int, starters_peak: "int | None") -> "int | None":
    """The peak of an ended process, from that of its resource usage; None: it is not known. Both arguments are in units
    of 1,024 bytes. The kernel counts the memory of the program that a process was forked from as its own, so a peak is
    known only above that of its starter."""
    return peak * 1024 if starters_peak is not None and peak > starters_peak else None


def _execute(arguments: "list[str]", environment: "dict[str, str]") -> None:
    """Execute as `os.execvpe` does, which imports a module: another user may not reach our own modules any more."""
    program = arguments[0]
    if "/" in program:
        os.execve(program, arguments, environment)
    denied = None
    for folder in environment.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{program}"
        try:
            os.execve(path, arguments, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if _is_there(path):
                denied = error.errno
    raise OSError(denied or errno.ENOENT, "", program)


def _stop_all(uid: int) -> "tuple[Any, ...]":
    """Stop all processes of this user in one call of the kernel, which no fork can slip through."""
    if uid <= 0:
        raise PermissionError(errno.EPERM, "")
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            if _may_signal(1):
                os._exit(1)
            os.kill(-1, _signal.SIGSTOP)
        except ProcessLookupError:
            os._exit(0)  # there is none
        except BaseException:  # noqa: BLE001  # this child must never go on as a starter
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise PermissionError(errno.EPERM, "")
    return ("stopped",)


def _may_signal(pid: int) -> bool:
    """Check whether this process still has a right over processes of other users."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    return True


def _is_there(path: str) -> bool:
    """Check whether a path exists; False in a folder that we may not look into, such as one of root's."""
    try:
        os.stat(path)
    except OSError:
        return False
    return True


def _take_number(number: int) -> None:
    """Before its first instruction, so that nothing of the task is without it."""
    try:
        resource.setrlimit(RLIMIT_LOCKS, (number, resource.getrlimit(RLIMIT_LOCKS)[1]))
    except (OSError, ValueError):
        return  # it lives under a lower limit: the other marks remain


def _renounce() -> None:
    """Let no program give this process or its children more rights: from now on the kernel ignores setuid bits and
    capabilities of files. Raises `OSError`."""
    import ctypes

    libc, none = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")


def _leave_keyring() -> None:
    """Let children inherit no keys of root's, such as tickets of Kerberos: a process reads what is in its session
    keyring, also as another user. They get one that nobody can use, so no task leaves a key to another; a program may
    join one of its own. Where the kernel refuses this call, it refuses tasks, too."""
    import ctypes

    number = KEYCTL.get(os.uname().machine)
    if number is None:
        return
    call, long = ctypes.CDLL(None).syscall, ctypes.c_long
    keyring = call(long(number), long(KEYCTL_JOIN_SESSION_KEYRING), None)
    if keyring > 0:
        call(long(number), long(KEYCTL_SETPERM), long(keyring), long(0))


def _scope() -> "Callable[[], None] | None":
    """Let Landlock hold a child: it signals no process outside, and reaches no abstract socket there. None: the kernel
    cannot. (`sandbox.landlock` does the same; this program stands alone.)"""
    import ctypes

    libc, long = ctypes.CDLL(None, use_errno=True), ctypes.c_long
    attributes = b"".join(number.to_bytes(8, sys.byteorder) for number in (0, 0, LANDLOCK_SCOPES))
    rules = libc.syscall(long(LANDLOCK_CREATE_RULESET), attributes, long(len(attributes)), long(0))
    if rules < 0:
        return None

    def restrict() -> None:
        if libc.syscall(long(LANDLOCK_RESTRICT_SELF), long(rules), long(0)) != 0:
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")

    return restrict


def main() -> None:
    """Until the executor is gone."""
    if NO_NEW_PRIVILEGES in sys.argv[2:] and sys.platform.startswith("linux"):
        _renounce()
    if sys.platform.startswith("linux"):
        _leave_keyring()
    asker = _socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(asker.fileno(), False)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores them; tasks shall not
        _signal.signal(number, _signal.SIG_DFL)
    scope = _scope() if sys.platform.startswith("linux") else None
    gc.freeze()
    try:
        Starter(asker, scope).serve()
    except (EOFError, ConnectionError):
        os._exit(0)


if __name__ == "__main__":
    main()
