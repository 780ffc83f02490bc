"""The jobs and stored tasks of a namespace that name a secret, as far as a caller may see them.

    store.secrets.uses ──┬─ jobs, by an index of names ──────────┬─ may be seen: named
                         └─ tasks with the word, which are read ─┴─ may not: counted

Invariant: a name of a job or a task is told only to callers who may read it; that there are others is told to each
caller who may ask about the secret, since a removal makes their runs fail, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tickwise.control.context import ControlContext
from tickwise.control.jobs.named_secrets import own_names
from tickwise.domain.errors import Conflict
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.selectors import matches
from tickwise.ports.store.secrets import SecretPlace, SecretUse

USES_COUNTED: Final = 1_000
"""The most jobs, and the most stored tasks, of one answer: beyond it says that there are more."""
NAMED_IN_REFUSAL: Final = 5
"""The jobs and tasks that a refusal names."""


class TaskUse(NamedTuple):
    """A stored task whose newest version names a secret. Jobs have copies of it, and count by themselves."""

    task_id: str
    version: int


class NamedUses(NamedTuple):
    """The users of a secret."""

    jobs: Sequence[SecretUse]
    """Those that the caller may see, `USES_COUNTED` at most."""
    tasks: Sequence[TaskUse]
    hidden: int
    """The number of jobs and tasks that are there, and that the caller may not see."""
    more: bool
    """There are more than were looked at, or may be."""

    @property
    def is_used(self) -> bool:
        """True if anything names it, or may."""
        return bool(self.jobs or self.tasks or self.hidden or self.more)

    def in_words(self) -> str:
        """`2 jobs and 1 stored task`."""
        others = f"{self.hidden} that you may not see" if self.hidden else ""
        rest = "perhaps more" if self.more else ""
        return _joined([_count(self.jobs, "job"), _count(self.tasks, "stored task"), others, rest])


async def named_uses(context: ControlContext, who: Principal, name: str) -> NamedUses:
    """The users of a secret of the caller's namespace."""
    found = await context.store.secrets.uses(SecretPlace(who.namespace, name), USES_COUNTED)
    jobs = [job for job in found.jobs if _may_see(who, job.labels)]
    naming = [TaskUse(task.task_id, task.version) for task in found.tasks if name in own_names(task.task.encode())]
    seen = naming if who.may(Permission.TASKS_READ) else []
    hidden = len(found.jobs) - len(jobs) + len(naming) - len(seen)
    return NamedUses(jobs, seen, hidden, found.more)


async def check_unused(context: ControlContext, who: Principal, name: str) -> None:
    """Raises `Conflict`, code `secret_in_use`, with the names of some that use it. What is stored in this moment is
    not seen; it fails at its start, and says why."""
    uses = await named_uses(context, who, name)
    if not uses.is_used:
        return
    names = [f"job {each.name!r}" for each in uses.jobs] + [f"task {each.task_id!r}" for each in uses.tasks]
    which = ", ".join(names[:NAMED_IN_REFUSAL])
    rest = ", …" if len(names) > NAMED_IN_REFUSAL or (uses.more and names) else ""
    raise Conflict(
        f"the secret {name!r} is used by {uses.in_words()}{f' ({which}{rest})' if which else ''}; without it, runs "
        "fail. Take it out of what names it, or remove it all the same with force=true",
        code="secret_in_use",
    )


def _may_see(who: Principal, labels: Mapping[str, str]) -> bool:
    if who.may(Permission.JOBS_READ):
        return True
    selector = who.selector((Permission.JOBS_READ,))
    return bool(selector) and matches(labels, selector)


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}" if found else ""


def _joined(parts: Sequence[str]) -> str:
    said = [part for part in parts if part]
    return " and ".join(filter(None, [", ".join(said[:-1]), *said[-1:]]))
