"""The job or the run of an argument.

    a job: its id, its key, its name, or the end of its id
    a run: its id, the end of it, or its job, of which the latest run is meant

Of several jobs with one name the one that will run again is meant: one that is cancelled or over takes no name away.
Where a run is asked for and none of them will run again, the newest one is meant: the same script, run again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tickwise.cli.failures import CommandFailure, Exit, safe
from tickwise.cli.lookup.endings import found_by_ending, is_id, several
from tickwise.cli.lookup.names import LIVE, names_of, near_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tickwise.cli.session import Session

Json = dict[str, Any]

_SHOWN_OF_MANY = 5


def job_id(session: Session, reference: str) -> str:
    """The id of the job that is meant. Raises `CommandFailure` if there is none, or more than one."""
    found = find_job(session, reference)
    if found is not None:
        return found
    raise CommandFailure(
        f"there is no job with the id, key or name {reference!r}.", Exit.NOT_FOUND,
        advice=near_jobs(session, reference) or "`tickwise jobs list` shows all jobs.",
    )  # fmt: skip


def find_job(session: Session, reference: str, *, or_newest: bool = False) -> str | None:
    """As `job_id`; None if there is none. `or_newest`: of several jobs that are over, the newest one is meant."""
    if is_id(reference):
        return reference.lower()
    by_key = _by_key(session, reference)
    if by_key is not None:
        return by_key
    live = _named(session, reference, LIVE)
    named = live or _named(session, reference, ())
    if or_newest and named and not live:
        return str(max(job["job_id"] for job in named))  # ids begin with the time
    # The newest of one-time jobs that are over is not meant more than the others.
    if len(named) > 1 and (going_on := [job for job in named if job["status"] != "CANCELLED"]):
        named = going_on
    found = named or found_by_ending(session, "/jobs", reference)
    if len(found) > 1:
        raise several(reference, found, lambda job: f"{job['job_id']}  {job['status']}  {job['name']}")
    return str(found[0]["job_id"]) if found else None


def the_job_named(session: Session, name: str) -> Json | None:
    """The job of exactly this name that will run again; None if there is none. Raises `CommandFailure` if there are
    several."""
    named = _named(session, name, LIVE)
    if len(named) > 1:
        raise several(name, named, lambda job: f"{job['job_id']}  {job['status']}  {job['name']}")
    return named[0] if named else None


def _by_key(session: Session, reference: str) -> str | None:
    from tickwise.sdk.client import ProblemError

    try:
        return str(session.client.job_by_key(reference)["job_id"])
    except ProblemError as error:
        if error.status != 404:
            raise
        return None


def _named(session: Session, name: str, statuses: Sequence[str]) -> list[Json]:
    """Jobs of exactly this name, a few more than can be shown at most."""
    named: list[Json] = []
    # The server looks for a part of a name, in any case; ours is the whole.
    query = {"name": name, "status": list(statuses) or None, "limit": 500}
    for page in session.client.pages("/jobs", query):
        named += [job for job in page if job["name"] == name]
        if len(named) > _SHOWN_OF_MANY:
            break
    return named


def run_id(session: Session, reference: str) -> str:
    """The id of the run that is meant. Raises `CommandFailure` if there is none, or more than one."""
    if is_id(reference):
        return reference.lower()
    found = found_by_ending(session, "/runs", reference)
    if len(found) > 1:
        names = names_of(session, [run["job_id"] for run in found])
        raise several(
            reference, found, lambda run: f"{run['run_id']}  {run['status']}  {names.get(run['job_id'], run['job_id'])}"
        )
    if found:
        return str(found[0]["run_id"])
    return _latest_run(session, reference)


def _latest_run(session: Session, reference: str) -> str:
    """The latest run of the job that is meant."""
    job = find_job(session, reference, or_newest=True)
    if job is None:
        near = near_jobs(session, reference)
        raise CommandFailure(
            f"{reference!r} is the id of no run of the last day, the end of none, and no job.", Exit.NOT_FOUND,
            advice=near or "`tickwise runs list` shows runs; one that is older is named by its whole id (-o wide).",
        )  # fmt: skip
    latest = session.client.job_runs(job, limit=1)
    if not latest:
        raise CommandFailure(f"the job {reference!r} has not run yet.", Exit.NOT_FOUND)
    session.note(f"The latest run of {safe(reference)}: {session.short(latest[0]['run_id'])}")
    return str(latest[0]["run_id"])


def executor_id(session: Session, reference: str) -> str:
    """The id of the executor that is meant: by its id, or its name if only one has it."""
    if reference.isdecimal():
        return reference
    found = [each for each in session.client.executors_list() if each["name"] == reference]
    alive = [each for each in found if each["alive"]] or found
    if len(alive) > 1:
        raise several(reference, alive, lambda each: f"{each['executor_id']}  {each['name']}")
    # A word that is none of them is for the server to refuse.
    return str(alive[0]["executor_id"]) if alive else reference
