"""Names of jobs: of ids, and near to a word that is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tickwise.cli.session import Session

MAX_IDS: Final = 40
"""Of one request: the server takes 50 parameters."""
NEAR: Final = 3
LIVE: Final = ("SCHEDULED", "PAUSED")
"""Statuses of jobs that will run again."""


def names_of(session: Session, jobs: Iterable[str]) -> dict[str, str]:
    """The names of these jobs; nothing of those that are gone, or not shown to this caller."""
    from tickwise.sdk.client import ProblemError

    asked = list(dict.fromkeys(jobs))
    found: dict[str, str] = {}
    try:
        for begin in range(0, len(asked), MAX_IDS):
            query = {"job_id": asked[begin : begin + MAX_IDS], "limit": MAX_IDS}
            for page in session.client.pages("/jobs", query):
                found |= {job["job_id"]: job["name"] for job in page}
    except ProblemError as error:
        if error.status != 403:
            raise
    return found


def latest_runs(session: Session, jobs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The latest run of each of these jobs; nothing of one that has none, or where runs are not shown to this
    caller."""
    from tickwise.sdk.client import ProblemError

    found: dict[str, dict[str, Any]] = {}
    try:
        for begin in range(0, len(jobs), MAX_IDS):
            query = {"latest_of": list(jobs[begin : begin + MAX_IDS])}
            answer = session.client.request("GET", "/runs", query=query)
            found |= {run["job_id"]: run for run in answer.body}
    except ProblemError as error:
        if error.status != 403:
            raise
    return found


def nearest(word: str, names: Iterable[str]) -> str:
    """The names that are near: `Did you mean 'nightly'?`; empty: no name is near."""
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in names}
    near = [by_folded[each] for each in get_close_matches(word.casefold(), list(by_folded), NEAR)]
    if not near:
        return ""
    return f"Did you mean {' or '.join(repr(name) for name in near)}?"


def near_jobs(session: Session, word: str) -> str:
    """The jobs that may have been meant, among the newest that will run again."""
    answer = session.client.request("GET", "/jobs", query={"status": list(LIVE), "limit": 500})
    return nearest(word, (job["name"] for job in answer.body))
