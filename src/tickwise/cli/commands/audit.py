"""`tickwise audit …`: who did what, and whether the log is as it was written."""

from __future__ import annotations

import heapq
import json
import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from tickwise.cli import moments, output, work
from tickwise.cli.arguments import secret_option
from tickwise.cli.commands.up import running_up
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.lookup.endings import is_id
from tickwise.cli.lookup.pages import first_of, more_than
from tickwise.cli.session import Session, data_dir_option, json_option, list_options, view_options
from tickwise.cli.terminal.columns import TableColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tickwise.control.audit.verification import AuditReport
    from tickwise.sdk.client import Client

Json = dict[str, Any]
HTTP_FORBIDDEN: Final = 403
HTTP_NOT_FOUND: Final = 404
MAX_TARGETS: Final = 21
"""A name, and twenty things that have it."""
CHANGE_CHARACTERS: Final = 120
VALUE_CHARACTERS: Final = 24
_PARENTS: Final = frozenset({"task", "task.files"})
PRIVATE_FILE: Final = 0o600
ENTRIES: Final = (
    TableColumn("AT", 0), TableColumn("NAMESPACE", 9), TableColumn("ACTION", 1), TableColumn("BY", 2),
    TableColumn("ABOUT", 3), TableColumn("CHANGED", 4), TableColumn("FROM", 8),
)  # fmt: skip


@click.group()
def audit() -> None:
    """Search, export and verify the audit log."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--target",
            metavar="NAME",
            help="Entries about this thing: its id, or the name of a job (in the namespace of the command), a key or a "
            "person that is there.",
        ),
        click.option("--action", metavar="ACTION", help="Such as `job.changed` or `auth.signed_in`."),
        click.option("--actor", metavar="NAME", help="Entries of this caller."),
        click.option("--until", metavar="TIME", help="Entries before then: yesterday, '2027-01-31 10:00', 2h (ago)."),
        click.option("--since", metavar="TIME", help="Entries from then on: yesterday, '2027-01-31 10:00', 2h (ago)."),
    ):
        command = option(command)
    return command


@audit.command("list")
@_filters
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="The most entries to show.")
@list_options
@click.pass_obj
def list_entries(session: Session, /, *, limit: int, **said: str | None) -> None:
    """List entries, the newest first.

    An administrator of the installation sees those of all namespaces, unless --namespace names one; the namespace may
    be gone. --json shows all that an entry holds.
    """
    query = _query(session, said)
    client, place = audit_client(session)
    found: list[Json] = []
    cut = []
    for target in targets(session, said["target"]):
        of_target, more = first_of(session, "/audit", {**query, **place, "target": target}, limit, client=client)
        found += of_target
        cut.append(more)
    found = sorted({each["entry"]: each for each in found}.values(), key=_newest_first)
    more = more_than(limit) if any(cut) or len(found) > limit else None
    del found[limit:]
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            session.age(each["at"]),
            each["namespace"],
            each["action"],
            _who(each),
            _thing(session, each),
            change_text(each),
            each["caller"]["address"],
        )
        for each in found
    ]
    output.table(session, ENTRIES, rows, empty="No entries.", more=more and f"{more} `tickwise audit export` has all.")


def _newest_first(each: Json) -> tuple[float, int]:
    return -(moments.instant(each["at"]) or 0.0), -int(each["entry"])


def audit_client(session: Session) -> tuple[Client, Json]:
    """The client to ask, and the namespace as a parameter where that is gone.

    A request for a namespace that is not there is refused before it reaches the log. An administrator of the
    installation asks without one, and names it as a filter.
    """
    from tickwise.sdk.client import ProblemError

    ours = session.client
    if ours.namespace is None:
        return ours, {}
    try:
        ours.request("GET", "/audit", query={"limit": 1})
    except ProblemError as error:
        if error.status != HTTP_NOT_FOUND:
            raise
        return session.unbound_client, {"namespace": ours.namespace}
    return ours, {}


def targets(session: Session, text: str | None) -> list[str | None]:
    """The targets to ask for: the text itself, and the ids of jobs, keys and people with this name."""
    if text is None or is_id(text):
        return [text]
    found = [text]
    for path, query, names, identifier in (
        ("/jobs", {"name": text}, ("name", "key"), "job_id"),
        ("/keys", {}, ("name",), "key_id"),
        ("/users", {}, ("name", "email"), "user_id"),
    ):
        found += _named(session, path, query, names, identifier, text)
    if len(found) > MAX_TARGETS:
        session.note(f"{len(found) - 1} things are called {text!r}; the first {MAX_TARGETS - 1} are searched for.")
    return list(found[:MAX_TARGETS])


def _named(session: Session, path: str, query: Json, names: tuple[str, ...], identifier: str, text: str) -> list[str]:
    """The ids of the things of this name. Those that the caller may not list are left out."""
    from tickwise.sdk.client import ProblemError

    wanted = text.casefold()
    try:
        return [
            str(each[identifier])
            for page in session.client.pages(path, {**query, "limit": 500})
            for each in page
            if wanted in {str(each.get(name) or "").casefold() for name in names}
        ]
    except ProblemError as error:
        if error.status in (HTTP_FORBIDDEN, HTTP_NOT_FOUND):
            return []
        raise


def change_text(each: Json) -> str:
    """The changed fields in a few words: `queue: default → reports`."""
    before, after = _members(each["before"] or {}), _members(each["after"] or {})
    names = [
        name
        for name in (*before, *(name for name in after if name not in before))
        if before.get(name) != after.get(name)
    ]
    if not before:
        said = [f"{name}: {_value(after[name])}" for name in names if after[name] not in (None, [], {})]
    elif not after:
        said = [f"{name}: {_value(before[name])} → gone" for name in names]
    else:
        said = [f"{name}: {_step(before.get(name), after.get(name))}" for name in names]
    text = ", ".join(said)
    return text if len(text) <= CHANGE_CHARACTERS else text[: CHANGE_CHARACTERS - 1] + "…"


def _members(fields: Json) -> Json:
    """The fields, of a task each member by itself: `task.source`, `task.files.helper.py`."""
    found: Json = {}
    for name, value in fields.items():
        is_parent = name in _PARENTS and isinstance(value, dict)
        found |= _members({f"{name}.{inner}": each for inner, each in value.items()}) if is_parent else {name: value}
    return found


def _step(before: Any, after: Any) -> str:
    """One value, and the next. Of a text that is kept by its digest, the log knows the length."""
    sizes = [each.get("bytes") for each in (before, after) if isinstance(each, dict) and "sha256" in each]
    return f"{sizes[0]} → {sizes[1]} bytes" if len(sizes) > 1 else f"{_value(before)} → {_value(after)}"


def _value(value: Any) -> str:
    if isinstance(value, dict) and "sha256" in value:
        return f"{value.get('bytes')} bytes"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


@audit.command()
@_filters
@click.option(
    "--output", "path", type=click.Path(dir_okay=False, path_type=Path), help="A file; only you can read it.  [stdout]"
)
@view_options
@click.pass_obj
def export(session: Session, /, *, path: Path | None, **said: str | None) -> None:
    """Write all entries that match as lines of JSON, the oldest first."""
    query = _query(session, said)
    client, place = audit_client(session)
    streams = [
        _lines(client.stream("/audit/export", query={**query, **place, "target": target}))
        for target in targets(session, said["target"])
    ]
    written, last = 0, b""
    with _written(path) as file:
        for line in heapq.merge(*streams, key=_age) if len(streams) > 1 else streams[0]:
            if line != last:  # an entry about several things comes once for each that was asked for
                file.write(line)
                written += 1
            last = line
    session.note(f"{written} entries were written.")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, with their line breaks."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def _age(line: bytes) -> tuple[float, int]:
    entry = json.loads(line)
    return moments.instant(entry["at"]) or 0.0, entry["entry"]


@contextmanager
def _written(path: Path | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that only its owner can read, because entries hold names and addresses of people."""
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    except OSError as failure:
        raise CommandFailure(f"{path} cannot be written: {failure.strerror or failure}", Exit.USAGE) from None
    with os.fdopen(descriptor, "wb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, PRIVATE_FILE)
        yield file


@audit.command()
@click.option(
    "--anchors",
    "anchors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Heads that were noted outside: the file of `audit_anchor_file`, or a log of a scheduler. May be repeated.",
)
@click.option(
    "--database",
    "database_url",
    metavar="URL",
    callback=secret_option,
    help="The store.  [TICKWISE_DATABASE_URL or the settings files]",
)
@data_dir_option
@json_option
@click.pass_obj
def verify(session: Session, *, anchors: tuple[Path, ...], database_url: str | None) -> int:
    """Check that no entry was edited, removed, moved or put in.

    Reads the database itself and changes nothing. Only with --anchors can it tell that the end of a chain was cut off,
    or that a whole chain was rewritten.

    The exit code is 1 if something is wrong.
    """
    from tickwise import config
    from tickwise.wiring.audit import verify_database
    from tickwise.wiring.doctor import Running, database_of

    settings = config.load(session.environ, {"data_dir": session.data_dir, "database_url": database_url})
    local = running_up(settings.data_dir)
    running = None if local is None else Running(local.url, local.pid, local.database_url)
    address = database_of(settings, running, given=database_url is not None)
    report = verify_database(address, anchors, kept_seconds=settings.audit_days * 86_400.0)
    if session.as_json:
        session.show_json(_as_dict(report))
    else:
        _show(session, report, anchored=bool(anchors))
    return Exit.JOB_FAILED if report.found else Exit.OK


def _show(session: Session, report: AuditReport, *, anchored: bool) -> None:
    for each in report.findings:
        place = " ".join(
            f"{what} {number}" for what, number in (("seal", each.seq), ("entry", each.entry)) if number is not None
        )
        session.say(f"{each.kind}: {each.namespace}, {place}: {each.detail}")
    for begin in report.dropped:
        day = moments.absolute(begin.dropped_before, session.zone)
        session.say(
            f"The chain of {begin.namespace} begins after seal {begin.seq}: retention dropped what is before {day}."
        )
    counted = f"{report.entries} entries in {report.seals} seals of {report.namespaces} namespaces"
    if report.found:
        session.say(f"{report.found} violations in {counted}.")
        return
    session.say(f"{counted} are as they were written; {report.anchors} anchors agree.")
    if not anchored:
        session.note(
            "Without --anchors, a chain that was cut off or rewritten as a whole cannot be told from a good one."
        )


def _as_dict(report: AuditReport) -> Json:
    return {
        "valid": not report.found,
        "namespaces": report.namespaces,
        "seals": report.seals,
        "entries": report.entries,
        "anchors": report.anchors,
        "found": report.found,
        "findings": [{**each._asdict(), "kind": each.kind.value} for each in report.findings],
        "dropped": [{**each._asdict(), "hash": each.hash.hex()} for each in report.dropped],
    }


def _query(session: Session, said: dict[str, str | None]) -> Json:
    query: Json = {name: value for name, value in said.items() if value is not None}
    for name, value in query.items():
        work.blame(session, f"?{name}", f"--{name}", value)
    for name in ("since", "until"):
        if name in query:
            query[name] = _instant(session, f"--{name}", query[name])
    return query


def _instant(session: Session, option: str, text: str) -> str:
    try:
        return moments.moment(text, session.zone, moments.now(), ago=True, tell=session.note).isoformat()
    except moments.UnreadableTime as error:
        raise click.UsageError(f"{option}: {error}") from None


def _who(each: Json) -> str:
    caller = each["caller"]
    return caller["name"] or str(caller["kind"])


def _thing(session: Session, each: Json) -> str:
    if each["target"] is not None:
        target = session.short(each["target"]) if is_id(str(each["target"])) else each["target"]
        return f"{each['target_kind']} {target}"
    return f"{len(each['targets'])} of {each['target_kind']}" if each["targets"] else str(each["target_kind"])
