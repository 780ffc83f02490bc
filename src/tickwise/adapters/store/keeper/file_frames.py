"""The frames that log and checkpoints are made of, and what is read of a file that may end in the middle of one.

    file    head, frame, frame, …
    frame   length (4 bytes) · CRC-32 of number and body (4) · number (8) · body

A frame that is not whole is the end of the file if nothing whole follows it: the write that was under way when the
machine stopped, of which nobody was told. If the next number follows somewhere behind it, it is damage. Damage to
frames that nobody needs, because a checkpoint has them, is passed over.
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
    """A file of the log holds something else than was written. Its place is said; nothing that is needed is skipped."""


class EntryDamaged(LogDamaged):
    """An entry is not whole, and whole ones follow it. The log is whole before it."""

    def __init__(self, path: Path, offset: int, number: int, what: str, last: int) -> None:
        """`last`: of the entries behind it that can still be read."""
        super().__init__(damage(path, offset, what).detail)
        self.path, self.offset, self.number, self.what, self.last = path, offset, number, what, last


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
        self.passed_over: int | None = None
        """The place of the first damage that did not matter."""

    def frames(self, first: int, needed: int = 0) -> Iterator[Frame]:
        """The whole frames from the begin, which are numbered from `first` on. Frames before the number `needed` may be
        damaged: then it goes on at `needed`. Raises `LogDamaged` if one follows something else that is no frame."""
        number = first
        while True:
            frame = self._at(self.end)
            if frame is None or frame.number != number:
                if number >= needed:
                    break
                self.passed_over = self.end
                # A body may hold what looks like a frame: the one of the log goes on to the end of the file.
                number, frame = needed, max(self._whole_ones(needed), key=self._goes_on_to, default=None)
                if frame is None:
                    self._check_follows(needed + 1, needed)
                    self.end = len(self.content)  # nothing that is needed, or a torn end
                    return
                self.end = frame.offset
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
            self._check_follows(later, number)

    def _check_follows(self, later: int, number: int) -> None:
        """Raise if the frame with the number `later` is whole, and the one with `number` is not."""
        for whole in self._whole_ones(later):
            what = f"entry {number} is not whole, and entry {later} follows at byte {whole.offset}"
            last = max(map(self._last_from, self._whole_ones(later)))
            raise EntryDamaged(self.path, self.end, number, what, last)

    def _whole_ones(self, number: int) -> Iterator[Frame]:
        """The frames of this number behind the place that was reached that are whole."""
        wanted, place = number.to_bytes(8, "big"), self.end
        while (place := self.content.find(wanted, place + 1)) >= 0:
            whole = self._at(place - 8)
            if whole is not None and whole.number == number:
                yield whole

    def _goes_on_to(self, frame: Frame) -> int:
        return self._chain(frame)[0]

    def _last_from(self, frame: Frame) -> int:
        return self._chain(frame)[1]

    def _chain(self, frame: Frame) -> tuple[int, int]:
        """The end of the whole frames that follow each other from this one on, and the number of the last."""
        while True:
            end = frame.offset + FRAME.size + len(frame.body)
            after = self._at(end)
            if after is None or after.number != frame.number + 1:
                return end, frame.number
            frame = after

    def damaged(self, what: str) -> LogDamaged:
        """The error for something in this file at the place that was reached."""
        return damage(self.path, self.end, what)
