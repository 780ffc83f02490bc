"""The frames that log and checkpoints are made of, and what is read of a file that may end in the middle of one.

    file    head, frame, frame, …
    frame   length (4 bytes) · CRC-32 of number and body (4) · number (8) · body

A frame that is not whole is the end of the file if nothing whole follows it: the write that was under way when the
machine stopped, of which nobody was told. If the next number follows somewhere behind it, it is damage.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.domain.errors import Misconfigured

FRAME: Final = struct.Struct(">IIQ")
FRAME_MOST: Final = 1 << 30
"""Bytes of a body; a length above it is damage."""


class LogDamaged(Misconfigured):
    """A file of the log holds something else than was written. Its place is said; nothing of it is skipped."""


def damage(path: Path, offset: int, what: str) -> LogDamaged:
    """The error for something in a file."""
    return LogDamaged(
        f"the log is damaged in {path} at byte {offset}: {what}. Restore the folder from a backup; nothing was changed"
    )


class Frame(NamedTuple):
    """A whole frame."""

    offset: int
    number: int
    body: bytes


def framed(number: int, body: bytes) -> bytes:
    """A frame."""
    return FRAME.pack(len(body), _checksum(number, body), number) + body


def _checksum(number: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(number.to_bytes(8, "big")))


def bodies_of(path: Path, head_bytes: int) -> Iterator[bytes]:
    """The bodies of a file of whole frames, numbered from 1 on, which is not read into memory as a whole. Raises
    `LogDamaged` behind those that are whole if there is anything else."""
    with path.open("rb") as file:
        size, number = os.fstat(file.fileno()).st_size, 1
        file.seek(head_bytes)
        while file.tell() < size:
            head = file.read(FRAME.size)
            length, checksum, said = FRAME.unpack(head) if len(head) == FRAME.size else (0, 0, 0)
            body = file.read(length) if length <= FRAME_MOST else b""
            if said != number or len(body) != length or _checksum(number, body) != checksum:
                break
            yield body
            number += 1
        else:
            return
    whole = FrameFile(path, head_bytes)
    for _ in whole.frames(1):
        pass
    raise whole.damaged("it ends too early")


class FrameFile:
    """The content of a file of frames."""

    def __init__(self, path: Path, head_bytes: int) -> None:
        self.path = path
        self.content = path.read_bytes()
        self.end = head_bytes
        """The end of the whole frames, as far as `frames` has come."""

    def frames(self, first: int) -> Iterator[Frame]:
        """The whole frames from the begin, which are numbered from `first` on. Raises `LogDamaged` if one follows
        something that is no frame."""
        number = first
        while (frame := self._at(self.end)) is not None and frame.number == number:
            self.end += FRAME.size + len(frame.body)
            yield frame
            number += 1
        self._check_end(number)

    def torn_bytes(self) -> int:
        """The bytes behind the last whole frame."""
        return len(self.content) - self.end

    def _at(self, offset: int) -> Frame | None:
        if offset + FRAME.size > len(self.content):
            return None
        length, checksum, number = FRAME.unpack_from(self.content, offset)
        body = self.content[offset + FRAME.size : offset + FRAME.size + length]
        if length > FRAME_MOST or len(body) != length or _checksum(number, body) != checksum:
            return None
        return Frame(offset, number, body)

    def _check_end(self, number: int) -> None:
        """Look for what was written after the frame of this number, which is not whole."""
        found = self._at(self.end)
        if found is not None:
            raise self.damaged(f"it holds entry {found.number} in place of {number}")
        for later in (number, number + 1):
            wanted, place = later.to_bytes(8, "big"), self.end
            while (place := self.content.find(wanted, place + 1)) >= 0:
                whole = self._at(place - 8)
                if whole is not None and whole.number == later:
                    raise self.damaged(f"entry {number} is not whole, and entry {later} follows at byte {whole.offset}")

    def damaged(self, what: str) -> LogDamaged:
        """The error for something in this file at the place that was reached."""
        return damage(self.path, self.end, what)
