"""systemd's unit files: sections and settings, drop-ins, templates, and the words of a setting.

    backup.timer, backup.timer.d/*.conf ──► Unit ──► values("Timer", "OnCalendar")
    copy@.service for copy@db.service   ──┘

The grammar is that of systemd.syntax(7); words are split as `extract_first_word` splits them. Pure: the caller reads
the files and hands their texts over by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tickwise.importers.translation import Untranslatable, decoded

_SPAN_ITEM = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Zµμ]*)", re.ASCII)
_UNITS: Final = {
    1e-6: ("usec", "us", "µs", "μs"),
    1e-3: ("msec", "ms"),
    1.0: ("seconds", "second", "sec", "s", ""),
    60.0: ("minutes", "minute", "min", "m"),
    3_600.0: ("hours", "hour", "hr", "h"),
    86_400.0: ("days", "day", "d"),
    604_800.0: ("weeks", "week", "w"),
    2_629_800.0: ("months", "month", "M"),
    31_557_600.0: ("years", "year", "y"),
}
_SECONDS_OF: Final = {name: seconds for seconds, names in _UNITS.items() for name in names}

_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ",
    "\\": "\\", '"': '"', "'": "'", ";": ";",
}  # fmt: skip
_CODED = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")


class UnitSetting(NamedTuple):
    """One assignment."""

    section: str
    name: str
    value: str
    line: int
    """The line at which it begins in its file, counted from 1; 0 for one of a drop-in, whose lines are of another
    file."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit file with its drop-ins."""

    name: str
    settings: tuple[UnitSetting, ...]

    def given(self, section: str, *names: str) -> list[UnitSetting]:
        """The assignments of settings that may be given more than once; an empty one forgets all those before it."""
        found: list[UnitSetting] = []
        for setting in self.settings:
            if setting.name in names and setting.section == section:
                if setting.value:
                    found.append(setting)
                else:
                    found.clear()
        return found

    def values(self, section: str, name: str) -> list[str]:
        """The values of one of them."""
        return [setting.value for setting in self.given(section, name)]

    def value(self, section: str, name: str) -> str | None:
        """A setting that holds one value: the last one given."""
        values = self.values(section, name)
        return values[-1] if values else None

    def flag(self, section: str, name: str) -> bool:
        """A setting that is on or off; off if it is not given."""
        return (self.value(section, name) or "no").lower() in ("1", "yes", "y", "true", "t", "on")

    def names(self, section: str) -> list[str]:
        """The settings of a section that have a value, in order."""
        return list(
            dict.fromkeys(setting.name for setting in self.settings if setting.section == section and setting.value)
        )

    def expanded(self, text: str) -> str:
        """The text with its specifiers (`%i`) filled in. Raises `Untranslatable` for those that a machine fills in."""
        if "%" not in text:
            return text
        stem = self.name.rpartition(".")[0]
        prefix, _, instance = stem.partition("@")
        known = {"%": "%", "n": self.name, "N": stem, "p": prefix, "i": instance}

        def fill(match: re.Match[str]) -> str:
            value = known.get(match[1])
            if value is None:
                raise Untranslatable(f"{match[0]!a} is filled in by the machine's systemd; write the value itself")
            return value

        return re.sub(r"%(.?)", fill, text)


class UnitFiles:
    """The files that were handed over, by the name of their unit."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        """Names may be paths; only the last part counts, and that of the folder for a drop-in."""
        self._main: dict[str, str | bytes] = {}
        self._twice: set[str] = set()
        self._added: dict[str, list[tuple[str, str | bytes]]] = {}
        for path, text in files.items():
            folder, _, name = path.rpartition("/")
            unit = folder.rpartition("/")[2].removesuffix(".d")
            if name.endswith(".conf") and folder.endswith(".d"):
                self._added.setdefault(unit, []).append((name, text))
            elif name in self._main:
                self._twice.add(name)
            else:
                self._main[name] = text

    def timers(self) -> list[str]:
        """The names of all timers, in the order of the files."""
        return [name for name in self._main if name.endswith(".timer")]

    def unit(self, name: str) -> Unit | None:
        """The unit, from its own file or from its template's. None: there is none. Raises `Untranslatable`."""
        prefix, at, rest = name.partition("@")
        template = f"{prefix}@.{rest.rpartition('.')[2]}"
        source = name if name in self._main or not at else template
        if source not in self._main:
            return None
        if source in self._twice:
            raise Untranslatable(f"there are two files {source}; give the one that systemd uses, see `systemctl cat`")
        settings = list(_settings(decoded(self._main[source])))
        for place in dict.fromkeys((template, name) if at else (name,)):
            for _, text in sorted(self._added.get(place, []), key=lambda added: added[0]):
                settings += [setting._replace(line=0) for setting in _settings(decoded(text))]
        return Unit(name, tuple(settings))


def _settings(text: str) -> Iterator[UnitSetting]:
    section, begun_at = "", 0
    begun: list[str] = []
    for number, raw in enumerate([*text.split("\n"), ""], start=1):
        line = raw.strip()
        if line.startswith(("#", ";")):
            continue
        if not begun:
            begun_at = number
        if line.endswith("\\"):
            begun.append(line[:-1])
            continue
        whole = " ".join([*begun, line])
        begun.clear()
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            name, _, value = whole.partition("=")
            yield UnitSetting(section, name.strip(), value.strip(), begun_at)


def span_seconds(text: str, name: str) -> float | None:
    """The seconds of a time span such as `1h 30min` or `90`; None for `infinity`. Raises `Untranslatable`."""
    if text.strip() == "infinity":
        return None
    total, position = 0.0, 0
    stripped = text.strip()
    while position < len(stripped) and (match := _SPAN_ITEM.match(stripped, position)):
        if match[2] not in _SECONDS_OF:
            break
        total += float(match[1]) * _SECONDS_OF[match[2]]
        position = match.end()
    if not stripped or position < len(stripped):
        shown = stripped if len(stripped) <= 30 else stripped[:29] + "…"
        raise Untranslatable(f"{name}={shown} is no time span; write `90`, `15min` or `1h 30min`")
    return total


def split_commands(text: str) -> list[list[str]]:
    """The commands of an `ExecStart=`, which a `;` that stands alone parts, as words without their quotes and escapes.

    Raises `Untranslatable` for what systemd refuses.
    """
    commands: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        if text[position] in " \t":
            position += 1
        elif text[position] == ";" and text[position + 1 : position + 2] in ("", " ", "\t"):
            commands.append([])
            position += 1
        else:
            word, position = _word(text, position)
            commands[-1].append(word)
    return [words for words in commands if words]


def split_words(text: str) -> list[str]:
    """The words of any other setting."""
    return [word for words in split_commands(text) for word in words]


def _word(text: str, position: int) -> tuple[str, int]:
    """One word, and where it ends."""
    found: list[str] = []
    quote = ""
    while position < len(text):
        character = text[position]
        if character == "\\":
            piece, position = _escape(text, position + 1)
            found.append(piece)
            continue
        if character == quote:
            quote = ""
        elif quote:
            found.append(character)
        elif character in "\"'":
            quote = character
        elif character in " \t":
            break
        else:
            found.append(character)
        position += 1
    if quote:
        raise Untranslatable(f"a quotation mark ({quote}) is not closed; close it, or write it as \\{quote}")
    return "".join(found), position


def _escape(text: str, position: int) -> tuple[str, int]:
    """The character of the escape after a backslash, and the end of the escape."""
    piece = _ESCAPES.get(text[position : position + 1])
    if piece is not None:
        return piece, position + 1
    match = _CODED.match(text, position)
    code = int(next(filter(None, match.groups())), 8 if match[2] else 16) if match else 0x110000
    if match is None or code > 0x10FFFF:
        shown = "\\" + text[position : position + 1]
        raise Untranslatable(f"{shown!a} is no escape that systemd knows; write \\\\ for a backslash")
    return chr(code), match.end()
