"""The content of `tickwise status` and `tickwise top`, read from the server in a few small requests.

Each part is bounded, however much is stored. A part that the caller may not read is None, and left out.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tickwise.cli.lookup.names import names_of
from tickwise.cli.moments import written
from tickwise.cli.overview import misses
from tickwise.cli.overview.store_wait import first_answer
from tickwise.cli.session import Session

Json = dict[str, Any]
T = TypeVar("T")

LATE_SECONDS: Final = 5.0
"""A job that has not begun this long after its time is late, as on the pages."""
LATE_LOOKED_SECONDS: Final = 86_400.0
"""Jobs whose time is longer ago are looked for by `tickwise jobs list`: an index has this window."""
MAX_FAILED: Final = 100
"""Failed runs that are read, to group them by their jobs."""
MAX_LATE: Final = 20
NO_EXECUTOR: Final = "no active executor"
"""The beginning of each warning about a job that no active executor can take."""
AT_ONCE: Final = 3
"""Requests that are under way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailures:
    """The failed runs of one job."""

    newest: Json
    """The run."""
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """All of it. None: the caller may not read that."""

    seen_at: float
    """Unix seconds, by this machine's clock."""
    since: float
    """Failures from then on."""
    running: Sequence[Json] | None
    """Runs that are handed out or run, the newest first."""
    more_running: bool
    failed: Sequence[JobFailures] | None
    """By job, the newest failure first."""
    more_failed: bool
    """There are more failed runs than were read."""
    missed: Sequence[misses.JobMisses] | None = ()
    """By job, what did not run although nobody chose that, the newest first."""
    more_missed: bool = False
    """There is more of that than was read."""
    counts: Mapping[str, int] | None
    """Ended runs of that time by their state."""
    late: Sequence[Json] | None
    """Jobs whose time has passed, and which nothing holds back."""
    held: Sequence[Json] | None
    """Queues on hold."""
    stops: Sequence[Json] | None
    executors: Sequence[Json] | None
    """Those that are active."""
    roles: Sequence[Json] | None
    names: Mapping[str, str]
    """Of the jobs of the runs."""
    is_local: bool = False
    """The server is the `tickwise up` of this machine."""


def look(session: Session, *, at: float, since: float, most: int) -> Glance:
    """Read everything. `most`: the runs under way that are shown."""
    client = session.client

    def page(path: str, **query: Any) -> list[Json]:
        found: list[Json] = client.request("GET", path, query=query).body
        return found

    window = {"next_run_after": written(at - LATE_LOOKED_SECONDS), "next_run_before": written(at - LATE_SECONDS)}
    running, failed, tallies, late, queues, stops, executors, roles, *skipped = together(
        [
            lambda: page("/runs", status=["RUNNING", "DISPATCHED"], limit=most + 1),
            lambda: page("/runs", status=["FAILED"], due_after=written(since), limit=MAX_FAILED + 1),
            lambda: page("/runs/counts", since=written(since - since % 3600), until=written(at)),
            lambda: page("/jobs", status=["SCHEDULED"], limit=MAX_LATE, **window),
            client.queues_list,
            client.stops_list,
            client.executors_list,
            client.roles_list,
            *misses.requests(page, since),
        ],
        first=lambda ask: first_answer(ask, client),
    )
    missed, more_missed = misses.by_job(skipped, since)
    by_job = _by_job((failed or [])[:MAX_FAILED])
    shown = [*(running or [])[:most], *(each.newest for each in (*by_job, *(missed or ())))]
    held = [each for each in queues or () if each["held"]]
    standing = {each["queue"] for each in held}
    return Glance(
        seen_at=at,
        since=since,
        running=None if running is None else running[:most],
        more_running=len(running or ()) > most,
        failed=None if failed is None else by_job,
        more_failed=len(failed or ()) > MAX_FAILED,
        missed=missed,
        more_missed=more_missed,
        counts=None if tallies is None else _counted(tallies),
        late=None if late is None else [job for job in late if job["queue"] not in standing],
        held=None if queues is None else held,
        stops=stops,
        executors=None if executors is None else [each for each in executors if each["alive"]],
        roles=roles,
        names=names_of(session, [run["job_id"] for run in shown]),
        is_local=session.target.is_local,
    )


Ask = Callable[[], list[Json] | None]


def together(
    asks: Sequence[Callable[[], list[Json]]], first: Callable[[Ask], list[Json] | None] = lambda ask: ask()
) -> list[list[Json] | None]:
    """The answer to each of these, in their order; None where the caller may not ask. The first goes alone: it may have
    to renew a sign-in. The others share `AT_ONCE` threads, for a request waits for the server most of its time. `first`
    carries the first one out. Raises what one of them raises."""
    answers: list[list[Json] | None] = [first(lambda: _may(asks[0])), *[None] * (len(asks) - 1)]
    failures: list[BaseException] = []
    left = iter(range(1, len(asks)))  # each number is handed out once: an iterator's step holds the interpreter's lock

    def work() -> None:
        try:
            for number in left:
                answers[number] = _may(asks[number])
        except BaseException as failure:  # noqa: BLE001  # raised below
            failures.append(failure)

    # Daemons: an interrupt ends the command, and waits for no answer.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers


def _may(ask: Callable[[], T]) -> T | None:
    """The answer; None if the caller may not ask."""
    from tickwise.sdk.client import ProblemError

    try:
        return ask()
    except ProblemError as error:
        if error.status != 403:
            raise
        return None


def _by_job(failed: Sequence[Json]) -> list[JobFailures]:
    counts = Counter(run["job_id"] for run in failed)
    newest = {run["job_id"]: run for run in reversed(failed)}
    return [JobFailures(newest=newest[job], runs=runs) for job, runs in counts.items()]


def _counted(tallies: Sequence[Json]) -> dict[str, int]:
    counts = Counter[str]()
    for each in tallies:
        counts[each["status"]] += each["runs"]
    return dict(counts)


def unserved_queues(found: Glance) -> list[str]:
    """The queues of late jobs that no active executor serves. None are told where none is active: `lines.alive` does,
    and none where the caller may not look."""
    if not found.executors:
        return []
    return sorted({job["queue"] for job in found.late or ()} - _served(found))


def unmet_needs(found: Glance) -> Mapping[str, int]:
    """The reasons for which no active executor can take late jobs of queues that are served, in the server's words
    (labels, users, memory …), each with the number of its jobs."""
    served = _served(found)
    late = [job for job in found.late or () if job["queue"] in served]
    return Counter(words for job in late for words in job.get("warnings") or () if words.startswith(NO_EXECUTOR))


def own_labels(labels: Iterable[str]) -> set[str]:
    """The labels that people give: those with a colon are Tickwise's own."""
    return {label for label in labels if ":" not in label}


def _served(found: Glance) -> set[str]:
    return {queue for each in found.executors or () for queue in each["queues"]}


def as_json(found: Glance) -> Json:
    """All of it for programs; null: the caller may not read that."""
    failed = found.failed
    return {
        "since": written(found.since),
        "running": found.running,
        "more_running": found.more_running,
        "failed": None if failed is None else [{"runs": each.runs, "newest": each.newest} for each in failed],
        "more_failed": found.more_failed,
        "missed": misses.as_json(found.missed),
        "more_missed": found.more_missed,
        "counts": found.counts,
        "late": found.late,
        "unserved_queues": unserved_queues(found),
        "unmet_needs": dict(unmet_needs(found)),
        "held_queues": found.held,
        "stops": found.stops,
        "executors": found.executors,
        "roles": found.roles,
        "names": found.names,
    }
