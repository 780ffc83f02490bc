"""Fields of forms and of addresses, read as control's bodies want them. A fault names its field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from tickwise.control.times import EPOCH, FIRST, LAST
from tickwise.domain.errors import Invalid
from tickwise.domain.zones import zone_named

E = TypeVar("E", bound=StrEnum)

TEXT_MAX: Final = 1_000
OF_ALL: Final = "namespace"
"""The parameter that each address may have."""


def kept_fields(form: Mapping[str, str]) -> Mapping[str, str]:
    """The fields that come back in a page after a fault or a sign-in: all but passwords and values of secrets."""
    return {name: value for name, value in form.items() if "password" not in name.lower() and name != "secret"}


def text(form: Mapping[str, str], name: str, most: int = TEXT_MAX) -> str | None:
    """A text without the space around it; None: it was left empty. Raises `Invalid`."""
    said = form.get(name, "").strip()
    if len(said) > most:
        raise Invalid(f"at most {most} characters, these are {len(said)}", pointer=f"/{name}")
    return said or None


def moment(form: Mapping[str, str], name: str, zone: str) -> datetime | None:
    """A time on the clock of a zone, as `datetime-local` sends it; None: it was left empty. Raises `Invalid`."""
    said = form.get(name, "").strip()
    if not said:
        return None
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        raise Invalid("write a time as 2026-11-26T14:30", pointer=f"/{name}") from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=zone_named(zone))
    if not FIRST <= (found - EPOCH).total_seconds() <= LAST:  # by its offset, it may be in another year
        raise Invalid("give a time in the years 1 to 9999 of UTC", pointer=f"/{name}")
    return found


def instant(form: Mapping[str, str], name: str) -> float | None:
    """A moment in Unix seconds; without a zone it is in UTC. None: it was left empty. Raises `Invalid`."""
    found = moment(form, name, "UTC")
    return None if found is None else found.timestamp()


def check_names(said: Mapping[str, str], known: Collection[str]) -> None:
    """Raises `Invalid` for a parameter that a page does not know: it would show what nobody asked for, and actions on
    all that match would concern it."""
    for name, value in said.items():
        if value and name not in known and name != OF_ALL:
            advice = f"there are {', '.join(known)}" if known else "leave it out"
            raise Invalid(f"there is no filter {name[:50]!r} here; {advice}", pointer=f"/{name[:50]}")


def json_text(form: Mapping[str, str], name: str) -> msgspec.Raw | None:
    """JSON; None: it was left empty. Raises `Invalid`, with the place of the fault."""
    said = form.get(name, "").strip()
    if not said:
        return None
    try:
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(said)))
    except (msgspec.DecodeError, RecursionError) as fault:
        raise Invalid(f"this is no JSON: {fault}", pointer=f"/{name}") from None


def choice(kind: type[E], said: str, name: str) -> E:
    """One of several. Raises `Invalid`."""
    try:
        return kind(said)
    except ValueError:
        raise Invalid(f"write one of {', '.join(kind)}", pointer=f"/{name}") from None


def whole(said: str | None, name: str, least: int, most: int) -> int | None:
    """A whole number; None: it was left empty. Raises `Invalid`."""
    if not said:
        return None
    if not said.isascii() or not said.isdigit() or len(said) > 18 or not least <= int(said) <= most:
        raise Invalid(f"write a whole number from {least} to {most}", pointer=f"/{name}")
    return int(said)


def identifier(said: str | None, name: str) -> UUID | None:
    """An id; None: it was left empty. Raises `Invalid`."""
    if not said:
        return None
    try:
        return UUID(said)
    except ValueError:
        raise Invalid(
            "this is no id; they look like 019a2b3c-4d5e-8f60-9123-456789abcdef", pointer=f"/{name}"
        ) from None
