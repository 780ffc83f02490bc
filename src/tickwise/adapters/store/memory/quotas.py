"""Quotas: what a namespace has is counted each time that one with quotas gets more; the runs of a day are kept."""

from __future__ import annotations

from collections.abc import Mapping

from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.quotas import DAY_SECONDS, QuotaUse
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import BATCH_SECONDS, JobAction, RuleKind
from tickwise.ports.store.quotas import QuotaRoom


def open_room(state: State, namespace: str) -> QuotaRoom | None:
    """The room of a namespace; None: it has no quotas."""
    quotas = state.quotas_of(namespace)
    if not quotas:
        return None
    jobs, size = _counted(state, namespace)
    return QuotaRoom(namespace, quotas, jobs, _runs_today(state, namespace) or 0, size)


def close_room(state: State, namespace: str, room: QuotaRoom | None) -> None:
    """Keep what was taken. Runs are counted if there is a quota of them."""
    if room is not None and room.quotas.runs_per_day is not None:
        state.runs_of_day[namespace] = (_day(state), room.runs)


def give_back_runs(state: State, taken: Mapping[str, int]) -> None:
    """Take counted runs back."""
    for namespace, count in taken.items():
        runs = _runs_today(state, namespace) or 0
        state.runs_of_day[namespace] = (_day(state), max(0, runs - count))


def _day(state: State) -> int:
    return int(state.now() // DAY_SECONDS)


def _runs_today(state: State, namespace: str) -> int | None:
    day, runs = state.runs_of_day.get(namespace, (None, 0))
    return runs if day == _day(state) else None


def _counted(state: State, namespace: str) -> tuple[int, int]:
    """Active jobs that last, and the bytes of their definitions and of stored tasks."""
    active = [
        job
        for job in state.jobs.awake
        if job.namespace == namespace
        and job.lasting
        and job.standing is not JobAction.CANCEL
        and (job.timer is not None or job.runs or job.schedule_type == ScheduleType.ON_DEMAND)
    ]
    tasks = [task for (place, _), versions in state.tasks.items() if place == namespace for task in versions]
    texts = [*(job.definition for job in active), *(task.task for task in tasks)]
    return len(active), sum(len(text.encode()) for text in texts)


class QuotaUses(Duty):
    """`QuotaStore` of the port."""

    async def use(self, namespace: str) -> QuotaUse:
        state = self._state
        jobs, size = _counted(state, namespace)
        unlimited = state.quotas_of(namespace).concurrent_runs is None
        return QuotaUse(
            jobs=jobs,
            runs_today=_runs_today(state, namespace),
            bytes=size,
            lanes=state.known_of[namespace],
            calendars=state.rules_of_kind[namespace, RuleKind.CALENDAR],
            windows=state.rules_of_kind[namespace, RuleKind.WINDOW],
            concurrent_runs=None if unlimited else state.slots.running_in(namespace),
        )

    async def take_runs(self, batch_id: int, wanted: Mapping[str, int]) -> Mapping[str, int | None]:
        state = self._state
        batch = state.batches.get(batch_id)
        if batch is None or batch.taken_at < state.now() - BATCH_SECONDS:
            raise StoreUnavailable("the batch of timers is over: no run was counted; take the timers again")
        lacking = {}
        for namespace, count in wanted.items():
            most = state.quotas_of(namespace).runs_per_day
            if most is None:
                continue
            runs = _runs_today(state, namespace) or 0
            taken = min(count, max(0, most - runs))
            state.runs_of_day[namespace] = (_day(state), runs + taken)
            batch.runs[namespace] = batch.runs.get(namespace, 0) + taken
            if taken < count:
                lacking[namespace] = count - taken
        return lacking
