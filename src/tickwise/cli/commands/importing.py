"""`tickwise import` and `tickwise export`: schedules of other systems brought in, and jobs written as a crontab.

The report of an import needs no server, and imports nothing but the importers, so that it comes at once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from tickwise.cli import labels, moments, output, sources
from tickwise.cli.failures import Exit
from tickwise.cli.imports.import_python import python_options, with_pythons
from tickwise.cli.imports.import_surroundings import import_options, surrounded
from tickwise.cli.imports.mail_channels import told_by, with_mail_channels
from tickwise.cli.imports.repeated import RepeatedSentences
from tickwise.cli.imports.run_as_users import run_as_options, with_run_as
from tickwise.cli.session import Decorated, Session, server_options
from tickwise.cli.terminal.progress import progress

if TYPE_CHECKING:
    from tickwise.cli.imports.import_jobs import Stored
    from tickwise.cli.sources import SourceEntry

LINES_SHOWN: Final = 4
"""Of an entry that has many, such as a whole CronJob."""
_STYLES: Final = {"same": "green", "changed": "yellow", "refused": "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMode:
    """The action on the entries."""

    dry_run: bool
    apply: bool
    strict: bool
    paused: bool
    prefix: str
    fields: dict[str, Any]
    """Of every job besides those of its entry: queue, requires, labels."""
    notify: str | None = None
    """The channel that is told of the jobs whose source names a recipient of mails."""

    @classmethod
    def of(cls, session: Session, options: dict[str, Any]) -> ImportMode:
        """The options that all imports share. Raises `click.UsageError`."""
        fields = labels.job_label_fields(session, options)
        if (queue := options.pop("queue")) is not None:
            fields["queue"] = queue
        return cls(**options, fields=fields)

    def placed(self, each: SourceEntry) -> SourceEntry:
        """The entry with these fields, its job under the prefixed name."""
        job = each.entry.job
        if job is None:
            return each
        own: dict[str, Any] = (
            {"labels": {**(job.get("labels") or {}), **self.fields["labels"]}} if "labels" in self.fields else {}
        )
        name = f"{self.prefix}{job['name']}"
        placed = each._replace(entry=replace(each.entry, job={**job, **self.fields, **own, "name": name}))
        return told_by(placed, self.notify) if self.notify is not None and each.entry.recipients else placed


@click.group("import")
def import_() -> None:
    """Import a crontab, Kubernetes CronJobs, systemd timers or Celery beat schedules.

    Each entry is reported as `same`, `changed` (with what changes in meaning) or `refused` (with why, and what to
    write instead). Only --apply stores anything: all entries that are not refused, in one transaction. Importing twice
    is importing once.
    """


def _import_options(command: Decorated) -> Decorated:
    """The options that the imports of all systems share."""
    options: list[Callable[[Decorated], Decorated]] = [
        click.argument("files", nargs=-1, required=True, metavar="FILE…"),
        click.option("--dry-run", is_flag=True, help="Only report; store nothing."),
        click.option("--apply", is_flag=True, help="Store the jobs on the server, all or none."),
        click.option("--strict", is_flag=True, help="Exit with 4 if an entry is refused or differs from its job."),
        click.option(
            "--timezone", "zone", metavar="ZONE", help="The zone of times that name none: that of the old machine."
        ),
        click.option("--prefix", metavar="TEXT", default="", help="Begin the name of each job with this: 'web1 '."),
        click.option("--queue", help="The queue of each job.  [default]"),
        click.option(
            "--paused", is_flag=True,
            help="With --apply: pause each new job at once, so that the old machine goes on alone.",
        ),
    ]  # fmt: skip
    command = labels.job_label_options()(server_options(command))
    for option in reversed(options):
        command = option(command)
    return command


@import_.command("crontab")
@run_as_options
@click.option(
    "--system/--no-system", "names_users", default=None,
    help="Whether entries name a user before the command, as in /etc/crontab.  [detected]",
)  # fmt: skip
@click.option("--source", metavar="NAME", help="The file's name in keys; it tells machines apart.  [its whole path]")
@click.option(
    "--notify",
    metavar="CHANNEL",
    help="Tell this channel of failures of the jobs below a MAILTO.  [an e-mail channel with its recipients]",
)
@python_options
@import_options
@_import_options
@click.pass_obj
def import_crontab(
    session: Session, /, *, files: tuple[str, ...], zone: str | None, user: str | None, run_as: bool,
    names_users: bool | None, source: str | None, notify: str | None, **mode: Any,
) -> int:  # fmt: skip
    """Import crontabs, of users or of the system (`-`: stdin).

    \b
    tickwise import crontab /etc/crontab /etc/cron.d/* --timezone Europe/Berlin
    crontab -l | tickwise import crontab - --apply
    """
    if source is not None and len(files) > 1:
        raise click.UsageError("--source names one file; import the others by themselves.")
    _check_zone(zone)
    entries = sources.entries(
        files, "crontab", timezone=zone, user=user, names_users=names_users, run_as=run_as, source=source
    )
    found = surrounded(with_pythons(session, entries, mode), mode)
    return _imported(session, found, ImportMode.of(session, {**mode, "notify": notify}), several=len(files) > 1)


@import_.command("systemd")
@import_options
@_import_options
@click.pass_obj
def import_systemd(session: Session, /, *, files: tuple[str, ...], zone: str | None, **mode: Any) -> int:
    """Import timers of systemd: FILEs ending in .timer, or folders with them.

    The service of a timer, and the drop-ins of both, are read from beside it.

    \b
    tickwise import systemd /etc/systemd/system/backup.timer
    """
    return _of_system(session, "systemd", files, zone, mode)


@import_.command("k8s")
@click.option(
    "--containers",
    is_flag=True,
    help="Run the image of each in a container, on Docker, Podman or Kubernetes.  [its command alone, on the "
    "executor's machine]",
)
@import_options
@_import_options
@click.pass_obj
def import_k8s(session: Session, /, *, files: tuple[str, ...], zone: str | None, containers: bool, **mode: Any) -> int:
    """Import Kubernetes CronJobs from YAML (`-`: stdin).

    \b
    kubectl get cronjobs -A -o yaml | tickwise import k8s - --containers
    """
    _check_zone(zone)
    found = surrounded(sources.entries(files, "k8s", timezone=zone, containers=containers), mode)
    return _imported(session, found, ImportMode.of(session, mode), several=len(files) > 1)


@import_.command("celery")
@_import_options
@click.pass_obj
def import_celery(session: Session, /, *, files: tuple[str, ...], zone: str | None, **mode: Any) -> int:
    """Import a Celery beat schedule from a Python module, which is read and not run, or from JSON (`-`: stdin).

    \b
    tickwise import celery shop/celeryconfig.py
    """
    return _of_system(session, "celery", files, zone, mode)


def _of_system(session: Session, system: str, files: tuple[str, ...], zone: str | None, mode: dict[str, Any]) -> int:
    _check_zone(zone)
    found = surrounded(sources.entries(files, system, timezone=zone), mode)
    return _imported(session, found, ImportMode.of(session, mode), several=len(files) > 1)


def _check_zone(zone: str | None) -> None:
    if zone is not None:
        try:
            moments.zone_named(zone)
        except moments.UnreadableTime as error:
            raise click.UsageError(f"--timezone: {error}") from None


def _imported(session: Session, found: Sequence[SourceEntry], mode: ImportMode, *, several: bool) -> int:
    """Report the entries, and store them if that was asked for."""
    if mode.dry_run and mode.apply:
        raise click.UsageError("--dry-run and --apply contradict each other; give one of them.")
    if mode.paused and not mode.apply:
        raise click.UsageError("--paused goes with --apply.")
    found = [mode.placed(each) for each in found]
    places = [place for place, each in enumerate(found) if each.entry.job is not None]
    stored: dict[int, Stored] = {}
    early: list[str] = []
    if not (mode.apply and places):
        found = with_run_as(None, found)
    else:
        from tickwise.cli.imports.import_jobs import store

        found = found if mode.notify is not None else with_mail_channels(session.client, found)
        found = with_run_as(session.client, found)
        bodies = [each.entry.job for each in found if each.entry.job is not None]
        with progress("jobs", len(bodies), quiet=session.as_json) as tell:
            stored = dict(zip(places, store(session.client, bodies, tell), strict=True))
        early = _paused(session, stored) if mode.paused else []
    if session.as_json:
        session.show_json({"entries": [_as_json(each, stored.get(place), several) for place, each in enumerate(found)]})
    else:
        repeated = RepeatedSentences.of(found, {place: each.warnings for place, each in stored.items()})
        for place, each in enumerate(found):
            for line in _lines(session, each, stored.get(place), several, repeated):
                click.echo(line)
        click.echo(_summary(found))
        for line in repeated.lines():
            click.echo(f"  {output.safe(line)}")
    _say_what_is_done(session, mode, places, stored)
    if mode.notify is not None and not any(each.entry.recipients for each in found if each.entry.job is not None):
        session.note(f"Warning: no job is below a MAILTO with a recipient, so --notify {mode.notify} is in no job")
    for job_id in early:
        session.note(f"Warning: job {job_id} came due before it was paused: see tickwise jobs occurrences {job_id}")
    is_whole = len(places) == len(found) and not any(each.fields for each in stored.values())
    return Exit.REFUSED if mode.strict and not is_whole else Exit.OK


def _paused(session: Session, stored: dict[int, Stored]) -> list[str]:
    """Pause the jobs that were stored just now; those of which a run began before."""
    from tickwise.cli.imports.import_jobs import ImportOutcome

    new = [each.job_id for each in stored.values() if each.outcome is ImportOutcome.CREATED]
    with progress("paused", len(new), quiet=session.as_json) as tell:
        for done, job_id in enumerate(new):
            tell(done)
            session.client.job_pause(job_id, {"reason": "imported with --paused"})
    return [job_id for job_id in new if session.client.job_runs(job_id, limit=1)]


def _as_json(each: SourceEntry, stored: Stored | None, several: bool) -> dict[str, Any]:
    told = each.entry.as_json()
    if several:
        told["file"] = output.safe(each.file)
    if stored is not None:
        told |= {"outcome": stored.outcome.value, "job_id": stored.job_id}
        told |= {name: list(said) for name, said in _asides(stored) if said}
    return told


def _asides(stored: Stored) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("differs_in", stored.fields), ("warnings", stored.warnings)


def _lines(
    session: Session, each: SourceEntry, stored: Stored | None, several: bool, repeated: RepeatedSentences
) -> Iterator[str]:
    """An entry for people: where it stands and what it says, its verdict, and what follows from it."""
    entry = each.entry
    colour = session.colour(sys.stdout)
    place = f"{output.safe(each.file)}:{entry.line}" if several else f"line {entry.line}"
    marks = repeated.marks(each, stored.warnings if stored is not None else ())
    verdict = output.styled(entry.verdict.value.ljust(7), _STYLES[entry.verdict.value], colour)
    yield f"{verdict}  {place}{f'  {marks}' if marks else ''}"
    said = entry.text.splitlines() or [""]
    yield from (f"    {output.safe(line.expandtabs(4))}" for line in said[:LINES_SHOWN])
    if len(said) > LINES_SHOWN:
        yield f"    … and {len(said) - LINES_SHOWN} more lines"
    yield from (f"  - {output.safe(sentence)}" for sentence in repeated.own(each))
    if stored is not None:
        yield from _stored_lines(stored, repeated)


def _stored_lines(stored: Stored, repeated: RepeatedSentences) -> Iterator[str]:
    from tickwise.cli.imports.import_jobs import ImportOutcome

    if stored.outcome is ImportOutcome.CREATED:
        yield f"  = job {stored.job_id} is stored"
    elif stored.outcome is ImportOutcome.PRESENT:
        yield f"  = job {stored.job_id} was imported before"
    else:
        yield (
            f"  ! job {stored.job_id} was imported before and says something else now ({', '.join(stored.fields)}); it "
            "is left as it is. Change it with `tickwise jobs edit`, or cancel it and import again"
        )
    yield from (f"  ! {output.safe(warning)}" for warning in repeated.own_warnings(stored.warnings))


def _summary(found: Sequence[SourceEntry]) -> str:
    counts = Counter(each.entry.verdict.value for each in found)
    entries = "1 entry" if len(found) == 1 else f"{len(found)} entries"
    return f"{entries}: {counts['same']} same, {counts['changed']} changed, {counts['refused']} refused"


def _say_what_is_done(session: Session, mode: ImportMode, places: Sequence[int], stored: dict[int, Stored]) -> None:
    if mode.apply:
        counts = Counter(each.outcome.value for each in stored.values())
        said = [f"{counts['created']} of {len(places)} jobs are stored{' and paused' if mode.paused else ''}"]
        said += [f"{counts['present']} were imported before"] if counts["present"] else []
        said += [f"{counts['different']} were changed since and are left as they are"] if counts["different"] else []
        session.note(", ".join(said) + ".")
    elif not mode.dry_run:
        advice = "The same command with --apply stores the jobs." if places else "There is nothing to store."
        session.note(f"Nothing is stored. {advice}")


# ---------------------------------------------------------------------------------------------------- export


@click.group()
def export() -> None:
    """Write jobs as a crontab."""


@export.command("crontab")
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Jobs with this label; repeat it for more."
)
@server_options
@click.pass_obj
def export_crontab(session: Session, jobs: tuple[str, ...], labels: tuple[str, ...]) -> None:
    """Write jobs of the server as a crontab: the named ones, else all that have not ended.

    Comments carry the settings that a crontab cannot express.

    \b
    tickwise export crontab --label team=billing > billing.cron
    """
    if jobs and labels:
        raise click.UsageError("name JOBs or give --label, not both.")
    from tickwise.importers.crontab_export import write_crontab

    found = _named(session, jobs) if jobs else _lasting(session, labels)
    text = write_crontab(found)
    if session.as_json:
        session.show_json({"jobs": len(found), "crontab": text})
    else:
        click.echo(text, nl=False)


def _named(session: Session, references: Sequence[str]) -> list[dict[str, Any]]:
    from tickwise.cli.references import job_id

    identifiers = dict.fromkeys(job_id(session, reference) for reference in references)
    return [session.client.job_get(identifier) for identifier in identifiers]


def _lasting(session: Session, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Jobs that will still run, oldest first."""
    for label in labels:
        if "=" not in label:
            raise click.UsageError(f"--label {label!r}: write NAME=VALUE")
    found: list[dict[str, Any]] = []
    for status in ("SCHEDULED", "PAUSED"):
        for page in session.client.pages("/jobs", {"status": status, "label": list(labels) or None, "limit": 500}):
            found += page
    if not found:
        session.note("There are no such jobs; `tickwise jobs list` shows all jobs.")
    return sorted(found, key=lambda job: (job["created_at"], job["job_id"]))
