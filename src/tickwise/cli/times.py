"""From what a person wrote on the command line to the body of a calendar, with the source of each field.

    --dates 2027-12-24..2027-12-26         ──► dates
    --weekly 'mon-fri 09:00-17:00'         ──► weekly
    --cron '0 2 * * 0' --duration 3h       ──► recurring
    --from … --to …                        ──► periods
    --holidays DE-BY · --ics FILE          ──► holidays · ics

Whether a day or an hour is one is for the server to say; here only the form is read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import click

from tickwise.cli import moments, work
from tickwise.cli.session import Decorated, Session

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d{1,2}:\d{2}(?::\d{2})?)\s*-\s*(\d{1,2}:\d{2}(?::\d{2})?)", re.ASCII)
_WEEKLY_FORM: Final = "write days and hours, such as 'mon-fri 09:00-17:00', 'sat,sun' or 'fri 22:00-06:00'"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOptions:
    """The options, as they were written."""

    dates: Sequence[str] = ()
    weekly: Sequence[str] = ()
    cron: str | None = None
    duration: str | None = None
    begin: str | None = None
    end: str | None = None
    holidays: str | None = None
    ics: str | None = None
    timezone: str | None = None


def time_options(command: Decorated) -> Decorated:
    """Add all options of a calendar's times."""
    options: list[Callable[[Decorated], Decorated]] = [
        click.option(
            "--dates", multiple=True, metavar="DAY[..DAY]",
            help="A day such as 2027-12-24, several with commas, or first..last; repeat it for more.",
        ),
        click.option(
            "--weekly", multiple=True, metavar="'DAYS [HOURS]'",
            help="Weekly hours: 'mon-fri 09:00-17:00', 'sat,sun'; repeat it for more.",
        ),
        click.option("--cron", metavar="LINE", help="With --duration: begin at each time of this cron line."),
        click.option("--duration", metavar="DURATION", help="With --cron: the duration, such as 90m, 2h."),
        click.option("--from", "begin", metavar="TIME", help="With --to: once, from this time on."),
        click.option("--to", "end", metavar="TIME", help="With --from: before this time."),
        click.option("--holidays", metavar="COUNTRY[-PART]", help="Public holidays: DE, DE-BY, US-CA."),
        click.option("--ics", metavar="FILE", help="An iCalendar file (`-`: stdin)."),
        click.option("--timezone", metavar="ZONE", help="The time zone, an IANA name.  [UTC]"),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def taken(options: dict[str, Any]) -> TimeOptions:
    """The options of `time_options` among those of a command, and out of them."""
    return TimeOptions(**{each.name: options.pop(each.name) for each in fields(TimeOptions)})


def body(session: Session, file: str | None, times: TimeOptions, *, below: str = "") -> dict[str, Any] | None:
    """Read FILE or the options; None if neither is given. `below` is the pointer of the calendar in the request,
    if it is a part of it (`/when`). Raises `click.UsageError`."""
    given = [each.name for each in fields(TimeOptions) if getattr(times, each.name)]
    if file is not None:
        if given:
            raise click.UsageError("FILE holds the whole calendar; leave the options for times out.")
        read = work.read_json(file, "", "FILE")
        if not isinstance(read, dict):
            raise click.UsageError(f"{'stdin' if file == '-' else file} must hold a JSON object.")
        return read
    if not given:
        return None
    found = dict(_parts(session, times, below))
    if times.timezone:
        found["timezone"] = times.timezone
        work.blame(session, f"{below}/timezone", "--timezone", times.timezone)
    return found


def _parts(session: Session, times: TimeOptions, below: str) -> Iterator[tuple[str, Any]]:
    def said(field: str, option: str, texts: Sequence[str]) -> None:
        for number, text in enumerate(texts):
            work.blame(session, f"{below}/{field}/{number}", option, text)
        work.blame(session, f"{below}/{field}", option, texts[0])

    if times.dates:
        texts = [text.strip() for each in times.dates for text in each.split(",")]
        said("dates", "--dates", texts)
        yield "dates", [_days(text) for text in texts]
    if times.weekly:
        said("weekly", "--weekly", times.weekly)
        yield "weekly", [_hours(text) for text in times.weekly]
    if times.cron or times.duration:
        if not (times.cron and times.duration):
            raise click.UsageError("--cron and --duration go together: the begin, and the length.")
        work.blame(session, f"{below}/recurring/0/cron", "--cron", times.cron)
        said("recurring", "--duration", [times.duration])
        yield "recurring", [{"cron": times.cron, "duration": times.duration.replace(" ", "")}]
    if times.begin or times.end:
        if not (times.begin and times.end):
            raise click.UsageError("--from and --to go together: the begin, and the end.")
        ends = [
            _instant(session, option, text, times.timezone)
            for option, text in (("--from", times.begin), ("--to", times.end))
        ]
        work.blame(session, f"{below}/periods/0/to", "--to", times.end)
        said("periods", "--from", [times.begin])
        yield "periods", [dict(zip(("from", "to"), ends, strict=True))]
    if times.holidays:
        country, _, part = times.holidays.partition("-")
        said("holidays", "--holidays", [times.holidays])
        yield "holidays", {"country": country, **({"subdivision": part} if part else {})}
    if times.ics:
        work.blame(session, f"{below}/ics", "--ics", times.ics)
        yield "ics", _text(times.ics)


def _days(text: str) -> str | dict[str, str]:
    first, dots, last = text.partition("..")
    return {"from": first.strip(), "to": last.strip()} if dots else text


def _hours(text: str) -> dict[str, Any]:
    """`mon-fri 09:00-17:00`; without hours the whole day."""
    days_text, _, hours_text = text.strip().partition(" ")
    days = list(dict.fromkeys(day for part in days_text.lower().split(",") for day in _weekdays(part, text)))
    hours = _HOURS.fullmatch(hours_text.strip())
    if hours is None and hours_text.strip():
        raise click.UsageError(f"--weekly {text!r}: {_WEEKLY_FORM}")
    return {"days": days, **({"from": hours[1], "to": hours[2]} if hours else {})}


def _weekdays(part: str, text: str) -> Sequence[str]:
    """`mon`, or `fri-mon`."""
    first, dash, last = (word.strip() for word in part.partition("-"))
    if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
        raise click.UsageError(f"--weekly {text!r}: {_WEEKLY_FORM}")
    begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
    return [WEEKDAYS[day % 7] for day in range(begin, end + 1 if end >= begin else end + 8)]


def _instant(session: Session, option: str, text: str, timezone: str | None) -> str:
    try:
        zone = moments.zone_named(timezone or "UTC")
        return moments.moment(text, zone, moments.now(), tell=session.note).isoformat(timespec="seconds")
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read()
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--ics: {file} cannot be read: {error}") from None


def shown(calendar: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a calendar as lines for people."""
    lines: dict[str, Any] = {"timezone": calendar.get("timezone") or "UTC"}
    lines["dates"] = ", ".join(_named(_dates_line(each), each) for each in calendar.get("dates") or ())
    lines["weekly"] = "; ".join(_named(_weekly_line(each), each) for each in calendar.get("weekly") or ())
    lines["recurring"] = "; ".join(
        _named(f"{each['cron']} for {each['duration']}", each) for each in calendar.get("recurring") or ()
    )
    lines["periods"] = "; ".join(
        _named(f"{each['from']} to {each['to']}", each) for each in calendar.get("periods") or ()
    )
    holidays = calendar.get("holidays") or {}
    lines["holidays"] = "-".join(filter(None, (holidays.get("country"), holidays.get("subdivision"))))
    if ics := calendar.get("ics"):
        lines["ics"] = f"a file of {len(ics.splitlines())} lines"
    return lines


def _dates_line(days: Any) -> str:
    if isinstance(days, str):
        return days
    return f"{days['from']}..{days['to']}" if days.get("to") else str(days["from"])


def _weekly_line(hours: Mapping[str, Any]) -> str:
    return f"{','.join(hours['days'])} {hours.get('from', '00:00')}-{hours.get('to', '24:00')}"


def _named(text: str, said: Any) -> str:
    name = said.get("name") if isinstance(said, dict) else None
    return f"{text} ({name})" if name else text
