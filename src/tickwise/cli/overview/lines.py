"""The look at an installation as lines for a terminal: each fits its width, and says first what matters most."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from tickwise.cli import moments, output
from tickwise.cli.overview.glance import Glance, own_labels, unmet_needs, unserved_queues
from tickwise.cli.session import Session
from tickwise.cli.terminal.columns import TableColumn

Json = dict[str, Any]
RUNNING = (
    TableColumn("RUN", 0),
    TableColumn("NAME", 2, 10),
    TableColumn("STATUS", 3),
    TableColumn("SINCE", 1),
    TableColumn("ATTEMPT", 9),
)
FAILED = (
    TableColumn("RUN", 0),
    TableColumn("NAME", 2, 10),
    TableColumn("FAILED", 1),
    TableColumn("RUNS", 4),
    TableColumn("ERROR", 9),
)
MISSED = (
    TableColumn("RUN", 0),
    TableColumn("NAME", 2, 10),
    TableColumn("LAST TIME", 1),
    TableColumn("TIMES", 4),
    TableColumn("WHY", 9),
)
LATE = (TableColumn("JOB", 0), TableColumn("NAME", 2, 10), TableColumn("DUE", 1), TableColumn("QUEUE", 4))
EXPLAIN = "tickwise runs explain RUN"
EXECUTORS = (TableColumn("NAME", 1), TableColumn("QUEUES", 4), TableColumn("HELD", 0), TableColumn("SLOTS", 2))


def status_lines(session: Session, found: Glance) -> Iterator[str]:
    """All parts, each under its title."""
    yield from _part(session, running_title(found), RUNNING, running_rows(session, found), found.running is not None)
    yield from _part(
        session, _failed_title(session, found), FAILED, _failed_rows(session, found), found.failed is not None
    )
    if found.missed:
        yield from _part(session, _missed_title(session, found), MISSED, _missed_rows(session, found), True)
        yield from (f"  {line}" for line in output.wrapped(session, f"Why in full: {EXPLAIN}", less=2))
    yield from _part(session, _late_title(found), LATE, _late_rows(session, found), found.late is not None)
    for words in unserved_words(found):
        yield from (f"  {line}" for line in output.wrapped(session, output.safe(words), less=2))
    yield from _held_lines(session, found)
    yield from _alive_lines(session, found)


def running_title(found: Glance) -> str:
    """`2 runs go on`."""
    count = len(found.running or ())
    if found.more_running:
        return f"More than {count} runs go on"
    return "Nothing runs" if not count else f"{_counted(count, 'run')} {'goes' if count == 1 else 'go'} on"


def running_rows(session: Session, found: Glance) -> list[list[str]]:
    """The cells of `RUNNING`."""
    return [
        [
            session.short(run["run_id"]),
            found.names.get(run["job_id"], session.short(run["job_id"])),
            run["status"],
            _since(run, found.seen_at),
            str(run["attempt_number"] or ""),
        ]
        for run in found.running or ()
    ]


def alive(found: Glance) -> str:
    """The executors and roles in one line; empty: the caller may read neither."""
    parts = []
    if found.executors is not None:
        slots, held = (sum(each[name] for each in found.executors) for name in ("slots", "held"))
        count = len(found.executors)
        parts.append(
            f"{_counted(count, 'executor')}, {held} of {_counted(slots, 'slot')} in use"
            if count
            else "NO EXECUTOR is active, so nothing runs; start one: tickwise executor"
        )
    if found.roles:
        parts.append(", ".join(sorted({each["role"] for each in found.roles})))
    return "; ".join(parts)


def unserved_words(found: Glance) -> list[str]:
    """A line for each queue of a late job that no executor serves, with what starts one, and for each other need of
    late jobs that none meets."""
    queues = unserved_queues(found)
    said = [f"NO EXECUTOR serves the queue {queue}; start one: {_starting(found, queue)}" for queue in queues]
    said += [f"{_counted(count, 'job')} late: {words}" for words, count in unmet_needs(found).items()]
    if queues and found.is_local:
        said.append(_restarting(found, queues))
    return said


def _starting(found: Glance, queue: str) -> str:
    labels = ",".join(sorted(_required(found, [queue])))
    return f"tickwise executor --queues {shlex.quote(queue)}{f' --labels {shlex.quote(labels)}' if labels else ''}"


def _restarting(found: Glance, queues: Sequence[str]) -> str:
    """The way by the `up` of this machine, whose database may be embedded: no executor apart from it reaches that."""
    executors = found.executors or ()
    served = ",".join(sorted({*queues, *(queue for each in executors for queue in each["queues"])}))
    needed = _required(found, queues)
    had = own_labels(label for each in executors for label in each.get("labels") or ())
    labels = f"TICKWISE_LABELS={shlex.quote(','.join(sorted(needed | had)))} " if needed else ""
    return (
        f"Or let the `up` of this machine serve them: tickwise down, then {labels}tickwise up --queues "
        f"{shlex.quote(served)}, with its other options as before"
    )


def _required(found: Glance, queues: Sequence[str]) -> set[str]:
    return own_labels(
        label for job in found.late or () if job["queue"] in queues for label in job.get("requires") or ()
    )


def summary(session: Session, found: Glance) -> str:
    """`3 runs go on; 2 runs of 1 job failed since yesterday; nothing is late` as a sentence."""
    parts = []
    if found.running is not None:
        parts.append(running_title(found))
    if found.failed is not None:
        parts.append(_failed_title(session, found))
    if found.missed:
        parts.append(_missed_title(session, found))
    if found.late is not None:
        parts.append(_late_title(found))
    return "; ".join(parts)


def _part(
    session: Session, title: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], is_shown: bool
) -> Iterator[str]:
    if not is_shown:
        return
    yield output.title(session, title)
    yield from output.table_lines(session, columns, rows, indent="  ") if rows else ()


def _failed_title(session: Session, found: Glance) -> str:
    since = f"since {moments.day_words(found.since, found.seen_at, session.zone)}"
    runs = sum(each.runs for each in found.failed or ())
    ended = ""
    if found.counts is not None and (total := found.counts.get("SUCCESS", 0) + found.counts.get("FAILED", 0)):
        ended = f", of {total} that ended"
    if not runs:
        return f"Nothing failed {since}{ended}"
    more = "More than " if found.more_failed else ""
    return f"{more}{_counted(runs, 'run')} of {_counted(len(found.failed or ()), 'job')} failed {since}{ended}"


def _failed_rows(session: Session, found: Glance) -> list[list[str]]:
    if not found.failed:
        return []
    from tickwise.domain.excerpts import cause_line

    return [
        [
            session.short(each.newest["run_id"]),
            found.names.get(each.newest["job_id"], session.short(each.newest["job_id"])),
            session.age(each.newest["end_time"], seen_at=found.seen_at),
            f"×{each.runs}" if each.runs > 1 else "",
            cause_line(each.newest.get("error_message")),
        ]
        for each in found.failed
    ]


def _missed_title(session: Session, found: Glance) -> str:
    missed = found.missed or ()
    since = f"since {moments.day_words(found.since, found.seen_at, session.zone)}"
    more = "More than " if found.more_missed else ""
    times = _counted(sum(each.times for each in missed), "time")
    return f"{more}{times} of {_counted(len(missed), 'job')} did not run {since}"


def _missed_rows(session: Session, found: Glance) -> list[list[str]]:
    return [
        [
            session.short(each.newest["run_id"]),
            found.names.get(each.newest["job_id"], session.short(each.newest["job_id"])),
            session.age(each.newest["until"] or each.newest["due_time"], seen_at=found.seen_at),
            f"×{each.times}" if each.times > 1 else "",
            each.newest.get("error_message") or each.newest["reason"] or "",
        ]
        for each in found.missed or ()
    ]


def _late_title(found: Glance) -> str:
    return f"{_counted(len(found.late), 'job')} late" if found.late else "Nothing is late"


def _late_rows(session: Session, found: Glance) -> list[list[str]]:
    return [
        [
            session.short(job["job_id"]),
            job["name"],
            session.age(job["next_run_at"], seen_at=found.seen_at),
            job["queue"],
        ]
        for job in found.late or ()
    ]


def _held_lines(session: Session, found: Glance) -> Iterator[str]:
    lines = [f"queue {each['queue']}: {hold_words(session, each['hold'])}" for each in found.held or ()]
    lines += [
        f"{each['scope']}: {_until(session, each['until'])}, by {each['by']}: {each['reason']}"
        for each in found.stops or ()
        if each["in_force"]
    ]
    if lines:
        yield output.title(session, "Held back")
        yield from (f"  {line}" for text in lines for line in output.wrapped(session, output.safe(text), less=2))


def hold_words(session: Session, hold: Json) -> str:
    """A hold of a queue: how long, by whom and why."""
    why = f": {hold['reason']}" if hold["reason"] else ""
    return f"on hold {_until(session, hold['until'])}, by {hold['by']}{why}"


def _alive_lines(session: Session, found: Glance) -> Iterator[str]:
    if words := alive(found):
        yield output.title(session, "Active")
        yield from (f"  {line}" for line in output.wrapped(session, output.safe(words), less=2))


def _until(session: Session, text: str | None) -> str:
    return f"until {session.time(text)}" if text else "without an end"


def _since(run: Json, seen_at: float) -> str:
    began = moments.instant(run["start_time"] or run["dispatched_time"])
    return "" if began is None else moments.span(max(0.0, seen_at - began))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
