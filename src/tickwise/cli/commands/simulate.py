"""`tickwise simulate`: what jobs would do between two dates, by the product's own scheduler. With files: no server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from tickwise.cli import moments, sources
from tickwise.cli.failures import Exit
from tickwise.cli.output import aligned, safe
from tickwise.cli.session import Session, server_options

if TYPE_CHECKING:
    from uuid import UUID

    from tickwise.roles.scheduler.simulator import Happening
    from tickwise.wiring.simulation import Simulation, StoredRule, Subject

DAYS_SHOWN: Final = 62
JOBS_SHOWN: Final = 20
MAX_YEARS: Final = 100
DAY_SECONDS: Final = 86_400.0


Named = tuple[str, Mapping[str, Any]]


@click.command()
@server_options
@click.option("--from", "begin", metavar="TIME", help="From this time on.  [now]")
@click.option("--to", "end", metavar="TIME", help="Before this time.  [a day later]")
@click.option(
    "--outage",
    "outages",
    multiple=True,
    metavar="FROM..TO",
    help="Simulate an outage in this time; repeat it for more.",
)
@click.option("--job", "job_ids", multiple=True, metavar="JOB", help="Only this job of the server. May be repeated.")
@click.option(
    "--file", "files", multiple=True, metavar="FILE", help="Jobs of this file instead of the server's; - is stdin."
)
@click.option(
    "--format", "system", type=click.Choice(sources.FORMATS), help="The format of the files.  [by their names]"
)
@click.option("--timezone", "zone", metavar="ZONE", help="The zone of times that name none.  [UTC]")
@click.option(
    "--run-time",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="The assumed duration of each run, such as 90s.",
)
@click.pass_obj
def simulate(
    session: Session, *, begin: str | None, end: str | None, outages: Sequence[str], job_ids: Sequence[str],
    files: Sequence[str], system: str | None, zone: str | None, run_time: str,
) -> int:  # fmt: skip
    """Simulate jobs between two dates: the runs, the skips and their reasons, the busiest minute.

    \b
    tickwise simulate --file /etc/crontab --timezone Europe/Berlin --from 2027-03-27 --to 2027-03-30
    tickwise simulate --from 2027-01-01 --to 2028-01-01 --outage 2027-05-01T00:00Z..2027-05-02T12:00Z
    tickwise simulate --file jobs.json --json | grep '"skip"'

    With --json: one object a line, {"job", "nominal", "decision": "fire" or "skip", "reason"?, "due"?, "count"?,
    "until"?}.
    """
    if files and job_ids:
        raise click.UsageError("--file and --job contradict each other; name one of them")
    now = moments.now()
    start = now if begin is None else _instant(session, begin, zone, "--from")
    stop = start + DAY_SECONDS if end is None else _instant(session, end, zone, "--to")
    if not start < stop <= start + MAX_YEARS * 366 * DAY_SECONDS:
        raise click.UsageError(f"--to must be after --from, and within {MAX_YEARS} years of it")
    from tickwise.wiring.simulation import Simulation, hushed

    subjects, rules = _from_files(session, files, system, zone) if files else _from_server(session, job_ids)
    simulation = Simulation(
        subjects=subjects,
        begin=start,
        end=stop,
        outages=[_outage(session, text, zone) for text in outages],
        run_seconds=_duration(run_time),
        rules=rules,
    )
    names = _names(subjects, of_files=bool(files))
    summary = Summary(names, start, stop)
    with hushed():
        asyncio.run(_write_lines(simulation, names) if session.as_json else _sum_up(simulation, summary))
    if not session.as_json:
        summary.show()
    return Exit.OK


# ---------------------------------------------------------------------------------------------------- what is asked


def _instant(session: Session, text: str, zone: str | None, option: str) -> float:
    try:
        clock = moments.zone_named(zone or "UTC")
        return moments.moment(text, clock, moments.now(), tell=session.note).timestamp()
    except moments.UnreadableTime as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _outage(session: Session, text: str, zone: str | None) -> tuple[float, float]:
    begin, dots, end = text.partition("..")
    if not dots:
        raise click.BadParameter("write FROM..TO, such as 2027-05-01..2027-05-02", param_hint="--outage")
    span = _instant(session, begin, zone, "--outage"), _instant(session, end, zone, "--outage")
    if span[0] >= span[1]:
        raise click.BadParameter(f"{text}: its end is not after its begin", param_hint="--outage")
    return span


def _duration(text: str) -> float:
    try:
        return moments.duration_seconds(text)
    except moments.UnreadableTime as error:
        raise click.BadParameter(str(error), param_hint="--run-time") from None


def _from_files(
    session: Session, files: Sequence[str], system: str | None, zone: str | None
) -> tuple[list[Subject], list[StoredRule]]:
    """The jobs that the files come to, and the calendars and windows beside them. What an importer refuses is said, and
    left out."""
    from tickwise.wiring.simulation import subject_of

    found: list[Any] = []
    calendars: list[Named] = []
    windows: list[Named] = []
    of_kind: dict[str, list[str]] = {}
    for name in files:
        of_kind.setdefault(system or sources.format_of(name), []).append(name)
    for kind, names in of_kind.items():
        if kind == "jobs":
            for name in names:
                data = sources.contents(name)
                found += sources.jobs(data, name)
                calendars += sources.beside_jobs(data, "calendars")
                windows += sources.beside_jobs(data, "windows")
            continue
        for source, entry in sources.entries(names, kind, timezone=zone):
            if entry.job is None:
                session.note(f"{source}:{entry.line}: left out: {entry.reason}")
            else:
                found.append(entry.job)
    return [subject_of(job, number) for number, job in enumerate(found, 1)], _rules(calendars, windows)


def _from_server(session: Session, references: Sequence[str]) -> tuple[list[Subject], list[StoredRule]]:
    """The server's jobs that will fire again, or those that were named, with its calendars and windows."""
    from tickwise.cli.references import job_id
    from tickwise.wiring.simulation import subject_of

    client = session.client
    wanted = [job_id(session, each) for each in references]
    jobs = (
        [client.job_get(each) for each in wanted]
        if wanted
        else [job for page in client.pages("/jobs", {"status": "SCHEDULED", "limit": 500}) for job in page]
    )
    calendars = [each["name"] for page in client.pages("/calendars") for each in page]
    windows = [each["name"] for page in client.pages("/windows") for each in page]
    rules = _rules(
        [(name, client.calendar_get(name)) for name in calendars],
        [(name, client.window_get(name)) for name in windows],
    )
    return [subject_of(job, number) for number, job in enumerate(jobs, 1)], rules


def _rules(calendars: Sequence[Named], windows: Sequence[Named]) -> list[StoredRule]:
    if not calendars and not windows:
        return []
    from tickwise.wiring.simulated_rules import calendar_rule, window_rule

    return [*(calendar_rule(*each) for each in calendars), *(window_rule(*each) for each in windows)]


def _names(subjects: Sequence[Subject], *, of_files: bool) -> dict[UUID, str]:
    """A name for each. Where several share one, the server's are told apart by id, those of files by position."""
    often = Counter(subject.name for subject in subjects)
    return {
        subject.job_id: subject.name
        if often[subject.name] == 1
        else f"{subject.name} ({f'job {number}' if of_files else subject.job_id})"
        for number, subject in enumerate(subjects, 1)
    }


# ---------------------------------------------------------------------------------------------------- what is told


async def _write_lines(simulation: Simulation, names: dict[UUID, str]) -> None:
    from tickwise.wiring.simulation import simulate as happenings

    async for found in happenings(simulation):
        click.echo("".join(_line(each, names[each.job_id]) for each in found), nl=False)


def _line(each: Happening, name: str) -> str:
    said: dict[str, Any] = {"job": name, "nominal": _utc(each.nominal)}
    if each.reason is None:
        said["decision"] = "fire"
        if each.due != each.nominal:
            said["due"] = _utc(each.due)
    else:
        said |= {"decision": "skip", "reason": each.reason}
        if each.until is not None:
            said |= {"count": each.occurrences, "until": _utc(each.until)}
    return json.dumps(said, ensure_ascii=False) + "\n"


async def _sum_up(simulation: Simulation, summary: Summary) -> None:
    from tickwise.wiring.simulation import simulate as happenings

    async for found in happenings(simulation):
        summary.add(found)


@dataclass
class Summary:
    """The counts of a simulation under way."""

    names: dict[UUID, str]
    begin: float
    end: float
    days: Counter[int] = field(default_factory=Counter)
    minutes: Counter[int] = field(default_factory=Counter)
    jobs: Counter[UUID] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    collisions: int = 0
    _second: int = -1
    _in_second: int = 0

    def add(self, found: Sequence[Happening]) -> None:
        """More of what happened, in the order of time."""
        for each in found:
            if each.reason is not None:
                self.reasons[each.reason] += each.occurrences
                continue
            second = int(each.at)
            self.days[second // 86_400] += 1
            self.minutes[second // 60] += 1
            self.jobs[each.job_id] += 1
            if second != self._second:
                self._second, self._in_second = second, 0
            self._in_second += 1
            self.collisions += self._in_second == 2
        if len(self.minutes) > 100_000:
            self.minutes = Counter(dict(self.minutes.most_common(1)))

    def show(self) -> None:
        """Print the whole result for people."""
        total, skipped = self.jobs.total(), self.reasons.total()
        click.echo(
            f"{len(self.names)} jobs from {_utc(self.begin)} to {_utc(self.end)}: {total} runs, {skipped} skipped"
        )
        if self.minutes:
            minute, most = self.minutes.most_common(1)[0]
            click.echo(f"busiest minute: {_utc(minute * 60)}, {most} starts")
            click.echo(f"seconds in which more than one job starts: {self.collisions}")
        for title, rows in (
            ("skipped, by reason", [(reason, str(count)) for reason, count in self.reasons.most_common()]),
            (f"runs a day{_by_month(self.days)[1]}", _by_month(self.days)[0]),
            (
                "runs a job" + (f", the {JOBS_SHOWN} with the most" if len(self.jobs) > JOBS_SHOWN else ""),
                [(safe(self.names[job]), str(count)) for job, count in self.jobs.most_common(JOBS_SHOWN)],
            ),
        ):
            if rows:
                click.echo(f"\n{title}")
                for line in aligned(rows):
                    click.echo(f"  {line}")
        silent = [name for job, name in self.names.items() if not self.jobs[job]]
        if silent:
            click.echo(f"\njobs that do not run in this time: {len(silent)}")
            for name in silent[:JOBS_SHOWN]:
                click.echo(f"  {safe(name)}")


def _by_month(days: Counter[int]) -> tuple[list[tuple[str, str]], str]:
    """A line a day; of a long time, a line a month."""
    if len(days) <= DAYS_SHOWN:
        return [(_utc(day * 86_400)[:10], str(count)) for day, count in sorted(days.items())], ""
    months: Counter[str] = Counter()
    for day, count in days.items():
        months[_utc(day * 86_400)[:7]] += count
    return [(month, str(count)) for month, count in sorted(months.items())], ", by month"


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="auto" if at % 1 else "seconds").replace("+00:00", "Z")
