"""The options of a schedule beside its times: bounds, spread, clock changes, misfires, overlap, calendars.

    --start-at --end-at --max-runs          ──► start_at, end_at, max_runs
    --jitter --window                       ──► jitter_seconds, window_seconds
    --dst-gap --dst-overlap                 ──► dst
    --misfire --grace --max-catchup         ──► misfire
    --overlap                               ──► overlap
    --calendar NAME[:MODE[:OTHERWISE]] …    ──► calendars

The words are the domain's, written out here so that no command has to load it; a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from tickwise.cli import moments, work
from tickwise.cli.session import Decorated, Session

GAPS: Final = ("run_after", "skip", "shift")
REPEATS: Final = ("first", "second", "both")
MISFIRES: Final = ("skip", "latest", "all")
OVERLAPS: Final = ("skip", "queue_one", "queue_all", "cancel_running", "allow")
MODES: Final = ("include", "exclude")
OTHERWISE: Final = ("skip", "defer")
NONE: Final = "none"
"""As the value of an option: take away what the job has."""
_CALENDAR_FORM: Final = "NAME[:include|exclude[:skip|defer]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """The options, as they were written."""

    start_at: str | None = None
    end_at: str | None = None
    max_runs: int | None = None
    jitter: str | None = None
    window: str | None = None
    dst_gap: str | None = None
    dst_overlap: str | None = None
    misfire: str | None = None
    grace: str | None = None
    max_catchup: int | None = None
    overlap: str | None = None
    calendars: Sequence[str] = ()


def rule_options(command: Decorated) -> Decorated:
    """Add all options of a schedule's rules."""
    options: list[Callable[[Decorated], Decorated]] = [
        click.option("--start-at", metavar="TIME", help="No scheduled run before this time."),
        click.option("--end-at", metavar="TIME", help="No scheduled run after this time."),
        click.option("--max-runs", type=click.IntRange(1), metavar="N", help="End the schedule after this many runs."),
        click.option("--jitter", metavar="DURATION", help="Spread the starts: each run starts up to this much later."),
        click.option("--window", metavar="DURATION", help="A flexible window: as --jitter; only one of the two."),
        click.option("--dst-gap", type=click.Choice(GAPS), help="With --cron: for times that the clock skips."),
        click.option(
            "--dst-overlap", type=click.Choice(REPEATS), help="With --cron: for times that the clock shows twice."
        ),
        click.option(
            "--misfire", type=click.Choice(MISFIRES), help="Which missed runs are made up for.  [latest]"
        ),
        click.option("--grace", metavar="DURATION", help="A run that is late by at most this still runs.  [60s]"),
        click.option(
            "--max-catchup", type=click.IntRange(1, 1000), metavar="N",
            help="With --misfire all: make up for at most this many.  [10]"
        ),
        click.option(
            "--overlap", type=click.Choice(OVERLAPS), help="The treatment of a run while an earlier one runs.  [skip]"
        ),
        click.option(
            "--calendar", "calendars", multiple=True, metavar=_CALENDAR_FORM,
            help="Never run inside this calendar, or (include) run only inside it; repeat it for more.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def taken(options: dict[str, Any]) -> RuleOptions:
    """The options of `rule_options` among those of a command, and out of them."""
    return RuleOptions(**{name: options.pop(name) for name in RuleOptions.__dataclass_fields__})


def fields(
    session: Session, rules: RuleOptions, *, timezone: str | None = None, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of a job body. Raises `click.UsageError`.

    Times without an offset are on the clock of `timezone` (None: this machine's). `before` is the job that is changed:
    of an object that is said in part, it says the rest; and `none` takes away what it has.
    """
    body: dict[str, Any] = {}
    for option, field, text in (
        ("--start-at", "start_at", rules.start_at),
        ("--end-at", "end_at", rules.end_at),
    ):
        if text is not None:
            body[field] = None if before is not None and text == NONE else _instant(session, option, text, timezone)
            work.blame(session, f"/{field}", option, text)
    for option, field, text in (
        ("--jitter", "jitter_seconds", rules.jitter),
        ("--window", "window_seconds", rules.window),
    ):
        if text is not None:
            body[field] = work.duration_seconds(option, text)
            work.blame(session, f"/{field}", option, text)
    for option, field, value in (
        ("--max-runs", "max_runs", rules.max_runs),
        ("--overlap", "overlap", rules.overlap),
    ):
        if value is not None:
            body[field] = value
            work.blame(session, f"/{field}", option, value)
    body |= _objects(session, rules, before or {})
    if rules.calendars:
        body["calendars"] = _calendars(session, rules.calendars, changing=before is not None)
    return body


def _objects(session: Session, rules: RuleOptions, before: Mapping[str, Any]) -> dict[str, Any]:
    """`dst` and `misfire`."""
    body: dict[str, Any] = {}
    grace = None if rules.grace is None else work.duration_seconds("--grace", rules.grace)
    for option, field, member, value in (
        ("--dst-gap", "dst", "gap", rules.dst_gap),
        ("--dst-overlap", "dst", "overlap", rules.dst_overlap),
        ("--misfire", "misfire", "mode", rules.misfire),
        ("--grace", "misfire", "grace_seconds", grace),
        ("--max-catchup", "misfire", "max_catchup", rules.max_catchup),
    ):
        if value is not None:
            body.setdefault(field, {name: said for name, said in (before.get(field) or {}).items() if said is not None})
            body[field][member] = value
            written = rules.grace if option == "--grace" else value
            work.blame(session, f"/{field}/{member}", option, written)
            work.blame(session, f"/{field}", option, written)
    return body


def _calendars(session: Session, texts: Sequence[str], *, changing: bool) -> list[dict[str, str]]:
    if changing and list(texts) == [NONE]:
        return []
    found = []
    for number, text in enumerate(texts):
        name, *words = text.split(":")
        known = len(words) <= 2 and all(
            word in choices for word, choices in zip(words, (MODES, OTHERWISE), strict=False)
        )
        if not name or not known:
            raise click.UsageError(
                f"--calendar {text!r}: write {_CALENDAR_FORM}, such as holidays or business-hours:include:defer"
            )
        found.append({"name": name, **dict(zip(("mode", "otherwise"), words, strict=False))})
        work.blame(session, f"/calendars/{number}", "--calendar", text)
    work.blame(session, "/calendars", "--calendar", texts[-1])
    return found


def _instant(session: Session, option: str, text: str, timezone: str | None) -> str:
    try:
        zone = moments.zone_named(timezone) if timezone else None
        return moments.moment(text, zone, moments.now(), tell=session.note).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None
