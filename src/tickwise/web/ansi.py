"""Output with ANSI colours as styled pieces of plain text. No markup is made here: templates escape each piece.

    b"\\x1b[31merror\\x1b[0m: x"  ──►  [("a-red", "error"), ("", ": x")]

Colours and emphasis (SGR) are kept; every other escape sequence and control character is left out. A line that was
written over by carriage returns, as a progress bar is, shows what it showed last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from tickwise.documents.log_origin import Ranges, holds

COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
EMPHASES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
PLAINER: Final = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underline"}}
"""The codes that end an emphasis."""
_ESCAPE: Final = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI: parameters, the command
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, …: up to their end
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that reverse the direction of text: a line must read as it is."""


_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Piece(NamedTuple):
    """Text in one style."""

    classes: str
    text: str
    hit: bool = False
    """It is what a search looks for."""


_CLASSES: Final = attrgetter("classes")


class OutputLine(NamedTuple):
    """A line of output."""

    offset: int
    """Of its first byte in the log: its name in addresses."""
    pieces: Sequence[Piece]
    is_own: bool = False
    """Tickwise itself wrote it."""


@dataclass(frozen=True, slots=True)
class Style:
    """The style in force."""

    foreground: str = ""
    background: str = ""
    emphasis: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        names = [f"a-{self.foreground}"] if self.foreground else []
        if self.background:
            names.append(f"a-on-{self.background}")
        return " ".join([*names, *(f"a-{name}" for name in sorted(self.emphasis))])


PLAIN_STYLE: Final = Style()


def lines_of(content: bytes, offset: int, own: Ranges = ()) -> list[OutputLine]:
    """The lines of a part of a log that begins at a byte. Bytes that are no UTF-8 are replaced. `own`: the parts that
    Tickwise itself wrote, in which no style of the task is in force."""
    return lines_on(content, offset, PLAIN_STYLE, own)[0]


def lines_on(content: bytes, offset: int, style: Style, own: Ranges = ()) -> tuple[list[OutputLine], Style]:
    """`lines_of` for a part that follows another one, in whose last style it begins; and the style after it."""
    found = []
    # Not `splitlines`, which divides at carriage returns too.
    for raw in content.removesuffix(b"\n").split(b"\n") if content else ():
        text = raw.decode(errors="replace").rstrip("\r")
        if is_own := holds(own, offset, offset + len(raw)):
            pieces: Sequence[Piece] = _pieces(text, PLAIN_STYLE)[0]
        else:
            pieces, style = _pieces(text.rpartition("\r")[2] if "\r" in text else text, style)
        found.append(OutputLine(offset, pieces, is_own))
        offset += len(raw) + 1
    return found, style


def marked(lines: Sequence[OutputLine], wanted: str) -> list[OutputLine]:
    """The lines, with what a search looks for in pieces of their own. The case of letters of ASCII does not count."""
    needle = wanted.translate(_LOWER)
    return [line._replace(pieces=_marked(line.pieces, needle)) for line in lines] if needle else list(lines)


def _marked(pieces: Sequence[Piece], needle: str) -> Sequence[Piece]:
    text = "".join(piece.text for piece in pieces).translate(_LOWER)
    borders, at = [], text.find(needle)
    while at >= 0:
        borders += [at, at + len(needle)]
        at = text.find(needle, at + len(needle))
    if not borders:
        return pieces
    found, begin, passed = [], 0, 0
    for piece in pieces:
        at, end = begin, begin + len(piece.text)
        while at < end:
            # Both go forward alone: an output may change its colour, and have a hit, at each letter.
            while passed < len(borders) and borders[passed] <= at:
                passed += 1
            stop = min(end, borders[passed]) if passed < len(borders) else end
            found.append(Piece(piece.classes, piece.text[at - begin : stop - begin], passed % 2 == 1))
            at = stop
        begin = end
    return found


def plain(text: str | None) -> str:
    """A text without its escape sequences and control characters, such as the last line of an output in an error."""
    return "" if text is None else _CONTROL.sub("", _ESCAPE.sub("", text.replace("\\x1b", "\x1b")))


def _pieces(text: str, style: Style) -> tuple[list[Piece], Style]:
    pieces: list[Piece] = []
    place = 0
    for escape in _ESCAPE.finditer(text):
        _add(pieces, style, text[place : escape.start()])
        place = escape.end()
        if escape[2] == "m":
            style = _styled(style, escape[1])
    _add(pieces, style, text[place:])
    return _joined(pieces), style


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Adjacent pieces of one style as one piece."""
    return [Piece(classes, "".join([each.text for each in alike])) for classes, alike in groupby(pieces, _CLASSES)]


def _add(pieces: list[Piece], style: Style, text: str) -> None:
    text = _CONTROL.sub("", text)
    if text:
        pieces.append(Piece(style.classes, text))


def _styled(style: Style, parameters: str) -> Style:
    codes = iter([int(each) if each.isdigit() and len(each) < 4 else 0 for each in re.split("[;:]", parameters)])
    for code in codes:
        if code in (38, 48):
            colour = _extended(codes)
            style = replace(style, foreground=colour) if code == 38 else replace(style, background=colour)
        else:
            style = _with(style, code)
    return style


def _with(style: Style, code: int) -> Style:
    """The style after one code of SGR (ECMA-48, 8.3.117)."""
    if code == 0:
        return PLAIN_STYLE
    if code in EMPHASES:
        return replace(style, emphasis=style.emphasis | {EMPHASES[code]})
    if code in PLAINER:
        return replace(style, emphasis=style.emphasis - PLAINER[code])
    if 30 <= code <= 37 or 90 <= code <= 97:
        return replace(style, foreground=_named(code % 10, bright=code >= 90))
    if 40 <= code <= 47 or 100 <= code <= 107:
        return replace(style, background=_named(code % 10, bright=code >= 100))
    if code == 39:
        return replace(style, foreground="")
    return replace(style, background="") if code == 49 else style


def _named(number: int, *, bright: bool) -> str:
    return f"{'bright-' if bright else ''}{COLOURS[number]}"


def _extended(codes: Iterator[int]) -> str:
    """One of 256 colours, or of all, as the nearest of the sixteen."""
    mode = next(codes, 0)
    if mode == 5:
        number = next(codes, 0) & 255
        if number < 16:
            return _named(number % 8, bright=number >= 8)
        if number >= 232:
            level = (number - 232) * 10 + 8
            return _nearest(level, level, level)
        number -= 16
        return _nearest(*(51 * (number // step % 6) for step in (36, 6, 1)))
    if mode == 2:
        return _nearest(next(codes, 0), next(codes, 0), next(codes, 0))
    return ""


def _nearest(red: int, green: int, blue: int) -> str:
    strongest = max(red, green, blue)
    if strongest < 64:
        return "black"
    bits = sum(bit for bit, level in ((1, red), (2, green), (4, blue)) if level * 2 > strongest)
    return _named(bits, bright=strongest > 192)
