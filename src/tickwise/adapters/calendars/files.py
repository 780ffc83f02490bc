"""The port `CalendarReader` with the libraries `icalendar` and `holidays`, which come with the extra `calendars`.

Imported when they are first asked for: most installations never do, and each takes a tenth of a second.
"""

from __future__ import annotations

import difflib
from typing import Final

from tickwise.domain.calendar.entries import Dates
from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.ports.calendars import DaySpan, Resolved

_LANGUAGE: Final = "en_US"
_COUNTRY: Final = "/holidays/country"
_SUBDIVISION: Final = "/holidays/subdivision"


class CalendarFiles:
    """Reads public calendars; stateless, for any number of threads."""

    def ics(self, text: str, timezone: str, span: DaySpan) -> Resolved:
        """See the port."""
        try:
            from tickwise.adapters.calendars import events
        except ModuleNotFoundError as missing:
            raise _not_installed("iCalendar files", missing) from None
        return events.read(text, timezone, span)

    def holidays(self, country: str, subdivision: str | None, span: DaySpan) -> Resolved:
        """See the port. Names are in English where the library has them."""
        try:
            import holidays
        except ModuleNotFoundError as missing:
            raise _not_installed("the holidays of countries", missing) from None
        code = country.strip().upper()
        if not (len(code) == 2 and code.isascii() and code.isalpha()):
            raise Invalid(
                f"{country[:20]!r} is no country; write two letters of ISO 3166-1 such as DE", pointer=_COUNTRY
            )
        try:
            plain = holidays.country_holidays(code)
        except NotImplementedError:
            raise Invalid(f"the holidays of {code} are not known; write the days as dates", pointer=_COUNTRY) from None
        part = None if subdivision is None else _part(code, subdivision, plain.subdivisions)
        found = holidays.country_holidays(
            code,
            subdiv=part,
            years=range(span.first.year, span.last.year + 1),
            language=_LANGUAGE if _LANGUAGE in plain.supported_languages else None,
        )
        days = sorted((day, name) for day, name in found.items() if span.first <= day <= span.last)
        if not days:
            raise Invalid(f"no holidays of {code} are known in these years; write the days as dates", pointer=_COUNTRY)
        return Resolved(tuple(Dates(day, day, name[:200]) for day, name in days))


def _part(country: str, said: str, known: tuple[str, ...]) -> str:
    """A subdivision as the library writes it; `DE-BY` is `BY`."""
    wanted = said.strip().upper().removeprefix(f"{country}-")
    found = next((each for each in known if each.upper() == wanted), None)
    if found is not None:
        return found
    if not known:
        raise Invalid(f"no parts of {country} are known; leave the subdivision out", pointer=_SUBDIVISION)
    near = difflib.get_close_matches(wanted[:20], known, n=5, cutoff=0.5) or known[:5]
    raise Invalid(f"{said[:20]!r} is no part of {country}; write such as {', '.join(near)}", pointer=_SUBDIVISION)


def _not_installed(what: str, missing: ModuleNotFoundError) -> Misconfigured:
    return Misconfigured(f"{what} need a library ({missing.name}): run pip install 'tickwise[calendars]'")
