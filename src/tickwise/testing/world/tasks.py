"""The hosts' side: simulated tasks, the runner that begins them, and the records that they write outside of the system.

    Runner.launch ──► begins (by its executor) ──► runs on the host, whatever its executor does ──► is over ──► ended
                                                     │ its executor dies: killed a little later, as a tree is
                                                     └ it writes an `Execution` when it begins, and when it ends

A task's own words say how long it takes, how often it fails, and what it does when it is asked to stop. A host outlives
the executors that are started on it.

Invariant: for every attempt that was launched, its active executor hears exactly one end, and not before the task is
dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.runner.checks import refuse_unknown
from tickwise.ports.runner import Assignment, Ending, Reports, TaskKind, Verdict
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.process import SimulatedProcess

SLOW: Final = "slow"
"""The kind that takes a slot each."""
QUICK: Final = "quick"
"""The kind that is worked off in batches, as functions in warm workers are."""
WORTH_RECORDING_SECONDS: Final = 0.2
"""A task that has been going on for so long is said to have begun."""


@dataclass(frozen=True, slots=True)
class Act:
    """The behaviour of a task."""

    seconds: float = 0.05
    fails: int = 0
    """The number of first attempts that fail, …"""
    symptom: str = "1"
    """… of this."""
    stubborn: bool = False
    """It does not listen to TERM."""
    deadly: int = 0
    """The number of first attempts that take their executor down."""
    invalid: bool = False
    asks_seconds: float | None = None
    """After a failure, it asks for so much time (`Retry-After`)."""


class SimulatedTaskKind:
    """The port `TaskKind`: anything that `Act` can say."""

    limits: Collection[str] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema: Mapping[str, Any] = {
            "type": "object",
            "properties": {"kind": {"const": name}, **{said.name: {} for said in fields(Act)}},
            "required": ["kind"],
            "additionalProperties": False,
        }

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """The task as it is."""
        refuse_unknown(task, (said.name for said in fields(Act)))
        return task

    @staticmethod
    def act(task: Mapping[str, Any]) -> Act:
        """The behaviour that a checked task declares."""
        return Act(**{name: value for name, value in task.items() if name != "kind"})


@dataclass(slots=True)
class WrittenExecution:
    """One time that a task ran, as it writes itself."""

    run_id: UUID
    token: int
    job_id: UUID
    begin: float
    end: float | None = None
    """The time at which it ended by itself; None: it was killed before."""
    died: float | None = None
    """The time at which nothing of it was left."""


Name = tuple[UUID, int]
"""Of an attempt: its run and its token."""


@dataclass(slots=True)
class ActiveTask:
    """A task that runs now."""

    assignment: Assignment
    act: Act
    written: WrittenExecution
    runner: SimulatedRunner
    over: Any = None
    """The timer of its end."""

    @property
    def name(self) -> Name:
        """The name of the attempt: run and token."""
        return self.assignment.run_id, self.assignment.token


@dataclass(slots=True)
class Host:
    """A machine: what runs on it, and how fast it kills."""

    name: str
    loop: WorldLoop
    dice: Random
    start: float
    """Unix seconds at which the world begins."""
    kill_seconds: float = 0.05
    """Killing a whole tree takes up to so long."""
    begin_seconds: float = 0.0
    """And beginning a task."""
    written: list[WrittenExecution] = field(default_factory=list)
    active: dict[Name, ActiveTask] = field(default_factory=dict)

    def now(self) -> float:
        """The host's own clock, which no fault moves."""
        return self.start + self.loop.time()

    def begin(self, task: ActiveTask) -> None:
        """It runs, and says so first."""
        name = task.name
        self.active[name] = task
        self.written.append(task.written)
        task.over = self.loop.call_later(task.act.seconds, self._is_over, name, context=NETWORK)

    def _is_over(self, name: Name) -> None:
        task = self.active.pop(name)
        task.written.end = task.written.died = self.now()
        task.runner.hear(task)

    def kill(self, name: Name, *, told: Callable[[ActiveTask], None] | None = None) -> None:
        """Its whole tree goes, in a moment."""
        task = self.active.get(name)
        if task is not None:
            seconds = self.dice.random() * self.kill_seconds
            self.loop.call_later(seconds, self._is_dead, name, told, context=NETWORK)

    def _is_dead(self, name: Name, told: Callable[[ActiveTask], None] | None) -> None:
        task = self.active.pop(name, None)
        if task is not None:
            task.over.cancel()
            task.written.died = self.now()
            if told is not None:
                told(task)


class SimulatedRunner:
    """The port `SimulatedRunner` of one executor process, for one kind."""

    def __init__(
        self,
        host: Host,
        process: SimulatedProcess,
        kind: SimulatedTaskKind,
        *,
        places: int,
        poisoned: Callable[[], None],
    ) -> None:
        """`poisoned` is called by a task that takes its executor down."""
        self.kinds: Sequence[TaskKind] = (kind,)
        self._kind = kind
        self._host = host
        self.process = process
        self._places = places
        self._poisoned = poisoned
        self._waiting: dict[UUID, Assignment] = {}
        self._beginning: dict[UUID, Assignment] = {}
        self._tokens: dict[UUID, int] = {}
        self._emptied = asyncio.Event()
        self._closed = False
        self._reports: Reports
        self._now: Callable[[], float]
        process.at_death.append(self._orphaned)

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Ready at once."""
        self._reports, self._now = reports, now

    def offers(self) -> Sequence[str]:
        """No functions by name."""
        return ()

    def labels(self) -> Sequence[str]:
        """Its kind."""
        return (f"task:{self._kind.name}",)

    def spare(self) -> int:
        """The number of further tasks that could begin now."""
        return max(0, self._places - len(self._tokens) - len(self._beginning))

    # ------------------------------------------------------------------ begin

    def launch(self, assignments: Sequence[Assignment]) -> None:
        """Begin them as there are places."""
        for assignment in assignments:
            self._waiting[assignment.run_id] = assignment
        if self._closed:
            self.release_waiting()
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self.spare() > 0:
            run_id = next(iter(self._waiting))
            assignment = self._beginning[run_id] = self._waiting.pop(run_id)
            seconds = self._host.begin_seconds
            if seconds > 0:
                self.process.later(self._host.dice.random() * seconds, self._begin, assignment)
            else:
                self._begin(assignment)

    def _begin(self, assignment: Assignment) -> None:
        if self._beginning.pop(assignment.run_id, None) is not assignment:
            return
        act = self._kind.act(assignment.task)
        written = WrittenExecution(assignment.run_id, assignment.token, assignment.job_id, self._host.now())
        task = ActiveTask(assignment, act, written, self)
        self._tokens[assignment.run_id] = assignment.token
        self._host.begin(task)
        if act.deadly >= assignment.attempt:
            self.process.later(act.seconds / 2, self._poisoned)
        if assignment.timeout_seconds is not None:
            self.process.later(assignment.timeout_seconds, self._out_of_time, assignment)
        if act.seconds > WORTH_RECORDING_SECONDS:
            self.process.later(WORTH_RECORDING_SECONDS, self._is_worth_recording, assignment, self._now())

    def _is_worth_recording(self, assignment: Assignment, started: float) -> None:
        if self._tokens.get(assignment.run_id) == assignment.token:
            self._reports.began(assignment.run_id, started)

    def _out_of_time(self, assignment: Assignment) -> None:
        if self._tokens.get(assignment.run_id) == assignment.token:
            self._host.kill((assignment.run_id, assignment.token), told=self._timed_out)

    # ------------------------------------------------------------------ end

    def hear(self, task: ActiveTask) -> None:
        """It ended by itself; its executor hears of it if it is there and awake."""
        self.process.soon(self._ended, task)

    def _ended(self, task: ActiveTask) -> None:
        assignment, act = task.assignment, task.act
        if act.invalid:
            verdict, reason = Verdict.INVALID, "invalid"
        elif act.fails >= assignment.attempt:
            verdict, reason = Verdict.FAILED, "exit_code"
        else:
            verdict, reason = Verdict.OK, None
        symptoms = () if verdict is Verdict.OK else (act.symptom,)
        result = f'{{"attempt":{assignment.attempt}}}' if verdict is Verdict.OK else None
        self._report(task, verdict, reason, result=result, symptoms=symptoms, retry_after_seconds=act.asks_seconds)

    def _killed(self, task: ActiveTask) -> None:
        self.process.soon(self._report, task, Verdict.CANCELLED, "cancelled")

    def _timed_out(self, task: ActiveTask) -> None:
        self.process.soon(self._report, task, Verdict.FAILED, "timeout")

    def _report(self, task: ActiveTask, verdict: Verdict, reason: str | None, **more: Any) -> None:
        run_id = task.assignment.run_id
        if self._tokens.get(run_id) != task.assignment.token:
            return
        del self._tokens[run_id]
        if not self._tokens:
            self._emptied.set()
        length = (task.written.died or self._host.now()) - task.written.begin
        ended = self._now()
        self._reports.ended(run_id, Ending(verdict, ended - length, ended, reason, **more))
        self._go_on()

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        """TERM, and after the grace KILL."""
        if run_id in self._waiting or run_id in self._beginning:
            self._waiting.pop(run_id, None)
            self._beginning.pop(run_id, None)
            self.process.soon(self._unbegun, run_id)
            return
        task = self._host.active.get((run_id, self._tokens.get(run_id, 0)))
        if task is None:
            return
        if task.act.stubborn and grace_seconds > 0:
            self.process.later(grace_seconds, self._host_kill, task.name)
        else:
            self._host_kill(task.name)

    def _host_kill(self, name: Name) -> None:
        self._host.kill(name, told=self._killed)

    def _unbegun(self, run_id: UUID) -> None:
        now = self._now()
        self._reports.ended(run_id, Ending(Verdict.RELEASED, now, now))

    def release_waiting(self) -> None:
        """Give back what has no place yet."""
        waiting, self._waiting = self._waiting, {}
        for run_id in waiting:
            self.process.soon(self._unbegun, run_id)

    async def close(self) -> None:
        """Kill what lives, and wait until it is dead."""
        self._closed = True
        for run_id in [*self._waiting, *self._beginning]:
            self.stop(run_id, grace_seconds=0.0)
        for name in self._tokens.items():
            self._host_kill(name)
        while self._tokens:
            self._emptied.clear()
            await self._emptied.wait()

    def _orphaned(self) -> None:
        """Its executor is gone: the orphan reaper ends what is left of it."""
        for name in self._tokens.items():
            self._host.kill(name)
