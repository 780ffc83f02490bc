"""The interpreter that scripts are forked from: `zygote_program.py SOCKET [OPTION …]`.

    executor ──"fork", an end of a socket, the output──► this program ──forks──► child: waits there
             ◄─────────────────── its number ─────────────────────────────────── child
             ── number, user, folder, variables, script ───────────────────────► child: becomes the task
             ◄─────────────────── the socket closes: it runs; or an error ────── child
             ──"reap", number──► this program ──► exit status and usage
             ──"join", a socket──► this program: another one that asks, and gets the answers itself

A fresh interpreter takes 10 ms of processor time until its script begins, a fork of this one takes 1 ms. The script
notices no difference but those in docs/decisions/0073.

What its children leave becomes its own child. It takes their exit statuses itself: a zombie has a number of the
machine, and counts to the limit of its user, as long as this program lives.

This program never reads a request, the child does: nothing of a task is in the memory of the next one. Each child
waits for its request, so an executor that gave a start up, or was killed, starts nothing by it. The program ends when
its executor does. It is the parent of all that its children leave (`subreaper_program`), so what they have left can be
told by its children. It works in every CPython from 3.9 on, and imports the standard library alone.

Invariants: it has one thread. A script begins without any descriptor of this program. A child that cannot do exactly as
a fresh interpreter does executes the command line of a cold start instead.
"""

_MAIN = dict(globals())
"""The names that the interpreter gives to the module of a script."""

import sys  # noqa: E402  # the names above must be those of a fresh module

_FRESH = frozenset(sys.modules)
del sys.path[0]  # the folder of this file

import _io  # noqa: E402  # after the names above were taken
import _socket  # noqa: E402  # after the names above were taken
import _thread  # noqa: E402  # after the names above were taken
import _weakref  # noqa: E402  # after the names above were taken
import array  # noqa: E402  # after the names above were taken
import atexit  # noqa: E402  # after the names above were taken
import errno  # noqa: E402  # after the names above were taken
import gc  # noqa: E402  # after the names above were taken
import marshal  # noqa: E402  # after the names above were taken
import os  # noqa: E402  # after the names above were taken
import resource  # noqa: E402  # after the names above were taken
import select  # noqa: E402  # after the names above were taken
import struct  # noqa: E402  # after the names above were taken
import time  # noqa: E402  # after the names above were taken

TYPE_CHECKING = False  # that of `typing`, which not every script wants
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn

AS_ROOT = "as-root"
"""An option: children become other users."""
NO_NEW_PRIVILEGES = "no-new-privileges"
"""An option: no program gives a child rights that its user lacks."""
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
RLIMIT_LOCKS = 10
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""The number of this call of the kernel."""
KEYCTL_JOIN_SESSION_KEYRING = 1
KEYCTL_SETPERM = 5
MAX_CLASSES = 16
"""Of how many bases an exception is told."""
MAX_NAME_CHARACTERS = 200
REPORT = struct.Struct("<q")
"""The number of a child; negative: the number of an error."""
REAPED = struct.Struct("<iidq")
"""The number of an error, exit status, processor time in seconds, peak of the memory in units of 1,024 bytes."""
NUMBER = struct.Struct("<q")
FORK, REAP, SWEEP, JOIN, READY = b"F", b"R", b"S", b"J", b"H"
MAX_PACKET = 256
LEFT_MILLISECONDS = 1_000
"""Between two looks at what tasks have left, while some of it lives."""
PRELOADED = (
    *("argparse", "base64", "bisect", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "enum"),
    *("fnmatch", "functools", "glob", "heapq", "itertools", "json", "math", "operator", "pathlib", "re", "select"),
    *("shlex", "signal", "string", "textwrap", "traceback", "types", "typing", "urllib.parse", "warnings", "weakref"),
)
"""Modules that many scripts import, and whose import leaves no state that belongs to one process. (`threading`, which
`subprocess` imports, is not among them: each fork would take 0.5 ms longer.)"""
NATIVE_END = frozenset({"ctypes", "readline"})
"""A script with one of these modules may have left work to the C library's own end of a process."""


_OWN_FILES: "set[str]" = set()
"""Those whose frames no traceback of a script shows."""
_UID = os.getuid()
_ADDED: "frozenset[str]" = frozenset()
"""The names of modules that a fresh interpreter has not loaded. This and what follows is set by `make_ready`."""
_last = ""
"""The name of the module that was loaded last."""
_last_module = sys
_callbacks = 0
_exit, _collect, _IO = os._exit, gc.collect, _io._IOBase  # noqa: SLF001  # the public one is its subclass


class Request:
    """The task that a child becomes."""

    def __init__(self, content: bytes) -> None:
        self.number, self.identity, self.environment, self.arguments, *names = marshal.loads(content)
        self.work, self.script, self.symptoms, self.prefix = map(os.fsdecode, names)
        self.folder = self.script.rpartition("/")[0]

    def start_cold(self) -> "NoReturn":
        """Execute the command line of a cold start."""
        program = self.arguments[0]
        try:
            os.execvpe(program, self.arguments, self.environment)
        except OSError as error:
            os.write(2, b"%s: %s\n" % (program, os.fsencode(error.strerror or "")))
        os._exit(127)


def _serve(executor: _socket.socket) -> Request:
    """Fork when asked to, by the executor or by one that it let join. Returns in a child, when it has become the task
    but for its script."""
    space = _socket.CMSG_SPACE(2 * array.array("i").itemsize)
    askers, children = {executor.fileno(): executor}, set()
    events = select.poll()
    events.register(executor.fileno(), select.POLLIN)
    has_left = False
    while True:
        for ready, _ in events.poll(LEFT_MILLISECONDS if has_left else None):
            asker = askers[ready]
            try:
                content, ancillary, _, _ = asker.recvmsg(MAX_PACKET, space, _socket.MSG_CMSG_CLOEXEC)
            except OSError:
                content, ancillary = b"", []
            descriptors = array.array("i")
            for _, _, data in ancillary:
                descriptors.frombytes(data)
            what, said = content[:1], content[1:]
            if what == FORK:
                pid = _fork(descriptors)
                if pid == 0:
                    for one in askers.values():
                        os.close(one.detach())
                    return _child(*descriptors)
                children.add(pid)
            elif what == REAP:
                pid = NUMBER.unpack(said)[0]
                children.discard(pid)
                asker.send(_reap(pid))
                has_left = True  # perhaps
            elif what == SWEEP:
                _sweep(NUMBER.unpack(said)[0], children)
            elif what == JOIN:
                askers[descriptors[0]] = _socket.socket(fileno=descriptors[0])
                events.register(descriptors[0], select.POLLIN)
            elif asker is executor:
                os._exit(0)
            else:
                events.unregister(ready)
                askers.pop(ready).close()
        has_left = has_left and _sweep_left(children)


def _fork(descriptors: "array.array[int]") -> int:
    """The number of the child; 0 in the child. Its descriptors: of its report, and of its output. -1: it failed."""
    try:
        pid = os.fork()
    except OSError as error:
        pid = -1
        report = _socket.socket(fileno=os.dup(descriptors[0]))
        report.send(REPORT.pack(-(error.errno or errno.EAGAIN)))
        report.close()
    if pid != 0:
        for descriptor in descriptors:
            os.close(descriptor)
    return pid


def _sweep(pid: int, children: "set[int]") -> None:
    """Take the exit status of a process that a task has left, if it has ended."""
    if pid not in children:
        try:
            os.waitpid(pid, os.WNOHANG)
        except OSError:
            return


def _sweep_left(children: "set[int]") -> bool:
    """Take the exit statuses of all that tasks have left. True: some of it lives."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            found = {int(name) for name in file.read().split()}
    except OSError:
        return False  # a kernel without this list
    lives = False
    for pid in found - children:
        try:
            lives = os.waitpid(pid, os.WNOHANG)[0] == 0 or lives
        except OSError:
            continue
    return lives


def _reap(pid: int) -> bytes:
    try:
        _, status, usage = os.wait4(pid, 0)
    except OSError as error:
        return REAPED.pack(error.errno or errno.ECHILD, 0, 0.0, 0)
    return REAPED.pack(0, os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def _child(reporter: int, output: int) -> Request:
    report = _socket.socket(fileno=reporter)
    os.setsid()
    report.send(REPORT.pack(os.getpid()))
    content = b""
    while len(content) < 8 or len(content) < 8 + NUMBER.unpack(content[:8])[0]:
        piece = report.recv(1 << 18)
        if not piece:
            os._exit(0)  # the executor is gone, or has given this start up
        content += piece
    request = Request(content[8:])
    try:
        _take_place(request, output)
    except OSError as error:
        report.send(REPORT.pack(-(error.errno or errno.EIO)))
        os._exit(127)
    # With this the executor knows that it runs.
    report.detach()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    return request


def _take_place(request: Request, output: int) -> None:
    """Be the task's process, user and folder. Raises `OSError`."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    _take_number(request.number)
    if request.identity is not None:
        uid, gid, groups = request.identity
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # As after the execution of a program: without it the files of this process in /proc would be root's.
        _prctl(PR_SET_DUMPABLE, 1)
    os.chdir(request.work)


def _take_number(number: int) -> None:
    try:
        resource.setrlimit(RLIMIT_LOCKS, (number, resource.getrlimit(RLIMIT_LOCKS)[1]))
    except (OSError, ValueError):
        return  # it lives under a lower limit: the other marks remain


def _set_variables(wanted: "dict[bytes, bytes]") -> None:
    """In the mapping below `os.environ` itself: by way of its methods it takes 0.2 ms longer."""
    present = os.environb._data  # type: ignore[attr-defined]  # noqa: SLF001  # there since Python 3.2
    zone = present.get(b"TZ")
    for name in present.keys() - wanted.keys():
        del present[name]
        os.unsetenv(name)
    for name, value in wanted.items():
        if present.get(name) != value:
            os.putenv(name, value)
            present[name] = value
    if wanted.get(b"TZ") != zone:
        time.tzset()


def _move_to(prefix: str, program: str) -> None:
    """Go on as the interpreter of a virtual environment, from one that has nothing installed: what `site` does at the
    start of an interpreter, and now as the user of the task."""
    import site

    sys.path[:] = [folder for folder in sys.path if not folder.startswith(f"{sys.prefix}/")]
    sys.prefix = sys.exec_prefix = prefix
    sys.executable = program
    site.PREFIXES[:] = [prefix]
    site.addsitepackages(set(sys.path), [prefix])
    site.execsitecustomize()


def _forget_folders() -> None:
    """Leave out the folders of modules that the task's user does not see: `site` adds none of them for that user."""
    own = (f"{sys.base_prefix}/", f"{sys.base_exec_prefix}/")
    sys.path[:] = [folder for folder in sys.path if folder.startswith(own) or os.path.exists(folder)]


def _is_shadowed(folder: str) -> bool:
    """Check whether a file beside the script has the name of a module that is loaded here: a fresh interpreter would
    import that file."""
    return any(name.partition(".")[0] in _ADDED for name in os.listdir(folder))


def _run(request: Request) -> "int | None":
    """Run the script as the interpreter itself does. The exit status of one that ends well, or with a number of its
    own; None: the interpreter has to tell."""
    _set_variables(request.environment)
    script = request.script
    if _is_shadowed(request.folder):
        request.start_cold()
    with open(script, "rb") as file:
        source = file.read()
    sys.argv[:] = [script]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [os.fsdecode(one) for one in request.arguments]
    if request.prefix:
        _move_to(request.prefix, os.fsdecode(request.arguments[0]))
    elif os.getuid() != _UID:
        _forget_folders()
    sys.path.insert(0, request.folder)
    main = type(sys)("__main__")
    loader = type(_MAIN["__loader__"])("__main__", script)
    own: dict[str, Any] = {"__annotations__": {}} if "__annotations__" in _MAIN else {}
    main.__dict__.update(_MAIN, __doc__=None, __file__=script, __loader__=loader, **own)
    try:
        code = compile(source, script, "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.text is None or "(unicode error)" in error.msg:
            request.start_cold()  # it cannot be decoded: of a file, that is said in other words
        sys.excepthook = _hook(request.symptoms)
        raise
    except Exception:  # noqa: BLE001  # what the compiler cannot do here
        request.start_cold()
    del source
    sys.modules["__main__"] = main
    try:
        exec(code, main.__dict__)
    except SystemExit as error:
        if error.code is None or type(error.code) is int:
            return error.code or 0
        raise
    except BaseException:
        sys.excepthook = _hook(request.symptoms)
        raise
    return 0


def _end(status: int) -> None:
    """End the process as the interpreter does, but for taking apart all that the zygote has made: 4 ms of a script that
    runs for one. Returns where the interpreter has more to do: threads, functions of `atexit`, foreign libraries."""
    if _thread._count() or atexit._ncallbacks() != _callbacks or _has_foreign_modules():  # noqa: SLF001  # nothing else tells
        return
    try:
        _flush()
        _take_apart()
        _flush()
    except BaseException:  # noqa: BLE001  # the interpreter meets it again, and tells
        return
    _exit(status & 0xFF)


def _new_modules() -> "list[str]":
    """The names of the modules that the script has imported, and of its own. They come after all others: a look at each
    module would copy the memory of each."""
    names = []
    for name in reversed(sys.modules):
        if name == _last and sys.modules[name] is _last_module:
            break
        names.append(name)
    names.append("__main__")
    return names


def _has_foreign_modules() -> bool:
    """Check whether the script has loaded libraries that are not Python's own."""
    for name in _new_modules():
        if name.partition(".")[0] in NATIVE_END:
            return True
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str) and ".so" in file and "/lib-dynload/" not in file:
            return True
    return False


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def _take_apart() -> None:
    """Let the objects of the script's modules go, with their finalisers; then write what files still hold back."""
    found = [_reference(sys.modules.pop(name, None)) for name in _new_modules()]
    _collect()
    for reference in found:
        if reference is None:
            continue
        module = reference()
        if module is not None:
            _clear(module.__dict__)
        del module
    _collect()
    for one in gc.get_objects():
        if issubclass(type(one), _IO):
            try:
                one.flush()
            except Exception:  # noqa: BLE001  # it is closed
                continue


def _reference(module: "Any") -> "Any":
    """A weak one; None of what can have none."""
    try:
        return _weakref.ref(module)
    except TypeError:
        return None


def _clear(names: "dict[str, Any]") -> None:
    """In the order of the interpreter."""
    for is_private in (True, False):
        for name in [*names]:
            if name != "__builtins__" and (is_private is (name[:1] == "_" and name[1:2] != "_")):
                names[name] = None


def _hook(symptoms: str) -> "Any":
    """Of an exception that ends the task: without the frames of this file, for the hook of the script."""
    theirs = sys.excepthook

    def ended_by(kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None") -> None:
        sys.excepthook = theirs
        if symptoms and theirs is sys.__excepthook__:
            _note(kind, symptoms)
        while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
            trace = trace.tb_next
        sys.last_traceback = trace
        theirs(kind, error.with_traceback(trace), trace)

    return ended_by


def _note(kind: "type[BaseException]", symptoms: str) -> None:
    """The names of its class and of the bases, as `python_launcher` writes them."""
    names = []
    for base in kind.__mro__[:MAX_CLASSES]:
        if base is not object:
            names += [f"{base.__module__}.{base.__qualname__}", base.__name__]
    try:
        with open(symptoms, "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(name[:MAX_NAME_CHARACTERS] for name in names))
    except Exception:  # noqa: BLE001  # it is a note beside the exception, which matters more
        return


def _prctl(what: int, value: int) -> None:
    """Raises `OSError`."""
    if _libc.prctl(what, _ulong(value), _ulong(0), _ulong(0), _ulong(0)) != 0:
        raise OSError(errno.EPERM, "prctl")


def _leave_keyring() -> None:
    """Let children inherit no keys of root's, as `task_starter_program` does."""
    number = KEYCTL.get(os.uname().machine)
    if number is None:
        return
    call, long = _libc.syscall, ctypes.c_long
    keyring = call(long(number), long(KEYCTL_JOIN_SESSION_KEYRING), None)
    if keyring > 0:
        call(long(number), long(KEYCTL_SETPERM), long(keyring), long(0))


def _preload() -> None:
    for name in PRELOADED:
        try:
            __import__(name)
        except Exception:  # noqa: BLE001  # the script is told, if it wants it
            continue
    try:
        __import__("no_module_has_this_name")  # all folders are looked through, so that children need not
    except ImportError:
        return


def make_ready(names: "dict[str, Any]", fresh: "frozenset[str]", file: str) -> None:
    """Load the modules, and note what is there before a script begins. `names`: those that the interpreter gives to the
    module of a script; `fresh`: the modules of a fresh interpreter; `file`: the program's."""
    global _ADDED, _last, _last_module, _IO, _callbacks, _exit, _collect, _MAIN, _UID  # before the first fork
    _MAIN, _UID = names, os.getuid()
    _OWN_FILES.update((__file__, file))
    _preload()
    _ADDED = frozenset(name.partition(".")[0] for name in set(sys.modules) - fresh)
    _last = next(reversed(sys.modules))
    _last_module = sys.modules[_last]
    _callbacks = atexit._ncallbacks()  # noqa: SLF001  # nothing else tells
    gc.collect()
    gc.freeze()


def run_and_end(request: Request) -> "NoReturn":
    """Run the script of a task that this process has become, and end as its interpreter would."""
    status = _run(request)
    if status is not None:
        _end(status)
        sys.exit(status)
    raise AssertionError("a script ends with a status")


if __name__ == "__main__":
    _asker = _socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(_asker.fileno(), False)
    if AS_ROOT in sys.argv[2:]:
        import ctypes

        _libc, _ulong = ctypes.CDLL(None), ctypes.c_ulong
        if NO_NEW_PRIVILEGES in sys.argv[2:]:
            _prctl(PR_SET_NO_NEW_PRIVS, 1)
        _leave_keyring()
    make_ready(_MAIN, _FRESH, __file__)
    _asker.send(READY + b"\0".join(os.fsencode(one) for one in (sys.implementation.name, *sys.path)))
    run_and_end(_serve(_asker))
