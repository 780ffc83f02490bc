"""The lane of a job: its queue, its priority, and the labels that an executor must have to run it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.control.tasks import CheckedTask
from tickwise.domain.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, Lane

_ANYWHERE: Final = Lane()


def lane(
    body: JobBody,
    task: CheckedTask,
    offered: frozenset[str],
    before: Lane = _ANYWHERE,
    confined: tuple[str, ...] = (),
) -> Lane:
    """The lane of its runs. `confined`: labels that follow from what surrounds its task. Labels with a colon are
    Tickwise's own: they name what an executor must be able to run."""
    if before is _ANYWHERE and body.requires is UNSET and body.queue is UNSET and body.priority is UNSET:
        return usual_lane(task.kind, task.function, offered=task.function in offered, confined=confined)
    own = before.requires if body.requires is UNSET else tuple(body.requires or ())
    labels = labels_of(own, task.kind, task.function, task.function in offered, confined)
    queue = before.queue if body.queue is UNSET else body.queue or DEFAULT_QUEUE
    priority = before.priority if body.priority is UNSET else body.priority
    return Lane(queue, DEFAULT_PRIORITY if priority is None else priority, labels)


@lru_cache(maxsize=4096)
def usual_lane(kind: str, function: str | None, *, offered: bool, confined: tuple[str, ...] = ()) -> Lane:
    """The lane of the runs of a job that names none. `offered`: an active executor has the function."""
    return Lane(DEFAULT_QUEUE, DEFAULT_PRIORITY, labels_of((), kind, function, offered, confined))


@lru_cache(maxsize=4096)
def labels_of(
    own: tuple[str, ...], kind: str, function: str | None, offered: bool, confined: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The labels that a task needs, and its job's own. `offered`: an active executor has the function. `confined`:
    those that follow from what surrounds it."""
    labels = {label for label in own if ":" not in label}
    labels.add(f"task:{kind}")
    labels.update(confined)
    if function is not None:
        labels.add(f"function:{function}" if offered else "function:*")
    return tuple(sorted(labels))
