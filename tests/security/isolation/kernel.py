"""Attacks on the kernel: its log, its devices, and the calls that its holes were in."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct

from tests.security.isolation.attacks import KERNEL, attack, depends, reached, stopped
from tests.security.isolation.toolkit import Host, call, fcntl, first_of, in_child, mmap, numbered, permitted, read

NEEDS_ROOT = stopped("it needs a capability")
FILTERED = stopped("the call is refused")
BOTH = stopped("the call is refused, and it needs a capability")
NO_DEVICES = stopped("/dev has null, zero, full, random, urandom and a terminal of its own, no more")


@attack(KERNEL, process=depends("`kernel.dmesg_restrict`: 1 keeps it from users"), sandbox=BOTH)
def log_of_the_kernel(host: Host) -> object:
    """Read the log of the kernel, by `syslog`."""
    buffer = ctypes.create_string_buffer(4096)
    return call("syslog", 3, ctypes.byref(buffer), 4096)


@attack(KERNEL, process=depends("`kernel.dmesg_restrict`: 1 keeps it from users"), sandbox=NO_DEVICES)
def log_device_of_the_kernel(host: Host) -> object:
    """Read the log of the kernel, from `/dev/kmsg`."""
    return os.read(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), 8192)


@attack(KERNEL, process=stopped("devices are root's"), sandbox=NO_DEVICES, is_shown=False)
def disks_and_memory(host: Host) -> object:
    """Open a disk, the memory or the ports of the machine in `/dev`."""
    places = ("mem", "kmem", "port", "sda", "vda", "nvme0n1", "dm-0", "loop0", "loop-control", "snapshot", "uinput")
    return first_of(lambda place: os.open(f"/dev/{place}", os.O_RDWR | os.O_NONBLOCK), places)


@attack(
    KERNEL,
    process=depends("the modes of the devices: fuse, tun and vsock are often open"),
    sandbox=NO_DEVICES,
    is_shown=False,
)
def devices_for_all(host: Host) -> object:
    """Open a device that machines often let all users open: fuse, tun, kvm, vsock, a graphics card."""
    places = (
        "fuse",
        "net/tun",
        "kvm",
        "vsock",
        "vhost-vsock",
        "userfaultfd",
        "dri/card0",
        "ptmx-of-the-machine",
        "nvidia0",
    )
    return first_of(lambda place: os.open(f"/dev/{place}", os.O_RDWR | os.O_NONBLOCK), places)


@attack(KERNEL, process=stopped("it is root's"), sandbox=stopped("it is covered, or root's"), is_shown=False)
def memory_of_the_kernel(host: Host) -> object:
    """Read the memory of the kernel, `/proc/kcore`."""
    return read("/proc/kcore")


@attack(
    KERNEL,
    process=depends("`kernel.kptr_restrict`: 1 or 2 hides them"),
    sandbox=depends("`kernel.kptr_restrict`, also inside"),
    is_shown=False,
)
def addresses_of_the_kernel(host: Host) -> object:
    """Learn where the kernel lies in memory, from `/proc/kallsyms`."""
    with open("/proc/kallsyms") as file:
        return int(file.readline().split()[0], 16)


@attack(
    KERNEL,
    process=depends("`kernel.io_uring_disabled`: 2 takes it away"),
    sandbox=FILTERED,
    quick=True,
)
def io_uring(host: Host) -> object:
    """Do input and output by `io_uring`, which passes filters of calls by."""
    return call("io_uring_setup", 4, struct.pack("120x"))


@attack(KERNEL, process=depends("`kernel.unprivileged_bpf_disabled`"), sandbox=BOTH)
def programs_in_the_kernel(host: Host) -> object:
    """Load a program into the kernel (`bpf`)."""
    return permitted("bpf", 0, struct.pack("IIII56x", 2, 4, 4, 1), 72)


@attack(KERNEL, process=depends("`kernel.perf_event_paranoid`"), sandbox=BOTH)
def performance_counters(host: Host) -> object:
    """Watch the whole machine by its performance counters (`perf_event_open`)."""
    return permitted("perf_event_open", struct.pack("IIQQQQ72x", 1, 112, 0, 0, 0, 0), -1, 0, -1, 0)


@attack(KERNEL, process=reached("users may handle faults of their own pages"), sandbox=FILTERED)
def page_faults(host: Host) -> object:
    """Halt the kernel in the middle of a call by handling page faults (`userfaultfd`)."""
    return call("userfaultfd", 1)


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH, is_shown=False)
def another_kernel(host: Host) -> object:
    """Load another kernel to go on with (`kexec_load`)."""
    return permitted("kexec_load", 0, 0, None, 0xFFFF_0000)


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH, is_shown=False)
def modules(host: Host) -> object:
    """Load a module into the kernel, or take one out."""
    calls = (("init_module", None, 0, b""), ("delete_module", b"no-such-module", 2048))
    return first_of(lambda each: permitted(*each), calls)


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH)
def swap(host: Host) -> object:
    """Have a file of its own used as swap (`swapon`)."""
    return permitted("swapon", b"no-such-file", 0)


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH)
def restart_of_the_machine(host: Host) -> object:
    """Restart the machine (`reboot`). (The call that is tried sets what Ctrl-Alt-Del does.)"""
    return permitted("reboot", 0xFEE1DEAD, 672274793, 0, None)


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH)
def clock(host: Host) -> object:
    """Set the clock of the machine (`settimeofday`). (What is set is the zone of the hardware's, to none.)"""
    return permitted("settimeofday", None, struct.pack("ii", 0, 0))


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH, is_shown=False)
def quotas_of_disks(host: Host) -> object:
    """Change the quotas of a disk (`quotactl`)."""
    return permitted("quotactl_fd", os.open("/", os.O_RDONLY), 0x800006 << 8, 0, None)


@attack(KERNEL, process=NEEDS_ROOT, sandbox=BOTH)
def accounting(host: Host) -> object:
    """Have the kernel write what each process did into a file (`acct`)."""
    return permitted("acct", b"no-such-file")


@attack(
    KERNEL,
    process=depends("whether the kernel takes calls of 32-bit programs"),
    sandbox=stopped("calls of another architecture end the task"),
    is_shown=False,
)
def calls_of_32_bits(host: Host) -> object:
    """Pass by a filter of calls with the call interface of 32-bit programs, whose numbers are others."""
    if platform.machine() != "x86_64":
        return None

    def entered() -> bool:
        # mov eax, 20 (getpid of i386); int 0x80; ret
        code = bytes.fromhex("b814000000cd80c3")
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        return bool(function() == os.getpid())

    return in_child(entered)


@attack(KERNEL, process=depends("whether the kernel takes calls of x32 programs"), sandbox=FILTERED, is_shown=False)
def calls_of_x32(host: Host) -> object:
    """Pass by a filter of calls with the numbers of x32, which have one bit more."""
    if platform.machine() != "x86_64":
        return None
    return in_child(lambda: numbered(0x4000_0000 | 39) == os.getpid())


@attack(
    KERNEL, process=depends("whether the kernel has them"), sandbox=stopped("such sockets are refused"), is_shown=False
)
def ciphers_of_the_kernel(host: Host) -> object:
    """Use the kernel's ciphers by a socket (`AF_ALG`), where it had holes."""
    return socket.socket(38, socket.SOCK_SEQPACKET, 0)


@attack(
    KERNEL, process=depends("whether the kernel has them"), sandbox=stopped("such sockets are refused"), is_shown=False
)
def rare_protocols(host: Host) -> object:
    """Have the kernel load a protocol that hardly a program uses, and that had holes: SCTP, DCCP, MPTCP, L2TP, SMC."""
    kinds = ((1, 262), (5, 132), (5, 0), (6, 33), (6, 0), (2, 136), (2, 115), (1, 256))
    families = (socket.AF_INET, socket.AF_INET6)
    return first_of(lambda each: socket.socket(*each), ((family, *kind) for family in families for kind in kinds))


@attack(KERNEL, process=reached("users may name what is above their TCP"), sandbox=FILTERED, quick=True)
def protocols_above_tcp(host: Host) -> object:
    """Have the kernel load what is to lie above a connection (`TCP_ULP`). (Its name is empty here.)"""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, 31, b"")
        except OSError as refusal:
            if refusal.errno != errno.EINVAL:
                raise
    return "the kernel looked at the name"


@attack(KERNEL, process=reached("users may say what reads their own terminals"), sandbox=FILTERED, quick=True)
def readers_of_terminals(host: Host) -> object:
    """Have a terminal of its own read by another driver, which the kernel loads (`TIOCSETD`). (By the usual one.)"""
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5423, struct.pack("i", 0))
    return "the terminal has the reader that it asked for"
