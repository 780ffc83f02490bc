"""The times that did not run although nobody chose that, by job: everything was down, or no executor took them in time.

Each is on record as a run that is SKIPPED; one record may stand for many times, from `due_time` to `until`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tickwise.cli.moments import instant, written

Json = dict[str, Any]

REASONS: Final = ("expired", "misfire", "quota", "fuse")
"""Reasons of a skip that nobody chose, as rules about `did_not_run` tell of them."""
MAX_MISSED: Final = 50
"""Records that are read of each reason."""
LONGEST_SECONDS: Final = 7 * 86_400.0
"""A record that began so long before the look, and stands for times in it, is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMisses:
    """The times of one job that did not run."""

    newest: Json
    """The newest record, a run."""
    times: int


def requests(page: Callable[..., list[Json]], since: float) -> list[Callable[[], list[Json]]]:
    """The requests that find them, one for each reason: an index has the reason."""
    begin = written(since - LONGEST_SECONDS)
    return [
        partial(page, "/runs", status=["SKIPPED"], reason=reason, due_after=begin, limit=MAX_MISSED + 1)
        for reason in REASONS
    ]


def by_job(answers: Iterable[Sequence[Json] | None], since: float) -> tuple[list[JobMisses] | None, bool]:
    """By job, the newest first, and whether there is more than was read. None: the caller may not read runs. `since`:
    Unix seconds; a record counts whole if one of its times is not before that."""
    pages = list(answers)
    if any(page is None for page in pages):
        return None, False
    found = [run for page in pages for run in (page or ())[:MAX_MISSED] if _end(run) >= since]
    found.sort(key=_end, reverse=True)
    newest: dict[str, Json] = {}
    times: dict[str, int] = {}
    for run in found:
        newest.setdefault(run["job_id"], run)
        times[run["job_id"]] = times.get(run["job_id"], 0) + run["occurrences"]
    more = any(len(page or ()) > MAX_MISSED for page in pages)
    return [JobMisses(newest=run, times=times[job_id]) for job_id, run in newest.items()], more


def as_json(missed: Sequence[JobMisses] | None) -> list[Mapping[str, Any]] | None:
    """For programs."""
    return None if missed is None else [{"times": each.times, "newest": each.newest} for each in missed]


def _end(run: Json) -> float:
    """The newest time that a record stands for."""
    return instant(run["until"] or run["due_time"]) or 0.0
