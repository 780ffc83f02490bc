"""Takes the body of an answer: the output of the attempt, the beginning for its result, and no more than is allowed.

Each piece comes unpacked and is at most some ten kilobytes, so an answer that grows a thousandfold when it is unpacked
fills neither the memory nor, beyond the limits, the output.
"""

from __future__ import annotations

from tickwise.adapters.runner.calls.answer_limits import limits_of
from tickwise.adapters.runner.slots import Attempt


class AnswerTooLarge(Exception):
    """The answer has more bytes than the task takes. Its text is for people."""


class AnswerReader:
    """The body of one answer."""

    def __init__(self, attempt: Attempt, *, result_bytes: int, dropped: int | None = None) -> None:
        """`result_bytes`: of the beginning. An answer with the status `dropped` leaves no output."""
        self._attempt = attempt
        self._limits = limits_of(attempt.assignment.task)
        self._result_bytes = result_bytes
        self._dropped = dropped
        self._read = 0
        self._beginning = bytearray()

    @property
    def beginning(self) -> bytes:
        """At most one byte more than a result may have, and a piece of the answer."""
        return bytes(self._beginning)

    async def take(self, status: int, piece: bytes) -> None:
        """Take the next piece, when there is room for it. Raises `AnswerTooLarge`."""
        before, self._read = self._read, self._read + len(piece)
        most = self._limits.answer_bytes
        if most is not None and self._read > most:
            raise AnswerTooLarge(f"the answer has more than the {most} bytes that the task takes (`answer_bytes`)")
        if len(self._beginning) <= self._result_bytes:
            self._beginning.extend(piece)
        if status == self._dropped:
            return
        kept = piece if self._limits.kept_bytes is None else piece[: max(self._limits.kept_bytes - before, 0)]
        if kept:
            self._attempt.write(kept, grace_seconds=0.0)
            await self._attempt.sink.room()
