"""The job of an argument: by its id, its key, or its name if only one job has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from tickwise.cli.failures import CommandFailure, Exit

if TYPE_CHECKING:
    from tickwise.cli.session import Session

_SHOWN_OF_MANY = 5


def is_id(text: str) -> bool:
    """Check whether the text can be the id of a job or run."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def job_id(session: Session, reference: str) -> str:
    """The id of the job that is meant. Raises `CommandFailure` if there is none, or more than one."""
    if is_id(reference):
        return reference
    from tickwise.sdk.client import ProblemError

    try:
        return str(session.client.job_by_key(reference)["job_id"])
    except ProblemError as error:
        if error.status != 404:
            raise
    named: list[dict[str, Any]] = []
    # The server looks for a part of a name, in any case; ours is the whole.
    for page in session.client.pages("/jobs", {"name": reference, "limit": 500}):
        named += [job for job in page if job["name"] == reference]
        if len(named) > _SHOWN_OF_MANY:
            break
    if len(named) == 1:
        return str(named[0]["job_id"])
    if not named:
        raise CommandFailure(
            f"there is no job with the id, key or name {reference!r}.", Exit.NOT_FOUND,
            advice="`tickwise jobs list` shows all jobs.",
        )  # fmt: skip
    ids = [f"  {job['job_id']}  {job['status']}" for job in named[:_SHOWN_OF_MANY]]
    more = ["  …"] if len(named) > _SHOWN_OF_MANY else []
    raise CommandFailure(
        f"several jobs are called {reference!r}; name one by its id.", Exit.USAGE, advice="\n".join([*ids, *more])
    )


def run_id(reference: str) -> str:
    """The id of a run. Raises `CommandFailure` if it cannot be one."""
    if is_id(reference):
        return reference
    raise CommandFailure(
        f"{reference!r} is not the id of a run.", Exit.USAGE,
        advice="`tickwise runs list` shows them; `tickwise jobs show JOB` those of a job.",
    )  # fmt: skip
