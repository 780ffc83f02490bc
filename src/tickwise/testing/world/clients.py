"""The requests of a client, and the conclusions that it may draw from the answers.

    ask ──► one of the API's processes ──► its control ──► told: OK · FAIL (nothing was done) · INFO (who knows?)

Invariant: what a client concludes is what it was told, and not what was done. The latter is for others to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from tickwise.control.bodies import ResumeBody
from tickwise.control.control import Control
from tickwise.domain.errors import InDoubt, Refused, Unavailable
from tickwise.domain.history.checker import ClientAnswer, Operation
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal
from tickwise.ports.store import Receipt
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.nodes import SimulatedNode
from tickwise.testing.world.process import SimulatedProcess
from tickwise.testing.world.swarm import Swarm
from tickwise.testing.world.watch import EventTally, Watch

T = TypeVar("T")
Request = Callable[[], Coroutine[Any, Any, None]]
"""Something that a client sets out to do."""

WHO: Final = Principal("client", DEFAULT_NAMESPACE, frozenset({"*"}))
PATIENCE_SECONDS: Final = 15.0
MAX_REPEATS: Final = 4
"""The number of times that a client without an answer asks again."""
MAX_RESUMES: Final = 60
"""The number of times, a second apart, that a client tries to end a pause when no more faults happen."""


class NoAnswer(Exception):
    """The client heard nothing, or the line broke."""


@dataclass(slots=True)
class Known:
    """A job as its client knows it."""

    job_id: UUID | None
    recurring: bool
    touched: bool = False
    """Something was asked that changes which occurrences it has."""


class Asking:
    """The state that all clients share: the way to an API process, and a record of their requests."""

    def __init__(
        self, loop: WorldLoop, swarm: Swarm, apis: list[SimulatedNode], dice: Random, *, watch: Watch, tell: EventTally
    ) -> None:
        self.operations: list[Operation] = []
        self.jobs: list[Known] = []
        self.touched: set[UUID] = set()
        """Jobs whose occurrences are not those of their schedule alone."""
        self.paused: dict[UUID, None] = {}
        """Jobs whose pause was asked for, without an end of its own."""
        self.broken: list[str] = []
        """Errors that no client should ever see."""
        self._loop = loop
        self._swarm = swarm
        self._apis = apis
        self._dice = dice
        self._watch = watch
        self._tell = tell
        self._numbers = 0
        self.gate_limit = dice.choice((1, 2, 4))
        """The most runs with the shared concurrency key at once."""
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._served: list[tuple[SimulatedProcess, asyncio.Task[None]]] = []
        self._ends_at = 0.0

    def now(self) -> float:
        """The clients' clock, which no fault moves."""
        return self._swarm.start + self._loop.time()

    # ------------------------------------------------------------------ asking

    async def settled(self) -> None:
        """All that was asked has come to an end, and no job stays paused. The resume of one, or its cancel, may have
        met no API process for long, or is lost with a failover; and runs of a paused job wait, as they must."""
        while self._under_way:
            await pause(self._loop, 0.1)
        for job_id in self.paused:
            await self._resume_at_last(job_id)

    async def _resume_at_last(self, job_id: UUID) -> None:
        for _ in range(MAX_RESUMES):
            try:
                await self._call(lambda c: c.jobs.resume(WHO, job_id, ResumeBody()))
            except Refused:
                return  # it is not paused, has ended, or was lost
            except (NoAnswer, Unavailable):
                await pause(self._loop, 1.0)
            else:
                self._watch.note("a client resumed at last:", job_id)
                return

    def is_served(self) -> bool:
        """No API process is still at work for a client, who may have given up long ago."""
        self._served = [(process, task) for process, task in self._served if process.alive and not task.done()]
        return not self._served

    def _go(self, do: Request) -> None:
        task = self._loop.create_task(do())
        self._under_way[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.broken.append(f"a client failed: {type(failure).__name__}: {failure}")

    async def _call(self, do: Callable[[Control], Awaitable[T]]) -> T:
        """One request to one of the API's processes. Raises `NoAnswer`, and whatever control raises."""
        loop, dice = self._loop, self._dice
        node = dice.choice(self._apis)
        process = node.process
        if process is None or not process.alive or node.leaving:
            raise Unavailable("nobody listens there")
        control: Control = node.role
        answer: asyncio.Future[T] = loop.create_future()

        async def served() -> None:
            try:
                result = await do(control)
            except Exception as failure:  # noqa: BLE001  # whatever it is, the failure is the client's answer
                loop.call_later(dice.random() * 0.002, settle, None, failure, context=NETWORK)
            else:
                loop.call_later(dice.random() * 0.002, settle, result, None, context=NETWORK)

        def settle(result: Any, failure: Exception | None) -> None:
            if answer.done() or not process.alive:
                return
            if failure is not None:
                answer.set_exception(failure)
            else:
                answer.set_result(result)

        def broken() -> None:
            if not answer.done():
                answer.set_exception(NoAnswer("the line broke"))

        process.at_death.append(broken)
        self._served.append((process, process.spawn(served())))
        timer = loop.call_later(PATIENCE_SECONDS, broken, context=NETWORK)
        try:
            return await answer
        finally:
            timer.cancel()
            process.at_death.remove(broken)

    async def _answered(self, do: Callable[[Control], Awaitable[T]], what: str) -> tuple[ClientAnswer, T | None]:
        """The conclusion that a client may draw, and the answer if it was positive."""
        self._watch.note("a client asks:", what)
        try:
            answer = await self._call(do)
        except (NoAnswer, InDoubt) as unknown:
            self._watch.note("a client heard nothing of:", what, "--", unknown)
            return ClientAnswer.INFO, None
        except (Refused, Unavailable) as refusal:
            self._watch.note("a client was refused:", what, "--", refusal)
            return ClientAnswer.FAIL, None
        except Exception as wrong:  # noqa: BLE001  # it is a defect of control, and is judged as one
            self.broken.append(f"{what}: {type(wrong).__name__}: {wrong}")
            return ClientAnswer.INFO, None
        self._watch.note("a client was told:", what)
        return ClientAnswer.OK, answer


def receipt(route: str, key: str, digest: bytes, made: UUID) -> Receipt:
    """An answer to keep: the id."""
    return Receipt(
        principal=WHO.full_name, route=route, key=key, body_digest=digest, status=201, body=str(made).encode()
    )


def written(instant: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(instant, UTC).isoformat()


async def pause(loop: WorldLoop, seconds: float) -> None:
    """Outside of all processes."""
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None, context=NETWORK)
    await passed
