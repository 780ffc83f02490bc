"""Calendars and maintenance windows for a simulation, as a server tells them or a file says them.

Apart from `simulation`, because most simulations have none, and reading them takes time to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import SystemClock
from tickwise.documents.calendars import CalendarBody, StoredCalendar, encode_calendar, read_calendar
from tickwise.documents.rulebook import encode_window
from tickwise.domain.calendar.rules import Otherwise, Window
from tickwise.domain.errors import Invalid
from tickwise.ports.store import RuleKind
from tickwise.wiring.simulation import StoredRule

T = TypeVar("T")


def calendar_rule(name: str, body: Mapping[str, Any]) -> StoredRule:
    """A calendar as `GET /calendars/{name}` gives it, or a body of one. Raises `Invalid`."""
    return StoredRule(RuleKind.CALENDAR, name, encode_calendar(_calendar(name, body, "")))


def window_rule(name: str, body: Mapping[str, Any]) -> StoredRule:
    """A maintenance window as `GET /windows/{name}` gives it, or a body of one. Raises `Invalid`."""
    when = _calendar(name, {"calendar": body.get("when", {}), "resolved": body.get("resolved")}, "/when")
    window = Window(
        name=name,
        when=when.calendar,
        labels=_converted(name, body.get("labels", {}), dict[str, str]),
        action=_converted(name, body.get("action", Otherwise.SKIP), Otherwise),
        reason=_converted(name, body.get("reason", ""), str),
    )
    return StoredRule(RuleKind.WINDOW, name, encode_window(window, when))


def _calendar(name: str, body: Mapping[str, Any], pointer: str) -> StoredCalendar:
    """A calendar that a server resolved is taken as it is; else iCalendar files and holidays are asked here."""
    said = _converted(name, body.get("resolved") or body.get("calendar", body), CalendarBody)
    return read_calendar(said, CalendarFiles(), now=SystemClock().now(), pointer=pointer)


def _converted(name: str, value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"{name}: {wrong}") from None
