"""Wake the roles that have work from a commit. A signal that is lost costs latency, never a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.domain.errors import Unavailable
from tickwise.ports.signals import Topic
from tickwise.ports.store import NewJob, NewRun, Ready

RING_WITHIN_SECONDS: Final = 60.0
"""Timers further away than this need no bell: every scheduler looks at least so often."""
NEAR_MARGIN_SECONDS: Final = 0.5
"""The margin around the store's horizon in which the store's clock decides whether a job became a run or a timer."""
_OF_PLANS: Final = (Topic.RUNS, Topic.TIMERS, Topic.CANCELS, Topic.COMPLETIONS, Topic.OPERATIONS)


def wake_for(context: ControlContext, jobs: Sequence[NewJob]) -> None:
    """Wake the roles that have work from jobs that were just stored: a run concerns executors, a timer schedulers. With
    a hint publisher, executors also get a hint of each run. Calls no service and cannot fail: the jobs are committed.

    A one-time job that needs no decision and is due within `near_seconds`, the store's horizon, became a run; every
    other one waits as a timer.
    """
    now, near_seconds, hint_publisher = context.time.known(), context.near_seconds, context.hint_publisher
    runs = timers = False
    run_until, timer_from = now + near_seconds + NEAR_MARGIN_SECONDS, now + near_seconds - NEAR_MARGIN_SECONDS
    timer_until = now + RING_WITHIN_SECONDS
    for job in jobs:
        due = job.due
        if job.never:
            continue
        if job.run_id is None:
            timers = timers or due is None or due <= timer_until
            continue
        if due is None or due <= run_until:
            runs = True
        if due is not None and timer_from < due <= timer_until:
            timers = True
    if runs:
        context.signals.send(Topic.RUNS)
        if hint_publisher is not None:
            hint_publisher.publish(
                [
                    Ready(job.run_id, now if job.due is None else job.due, job.lane, job.namespace)
                    for job in jobs
                    if job.run_id is not None and not job.never and (job.due is None or job.due <= run_until)
                ]
            )
    if timers:
        context.signals.send(Topic.TIMERS)


def wake_all(context: ControlContext) -> None:
    """A changed plan concerns every role: there may be runs to take, timers to look at, runs to stop."""
    for topic in _OF_PLANS:
        context.signals.send(topic)


async def wake_for_runs(context: ControlContext, namespace: str, job_id: UUID, runs: Sequence[NewRun]) -> None:
    """Wake executors for runs of one job that a person asked for. They are committed: nothing can fail any more."""
    context.signals.send(Topic.RUNS)
    if context.hint_publisher is None:
        return
    try:
        row = await context.store.jobs.get(namespace, job_id)
    except Unavailable:
        return
    if row is not None:
        context.hint_publisher.publish([Ready(run.run_id, run.due, row.lane, namespace) for run in runs])
