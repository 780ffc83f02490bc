"""The program that makes the network namespace of one task: `namespace_program.py DESCRIPTOR COMMAND…`; with `try` it
says whether it can.

    proxy ──instruction──► this program: a namespace with nothing but loopback, and the sockets that it listens on
          ◄──the sockets──
          ──"go"─────────► COMMAND, which has neither the sockets nor a right over the namespace

    instruction   lines "address 10.0.0.5", "listen tcp 127.64.0.1 443", "listen udp 127.0.0.1 53"

It runs before the sandbox, as the user of the task, and the command of the sandbox takes its place. It stands alone,
without `site` and without a package.

Invariants: nothing begins without the word of the proxy. The sockets live in the proxy alone, so they end with it, and
a connection of the task is refused from then on. The namespace belongs to a user namespace outside the sandbox, so no
right inside the sandbox changes it.
"""

import _socket
import array
import os
import struct
import sys

TYPE_CHECKING = False  # that of `typing`, which nothing here needs
if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
INSTRUCTION_BYTES = 1 << 16
GO = b"go"
DESCRIPTORS_MAX = 64
"""Of one message; the kernel takes 253."""
BACKLOG = 128
TRIAL = "try"
WAIT_SECONDS = 30.0
"""For the proxy. It answers in a millisecond."""
EXIT_NOT_STARTED = 125
NOT_STARTED = "network: nothing was started, for the network of the task cannot be made: "
LOOPBACK_INDEX = 1
"""That of `lo` in a new namespace."""
RTM_NEWLINK, RTM_NEWADDR = 16, 20
NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE = 0x1, 0x4, 0x400
NLMSG_ERROR = 2
IFF_UP = 0x1
IFA_ADDRESS, IFA_LOCAL = 1, 2
IFA_F_NODAD = 0x02


def enter() -> None:
    """Go on in a network namespace of a user namespace of its own, as the same user. Raises `OSError`."""
    uid, gid = os.geteuid(), os.getegid()
    _unshare(CLONE_NEWUSER | CLONE_NEWNET)
    for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        descriptor = os.open(f"/proc/self/{file}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def _unshare(flags: int) -> None:
    if hasattr(os, "unshare"):  # from Python 3.12
        os.unshare(flags)
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(ctypes.c_int(flags)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def configure(addresses: "list[str]") -> None:
    """Bring `lo` up, and give it these addresses, so that a task can connect to them. Raises `OSError`."""
    link = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _socket.NETLINK_ROUTE)
    up = struct.pack("=BxHiII", _socket.AF_UNSPEC, 0, LOOPBACK_INDEX, IFF_UP, IFF_UP)
    _ask(link, RTM_NEWLINK, 0, up)
    for text in addresses:
        family = family_of(text)
        packed = _socket.inet_pton(family, text)
        what = struct.pack("=BBBBI", family, 8 * len(packed), IFA_F_NODAD, 0, LOOPBACK_INDEX)
        for kind in (IFA_LOCAL, IFA_ADDRESS):
            what += struct.pack("=HH", 4 + len(packed), kind) + packed
        _ask(link, RTM_NEWADDR, NLM_F_CREATE, what)
    link.close()


def _ask(link: _socket.socket, kind: int, flags: int, what: bytes) -> None:
    head = struct.pack("=IHHII", 16 + len(what), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0)
    link.sendto(head + what, (0, 0))
    answer = link.recv(4096)
    (found,) = struct.unpack_from("=H", answer, 4)
    (error,) = struct.unpack_from("=i", answer, 16)
    if found != NLMSG_ERROR or error != 0:
        raise OSError(-error, os.strerror(-error))


def family_of(address: str) -> int:
    """The family of an address in its usual spelling."""
    return _socket.AF_INET6 if ":" in address else _socket.AF_INET


def listener(kind: str, address: str, port: int) -> _socket.socket:
    """A socket that listens. Raises `OSError`."""
    family = family_of(address)
    made = _socket.socket(family, _socket.SOCK_DGRAM if kind == "udp" else _socket.SOCK_STREAM)
    os.set_inheritable(made.fileno(), False)
    made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    if family == _socket.AF_INET6:
        made.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
    made.bind((address, port))
    if kind == "tcp":
        made.listen(BACKLOG)
    return made


def carry_out(control: _socket.socket, instruction: "list[list[str]]") -> None:
    """Make the namespace and its sockets, and hand them over. Raises `OSError`."""
    enter()
    configure([words[1] for words in instruction if words[0] == "address"])
    made = [listener(words[1], words[2], int(words[3])) for words in instruction if words[0] == "listen"]
    for some in _pieces(made):
        rights = array.array("i", [one.fileno() for one in some])
        control.sendmsg([b"sockets"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    for one in made:
        one.close()
    if control.recv(len(GO)) != GO:
        raise ConnectionResetError(0, "the proxy is gone")


def _pieces(made: "list[_socket.socket]") -> "Iterator[list[_socket.socket]]":
    for first in range(0, len(made), DESCRIPTORS_MAX):
        yield made[first : first + DESCRIPTORS_MAX]


def _try() -> None:
    try:
        enter()
        configure([])
        listener("udp", "127.0.0.1", 53)
    except OSError as error:
        os.write(2, f"{error.strerror}\n".encode())
        os._exit(1)


def main() -> None:
    """Make the network, then become the command."""
    if sys.argv[1] == TRIAL:
        _try()
        return
    control = _socket.socket(fileno=int(sys.argv[1]))
    command = sys.argv[2:]
    os.set_inheritable(control.fileno(), False)
    control.settimeout(WAIT_SECONDS)
    try:
        text = control.recv(INSTRUCTION_BYTES).decode()
        if not text:
            raise ConnectionResetError(0, "the proxy is gone")
        carry_out(control, [line.split() for line in text.splitlines()])
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        os.write(2, f"{NOT_STARTED}{why}\n".encode())
        os._exit(EXIT_NOT_STARTED)
    is_stdin = control.fileno() == 0
    control.close()
    if is_stdin:
        os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free, 0
        os.set_inheritable(0, True)
    try:
        os.execve(command[0], command, {})  # what this interpreter needed is nothing for a sandbox
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
