"""The people who have a job open at this moment, for one another: two who would change it know of each other.

    page of a job ──► meet ──► a note that lasts `SEEN_SECONDS` ──► told again while the page is open
                        └──► the notes of others, by when they came

Nothing is decided by it: a note may vanish, and a change is kept from another one by the version of the job. Only
callers who may change or operate the job leave a note and see those of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import matches
from tickwise.ports.shared_state import Note, SharedState
from tickwise.ports.store import JobRow

SEEN_SECONDS: Final = 45.0
"""A note lasts for so long. An open page is renewed each 15 s, also where nothing happens."""
TOLD_AGAIN_SECONDS: Final = 10.0
"""A page that is renewed more often writes no more notes than that."""
MAX_SHOWN: Final = 20
MAX_REMEMBERED: Final = 10_000
"""Notes whose time of writing a process remembers."""
NAME_CHARACTERS: Final = 200


class Doing(StrEnum):
    """The page that a person has open."""

    LOOKS = "looks"
    EDITS = "edits"


class PersonAtJob(NamedTuple):
    """A person at a job."""

    name: str
    doing: Doing
    since: float
    """Unix seconds, by the clock of the installation."""


class PresenceService:
    """Tells people at one job of each other."""

    def __init__(self, context: ControlContext, notes: SharedState | None) -> None:
        """`notes`: where processes share what they know. None: nobody is seen."""
        self._context = context
        self._notes = notes
        self._told: dict[tuple[str, str], float] = {}

    @requires(Permission.JOBS_WRITE, Permission.JOBS_OPERATE, by_labels=True)
    async def meet(self, who: Principal, job: JobRow, doing: Doing) -> Sequence[PersonAtJob]:
        """Note that the caller has this job open, which a page shows to them; return the others, the first comer first.
        Empty while the notes cannot be read. Never raises because of them."""
        if self._notes is None or job.namespace != who.namespace or not matches(job.labels, who.within):
            return ()
        kind = f"at job {job.job_id}"
        # The name of the credential would tell more than a page needs to know of another caller.
        own = sha256(who.credential_name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        found = await self._notes.look(kind) or {}
        await self._tell(kind, f"{own}.{doing}", who, found.get(f"{own}.{doing}"), doing)
        others: dict[str, PersonAtJob] = {}
        for name, facts in sorted(found.items()):
            person, seen = name.partition(".")[0], _read(facts)
            if person != own and seen is not None and (person not in others or seen.doing is Doing.EDITS):
                others[person] = seen
        return sorted(others.values(), key=lambda each: (each.since, each.name))[:MAX_SHOWN]

    async def _tell(self, kind: str, name: str, who: Principal, before: Mapping[str, Any] | None, doing: Doing) -> None:
        if self._notes is None:
            return
        now = self._context.clock.monotonic()
        if before is not None and now - self._told.get((kind, name), -TOLD_AGAIN_SECONDS) < TOLD_AGAIN_SECONDS:
            return
        if len(self._told) >= MAX_REMEMBERED:
            self._told.clear()
        self._told[kind, name] = now
        seen = None if before is None else _read(before)
        since = self._context.time.at_best() if seen is None else seen.since
        facts = {"name": who.name[:NAME_CHARACTERS], "doing": doing.value, "since": since}
        await self._notes.put([Note(kind, name, facts)], SEEN_SECONDS)


def _read(facts: Mapping[str, Any]) -> PersonAtJob | None:
    """A note as it was written; None: it is of another version."""
    name, doing, since = facts.get("name"), facts.get("doing"), facts.get("since")
    if not isinstance(name, str) or doing not in tuple(Doing) or not isinstance(since, int | float):
        return None
    return PersonAtJob(name, Doing(doing), float(since))
