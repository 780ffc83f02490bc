"""What attacks are written with. The text of this module is the beginning of each script that is sent as a job, so it
imports the standard library alone.

An attack takes the `Host`, and returns what it got: nothing, or an `OSError`, means that it was stopped.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# Each attack finds them in its script, beside what is below.
__all__ = ["fcntl", "mmap", "resource", "stat", "struct", "subprocess"]

SYSCALLS = {  # name: (x86_64, aarch64)
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fsopen": (430, 430), "init_module": (175, 105), "io_uring_setup": (425, 425),
    "kexec_load": (246, 104), "keyctl": (250, 219), "move_mount": (429, 429), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "process_vm_readv": (310, 270), "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218),
    "sethostname": (170, 161), "setdomainname": (171, 162), "setns": (308, 268), "settimeofday": (164, 170),
    "shmat": (30, 196), "shmget": (29, 194), "swapon": (167, 224), "syslog": (103, 116), "unshare": (272, 97),
    "userfaultfd": (323, 282), "mount": (165, 40), "umount2": (166, 39), "mq_open": (240, 180),
}  # fmt: skip
NEW_NAMESPACES = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000, "time": 0x00000080,
}  # fmt: skip
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ESRCH)
"""By which the kernel says that a call is not for this caller. Every other one is about the arguments."""
GREETING_BYTES = 64
ANSWER_SECONDS = 2.0


class Host(NamedTuple):
    """What there is on the machine, and is not the task's."""

    token: str
    """Of this run alone."""
    secret_backwards: str
    """It stands in the environment of the executor. Backwards, for the script itself is no finding."""
    executor_pid: int
    data_dir: str
    config_file: str
    """With secrets, of the executor's user alone."""
    password_file: str
    """Of the database."""
    database_socket: str
    canary: str
    """The content of files that are not the task's, and the greeting of each service."""
    public_file: str
    """All users may read it."""
    public_folder: str
    """All users may write there, as in /tmp."""
    public_socket: str
    """A socket of the machine that all users may connect to, by its path."""
    abstract_socket: str
    """The same, without a place in the file system; no NUL before it."""
    service_port: int
    """Of the services that follow, each with a greeting."""
    loopback: str
    metadata: str
    public_address: str
    public_address_6: str
    resolver: str
    """Takes questions by UDP, at port 53."""
    neighbour_pid: int
    """A task of the same namespace, as a process."""
    neighbour_folder: str
    stranger_pid: int
    """A task of another namespace, as a process."""
    stranger_folder: str


class Refused(OSError):
    """Something other than the kernel's answer to a call stopped it."""

    def __init__(self, why: str) -> None:
        super().__init__(0, why)


libc = ctypes.CDLL(None, use_errno=True)


def _argument(value: Any) -> Any:
    if isinstance(value, int):
        return ctypes.c_long(value)
    return ctypes.c_char_p(value) if isinstance(value, bytes) else value


def numbered(number: int, *arguments: Any) -> int:
    """A system call by its number. Raises `OSError`."""
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    answer = libc.syscall(ctypes.c_long(number), *map(_argument, arguments))
    if answer == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(answer)


def call(name: str, *arguments: Any) -> int:
    """A system call. Raises `OSError`."""
    return numbered(SYSCALLS[name][platform.machine() == "aarch64"], *arguments)


def permitted(name: str, *arguments: Any) -> str:
    """Check whether the kernel takes this call from us: it did it, or complained of the arguments. Raises `OSError`."""
    try:
        return f"{name} = {call(name, *arguments)}"
    except OSError as refusal:
        if refusal.errno in REFUSALS:
            raise
        return f"{name}: {refusal.strerror}"


def in_child(act: Callable[[], object]) -> str | None:
    """What a child of ours got that does this. Raises `OSError` with what stopped it."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            found = act()
            said = ["got", repr(found)] if found else ["nothing", ""]
        except OSError as refusal:
            said = ["refused", refusal.strerror or str(refusal)]
        except Exception as fault:  # noqa: BLE001  # the parent raises it again
            said = ["broken", repr(fault)]
        os.write(writable, json.dumps(said).encode())
        os._exit(0)
    os.close(writable)
    with open(readable, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not text:
        raise Refused(f"killed by signal {os.WTERMSIG(status)}")
    how, what = json.loads(text)
    if how == "broken":
        raise RuntimeError(what)
    if how == "refused":
        raise Refused(what)
    return what if how == "got" else None


def read(path: str) -> bytes:
    """The first bytes of a file. Raises `OSError`."""
    with open(path, "rb") as file:
        return file.read(4096)


def first_of(act: Callable[[Any], object], things: Iterable[Any]) -> object:
    """What was got of the first thing of which this got something. Raises the last refusal if none was."""
    last: OSError | None = None
    for thing in things:
        try:
            found = act(thing)
        except OSError as refusal:
            last = refusal
        else:
            if found:
                return found
    if last is not None:
        raise last
    return None


def greeted(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> bytes:
    """The greeting of the service at this address. Raises `OSError`."""
    with socket.socket(family, kind) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(address)
        if kind == socket.SOCK_DGRAM:
            connection.send(b"hello")
        return connection.recv(GREETING_BYTES)


def lasting(name: str) -> None:
    """Become a program that goes on for five minutes, under this name."""
    os.execv("/bin/sleep", [name, "300"])


def fill(path: str, megabytes: int) -> str:
    """Write a file of this size and remove it. Raises `OSError`."""
    block = os.urandom(1 << 20)
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(megabytes):
                if file.write(block) != len(block):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.unlink(path)
    return f"{megabytes} MiB in {os.path.dirname(path) or 'the work folder'}"


def capabilities(which: str) -> int:
    """A set of this process: CapEff, CapBnd, …"""
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith(f"{which}:")]
    return int(line.split()[1], 16)


def ignore(number: int) -> None:
    """Go on after this signal."""
    signal.signal(number, signal.SIG_IGN)


def handle(size: int) -> bytes:
    """The handle of a file, as `open_by_handle_at` takes it: the number 2 of its file system."""
    return struct.pack("IiQ", size, 1, 2)


def run(act: Callable[[Host], object], said: str) -> None:
    """Attack, and hand in what came of it."""
    found: object = None
    why = "it got nothing"
    try:
        found = act(Host(**json.loads(said)))
    except OSError as refusal:
        why = refusal.strerror or str(refusal)
    answer = {"reached": bool(found), "said": repr(found)[:300] if found else why}
    sys.stdout.flush()
    if os.environ.get("PROBE_TELLS") != "no":
        with open(os.environ["TICKWISE_RESULT_FILE"], "w") as file:
            json.dump(answer, file)
