"""The calls of the kernel that a task in a sandbox must not make, as a seccomp filter in classic BPF.

    another architecture, or an x32 call         killed, or EPERM
    DENIED                                       EPERM: no task needs them, and each is a way that exploits take
    clone with a new namespace, clone3           EPERM, and ENOSYS so that libc goes on with clone: BPF cannot read the
                                                 flags of clone3
    ioctl TIOCSTI, TIOCLINUX                     EPERM: they type into a terminal
    ioctl TIOCSETD                               EPERM: it has a terminal read by a rare driver, which the kernel loads
    setsockopt TCP_ULP                           ENOENT, as from a kernel without any: TLS in the kernel and its like
    socket of another family than                EAFNOSUPPORT; of netlink only the routes, which getifaddrs reads
    AF_UNIX and the internet's
    socket of the internet with another type or  EPROTONOSUPPORT: the kernel loads SCTP, DCCP, MPTCP and their like for
    protocol than PROTOCOLS                      each user who asks, and they have had many holes
    personality, but the plain ones              EPERM: it turns the randomisation of addresses off

The filter is a deny list: programs of every kind run in a sandbox, and an allow list would break them with each new
release of libc. The namespaces are the first wall, and this one is behind them. Numbers are of the kernel's ABI and
never change. (libseccomp could make the filter too. It is a shared library that minimal hosts lack, and what is needed
of it is this table.)
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

LOAD: Final = 0x20
"""BPF_LD | BPF_W | BPF_ABS."""
IF_EQUAL: Final = 0x15
"""BPF_JMP | BPF_JEQ | BPF_K."""
IF_NOT_BELOW: Final = 0x35
"""BPF_JMP | BPF_JGE | BPF_K."""
IF_ANY_BIT: Final = 0x45
"""BPF_JMP | BPF_JSET | BPF_K."""
RETURN: Final = 0x06
"""BPF_RET | BPF_K."""
ALLOW: Final = 0x7FFF_0000
KILL: Final = 0x8000_0000
"""SECCOMP_RET_KILL_PROCESS."""
ERROR: Final = 0x0005_0000
"""SECCOMP_RET_ERRNO, with the number of the error added."""

NUMBER_OFFSET: Final = 0
MACHINE_OFFSET: Final = 4
ARGUMENTS_OFFSET: Final = 16
"""Of 8 bytes each; both machines are little-endian, so the low half comes first."""
X32_BIT: Final = 0x4000_0000

NEW_NAMESPACES: Final = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. (clone has no CLONE_NEWTIME.)"""
TIOCSTI: Final = 0x5412
TIOCLINUX: Final = 0x541C
TIOCSETD: Final = 0x5423
TERMINALS: Final = (TIOCSTI, TIOCLINUX, TIOCSETD)
SOL_TCP: Final = 6
TCP_ULP: Final = 31
AF_UNIX: Final = 1
AF_INET: Final = 2
AF_INET6: Final = 10
"""Raw sockets of the internet need a capability, which no task has."""
AF_NETLINK: Final = 16
RARE_TYPES: Final = 0b1100
"""A bit of these is set in each type of socket but SOCK_STREAM, SOCK_DGRAM and SOCK_RAW, and in no flag. Without a
protocol, such a type names SCTP or DCCP."""
PROTOCOLS: Final = (0, 1, 6, 17, 58)
"""The one of the type, ICMP (`ping`), TCP, UDP, ICMPv6."""
PERSONALITIES: Final = (0, 0x0008, 0x0002_0000, 0x0002_0008, 0xFFFF_FFFF)
"""PER_LINUX, PER_LINUX32, each with UNAME26, and the question which one there is."""


class Call(NamedTuple):
    """The number of one call on each machine; None: that machine has none."""

    x86_64: int | None
    aarch64: int | None


DENIED: Final[Mapping[str, Call]] = {
    # Namespaces and mounts
    "unshare": Call(272, 97),
    "setns": Call(308, 268),
    "mount": Call(165, 40),
    "umount2": Call(166, 39),
    "pivot_root": Call(155, 41),
    "open_tree": Call(428, 428),
    "move_mount": Call(429, 429),
    "fsopen": Call(430, 430),
    "fsconfig": Call(431, 431),
    "fsmount": Call(432, 432),
    "fspick": Call(433, 433),
    "mount_setattr": Call(442, 442),
    "open_tree_attr": Call(467, 467),
    "statmount": Call(457, 457),
    "listmount": Call(458, 458),
    "quotactl": Call(179, 60),
    "quotactl_fd": Call(443, 443),
    "swapon": Call(167, 224),
    "swapoff": Call(168, 225),
    # Other processes
    "ptrace": Call(101, 117),
    "process_vm_readv": Call(310, 270),
    "process_vm_writev": Call(311, 271),
    "process_madvise": Call(440, 440),
    "pidfd_getfd": Call(438, 438),
    "kcmp": Call(312, 272),
    # Parts of the kernel with a history of holes
    "bpf": Call(321, 280),
    "perf_event_open": Call(298, 241),
    "userfaultfd": Call(323, 282),
    "io_uring_setup": Call(425, 425),
    "io_uring_enter": Call(426, 426),
    "io_uring_register": Call(427, 427),
    "keyctl": Call(250, 219),
    "add_key": Call(248, 217),
    "request_key": Call(249, 218),
    "fanotify_init": Call(300, 262),
    "fanotify_mark": Call(301, 263),
    "move_pages": Call(279, 239),
    "migrate_pages": Call(256, 238),
    # Files by their number on a disk, past every folder
    "open_by_handle_at": Call(304, 265),
    "name_to_handle_at": Call(303, 264),
    "lookup_dcookie": Call(212, 18),
    # The machine itself
    "kexec_load": Call(246, 104),
    "kexec_file_load": Call(320, 294),
    "init_module": Call(175, 105),
    "finit_module": Call(313, 273),
    "delete_module": Call(176, 106),
    "reboot": Call(169, 142),
    "syslog": Call(103, 116),
    "acct": Call(163, 89),
    "settimeofday": Call(164, 170),
    "clock_settime": Call(227, 112),
    "sethostname": Call(170, 161),
    "setdomainname": Call(171, 162),
    "vhangup": Call(153, 58),
    "nfsservctl": Call(180, 42),
    "iopl": Call(172, None),
    "ioperm": Call(173, None),
    "modify_ldt": Call(154, None),
    "uselib": Call(134, None),
    "ustat": Call(136, None),
    "sysfs": Call(139, None),
    "_sysctl": Call(156, None),
}
CLONE: Final = Call(56, 220)
CLONE3: Final = Call(435, 435)
IOCTL: Final = Call(16, 29)
SOCKET: Final = Call(41, 198)
SOCKETPAIR: Final = Call(53, 199)
SETSOCKOPT: Final = Call(54, 208)
PERSONALITY: Final = Call(135, 92)
MACHINES: Final[Mapping[str, int]] = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""AUDIT_ARCH of each."""


class Instruction(NamedTuple):
    """One of BPF; `if_true` and `if_false` count the instructions that are left out."""

    code: int
    if_true: int
    if_false: int
    value: int


def machine() -> str | None:
    """The name of this machine's architecture, if there is a filter for it."""
    name = os.uname().machine
    return name if name in MACHINES else None


def seccomp_filter(name: str | None = None) -> bytes:
    """The filter for this machine, or for the one of that name: an array of `struct sock_filter`, 8 bytes each, as
    `bwrap --seccomp` reads it. Raises `KeyError` for an architecture without one."""
    name = name or os.uname().machine
    return b"".join(struct.pack("<HBBI", *each) for each in _instructions(name))


def _instructions(name: str) -> list[Instruction]:
    refuse = ERROR | errno.EPERM
    found = [
        Instruction(LOAD, 0, 0, MACHINE_OFFSET),
        Instruction(IF_EQUAL, 1, 0, MACHINES[name]),
        _return(KILL),
        Instruction(LOAD, 0, 0, NUMBER_OFFSET),
    ]
    if name == "x86_64":
        found += [Instruction(IF_NOT_BELOW, 0, 1, X32_BIT), _return(refuse)]
    for call in DENIED.values():
        found += _when(call, name, [_return(refuse)])
    found += _when(CLONE3, name, [_return(ERROR | errno.ENOSYS)])
    found += _when(
        CLONE, name, [_argument(0), Instruction(IF_ANY_BIT, 0, 1, NEW_NAMESPACES), _return(refuse), _return(ALLOW)]
    )
    terminals = [each for value in TERMINALS for each in (Instruction(IF_EQUAL, 0, 1, value), _return(refuse))]
    found += _when(IOCTL, name, [_argument(1), *terminals, _return(ALLOW)])
    upper = [_argument(2), Instruction(IF_EQUAL, 0, 1, TCP_ULP), _return(ERROR | errno.ENOENT)]
    found += _when(
        SETSOCKOPT, name, [_argument(1), Instruction(IF_EQUAL, 0, len(upper), SOL_TCP), *upper, _return(ALLOW)]
    )
    for call in (SOCKET, SOCKETPAIR):
        found += _when(call, name, _families())
    plain = [each for value in PERSONALITIES for each in (Instruction(IF_EQUAL, 0, 1, value), _return(ALLOW))]
    found += _when(PERSONALITY, name, [_argument(0), *plain, _return(refuse)])
    return [*found, _return(ALLOW)]


def _families() -> list[Instruction]:
    local = [Instruction(IF_EQUAL, 0, 1, AF_UNIX), _return(ALLOW)]
    rare = _return(ERROR | errno.EPROTONOSUPPORT)
    usual = [each for value in PROTOCOLS for each in (Instruction(IF_EQUAL, 0, 1, value), _return(ALLOW))]
    internet = [_argument(1), Instruction(IF_ANY_BIT, 0, 1, RARE_TYPES), rare, _argument(2), *usual, rare]
    is_internet = [Instruction(IF_EQUAL, 1, 0, AF_INET), Instruction(IF_EQUAL, 0, len(internet), AF_INET6)]
    routes = [_argument(2), Instruction(IF_EQUAL, 0, 1, 0), _return(ALLOW)]
    unknown = _return(ERROR | errno.EAFNOSUPPORT)
    is_netlink = Instruction(IF_EQUAL, 0, len(routes), AF_NETLINK)
    return [_argument(0), *local, *is_internet, *internet, is_netlink, *routes, unknown]


def _when(call: Call, name: str, then: list[Instruction]) -> list[Instruction]:
    """`then`, which must end with a return, for this call alone."""
    number: int | None = getattr(call, name)
    return [] if number is None else [Instruction(IF_EQUAL, 0, len(then), number), *then]


def _argument(place: int) -> Instruction:
    """Load the low half of an argument: the kernel takes no more of any of those that are looked at."""
    return Instruction(LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * place)


def _return(value: int) -> Instruction:
    return Instruction(RETURN, 0, 0, value)
