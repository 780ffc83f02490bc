"""Attacks on other processes: the executor, its programs, other tasks."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import subprocess

from tests.security.isolation.attacks import PROCESSES, attack, reached, stopped
from tests.security.isolation.toolkit import Host, Refused, call, capabilities, in_child, libc, permitted, read

OTHER_USER = stopped("it is another user's, and no role can be looked into")
NOT_DUMPABLE = stopped("no role can be looked into, also not by its own user")
NO_SUCH_PROCESS = stopped("its own process numbers: that process is not there")


@attack(
    PROCESSES,
    process=OTHER_USER,
    ordinary=NOT_DUMPABLE,
    sandbox=NO_SUCH_PROCESS,
    quick=True,
)
def environment_of_the_executor(host: Host) -> object:
    """Read the environment of the executor, with its secrets."""
    return host.secret_backwards[::-1].encode() in read(f"/proc/{host.executor_pid}/environ")


@attack(
    PROCESSES,
    process=OTHER_USER,
    ordinary=stopped("it is the machine's first process, root's"),
    sandbox=stopped("the first process of a sandbox has an empty environment"),
    is_shown=False,
    quick=True,
)
def environment_of_the_first_process(host: Host) -> object:
    """Read the executor's secrets in the environment of process 1, which in a sandbox is the program that made it."""
    return host.secret_backwards[::-1].encode() in read("/proc/1/environ")


@attack(
    PROCESSES,
    process=stopped("arguments hold no secret"),
    sandbox=stopped("neither arguments nor processes of others are there"),
    is_shown=False,
)
def arguments_of_processes(host: Host) -> object:
    """Find the executor's secret, or that of a task, in the arguments of any process."""
    wanted = (host.secret_backwards[::-1].encode(), b"secret-of-a-" + b"neighbour")
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read()
        except OSError:
            continue
        found += [name for word in wanted if word in arguments]
    return found


@attack(
    PROCESSES,
    process=stopped("a task gets the variables of its job and a few named ones"),
    sandbox=stopped("a task gets the variables of its job and a few named ones"),
    is_shown=False,
    quick=True,
)
def own_environment(host: Host) -> object:
    """Find the executor's secrets among its own variables."""
    return [name for name, value in os.environ.items() if host.secret_backwards[::-1] in value]


@attack(
    PROCESSES,
    process=stopped("descriptors are closed at the start"),
    sandbox=stopped("descriptors are closed at the start"),
    is_shown=False,
    quick=True,
)
def inherited_descriptors(host: Host) -> object:
    """Find an open file, folder or socket of the executor among its own descriptors."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # that of the listing
        # Below 3: its output, which is a pipe, and no input.
        if int(name) > 2 and not target.startswith((os.getcwd(), "/proc/")):
            found.append(f"{name} is {target}")
    return found


@attack(PROCESSES, process=reached("/proc lists the processes of the machine"), sandbox=NO_SUCH_PROCESS)
def processes_of_the_machine(host: Host) -> object:
    """See that the executor runs, and which processes there are."""
    with open(f"/proc/{host.executor_pid}/stat") as file:
        return f"({host.executor_pid}" if file.read().startswith(f"{host.executor_pid} ") else None


@attack(
    PROCESSES,
    process=OTHER_USER,
    ordinary=NOT_DUMPABLE,
    sandbox=NO_SUCH_PROCESS,
    quick=True,
)
def memory_of_the_executor(host: Host) -> object:
    """Open the memory of the executor, `/proc/PID/mem`."""
    return os.open(f"/proc/{host.executor_pid}/mem", os.O_RDONLY)


@attack(PROCESSES, process=OTHER_USER, ordinary=NOT_DUMPABLE, sandbox=NO_SUCH_PROCESS)
def memory_by_a_call(host: Host) -> object:
    """Read the memory of the executor by `process_vm_readv`."""
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    there = (ctypes.c_uint64 * 2)(0x1000, 8)
    return permitted("process_vm_readv", host.executor_pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)


@attack(PROCESSES, process=OTHER_USER, ordinary=NOT_DUMPABLE, sandbox=NO_SUCH_PROCESS)
def descriptors_of_the_executor(host: Host) -> object:
    """Take an open file of the executor by `pidfd_getfd`."""
    return permitted("pidfd_getfd", os.pidfd_open(host.executor_pid), 0, 0)


@attack(PROCESSES, process=OTHER_USER, ordinary=NOT_DUMPABLE, sandbox=stopped("`ptrace` is refused"))
def debugger_on_the_executor(host: Host) -> object:
    """Attach a debugger to the executor (`ptrace`)."""

    def attach() -> str:
        if libc.ptrace(0x4206, host.executor_pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return "attached"

    return in_child(attach)


@attack(
    PROCESSES,
    process=reached("a user may debug its own processes"),
    sandbox=stopped("`ptrace` is refused"),
)
def debugger_on_its_own(host: Host) -> object:
    """Attach a debugger to a process of its own, as a step to change what a filter has checked already."""
    with subprocess.Popen(["/bin/sleep", "30"]) as child:
        try:
            if libc.ptrace(0x4206, child.pid, None, None) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            child.kill()
    return "attached"


@attack(
    PROCESSES,
    process=stopped("a signal needs the same user"),
    ordinary=reached("both are the same user"),
    sandbox=NO_SUCH_PROCESS,
)
def signal_to_the_executor(host: Host) -> object:
    """Send a signal to the executor. (The one that is sent has the number 0: it ends nothing.)"""
    os.kill(host.executor_pid, 0)
    return "it may end it"


@attack(
    PROCESSES,
    process=stopped("a signal needs the same user"),
    ordinary=reached("both are the same user"),
    sandbox=NO_SUCH_PROCESS,
)
def signal_to_the_group_of_the_executor(host: Host) -> object:
    """Send a signal to all processes of the executor's group: job control of the processes above it."""
    os.killpg(os.getpgid(host.executor_pid), 0)
    return "it may stop them"


@attack(PROCESSES, process=reached("both tasks are the same user"), sandbox=NO_SUCH_PROCESS)
def signal_to_a_neighbour(host: Host) -> object:
    """Send a signal to another task of the same namespace."""
    os.kill(host.neighbour_pid, 0)
    return "it may end it"


@attack(
    PROCESSES,
    process=stopped("each namespace is a user of its own"),
    ordinary=reached("both tasks are the same user"),
    sandbox=NO_SUCH_PROCESS,
    quick=True,
)
def signal_to_a_stranger(host: Host) -> object:
    """Send a signal to a task of another namespace."""
    os.kill(host.stranger_pid, 0)
    return "it may end it"


@attack(PROCESSES, process=reached("both tasks are the same user"), sandbox=NO_SUCH_PROCESS)
def memory_of_a_neighbour(host: Host) -> object:
    """Open the memory of another task of the same namespace."""
    return os.open(f"/proc/{host.neighbour_pid}/mem", os.O_RDONLY)


@attack(
    PROCESSES,
    process=stopped("each namespace is a user of its own"),
    ordinary=reached("both tasks are the same user"),
    sandbox=NO_SUCH_PROCESS,
)
def memory_of_a_stranger(host: Host) -> object:
    """Open the memory of a task of another namespace."""
    return os.open(f"/proc/{host.stranger_pid}/mem", os.O_RDONLY)


@attack(PROCESSES, process=OTHER_USER, ordinary=NOT_DUMPABLE, sandbox=NO_SUCH_PROCESS)
def root_folder_of_the_executor(host: Host) -> object:
    """Go to the files of the machine through `/proc/PID/root` and `/proc/PID/cwd` of the executor."""
    return os.listdir(f"/proc/{host.executor_pid}/root") and os.listdir(f"/proc/{host.executor_pid}/cwd")


@attack(
    PROCESSES,
    process=stopped("a higher priority needs a capability"),
    sandbox=stopped("a higher priority needs a capability"),
)
def higher_priority(host: Host) -> object:
    """Give itself a higher priority (`nice`)."""

    def higher() -> bool:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
        return os.getpriority(os.PRIO_PROCESS, 0) < 0

    return in_child(higher)


@attack(
    PROCESSES,
    process=stopped("real time needs a capability"),
    sandbox=stopped("real time needs a capability"),
)
def real_time(host: Host) -> object:
    """Have itself scheduled before all other processes (`SCHED_FIFO`)."""

    def ahead() -> bool:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return os.sched_getscheduler(0) == os.SCHED_FIFO

    return in_child(ahead)


@attack(
    PROCESSES,
    process=stopped("a lower score needs a capability"),
    sandbox=stopped("a lower score needs a capability"),
    is_shown=False,
)
def out_of_memory_score(host: Host) -> object:
    """Have the kernel end the executor before itself when memory runs out (`oom_score_adj`)."""

    def lower() -> str:
        with open(f"/proc/{os.getppid()}/oom_score_adj") as file:
            before = int(file.read())
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-1")
        return f"from {before} to -1"

    return in_child(lower)


@attack(
    PROCESSES,
    process=stopped("a hard limit is raised by root alone"),
    sandbox=stopped("a hard limit is raised by root alone"),
    is_shown=False,
)
def higher_limits(host: Host) -> object:
    """Raise a hard limit of its own (`ulimit`)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard + 1))
    except ValueError as refusal:
        raise Refused(str(refusal)) from refusal
    return hard + 1


@attack(
    PROCESSES,
    process=stopped("a task has a session of its own, without a terminal"),
    sandbox=stopped("a task has a session of its own, without a terminal"),
    is_shown=False,
)
def words_for_the_terminal(host: Host) -> object:
    """Type a command into the terminal that the executor was started from (`TIOCSTI`)."""
    last: OSError = Refused("no descriptor is a terminal")
    for place in ("/dev/tty", "/dev/console", "/proc/self/fd/0", "/proc/self/fd/1"):
        try:
            fcntl.ioctl(os.open(place, os.O_RDWR | os.O_NONBLOCK), 0x5412, b"\n")
        except OSError as refusal:
            last = refusal
        else:
            return place
    raise last


@attack(
    PROCESSES,
    process=stopped("no program gives more rights (`no_new_privs`)"),
    ordinary=reached("the executor's user keeps what it has: `su` and `sudo` work for it"),
    sandbox=stopped("no program gives more rights (`no_new_privs`), and none is root's there"),
    quick=True,
)
def setuid_programs(host: Host) -> object:
    """Gain rights by a program that is setuid root (`su`, `passwd`, `mount`)."""
    null = subprocess.DEVNULL
    with subprocess.Popen(["/usr/bin/passwd"], stdin=subprocess.PIPE, stdout=null, stderr=null) as child:
        # It gets its rights a moment after it has begun. It ends without input: one of root's could not be killed.
        for _ in range(2_000):
            with open(f"/proc/{child.pid}/status") as file:
                (line,) = [line for line in file if line.startswith("Uid:")]
            if line.split()[2] == "0":
                return line
    return None


@attack(
    PROCESSES,
    process=stopped("to become root needs a capability"),
    sandbox=stopped("there is no root in a sandbox"),
)
def another_user(host: Host) -> object:
    """Become another user by `setresuid`."""

    def changed() -> int:
        os.setresuid(1, 1, 1)
        return os.getuid()

    return in_child(changed)


@attack(
    PROCESSES,
    process=stopped("its capabilities are empty"),
    sandbox=stopped("its capabilities and their bound are empty"),
    quick=True,
)
def capabilities_of_its_own(host: Host) -> object:
    """Have a capability, such as to mount or to trace."""
    return capabilities("CapEff") | capabilities("CapPrm") | capabilities("CapAmb")


@attack(
    PROCESSES,
    process=stopped("capabilities of files are given by root alone"),
    sandbox=stopped("capabilities of files are given by root alone"),
)
def capabilities_of_a_file(host: Host) -> object:
    """Give a program of its own the capability to do all (`setcap`)."""
    with open("program", "w"):
        pass
    os.setxattr("program", "security.capability", bytes.fromhex("0100000200002000000000000000000000000000"))
    return os.getxattr("program", "security.capability")


@attack(
    PROCESSES,
    process=reached("all processes of a user share it"),
    sandbox=stopped("`keyctl` is refused"),
    is_shown=False,
)
def keys_of_its_user(host: Host) -> object:
    """Read the keyring of its user, which all processes of that user share."""
    return call("keyctl", 0, -4, 1) > 0


@attack(
    PROCESSES,
    process=reached("users may keep keys in the kernel"),
    sandbox=stopped("`add_key` is refused"),
)
def keys_in_the_kernel(host: Host) -> object:
    """Keep a key in the kernel, whose keyrings had holes."""
    return call("add_key", b"user", host.token.encode(), b"secret", 6, -2)
