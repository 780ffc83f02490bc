"""The account of what runs before a script in a pod, and what it says at its end: lines of the log that are no output.

    hello↵                                   output
    ↵ RS tickwise-result:eyJyb3dzIjogM30=↵   taken out, with the line feed before it

A pod gives nothing back but its log and 4,096 bytes of a termination message, so a result goes through the log. A task
may write such a line itself: its result is its own to say.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Final

MARK: Final = b"\x1etickwise-"
NAMES: Final = (b"result", b"symptoms")
MAX_LINE: Final = 8 << 10
"""A marked line is shorter; a longer one is output."""


def entry_source(name: str) -> bytes:
    """The program `enter.py` or `enter.sh`."""
    return Path(__file__).with_name(name).read_bytes()


class ResultLines:
    """Takes the marked lines out of an output that comes in pieces. Holds back a line feed at most, and what may become
    a marked line."""

    def __init__(self, most: int) -> None:
        """`most`: bytes of each kind that are kept; one more says that there were more."""
        self._most = most
        self._held = b"\n"  # the begin of the output is the begin of a line
        self._is_first = True
        self._found: dict[bytes, bytearray] = {}

    def feed(self, content: bytes) -> bytes:
        """The output in it."""
        text = self._held + content
        output = bytearray()
        place = 0
        while (feed := text.find(b"\n", place)) >= 0:
            output += text[place:feed]
            rest = text[feed + 1 : feed + 1 + MAX_LINE]
            end = rest.find(b"\n")
            if rest.startswith(MARK) and end >= 0 and self._take(rest[:end]):
                # The line feed behind the line stays: it stands for the one before the next line.
                place = feed + 1 + end
                if text[place + 1 : place + 2] == b"":
                    break
                continue
            if end < 0 and len(rest) < MAX_LINE and (rest.startswith(MARK) or MARK.startswith(rest)):
                place = feed
                break
            output += b"\n"
            place = feed + 1
        else:
            output += text[place:]
            place = len(text)
        self._held = text[place:]
        return self._without_first(bytes(output))

    def end(self) -> bytes:
        """The account of what was held back."""
        held, self._held = self._held, b""
        return self._without_first(held) if not self._found or held != b"\n" else b""

    def _without_first(self, output: bytes) -> bytes:
        """Without the line feed that stands for the begin."""
        if self._is_first and output:
            self._is_first = False
            return output[1:] if output.startswith(b"\n") else output
        return output

    def _take(self, line: bytes) -> bool:
        name, sign, value = line.removeprefix(MARK).partition(b":")
        if name not in NAMES or not sign:
            return False
        try:
            content = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return False
        kept = self._found.setdefault(name, bytearray())
        kept += content[: self._most + 1 - len(kept)]
        return True

    def found(self, name: str) -> bytes | None:
        """The account of what was said under a name; None: nothing."""
        kept = self._found.get(name.encode())
        return None if kept is None else bytes(kept)
