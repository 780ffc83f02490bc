"""`tickwise schedule`: what an expression means and when it fires, told without a server.

Only the domain is imported, so an answer takes a fraction of a second and works on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import click

from tickwise.cli import moments
from tickwise.cli.failures import Blame, Exit, FieldSource, explain_problem, show
from tickwise.cli.output import entries, wrapped
from tickwise.cli.session import Session, json_option
from tickwise.domain import schedule as schedules
from tickwise.domain.cron import expression as cron
from tickwise.domain.errors import CronInvalid, Invalid
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.domain.zones import Dst, GapRule, RepeatRule, zone_named

COUNT: Final = 10
MAX_COUNT: Final = 10_000
MAX_GAPS: Final = 1_000
"""The most changes of the clock that are listed at which times are left out, …"""
GAPS_SECONDS: Final = 100 * 366 * 86_400.0
"""… and so far ahead."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # a wall time has no zone

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, read."""

    text: str
    schedule: Schedule
    warnings: tuple[str, ...]

    @property
    def line(self) -> cron.Cron | None:
        """The cron line; None for an interval."""
        return cron.parse(self.text) if self.schedule.type is ScheduleType.CRON else None


@click.group()
def schedule() -> None:
    """Explain an expression, and when it fires.

    Needs no server.
    """


def expression_options(command: Decorated) -> Decorated:
    """The options with which every subcommand reads an expression."""
    for option in (
        json_option,
        click.option(
            "--dst-overlap",
            type=click.Choice([rule.value for rule in RepeatRule]),
            help="For times that the clock shows twice.",
        ),
        click.option(
            "--dst-gap", type=click.Choice([rule.value for rule in GapRule]), help="For times that the clock skips."
        ),
        click.option("--timezone", "zone", default="UTC", show_default=True, help="IANA name of the wall clock."),
        click.argument("expression", metavar="'EXPR'"),
    ):
        command = option(command)
    return command


@schedule.command()
@expression_options
@click.option("--from", "start", metavar="TIME", help="Fires strictly after this time; 2h: from now.  [now]")
@click.option(
    "--count", type=click.IntRange(1, MAX_COUNT), default=COUNT, show_default=True, help="Number of fires to show."
)
@click.pass_obj
def preview(
    session: Session, *, expression: str, zone: str, dst_gap: str | None, dst_overlap: str | None,
    start: str | None, count: int,
) -> int:  # fmt: skip
    """Show when an expression fires next, in its own zone and in UTC, and what happens on days on which the clock
    is changed.

    With --json, `skipped` holds the times that a change of the clock leaves out, if there are any.

    \b
    tickwise schedule preview '30 2 * * *' --timezone Europe/Berlin --from 2027-03-26
    tickwise schedule preview '*/15 9-17 * * MON-FRI' --timezone America/New_York --count 5
    """
    try:
        after = moments.now() if start is None else _instant(session, start, zone)
        read = _read(expression, zone, dst_gap, dst_overlap, after)
    except Invalid as refusal:
        return _refused(session, refusal, {**_said(expression, zone), "/from": FieldSource("--from", start or "")})
    instants = schedules.preview(read.schedule, after, count)
    fires = [_fire(read, at) for at in instants]
    skipped = _skipped(read.schedule, after, instants)
    if session.as_json:
        described = _described(read)
        described["warnings"] += [f"{skip['utc']}: {skip['note']}" for skip in skipped]
        session.show_json({**described, "fires": fires, **({"skipped": skipped} if skipped else {})})
        return Exit.OK
    _show_expression(session, read)
    rows = [(fire["utc"], fire["nominal"], fire.get("note", "")) for fire in fires]
    # A skipped time comes before a fire of the same instant: sorting keeps that order.
    rows = [(skip["utc"], f"({skip['nominal']})", skip["note"]) for skip in skipped] + rows
    rows.sort(key=lambda row: datetime.fromisoformat(row[0]))
    shown = [(nominal, "–" if nominal.startswith("(") else utc, note) for utc, nominal, note in rows]
    entries(session, ("NOMINAL", "UTC", "NOTE"), shown, lead=2, empty="It does not fire any more.")
    return Exit.OK


@schedule.command()
@expression_options
@click.pass_obj
def explain(session: Session, *, expression: str, zone: str, dst_gap: str | None, dst_overlap: str | None) -> int:
    """Say in English when an expression fires.

    \b
    tickwise schedule explain '0 9 * * 1#1'
    """
    try:
        read = _read(expression, zone, dst_gap, dst_overlap, moments.now())
    except Invalid as refusal:
        return _refused(session, refusal, _said(expression, zone))
    if session.as_json:
        session.show_json(_described(read))
    else:
        _show_expression(session, read)
    return Exit.OK


# ---------------------------------------------------------------------------------------------------- reading


def _read(expression: str, zone: str, gap: str | None, overlap: str | None, now: float) -> Expression:
    """The expression and all that is said beside it. Raises `Invalid`."""
    text = expression.strip()
    try:
        dst = Dst(None if gap is None else GapRule(gap), None if overlap is None else RepeatRule(overlap))
        return _read_stripped(text, zone, dst, now)
    except CronInvalid as refusal:
        refusal.position += len(expression) - len(expression.lstrip())
        raise


def _read_stripped(text: str, zone: str, dst: Dst, now: float) -> Expression:
    seconds = cron.every_seconds(text)
    if seconds is not None:
        anchor = float(math.floor(now))
        schedule = Schedule(ScheduleType.INTERVAL, interval_seconds=seconds, timezone=zone, anchor=anchor)
        said = ["@every counts from the moment at which a job is created; here it counts from --from"]
        if dst != Dst():
            said.append("--dst-gap and --dst-overlap are for cron lines: an interval takes no notice of the clock")
    else:
        said = []
        schedule = Schedule(ScheduleType.CRON, cron_expression=text, timezone=zone, dst=dst)
    schedules.check(schedule)
    return Expression(text, schedule, (*schedules.warnings(schedule), *said))


def _instant(session: Session, text: str, zone: str) -> float:
    """A time given by the person; without an offset it is read on the schedule's own clock. Raises `Invalid`."""
    try:
        return moments.moment(text, zone_named(zone), moments.now(), tell=session.note).timestamp()
    except moments.UnreadableTime as error:
        raise Invalid(str(error), pointer="/from") from None


def _said(expression: str, zone: str) -> Blame:
    """The argument that gave each field."""
    text = FieldSource("EXPR", expression)
    return {"/cron_expression": text, "/interval_seconds": text, "/timezone": FieldSource("--timezone", zone)}


# ---------------------------------------------------------------------------------------------------- telling


def _described(read: Expression) -> dict[str, Any]:
    return {
        "expression": read.text,
        "timezone": read.schedule.timezone,
        "text": schedules.explain(read.schedule),
        "warnings": list(read.warnings),
    }


def _fire(read: Expression, at: float) -> dict[str, str]:
    zone = zone_named(read.schedule.timezone)
    fire = {"nominal": _local(at, zone), "utc": _utc(at)}
    note = None if read.line is None else read.line.note_at(int(at), zone, read.schedule.dst)
    if note is not None:
        fire["note"] = note
    return fire


def _skipped(schedule: Schedule, after: float, fires: list[float]) -> list[dict[str, Any]]:
    """The times that clock changes skip, up to the last of the fires: {nominal, utc, count, note}, in order.

    `nominal` is the first time that is left out, without an offset, for no clock shows it; `utc` is the change.
    """
    if not fires:
        return []
    return [
        {
            "nominal": (_EPOCH + timedelta(seconds=gap.first_wall)).isoformat(),
            "utc": _utc(gap.instant),
            "count": gap.count,
            "note": gap.sentence(),
        }
        for gap in schedules.gap_skips(schedule, after, min(fires[-1], after + GAPS_SECONDS))[:MAX_GAPS]
    ]


def _show_expression(session: Session, read: Expression) -> None:
    for line in wrapped(session, schedules.explain(read.schedule)):
        click.echo(line)
    for warning in read.warnings:
        session.note(f"warning: {warning}")


def _refused(session: Session, refusal: Invalid, said: Blame) -> int:
    """The expression, or what stands beside it, cannot be read: a usage error with the place in the line."""
    position = refusal.position if isinstance(refusal, CronInvalid) else None
    hint = refusal.hint if isinstance(refusal, CronInvalid) else None
    problem = {"code": refusal.code, "message": refusal.detail, "position": position, "hint": hint}
    if session.as_json:
        session.show_json({"error": problem})
    else:
        place = {"pointer": refusal.pointer, "position": position}
        show(explain_problem(place, refusal.detail, said), first=refusal.detail)
    return Exit.USAGE


def _local(at: float, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(at, zone).isoformat(timespec="auto" if at % 1 else "seconds")


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="auto" if at % 1 else "seconds").replace("+00:00", "Z")
