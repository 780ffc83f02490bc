"""One value of the form of a job: from the text of an input, and back to it.

Invariant: reading what was written gives the same value, or is refused; `form.kept` leaves alone what would differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from tickwise.control.jobs.planning import duration_seconds
from tickwise.control.wording import sentence
from tickwise.documents.definition import CalendarUse
from tickwise.domain.errors import Invalid
from tickwise.domain.rules.capacities import read_resources
from tickwise.domain.rules.confinement import read_destination
from tickwise.web.editing.fields import FormField, Input
from tickwise.web.json_text import pretty_value

_WHERE: Final = re.compile(r"(.*) - at (?:`key` in )?`\$(.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"), (1.0, "s"))


def plain(value: Any) -> Any:
    """A value as JSON has it; members of structs that are as usual are left out."""
    return msgspec.json.decode(msgspec.json.encode(value))


def explained(error: msgspec.ValidationError, above: str = "") -> Invalid:
    """An error of msgspec as a refusal with a pointer."""
    found = _WHERE.fullmatch(str(error))
    if found is None:
        missing = _MISSING.fullmatch(str(error))
        if missing is not None:
            return Invalid("this is missing", pointer=f"{above}/{missing[1]}")
        return Invalid(sentence(str(error)), pointer=above)
    pointer = "".join(f"/{name or index}" for name, index in _STEP.findall(found[2]))
    return Invalid(sentence(found[1]), pointer=above + pointer)


def pointer_of(name: str) -> str:
    """The pointer of an input."""
    return f"/{name.replace('.', '/')}"


def parsed(said: FormField, text: str, zone: ZoneInfo) -> Any:
    """The value of an input; None: it is empty. Raises `Invalid` without a pointer, or with its own."""
    if len(text) > said.most:
        raise Invalid(
            f"at most {said.most} characters, these are {len(text)}", pointer=f"/{said.name.replace('.', '/')}"
        )
    bare = text.strip()
    if not bare:
        return None
    if said.input is Input.AREA:
        return text
    try:
        return _READERS[said.input](bare, said, zone)
    except Invalid as fault:
        fault.pointer = fault.pointer or pointer_of(said.name)
        raise


def _whole(text: str, _said: FormField, _zone: ZoneInfo) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise Invalid("write a whole number")
    return int(text)


def _number(text: str, _said: FormField, _zone: ZoneInfo) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Invalid("write a number, such as 0.5") from None
    if not isfinite(value):
        raise Invalid("write a number, such as 0.5")
    return value


def _duration(text: str, _said: FormField, _zone: ZoneInfo) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        text += "s"
    return duration_seconds(text.replace(" ", ""), "")


def _moment(text: str, _said: FormField, zone: ZoneInfo) -> str:
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo is not None else found.replace(tzinfo=zone)
        return found.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise Invalid("write a time as 2026-11-26T14:30") from None


def _choice(text: str, said: FormField, _zone: ZoneInfo) -> str:
    if text not in [value for value, _ in said.choices]:
        raise Invalid(f"write one of {', '.join(value for value, _ in said.choices if value)}")
    return text


def _labels(text: str, _said: FormField, _zone: ZoneInfo) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        if not line.strip():
            continue
        if not sign or not name.strip():
            raise Invalid(f"write each label as name=value; {line.strip()[:60]!r} is none")
        found[name.strip()] = value.strip()
    return found


def _amounts(text: str, _said: FormField, _zone: ZoneInfo) -> dict[str, int]:
    return read_resources(line for line in text.splitlines() if line.strip())


def _network(text: str, said: FormField, zone: ZoneInfo) -> bool | list[str]:
    lines = _lines(text, said, zone)
    if lines == ["any"]:
        return True
    for line in lines:
        read_destination(line)
    return lines


def _lines(text: str, _said: FormField, _zone: ZoneInfo) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _calendars(text: str, said: FormField, zone: ZoneInfo) -> list[Any]:
    found = []
    for line in _lines(text, said, zone):
        name, *further = (word.strip() for word in line.split("|"))
        use: dict[str, str] = {"name": name}
        for word in further:
            if word in ("include", "exclude"):
                use["mode"] = word
            elif word in ("defer", "skip"):
                use["otherwise"] = word
            else:
                raise Invalid(f"{word[:60]!r} is neither include, exclude, defer nor skip")
        found.append(plain(msgspec.convert(use, CalendarUse)))
    return found


def _delays(text: str, said: FormField, zone: ZoneInfo) -> list[float]:
    return [_duration(each.strip(), said, zone) for each in text.split(",") if each.strip()]


def json_value(text: str) -> Any:
    """A JSON value. Raises `Invalid` with the place of the fault."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as fault:
        raise Invalid(f"this is no JSON: {fault}") from None


_READERS: Final[Mapping[Input, Callable[[str, FormField, ZoneInfo], Any]]] = {
    Input.TEXT: lambda text, _said, _zone: text,
    Input.WHOLE: _whole,
    Input.NUMBER: _number,
    Input.DURATION: _duration,
    Input.MOMENT: _moment,
    Input.CHOICE: _choice,
    Input.LABELS: _labels,
    Input.AMOUNTS: _amounts,
    Input.NETWORK: _network,
    Input.LINES: _lines,
    Input.CALENDARS: _calendars,
    Input.DELAYS: _delays,
    Input.JSON: lambda text, _said, _zone: json_value(text),
}


# ------------------------------------------------------------------------------------------ back to its text


def written(said: FormField, value: Any, zone: ZoneInfo) -> str:
    """The text of a value; empty for none."""
    if value in (None, [], {}) and not (said.name == "payload" and value is not None):
        return ""
    match said.input:
        case Input.DURATION:
            return duration_text(value)
        case Input.MOMENT:
            return moment_text(value, zone)
        case Input.LABELS | Input.AMOUNTS:
            return "\n".join(f"{name}={text}" for name, text in value.items())
        case Input.NETWORK:
            return "any" if value is True else "\n".join(value or ())
        case Input.LINES:
            return "\n".join(value)
        case Input.CALENDARS:
            return "\n".join(" | ".join(use.values()) for use in value)
        case Input.DELAYS:
            return ", ".join(duration_text(each) for each in value)
        case Input.JSON:
            return pretty_value(value)
        case Input.NUMBER:
            return repr(value)
        case _:
            return str(value)


def duration_text(seconds: float) -> str:
    """A duration in whole units where it is one: `1h30m`; else in seconds: `0.25s`."""
    if not float(seconds).is_integer():
        return f"{seconds!r}s"
    parts, rest = "", float(seconds)
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        parts += f"{int(count)}{unit}" if count else ""
    return parts or "0s"


def moment_text(written_utc: str, zone: ZoneInfo) -> str:
    """A time on the clock of a zone; with its offset, where the clock shows that time twice."""
    moment = datetime.fromisoformat(written_utc)
    local = moment.astimezone(zone)
    bare = local.replace(tzinfo=None, fold=0)
    exact = bare.replace(tzinfo=zone).astimezone(UTC) == moment
    return (bare if exact else local).isoformat()
