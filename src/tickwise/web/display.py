"""The choices of a visitor for all pages: the zone of times, relative or absolute times, light or dark. In a cookie.

    tickwise-display = zone=Europe%2FBerlin&times=absolute&theme=dark

It is no secret and says nothing about a person, so it outlives the session. One that cannot be read is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

from starlette.responses import Response

from tickwise.domain.errors import Invalid
from tickwise.domain.zones import zone_named
from tickwise.web import forms

COOKIE: Final = "tickwise-display"
COOKIE_CHARACTERS_MAX: Final = 400
YEAR_SECONDS: Final = 365 * 86_400
JOB: Final = "job"
"""In place of a zone: that of the job that a page is about. A page about several jobs has UTC then."""
UTC: Final = "UTC"


class Times(StrEnum):
    """The form of a time."""

    RELATIVE = "relative"
    """Beside now, where that is easier to read."""
    ABSOLUTE = "absolute"


class Theme(StrEnum):
    """The colours."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Display:
    """The choices of a visitor."""

    zone: str = UTC
    """The name of a zone, or `JOB`."""
    times: Times = Times.RELATIVE
    theme: Theme = Theme.SYSTEM

    @property
    def forced_theme(self) -> Theme | None:
        """The colours that were chosen; None: those of the system."""
        return self.theme if self.theme in (Theme.LIGHT, Theme.DARK) else None

    def zone_for(self, job_zone: str | None) -> ZoneInfo:
        """The zone of a page; `job_zone` is that of its job."""
        name = (job_zone or UTC) if self.zone == JOB else self.zone
        return zone_named(name)

    def keep(self, response: Response) -> None:
        """Hand it to the browser."""
        said = urlencode({"zone": self.zone, "times": self.times, "theme": self.theme})
        response.set_cookie(COOKIE, said, max_age=YEAR_SECONDS, path="/", httponly=True, samesite="lax")


def chosen(form: Mapping[str, str], before: Display) -> Display:
    """The choices of a form; a field that is not there stays as it was. Raises `Invalid`."""
    zone = form.get("zone", before.zone).strip() or UTC
    if zone != JOB:
        try:
            zone = zone_named(zone).key
        except Invalid as fault:
            raise Invalid(fault.detail, pointer="/zone") from None
    return Display(
        zone,
        forms.choice(Times, form.get("times") or before.times, "times"),
        forms.choice(Theme, form.get("theme") or before.theme, "theme"),
    )


def display_of(cookies: Mapping[str, str]) -> Display:
    """The choices that a browser kept."""
    said = cookies.get(COOKIE, "")
    if not said or len(said) > COOKIE_CHARACTERS_MAX:
        return Display()
    try:
        return chosen(dict(parse_qsl(said)), Display())
    except (Invalid, ValueError):
        return Display()
