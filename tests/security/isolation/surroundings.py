"""What the attacks go for, made for one run of them: a network with services that greet, files, sockets, other tasks.

All of it is real, and in a network and mounts of its own, which the caller makes (`unshare --net --mount`): an address
such as that of the metadata of clouds answers here, and nothing of it leaves the machine.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

LOOPBACK: Final = "127.0.0.1"
METADATA: Final = "169.254.169.254"
PUBLIC: Final = "198.51.100.80"
PUBLIC_6: Final = "2001:db8::80"
RESOLVER: Final = "198.51.100.53"
CLIENT_SECONDS: Final = 1.0
"""A service waits for so long for a client that has been greeted and says nothing."""
SERVICE_PORT: Final = 8099
ANSWERED: Final = "203.0.113.7"
"""The address of each name that the resolver is asked for."""


class Yard(NamedTuple):
    """What is there, and where."""

    folder: Path
    """All users may write there."""
    canary: str
    public_file: Path
    public_socket: Path
    abstract_socket: str


@contextlib.contextmanager
def surroundings() -> Iterator[Yard]:
    """The files and services, for as long as it lasts. For root, in a network and mounts of its own."""
    _give_addresses()
    folder = Path(tempfile.mkdtemp(prefix="tickwise-tests-", dir="/var/tmp"))
    canary = f"canary-{secrets.token_hex(8)}"
    yard = Yard(folder, canary, folder / "files" / "canary", folder / "service", f"tickwise-{canary}")
    try:
        folder.chmod(0o1777)
        yard.public_file.parent.mkdir(mode=0o755)
        yard.public_file.parent.chmod(0o755)
        yard.public_file.write_text(canary)
        yard.public_file.chmod(0o644)
        _take_questions(folder)
        _greet(yard)
        yield yard
    finally:
        subprocess.run(["umount", "/etc/resolv.conf"], check=False, capture_output=True)
        shutil.rmtree(folder)


def _give_addresses() -> None:
    commands = [
        "link set lo up",
        *(f"addr add {address}/32 dev lo" for address in (METADATA, PUBLIC, RESOLVER)),
        f"addr add {PUBLIC_6}/128 dev lo",
        "link add probe0 type veth peer name probe1",
    ]
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


def _take_questions(folder: Path) -> None:
    """Have this resolver be the machine's."""
    file = folder / "files" / "resolv.conf"
    file.write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
    file.chmod(0o644)
    subprocess.run(["mount", "--bind", str(file), os.path.realpath("/etc/resolv.conf")], check=True)


def _greet(yard: Yard) -> None:
    """Start what greets. It ends with this process."""
    everywhere, everywhere_6 = socket.socket(), socket.socket(socket.AF_INET6)
    everywhere.bind(("0.0.0.0", SERVICE_PORT))
    everywhere_6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    everywhere_6.bind(("::", SERVICE_PORT))
    in_folder, without_place = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    in_folder.bind(str(yard.public_socket))
    yard.public_socket.chmod(0o777)
    without_place.bind("\0" + yard.abstract_socket)
    for server in (everywhere, everywhere_6, in_folder, without_place):
        server.listen(64)
        threading.Thread(target=_accept, args=(server, yard.canary.encode()), daemon=True).start()
    datagrams, questions = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    datagrams.bind(("0.0.0.0", SERVICE_PORT))
    questions.bind((RESOLVER, 53))
    threading.Thread(target=_answer, args=(datagrams, yard.canary.encode()), daemon=True).start()
    threading.Thread(target=_answer, args=(questions, None), daemon=True).start()


def _accept(server: socket.socket, greeting: bytes) -> None:
    while True:
        connection, _ = server.accept()
        with contextlib.suppress(OSError), connection:
            connection.settimeout(CLIENT_SECONDS)
            connection.sendall(greeting)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(2048)  # a client that sends first must not find us gone


def _answer(server: socket.socket, greeting: bytes | None) -> None:
    while True:
        said, address = server.recvfrom(2048)
        with contextlib.suppress(OSError):
            server.sendto(_address_of(said) if greeting is None else greeting, address)


def _address_of(question: bytes) -> bytes:
    """An answer of DNS: each name has the address `ANSWERED`."""
    end = question.index(b"\0", 12) + 5
    head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
    record = struct.pack("!HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(ANSWERED))
    return head + question[12:end] + record
