"""The messages between executor and function worker over one socket: four bytes of length, then msgpack.

    executor ──Batch, Stop, Recall──► worker      worker ──Hello, then Report──► executor

Runs are numbered anew in each worker, from 1. The number of the run that holds the worker's main thread stands in
eight bytes of shared memory, so that the executor knows whom to blame even if the worker dies between two reports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec


class Item(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One run to carry out."""

    number: int
    name: str
    payload: bytes
    job_id: bytes
    run_id: bytes
    attempt: int
    nominal: float
    due: float
    token: int
    namespace: str
    output_limit_bytes: int
    traceparent: str | None = None
    tracestate: str | None = None


ItemFields = tuple[int, str, bytes, bytes, bytes, int, float, float, int, str, int, str | None, str | None]
"""An `Item` as the sender makes it: on the wire they are the same, and a tuple costs half as much."""


class Batch(msgspec.Struct, array_like=True, tag=1, gc=False):
    """Runs, in order. `base` plus the machine's monotonic clock is the store's clock."""

    base: float
    items: list[Item]


class OutgoingBatch(msgspec.Struct, array_like=True, tag=1, gc=False):
    """A `Batch` as the sender makes it."""

    base: float
    items: list[ItemFields]


class Stop(msgspec.Struct, array_like=True, tag=2, gc=False):
    """Ask a run to end."""

    number: int


class Recall(msgspec.Struct, array_like=True, tag=5, gc=False):
    """Give back every run that has not begun."""


class Hello(msgspec.Struct, array_like=True, tag=3):
    """The first word: which functions there are (name, whether it is async), and what could not be loaded."""

    functions: list[tuple[str, bool]]
    problems: list[str]


class Result(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """The end of one run; `verdict` is None for OK, which is most of them and short on the wire."""

    number: int
    started: float
    ended: float
    result: str | None = None
    verdict: str | None = None
    reason: str | None = None
    error: str | None = None
    retry_after_seconds: float | None = None
    symptoms: tuple[str, ...] = ()


class Report(msgspec.Struct, array_like=True, omit_defaults=True, tag=4):
    """The events since the last report. Output of a run never comes after its result."""

    results: list[Result]
    began: list[tuple[int, float]] = []
    """Runs that have been going on for a while, and since when."""
    returned: list[int] = []
    """Runs given back unbegun, because the one before them takes long."""
    outputs: list[tuple[int, bytes]] = []
    progress: list[tuple[int, float, str]] = []
    """Of runs that said how far they are: the newest share from 0 to 1, with its text."""


_LENGTH = struct.Struct("!I")
_encoder = msgspec.msgpack.Encoder()


def frame(message: Batch | OutgoingBatch | Stop | Recall | Hello | Report) -> bytes:
    """Ready to be sent."""
    buffer = bytearray(_LENGTH.size)
    _encoder.encode_into(message, buffer, _LENGTH.size)
    _LENGTH.pack_into(buffer, 0, len(buffer) - _LENGTH.size)
    return bytes(buffer)


class Frames:
    """Cuts a stream of bytes into messages' bodies."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Add bytes that were read, and yield every body that is now complete."""
        buffer = self._buffer
        buffer += content
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            yield bytes(buffer[start + _LENGTH.size : end])
            start = end
        del buffer[:start]
