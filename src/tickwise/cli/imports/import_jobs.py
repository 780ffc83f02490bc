"""Stores what importers found: all of it or nothing, and each entry once, however often it is imported.

    bodies ──► POST /jobs:batch?atomic=true ──┬─ stored ──────────► CREATED
                   ▲                          └─ keys are taken ──► GET /jobs/by-key/… ──┬─ says the same ──► PRESENT
                   └────────────────────────────── those that are left                   └─ else ───────────► DIFFERENT

The key of an entry stays the same when its file is read again; so a job that has the key is that of an import before.
A job that was changed since, here or in the file, was changed on purpose: the import leaves it alone and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.terminal.progress import Progress
from tickwise.sdk.client import Client, ProblemError

MAX_JOBS: Final = 10_000
"""The most jobs that the server takes in one transaction."""
MAX_BYTES: Final = 32 << 20
"""The most bytes that the server takes in one transaction."""
MAX_ROUNDS: Final = 5
"""Others may take or leave keys between two of our requests."""
REFUSALS_SHOWN: Final = 20
NAMES_SHOWN: Final = 5
"""Of the jobs that are refused for one reason."""


class ImportOutcome(StrEnum):
    """The result for one entry."""

    CREATED = "created"
    PRESENT = "present"
    """A job with its key was there, and says the same."""
    DIFFERENT = "different"
    """A job with its key was there, and says something else. It is left as it is."""


class Stored(NamedTuple):
    """The job of an entry."""

    outcome: ImportOutcome
    job_id: str
    fields: tuple[str, ...] = ()
    """In which the job that was there differs."""
    warnings: tuple[str, ...] = ()


def store(client: Client, bodies: Sequence[Mapping[str, Any]], tell: Progress) -> list[Stored]:
    """Store all bodies or none; the answer tells the fate of each, in order. `tell` hears how many are settled. Raises
    `CommandFailure` for too many, or if the server refuses one of them."""
    _check_size(bodies)
    outcomes: dict[int, Stored] = {}
    for _ in range(MAX_ROUNDS):
        waiting = [place for place in range(len(bodies)) if place not in outcomes]
        if not waiting:
            break
        try:
            answer = client.jobs_create([dict(bodies[place]) for place in waiting], atomic=True)
        except ProblemError as refusal:
            for place in _taken(refusal, waiting, bodies):
                stored = _of_before(client, bodies[place])
                if stored is not None:
                    outcomes[place] = stored
                    tell(len(outcomes))
            continue
        for place, result in zip(waiting, answer["results"], strict=True):
            warnings = tuple(result.get("warnings") or ())
            outcomes[place] = Stored(ImportOutcome.CREATED, str(result["job_id"]), warnings=warnings)
    if len(outcomes) < len(bodies):
        raise CommandFailure(
            "nothing is stored: too many concurrent changes to the keys of these jobs; try again.", Exit.REFUSED,
            advice="Is another import at work? Wait for its end, then repeat this one.",
        )  # fmt: skip
    return [outcomes[place] for place in range(len(bodies))]


def _check_size(bodies: Sequence[Mapping[str, Any]]) -> None:
    advice = "Nothing is sent. Split the files; each import is one transaction."
    if len(bodies) > MAX_JOBS:
        raise CommandFailure(f"these are {len(bodies)} jobs; at most {MAX_JOBS} are imported at once.", Exit.REFUSED,
                      advice=advice)  # fmt: skip
    size = len(json.dumps(bodies, ensure_ascii=False).encode()) if bodies else 0
    if size > MAX_BYTES:
        raise CommandFailure(f"these jobs have {size >> 20} MB; at most {MAX_BYTES >> 20} MB are imported at once.",
                      Exit.REFUSED, advice=advice)  # fmt: skip


def _taken(refusal: ProblemError, waiting: Sequence[int], bodies: Sequence[Mapping[str, Any]]) -> list[int]:
    """The positions of bodies whose keys other jobs have. Raises `CommandFailure` if anything else is wrong, `refusal`
    if it is not about single jobs."""
    results = refusal.problem.get("results")
    if not isinstance(results, list) or len(results) != len(waiting):
        raise refusal
    problems = {
        place: result["problem"] for place, result in zip(waiting, results, strict=True) if result.get("problem")
    }
    others = {place: problem for place, problem in problems.items() if problem.get("code") != "key_taken"}
    if others or not problems:
        said = _grouped(others, bodies)
        lines = [f"  {text}" for text in said[:REFUSALS_SHOWN]]
        more = [f"  … and {len(said) - REFUSALS_SHOWN} more"] if len(said) > REFUSALS_SHOWN else []
        raise CommandFailure(
            f"the server refuses {len(others)} of {len(bodies)} jobs, so none is stored.", Exit.REFUSED,
            advice="\n".join((*lines, *more)),
        )  # fmt: skip
    return list(problems)


def _grouped(problems: Mapping[int, Mapping[str, Any]], bodies: Sequence[Mapping[str, Any]]) -> list[str]:
    """The refusals in words, each once with the names of some of its jobs."""
    names: dict[str, list[str]] = {}
    for place, problem in problems.items():
        pointer = f" (at {problem['pointer']})" if problem.get("pointer") else ""
        names.setdefault(f"{problem.get('detail')}{pointer}", []).append(str(bodies[place].get("name")))
    said = []
    for detail, found in names.items():
        more = f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
        said.append(f"{', '.join(found[:NAMES_SHOWN])}{more}: {detail}")
    return said


def _of_before(client: Client, body: Mapping[str, Any]) -> Stored | None:
    """The job that has the key; None if it is gone by now."""
    try:
        job = client.job_by_key(str(body["key"]))
    except ProblemError as refusal:
        if refusal.status == 404:
            return None
        raise
    # A name is for people, and follows from the other entries of the import: another one is no other job.
    fields = differences({name: value for name, value in body.items() if name != "name"}, job)
    return Stored(ImportOutcome.DIFFERENT if fields else ImportOutcome.PRESENT, str(job["job_id"]), fields)


def differences(body: Mapping[str, Any], job: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of a body whose values differ in a job of the server. Fields that the body leaves out are ignored."""
    return tuple(name for name, value in body.items() if not _says(job.get(name), value))


def _says(stored: Any, wanted: Any) -> bool:
    """Check whether a value of the server, which fills in defaults, is the wanted one."""
    if isinstance(wanted, Mapping):
        if not isinstance(stored, Mapping):
            return not wanted
        return all(_says(stored.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(_says(one, other) for one, other in zip(stored, wanted, strict=True))
        )
    if isinstance(wanted, str) and isinstance(stored, str) and stored != wanted:
        return (at := _instant(wanted)) is not None and at == _instant(stored)
    return bool(stored == wanted)


def _instant(text: str) -> datetime | None:
    """The instant of a time with an offset."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None
