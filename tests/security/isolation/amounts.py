"""Attacks by amount: processes, memory, files. Each is bounded, so that it harms no machine on which it succeeds."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from tests.security.isolation.attacks import AMOUNTS, Look, attack, reached, stopped
from tests.security.isolation.toolkit import Host, Refused, fill, resource

MEGABYTES = 1 << 20
UNLIMITED = reached("no limit is set unless the job or the operator sets one")
LIMIT = "`limits` of the job"
MANY = 300
LARGE = 400
"""Megabytes that no private folder holds, and each machine has."""


@attack(
    AMOUNTS,
    process=stopped(f"{LIMIT}: `processes`"),
    sandbox=stopped(f"{LIMIT}: `processes`"),
    job={"limits": {"processes": 30}},
    ends=frozenset({"process_limit"}),
    quick=True,
)
def many_processes(host: Host) -> object:
    """Fork without end, where the job is limited to 30 processes."""
    children = []
    try:
        for _ in range(MANY):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return len(children)


@attack(
    AMOUNTS,
    process=stopped(f"{LIMIT}: `memory_bytes`"),
    sandbox=stopped(f"{LIMIT}: `memory_bytes`"),
    job={"limits": {"memory_bytes": 128 * MEGABYTES}},
    ends=frozenset({"memory_limit", "signal", "exit_status"}),
)
def much_memory(host: Host) -> object:
    """Take a gigabyte of memory, where the job is limited to 128 MiB."""
    try:
        taken = [bytearray(os.urandom(1 << 20)) for _ in range(1024)]
    except MemoryError as refusal:
        raise Refused("out of memory") from refusal
    return len(taken)


@attack(
    AMOUNTS,
    process=stopped(f"{LIMIT}: `memory_bytes`"),
    sandbox=stopped(f"{LIMIT}: `memory_bytes`"),
    job={"limits": {"memory_bytes": 128 * MEGABYTES}},
    ends=frozenset({"memory_limit", "signal", "exit_status"}),
)
def much_memory_in_children(host: Host) -> object:
    """Take the memory in twenty processes, each of which stays below the limit of the job."""
    children = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            taken = bytearray(os.urandom(64 << 20))
            signal.pause()
            os._exit(len(taken) & 1)
        children.append(pid)
    for _ in range(100):
        total = 0
        for pid in children:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1]) * 4096
        if total > 1000 * MEGABYTES:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            return total
        signal.sigtimedwait([signal.SIGCHLD], 0.05)
    for pid in children:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return None


@attack(
    AMOUNTS,
    process=stopped(f"{LIMIT}: `cpu_seconds`"),
    sandbox=stopped(f"{LIMIT}: `cpu_seconds`"),
    job={"limits": {"cpu_seconds": 1}},
    ends=frozenset({"cpu_limit"}),
)
def much_processor_time(host: Host) -> object:
    """Compute for ten seconds, where the job is limited to one of processor time."""
    import time

    while time.process_time() < 10:
        pass
    return time.process_time()


@attack(
    AMOUNTS,
    process=stopped("`timeout_seconds` of the job, and SIGKILL after SIGTERM"),
    sandbox=stopped("`timeout_seconds` of the job, and SIGKILL after SIGTERM"),
    job={"timeout_seconds": 1},
    ends=frozenset({"timeout"}),
)
def deaf_to_its_end(host: Host) -> object:
    """Go on after its time is over, deaf to SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for _ in range(100):
        signal.sigtimedwait([signal.SIGUSR1], 0.1)
    return "ten seconds"


@attack(
    AMOUNTS,
    process=UNLIMITED,
    sandbox=stopped("its /tmp has a size of its own"),
    quick=True,
)
def much_in_tmp(host: Host) -> object:
    """Fill `/tmp`: 400 MiB."""
    return fill(f"/tmp/{host.token}", LARGE)


@attack(AMOUNTS, process=UNLIMITED, sandbox=stopped("its /dev/shm has a size of its own"))
def much_in_shared_memory(host: Host) -> object:
    """Fill `/dev/shm`, whose files are memory: 400 MiB."""
    return fill(f"/dev/shm/{host.token}", LARGE)


@attack(
    AMOUNTS, process=UNLIMITED, sandbox=reached("a work folder is on the executor's disk, unless a quota bounds it")
)
def much_in_its_folder(host: Host) -> object:
    """Fill its work folder: 400 MiB."""
    return fill("much", LARGE)


@attack(
    AMOUNTS, process=UNLIMITED, sandbox=reached("files without content are bounded by the memory of the task alone")
)
def many_files(host: Host) -> object:
    """Make 20,000 files without content in `/tmp`."""
    folder = f"/tmp/{host.token}"
    os.mkdir(folder)
    made = 0
    try:
        for made in range(20_000):
            os.close(os.open(f"{folder}/{made}", os.O_CREAT | os.O_WRONLY))
    finally:
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
    return made


@attack(
    AMOUNTS,
    process=stopped("the hard limit of the executor (`ulimit -n`)"),
    sandbox=stopped("the hard limit of the executor (`ulimit -n`)"),
    is_shown=False,
)
def many_open_files(host: Host) -> object:
    """Hold more open files than the executor's own hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: list[int] = []
    try:
        while len(held) <= hard:
            held.append(os.dup(1))
    finally:
        for descriptor in held:
            os.close(descriptor)
    return len(held)


def _is_long(look: Look) -> object:
    size = len(look.output())
    return f"{size} bytes" if size > MEGABYTES else None


@attack(
    AMOUNTS,
    process=stopped(f"{LIMIT}: `output_bytes`"),
    sandbox=stopped(f"{LIMIT}: `output_bytes`"),
    job={"limits": {"output_bytes": 65_536}},
    after=_is_long,
    ends=frozenset({"output_limit"}),
    is_shown=False,
)
def much_output(host: Host) -> object:
    """Print 8 MiB, where the job is limited to 64 KiB."""
    for _ in range(8):
        sys.stdout.write("x" * MEGABYTES)
    return None
