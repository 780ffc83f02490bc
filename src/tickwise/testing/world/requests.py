"""The requests of clients about existing jobs and runs: run now, retry, cancel, pause, edit, redrive, decide, hold,
also many at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from tickwise.control.bodies import (
    DecideBody,
    DiscardBody,
    JobBody,
    PauseBody,
    QueueHoldBody,
    RedriveBody,
    ResumeBody,
    RunNowBody,
    RunRetryBody,
)
from tickwise.control.control import Control
from tickwise.control.filters import LettersRedriveBody, RunsCancelBody, RunsRetryBody
from tickwise.control.receipts import Once
from tickwise.control.schedules.windows import WindowBody
from tickwise.domain.calendar.rules import Otherwise
from tickwise.domain.history.checker import ClientAnswer, Operation, RequestKind
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.ports.store import LetterResolution, Replay, RunQuery
from tickwise.testing.world.clients import MAX_REPEATS, WHO, Known, pause, receipt, written
from tickwise.testing.world.nodes import SIDE
from tickwise.testing.world.submits import Submits


class SimulatedRequests(Submits):
    """The requests of clients about the jobs that they submitted."""

    def _some_job(self, *, recurring: bool = False) -> Known | None:
        jobs = [job for job in self.jobs if job.recurring or not recurring]
        return self._dice.choice(jobs) if jobs else None

    async def _some_run(self, *states: RunState) -> tuple[UUID, UUID] | None:
        query = RunQuery(namespace=WHO.namespace, states=states, limit=30)
        _, rows = await self._answered(lambda c: c.runs.search(WHO, query), "list runs")
        if not rows:
            return None
        row = self._dice.choice(rows)
        return row.run_id, row.job_id

    async def _run_now(self) -> None:
        job = self._some_job()
        if job is None or job.job_id is None:
            return
        job_id, key = job.job_id, self._name("run now")
        for _ in range(MAX_REPEATS):
            begun = self.now()
            answer, run_id = await self._answered(lambda c: self._demand(c, job_id, key), key)
            self.operations.append(
                Operation(RequestKind.RUN_NOW, answer, begun, self.now(), key=key, job_id=job_id, run_id=run_id)
            )
            if answer is not ClientAnswer.INFO:
                break
            await pause(self._loop, self._dice.random() * 2.0)

    async def _demand(self, control: Control, job_id: UUID, key: str) -> UUID:
        """As the API's route does it."""
        route, digest = f"POST /jobs/{job_id}/run-now", sha256(key.encode()).digest()
        found = await control.receipts.find(WHO, Once(route, key, digest))
        if found is not None:
            return UUID(found.body.decode())
        body = RunNowBody(payload=msgspec.Raw(json.dumps({"key": key}).encode()))
        made = await control.jobs.run_now(WHO, job_id, body, lambda run_id: receipt(route, key, digest, run_id))
        return UUID(made.body.decode()) if isinstance(made, Replay) else made

    async def _retry(self) -> None:
        found = await self._some_run(RunState.FAILED, RunState.CANCELLED, RunState.SUCCESS)
        if found is None:
            return
        run_id, job_id = found
        key = self._name("retry")
        body = RunRetryBody(payload=msgspec.Raw(json.dumps({"key": key}).encode()))
        begun = self.now()
        answer, new = await self._answered(lambda c: c.runs.retry(WHO, run_id, body), key)
        made = new if isinstance(new, UUID) else None
        self.operations.append(
            Operation(RequestKind.RETRY, answer, begun, self.now(), key=key, job_id=job_id, run_id=made)
        )

    async def _cancel_run(self) -> None:
        found = await self._some_run(RunState.RUNNING, RunState.DISPATCHED, RunState.QUEUED, RunState.RETRYING)
        if found is None:
            return
        run_id, job_id = found
        begun = self.now()
        answer, state = await self._answered(lambda c: c.runs.cancel(WHO, run_id), f"cancel run {run_id}")
        self.operations.append(
            Operation(RequestKind.CANCEL, answer, begun, self.now(), job_id=job_id, run_id=run_id, state=state)
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
            await self._answered(lambda c: c.requests.cancel(WHO, job_id), f"cancel job {job_id}")

    async def _pause(self) -> None:
        job = self._some_job(recurring=True)
        if job is None or job.job_id is None:
            return
        job_id = self._touch(job)
        until = None if self._dice.random() < 0.7 else datetime.fromtimestamp(self.now() + 5.0, UTC)
        if until is None:
            self.paused[job_id] = None
        await self._answered(lambda c: c.jobs.pause(WHO, job_id, PauseBody(until=until)), f"pause {job_id}")
        await pause(self._loop, self._dice.random() * 10.0)
        missed = self._dice.choice(("skip", "run_latest", "run_all"))
        for _ in range(MAX_REPEATS):
            body = msgspec.convert({"missed": missed}, ResumeBody)
            answer, _row = await self._answered(
                lambda c, body=body: c.jobs.resume(WHO, job_id, body),  # type: ignore[misc]  # mypy knows no default here
                f"resume {job_id}",
            )
            if answer is ClientAnswer.OK:
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
        text = json.dumps(change).encode()
        body = msgspec.json.decode(text, type=JobBody)
        await self._answered(lambda c: c.requests.change(WHO, job_id, body, text=text), f"change {job_id}")

    # ------------------------------------------------------------------ dead letters, queues, in bulk

    async def _redrive(self) -> None:
        """A failed run becomes another one."""
        found = await self._some_run(RunState.FAILED)
        if found is None:
            return
        run_id, job_id = found
        key = self._name("redrive")
        body = RedriveBody(payload=msgspec.Raw(json.dumps({"key": key}).encode()))
        begun = self.now()
        answer, new = await self._answered(lambda c: c.letters.redrive(WHO, run_id, body), key)
        made = new if isinstance(new, UUID) else None
        self._tell(f"redrive {answer}")
        self.operations.append(
            Operation(RequestKind.RETRY, answer, begun, self.now(), key=key, job_id=job_id, run_id=made)
        )

    async def _settle(self) -> None:
        """A failed run is discarded; one whose outcome is unknown is decided."""
        query = RunQuery(namespace=WHO.namespace, states=(RunState.FAILED,), limit=30)
        _, rows = await self._answered(lambda c: c.runs.search(WHO, query), "list failed runs")
        if not rows:
            return
        held = [row for row in rows if row.reason == UNKNOWN_OUTCOME]
        row = self._dice.choice(held or rows)
        if held:
            outcome = self._dice.choice((LetterResolution.SUCCEEDED, LetterResolution.FAILED))
            body = DecideBody(outcome=outcome)
            answer, _ = await self._answered(lambda c: c.letters.decide(WHO, row.run_id, body), f"decide {row.run_id}")
            self._tell(f"decide {answer}")
        else:
            await self._answered(lambda c: c.letters.discard(WHO, row.run_id, DiscardBody()), f"discard {row.run_id}")

    async def _hold(self) -> None:
        """A queue stands still for a while, by its own end or by a request."""
        until = datetime.fromtimestamp(self.now() + self._dice.uniform(1.0, 12.0), UTC)
        body = QueueHoldBody(until=until)
        answer, _ = await self._answered(lambda c: c.queues.hold(WHO, SIDE, body), "hold the side queue")
        self._tell(f"hold {answer}")
        await pause(self._loop, self._dice.random() * 8.0)
        if self._dice.random() < 0.5:
            await self._answered(lambda c: c.queues.resume(WHO, SIDE), "resume the side queue")

    async def _bulk(self) -> None:
        """Many at once, by a filter."""
        dice = self._dice
        what = dice.choice(("cancel", "retry", "redrive"))
        recent = {"due_after": written(self.now() - dice.choice((5.0, 30.0)))}
        body: Any
        if what == "cancel":
            body = msgspec.convert({"filter": {"status": ["QUEUED", "RETRYING"], **recent}}, RunsCancelBody)
            answer, _ = await self._answered(lambda c: c.bulk.runs(WHO, body), "cancel in bulk")
        elif what == "retry":
            body = msgspec.convert({"filter": {"status": ["FAILED"], **recent}}, RunsRetryBody)
            answer, _ = await self._answered(lambda c: c.bulk.runs(WHO, body), "retry in bulk")
        else:
            body = msgspec.convert({"filter": {"reason": "exit_code"}}, LettersRedriveBody)
            answer, _ = await self._answered(lambda c: c.bulk.letters(WHO, body), "redrive in bulk")
        self._tell(f"bulk {what} {answer}")

    async def _maintain(self) -> None:
        """Nothing starts for a while; what falls into it is skipped, or runs when it is over."""
        begin, name = self.now() + self._dice.uniform(0.0, 3.0), f"upkeep-{self._dice.randrange(3)}"
        span = {"from": written(begin), "to": written(begin + self._dice.uniform(1.0, 10.0))}
        said = {"when": {"timezone": self._swarm.zone, "periods": [span]}, "action": self._dice.choice([*Otherwise])}
        body = msgspec.convert(said, WindowBody)
        answer, _ = await self._answered(lambda c: c.windows.put(WHO, name, body), f"maintenance {name}")
        self._tell(f"maintenance {answer}")
        await pause(self._loop, self._dice.random() * 5.0)
        if self._dice.random() < 0.3:
            await self._answered(lambda c: c.windows.delete(WHO, name), f"end {name}")
