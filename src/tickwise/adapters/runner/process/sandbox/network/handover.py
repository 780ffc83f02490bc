"""The listening sockets of a run, from the program in its namespace to the proxy."""

from __future__ import annotations

import array
import asyncio
import socket
from collections.abc import Sequence
from typing import Final

from tickwise.adapters.runner.process.sandbox.network.namespace_program import DESCRIPTORS_MAX

MESSAGE_BYTES: Final = 128 << 10
"""More than a list of 64 destinations has."""
_INT: Final = array.array("i").itemsize


async def made_sockets(helper: socket.socket, instruction: Sequence[str]) -> list[socket.socket]:
    """The listening sockets that `namespace_program` makes. Raises `OSError`, `EOFError`."""
    expected = {tuple(line.split()[1:]) for line in instruction if line.startswith("listen ")}
    helper.setblocking(False)
    helper.send("\n".join(instruction).encode())
    made: list[socket.socket] = []
    try:
        while len(made) < len(expected):
            await _readable(helper)
            content, descriptors = receive(helper)
            made += [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not content:
                raise EOFError
        if {_described(one) for one in made} != expected:
            raise OSError(0, "the sockets are others than those that were asked for")
    except BaseException:
        for one in made:
            one.close()
        raise
    return made


def _described(one: socket.socket) -> tuple[str, ...]:
    address, port = one.getsockname()[:2]
    return ("udp" if one.type == socket.SOCK_DGRAM else "tcp", address, str(port))


async def _readable(one: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    found: asyncio.Future[None] = loop.create_future()
    loop.add_reader(one, _done, found)
    try:
        await found
    finally:
        loop.remove_reader(one)


def _done(found: asyncio.Future[None]) -> None:
    if not found.done():
        found.set_result(None)


def receive(one: socket.socket) -> tuple[bytes, list[int]]:
    """One message, and the descriptors that came with it. No bytes: the other end is closed. Raises `OSError`."""
    content, ancillary, _, _ = one.recvmsg(
        MESSAGE_BYTES, socket.CMSG_SPACE(DESCRIPTORS_MAX * _INT), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % _INT])
    return content, descriptors.tolist()
