"""What clients ask for, drawn by the seed, and what they were told.

    ask ──► one of the API's processes ──► its control ──► told: OK · FAIL (nothing was done) · INFO (who knows?)

A client that was told nothing sends the same again, under the same name. What it was told goes to the history checker
as it was told; what was really done is for others to say.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from tickwise.domain.errors import Bug, InDoubt, Refused, TickwiseError, Unavailable
from tickwise.domain.history import Answer, Asked, Operation
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal, time_id
from tickwise.ports.store import Receipt, Replay, RunQuery
from tickwise.roles.control.bodies import JobBody, PauseBody, ResumeBody, RunNowBody, RunRetryBody
from tickwise.roles.control.control import Control
from tickwise.roles.control.submits import Submitted
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.nodes import Node
from tickwise.testing.world.process import Process
from tickwise.testing.world.swarm import Swarm
from tickwise.testing.world.tasks import QUICK, SLOW
from tickwise.testing.world.watch import Tally, Watch

T = TypeVar("T")

WHO: Final = Principal("client", DEFAULT_NAMESPACE, frozenset({"*"}))
PATIENCE_SECONDS: Final = 15.0
REPEATS_MOST: Final = 4
BURST: Final = 130
"""More than a claim that is sent ahead asks for."""
RARE_SECONDS: Final = 11.0
OFTEN_SECONDS: Final = 0.4
CLOSING_SECONDS: Final = 10.0
"""So long after the last request no schedule fires any more."""


class NoAnswer(Exception):
    """The client heard nothing, or the line broke."""


@dataclass(slots=True)
class Known:
    """A job as its client knows it."""

    job_id: UUID | None
    recurring: bool
    touched: bool = False
    """Something was asked that changes which occurrences it has."""


class Clients:
    """All of them."""

    def __init__(
        self, loop: WorldLoop, swarm: Swarm, apis: list[Node], dice: Random, *, watch: Watch, tell: Tally
    ) -> None:
        self.operations: list[Operation] = []
        self.jobs: list[Known] = []
        self.touched: set[UUID] = set()
        """Jobs whose occurrences are not those of their schedule alone."""
        self.broken: list[str] = []
        """Errors that no client should ever see."""
        self._loop = loop
        self._swarm = swarm
        self._apis = apis
        self._dice = dice
        self._watch = watch
        self._tell = tell
        self._numbers = 0
        self._runs: list[tuple[UUID, UUID]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._served: list[tuple[Process, asyncio.Task[None]]] = []
        self._ends_at = 0.0

    def now(self) -> float:
        """The clients' clock, which no fault moves."""
        return self._swarm.start + self._loop.time()

    # ------------------------------------------------------------------ asking

    async def ask(self) -> None:
        """Ask, until the rough time is over."""
        swarm, dice, loop = self._swarm, self._dice, self._loop
        self._ends_at = swarm.start + swarm.rough_seconds + CLOSING_SECONDS
        menu = self._menu()
        if swarm.wants("burst"):
            loop.call_later(dice.random() * swarm.rough_seconds, self._go, self._burst, context=NETWORK)
        while loop.time() < swarm.rough_seconds:
            self._go(dice.choice(menu))
            await pause(loop, dice.expovariate(1.0 / swarm.ask_gap_seconds))

    async def settled(self) -> None:
        """All that was asked has come to an end."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def is_served(self) -> bool:
        """No API process is still at work for a client, who may have given up long ago."""
        self._served = [(process, task) for process, task in self._served if process.alive and not task.done()]
        return not self._served

    def _go(self, do: Callable[[], Awaitable[None]]) -> None:
        async def asked() -> None:
            await do()

        task = self._loop.create_task(asked())
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.broken.append(f"a client failed: {type(failure).__name__}: {failure}")

    def _menu(self) -> list[Callable[[], Awaitable[None]]]:
        swarm = self._swarm
        menu: list[Callable[[], Awaitable[None]]] = []
        for feature in ("once", "future", "cron", "interval"):
            if swarm.wants(feature):
                menu += [self._submit_of(feature)] * 3
        for feature, do in (
            ("run now", self._run_now),
            ("cancel run", self._cancel_run),
            ("cancel run", self._cancel_run),
            ("cancel job", self._cancel_job),
            ("retry", self._retry),
            ("pause", self._pause),
            ("edit", self._edit),
        ):
            if swarm.wants(feature):
                menu.append(do)
        return menu

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
            except Exception as failure:  # noqa: BLE001  # whatever it is, it is the client's answer
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

    async def _told(self, do: Callable[[Control], Awaitable[T]], what: str) -> tuple[Answer, T | None]:
        """What a client may conclude, and the answer if it was positive."""
        self._watch.note("a client asks:", what)
        try:
            answer = await self._call(do)
        except (NoAnswer, InDoubt) as unknown:
            self._watch.note("a client heard nothing of:", what, "--", unknown)
            return Answer.INFO, None
        except (Refused, Unavailable) as refusal:
            self._watch.note("a client was refused:", what, "--", refusal)
            return Answer.FAIL, None
        except (Bug, TickwiseError) as wrong:
            self.broken.append(f"{what}: {type(wrong).__name__}: {wrong}")
            return Answer.INFO, None
        except Exception as wrong:  # noqa: BLE001  # it is a defect of control, and is judged as one
            self.broken.append(f"{what}: {type(wrong).__name__}: {wrong}")
            return Answer.INFO, None
        self._watch.note("a client was told:", what)
        return Answer.OK, answer

    # ------------------------------------------------------------------ submits

    def _submit_of(self, feature: str) -> Callable[[], Awaitable[None]]:
        async def submit() -> None:
            await self._submit(self._body(feature), recurring=feature in ("cron", "interval"))

        return submit

    def _name(self, what: str) -> str:
        self._numbers += 1
        return f"{what} {self._numbers}"

    def _body(self, feature: str) -> dict[str, Any]:
        dice, swarm, now = self._dice, self._swarm, self.now()
        body: dict[str, Any] = {"name": self._name(feature), "task": self._task(), **self._policies()}
        interval = dice.choice((1.0, 2.5, 5.0, RARE_SECONDS))
        if feature == "cron" or (feature == "interval" and interval < RARE_SECONDS):
            # What comes often must not take long: a queue of it would outlast every calm.
            task = body["task"]
            task["seconds"] = min(task["seconds"], OFTEN_SECONDS)
            task["fails"] = min(task.get("fails", 0), 1)
            task.pop("deadly", None)
        if feature == "once":
            body["schedule_type"] = "IMMEDIATE"
        elif feature == "future":
            body["schedule_time"] = written(now + dice.choice((0.5, 3.0, 10.0, 20.0)) + dice.random())
        elif feature == "interval":
            body["interval_seconds"] = interval
            body["end_at"] = written(min(self._ends_at, now + dice.uniform(5.0, 60.0)))
        elif feature == "cron":
            body["cron_expression"] = dice.choice(
                ("*/2 * * * * *", "*/7 * * * * *", "* * * * *", "30 * * * * *", "0 2 * * *", "30 1-3 * * *", "@hourly")
            )
            body["timezone"] = swarm.zone
            body["end_at"] = written(self._ends_at)
        if feature in ("interval", "cron"):
            if swarm.wants("overlap"):
                body["overlap"] = dice.choice(("skip", "queue_one", "queue_all", "cancel_running", "allow"))
            if swarm.wants("catch up"):
                mode = dice.choice(("skip", "latest", "all"))
                body["misfire"] = {"grace_seconds": dice.choice((0.5, 3.0, 60.0)), "mode": mode, "max_catchup": 5}
        return body

    def _task(self) -> dict[str, Any]:
        dice, swarm = self._dice, self._swarm
        seconds = dice.choice((0.001, 0.05, 0.4, 2.0))
        if swarm.wants("long") and dice.random() < 0.2:
            seconds = swarm.lease_seconds * dice.uniform(0.8, 2.2)
        task: dict[str, Any] = {"kind": SLOW, "seconds": round(seconds, 3)}
        if swarm.wants("quick") and dice.random() < 0.5:
            task["kind"] = QUICK
        if swarm.wants("failing") and dice.random() < 0.3:
            task["fails"] = dice.choice((1, 1, 2, 9))
        if swarm.wants("failing") and dice.random() < 0.05:
            task["invalid"] = True
        if swarm.wants("stubborn") and dice.random() < 0.3:
            task["stubborn"] = True
        if swarm.wants("deadly") and dice.random() < 0.06:
            task["deadly"] = dice.choice((1, 2, 9))
        return task

    def _policies(self) -> dict[str, Any]:
        dice, swarm = self._dice, self._swarm
        retries = dice.choice((0, 1, 2, 3))
        backoff = dice.choice(("fixed", "exponential"))
        body: dict[str, Any] = {
            "max_retries": retries,
            "retry": {"backoff": backoff, "base_seconds": dice.choice((0.1, 1.0)), "cap_seconds": 5.0},
        }
        if swarm.wants("priority"):
            body["priority"] = dice.randrange(10)
        if swarm.wants("timeout") and dice.random() < 0.2:
            body["timeout_seconds"] = dice.choice((0.2, 1.0, 5.0))
        return body

    async def _submit(self, body: dict[str, Any], *, recurring: bool) -> None:
        """One submit, repeated under its name until the client knows; and now and then although it does."""
        dice = self._dice
        named = dice.random() < 0.5
        if named:
            # The client draws the id: the store knows a repeat by it.
            body["job_id"] = str(time_id(int(self.now() * 1000), dice.randbytes(10)))
        key = None if named else body["name"]
        known = Known(UUID(body["job_id"]) if named else None, recurring)
        text = json.dumps(body)
        for number in range(REPEATS_MOST):
            begun = self.now()
            answer, job_id = await self._told(lambda c: self._send(c, text, key), f"submit {body['name']}")
            known.job_id = job_id or known.job_id
            operation = Operation(
                Asked.SUBMIT,
                answer,
                begun,
                self.now(),
                key=body["name"],
                job_id=known.job_id,
                once=not recurring,
            )
            self.operations.append(operation)
            self._watch.note("    ", operation.asked, operation.answer, operation.job_id)
            again = answer is not Answer.OK or (self._swarm.wants("repeat") and dice.random() < 0.2)
            if not again or self.now() > self._ends_at:
                break
            if number:
                self._tell("submit repeated")
            await pause(self._loop, dice.random() * 2.0)
        if known.job_id is not None:
            self.jobs.append(known)

    async def _send(self, control: Control, text: str, key: str | None) -> UUID:
        """As the API's route does it."""
        body = msgspec.json.decode(text, type=JobBody)
        if key is None:
            done = await control.submit(WHO, body)
            return job_of(done)
        digest = sha256(text.encode()).digest()
        found = await control.receipt_find(WHO.name, "POST /jobs", key)
        if found is None:
            result = await control.submit(WHO, body, lambda made: receipt("POST /jobs", key, digest, made.job_id))
            return job_of(result)
        return UUID(found.body.decode())

    async def _burst(self) -> None:
        """Many at once, in one batch."""
        bodies: list[dict[str, Any]] = [
            {
                "name": self._name("burst"),
                "schedule_type": "IMMEDIATE",
                "task": {"kind": QUICK, "seconds": 0.01},
                "max_retries": 3,
            }
            for _ in range(BURST)
        ]
        for body in bodies:
            body["job_id"] = str(time_id(int(self.now() * 1000), self._dice.randbytes(10)))
        texts = [json.dumps(body) for body in bodies]
        begun = self.now()

        async def send(control: Control) -> None:
            bodies = [msgspec.json.decode(text, type=JobBody) for text in texts]
            verdicts = await control.submit_many(WHO, bodies)
            if not isinstance(verdicts, Replay):
                for verdict in verdicts:
                    if isinstance(verdict, Refused):
                        raise verdict

        answer = Answer.INFO
        for _ in range(REPEATS_MOST):
            answer, _nothing = await self._told(send, "a burst")
            if answer is Answer.OK:
                break
            # What was in doubt once stays so, whatever is said of the repeats.
            answer = Answer.INFO
            await pause(self._loop, 1.0)
        for body in bodies:
            job_id = UUID(str(body["job_id"]))
            self.operations.append(Operation(Asked.SUBMIT, answer, begun, self.now(), job_id=job_id))

    # ------------------------------------------------------------------ what is asked of jobs and runs

    def _some_job(self, *, recurring: bool = False) -> Known | None:
        jobs = [job for job in self.jobs if job.recurring or not recurring]
        return self._dice.choice(jobs) if jobs else None

    async def _some_run(self, *states: RunState) -> tuple[UUID, UUID] | None:
        query = RunQuery(namespace=WHO.namespace, states=states, limit=30)
        _, rows = await self._told(lambda c: c.runs_list(WHO, query), "list runs")
        if not rows:
            return None
        row = self._dice.choice(rows)
        return row.run_id, row.job_id

    async def _run_now(self) -> None:
        job = self._some_job()
        if job is None or job.job_id is None:
            return
        job_id, key = job.job_id, self._name("run now")
        for _ in range(REPEATS_MOST):
            begun = self.now()
            answer, run_id = await self._told(lambda c: self._demand(c, job_id, key), key)
            self.operations.append(
                Operation(Asked.RUN_NOW, answer, begun, self.now(), key=key, job_id=job_id, run_id=run_id)
            )
            if answer is not Answer.INFO:
                break
            await pause(self._loop, self._dice.random() * 2.0)

    async def _demand(self, control: Control, job_id: UUID, key: str) -> UUID:
        """As the API's route does it."""
        route, digest = f"POST /jobs/{job_id}/run-now", sha256(key.encode()).digest()
        found = await control.receipt_find(WHO.name, route, key)
        if found is not None:
            return UUID(found.body.decode())
        body = RunNowBody(payload=msgspec.Raw(json.dumps({"key": key}).encode()))
        made = await control.run_now(WHO, job_id, body, lambda run_id: receipt(route, key, digest, run_id))
        return UUID(made.body.decode()) if isinstance(made, Replay) else made

    async def _retry(self) -> None:
        found = await self._some_run(RunState.FAILED, RunState.CANCELLED, RunState.SUCCESS)
        if found is None:
            return
        run_id, job_id = found
        key = self._name("retry")
        body = RunRetryBody(payload=msgspec.Raw(json.dumps({"key": key}).encode()))
        begun = self.now()
        answer, new = await self._told(lambda c: c.run_retry(WHO, run_id, body), key)
        made = new if isinstance(new, UUID) else None
        self.operations.append(Operation(Asked.RETRY, answer, begun, self.now(), key=key, job_id=job_id, run_id=made))

    async def _cancel_run(self) -> None:
        found = await self._some_run(RunState.RUNNING, RunState.DISPATCHED, RunState.QUEUED, RunState.RETRYING)
        if found is None:
            return
        run_id, job_id = found
        begun = self.now()
        answer, state = await self._told(lambda c: c.run_cancel(WHO, run_id), f"cancel run {run_id}")
        self.operations.append(
            Operation(Asked.CANCEL, answer, begun, self.now(), job_id=job_id, run_id=run_id, state=state)
        )

    def _touch(self, job: Known) -> UUID:
        assert job.job_id is not None
        job.touched = True
        self.touched.add(job.job_id)
        return job.job_id

    async def _cancel_job(self) -> None:
        job = self._some_job(recurring=True)
        if job is not None and job.job_id is not None:
            job_id = self._touch(job)
            await self._told(lambda c: c.cancel(WHO, job_id), f"cancel job {job_id}")

    async def _pause(self) -> None:
        job = self._some_job(recurring=True)
        if job is None or job.job_id is None:
            return
        job_id = self._touch(job)
        until = None if self._dice.random() < 0.7 else datetime.fromtimestamp(self.now() + 5.0, UTC)
        await self._told(lambda c: c.pause(WHO, job_id, PauseBody(until=until)), f"pause {job_id}")
        await pause(self._loop, self._dice.random() * 10.0)
        missed = self._dice.choice(("skip", "run_latest", "run_all"))
        for _ in range(REPEATS_MOST):
            body = msgspec.convert({"missed": missed}, ResumeBody)
            answer, _row = await self._told(lambda c, body=body: c.resume(WHO, job_id, body), f"resume {job_id}")  # type: ignore[misc]  # mypy knows no lambda with a default
            if answer is Answer.OK:
                break
            await pause(self._loop, 1.0)

    async def _edit(self) -> None:
        job = self._some_job(recurring=True)
        if job is None or job.job_id is None:
            return
        job_id = self._touch(job)
        change = self._dice.choice(
            (
                {"interval_seconds": 3.0, "end_at": written(self._ends_at)},
                {"priority": 9},
                {"task": self._task()},
                {"cron_expression": "*/5 * * * * *", "end_at": written(self._ends_at)},
            )
        )
        body = msgspec.json.decode(json.dumps(change), type=JobBody)
        await self._told(lambda c: c.change(WHO, job_id, body), f"change {job_id}")


def receipt(route: str, key: str, digest: bytes, made: UUID) -> Receipt:
    """An answer to keep: the id."""
    return Receipt(principal=WHO.name, route=route, key=key, body_digest=digest, status=201, body=str(made).encode())


def job_of(done: Submitted | Replay) -> UUID:
    """Whose submit was answered."""
    return UUID(done.body.decode()) if isinstance(done, Replay) else done.job_id


def written(instant: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(instant, UTC).isoformat()


async def pause(loop: WorldLoop, seconds: float) -> None:
    """Outside of all processes."""
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None, context=NETWORK)
    await passed
