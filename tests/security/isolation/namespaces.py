"""Attacks by mounts and namespaces: ways out of what surrounds a task."""

from __future__ import annotations

import os
import struct

from tests.security.isolation.attacks import NAMESPACES, attack, depends, stopped
from tests.security.isolation.toolkit import (
    NEW_NAMESPACES,
    Host,
    Refused,
    call,
    first_of,
    handle,
    in_child,
    permitted,
)

NEEDS_ROOT = stopped("it needs a capability")
FILTERED = stopped("the call is refused, and it needs a capability")
USER_NAMESPACES = depends("whether users may make user namespaces: most machines let them")


@attack(
    NAMESPACES,
    process=NEEDS_ROOT,
    sandbox=FILTERED,
    quick=True,
)
def new_mount(host: Host) -> object:
    """Mount a file system over its own folder."""
    os.mkdir("place")
    return in_child(lambda: permitted("mount", b"none", b"place", b"tmpfs", 0, None))


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=FILTERED)
def bind_mount(host: Host) -> object:
    """Mount another folder over `/etc`, as a bind."""
    os.mkdir("place")
    return in_child(lambda: permitted("mount", b"/etc", b"place", None, 4096, None))


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=FILTERED)
def remount_for_writing(host: Host) -> object:
    """Mount `/usr` again, for writing."""
    return in_child(lambda: permitted("mount", None, b"/usr", None, 32 | 4096, None))


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=FILTERED)
def unmount(host: Host) -> object:
    """Take a mount away, to see what is below it."""
    return in_child(lambda: permitted("umount2", b"/", 0))


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=FILTERED)
def new_mount_interface(host: Host) -> object:
    """Mount by the calls of the newer interface: `fsopen`, `open_tree`, `move_mount`."""

    calls = (("fsopen", b"tmpfs", 0), ("open_tree", -100, b"/", 1))
    return in_child(lambda: first_of(lambda each: permitted(*each), calls))


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=FILTERED)
def another_root(host: Host) -> object:
    """Change its root folder for another one (`pivot_root`)."""
    return in_child(lambda: permitted("pivot_root", b".", b"."))


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=NEEDS_ROOT)
def change_of_root(host: Host) -> object:
    """Leave its root folder by a second one inside (`chroot`)."""
    os.mkdir("place")

    def changed() -> str:
        os.chroot("place")
        return "inside"

    return in_child(changed)


@attack(
    NAMESPACES,
    process=stopped("it is another user's"),
    ordinary=stopped("no role can be looked into"),
    sandbox=stopped("that process is not there"),
    quick=True,
)
def namespaces_of_the_executor(host: Host) -> object:
    """Enter the namespaces of the executor, by `/proc/PID/ns` and by a descriptor of its process."""

    def by_file() -> str:
        return permitted("setns", os.open(f"/proc/{host.executor_pid}/ns/mnt", os.O_RDONLY), 0)

    def by_process() -> str:
        return permitted("setns", os.pidfd_open(host.executor_pid), NEW_NAMESPACES["mount"] | NEW_NAMESPACES["net"])

    return in_child(lambda: first_of(lambda act: act(), (by_process, by_file)))


@attack(
    NAMESPACES,
    process=USER_NAMESPACES,
    sandbox=stopped("`unshare` is refused, and no further one may be made"),
    quick=True,
)
def user_namespace(host: Host) -> object:
    """Make a user namespace of its own, in which it is root (`unshare`)."""
    return in_child(lambda: call("unshare", NEW_NAMESPACES["user"]) == 0)


@attack(NAMESPACES, process=USER_NAMESPACES, sandbox=stopped("`unshare` is refused, and no further one may be made"))
def mount_in_a_user_namespace(host: Host) -> object:
    """Mount a file system as the root of a user namespace of its own: most holes of the kernel begin so."""

    def mounted() -> bool:
        call("unshare", NEW_NAMESPACES["user"] | NEW_NAMESPACES["mount"])
        return call("mount", b"none", b"/tmp", b"tmpfs", 0, None) == 0

    return in_child(mounted)


@attack(NAMESPACES, process=USER_NAMESPACES, sandbox=stopped("`clone` with such flags is refused"))
def user_namespace_by_clone(host: Host) -> object:
    """Start a process in a new user namespace (`clone`)."""

    def cloned() -> int:
        pid = call("clone", NEW_NAMESPACES["user"] | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid

    return in_child(cloned)


@attack(NAMESPACES, process=USER_NAMESPACES, sandbox=stopped("`clone3`, which a filter cannot read, is not there"))
def user_namespace_by_clone3(host: Host) -> object:
    """The same by `clone3`, whose flags lie in memory where no filter sees them."""

    def cloned() -> int:
        pid = call("clone3", struct.pack("8Q", NEW_NAMESPACES["user"], 0, 0, 0, 17, 0, 0, 0), 64)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid

    return in_child(cloned)


@attack(NAMESPACES, process=USER_NAMESPACES, sandbox=stopped("not one may be made"))
def nested_user_namespaces(host: Host) -> object:
    """Make a user namespace within a user namespace, thirty deep."""

    def nested() -> int:
        for _ in range(30):
            # The kernel makes the next one only for a user and a group that have a number in this one.
            uid, gid = os.getuid(), os.getgid()
            call("unshare", NEW_NAMESPACES["user"])
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        return 30

    return in_child(nested)


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=FILTERED)
def other_namespaces(host: Host) -> object:
    """Make a namespace of mounts, processes, network, messages, names, control groups or time of its own."""
    found = []
    last: OSError = Refused("none was tried")
    for kind in ("mount", "pid", "net", "ipc", "uts", "cgroup", "time"):
        number = NEW_NAMESPACES[kind]
        try:
            if in_child(lambda: call("unshare", number)) is None:  # noqa: B023  # it is called at once
                found.append(kind)
        except OSError as refusal:
            last = refusal
    if not found:
        raise last
    return found


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=NEEDS_ROOT)
def file_by_its_handle(host: Host) -> object:
    """Open a file of the machine by its number instead of its name (`open_by_handle_at`)."""
    where = os.open(".", os.O_RDONLY)
    return permitted("open_by_handle_at", where, handle(8), os.O_RDONLY)


@attack(NAMESPACES, process=NEEDS_ROOT, sandbox=stopped("it needs a capability, and devices do not work there"))
def device_node(host: Host) -> object:
    """Make a device of its own for the memory of the machine (`mknod`)."""
    os.mknod("memory", 0o020600, os.makedev(1, 1))
    os.unlink("memory")
    return "made"


@attack(NAMESPACES, process=stopped("there is none"), sandbox=stopped("the former root is unmounted"), is_shown=False)
def former_root(host: Host) -> object:
    """Find the root folder of the machine under the name that the program which made the sandbox had for it."""
    return first_of(os.listdir, ("/oldroot", "/newroot", "/.old", "/proc/1/root/oldroot"))


@attack(NAMESPACES, process=stopped("it needs a capability"), sandbox=stopped("it needs a capability"))
def name_of_the_machine(host: Host) -> object:
    """Give the machine another name (`sethostname`, `setdomainname`). (The one that it has.)"""
    name = os.uname().nodename.encode()
    return first_of(lambda each: permitted(*each), (("sethostname", name, len(name)), ("setdomainname", None, -1)))
