"""Jobs that clients submit: one-time, recurring, with every policy that there is, one by one and in a burst.

Half of them are named by their client, the others by an Idempotency-Key; either way a repeat is the same job. What
comes often does not take long: a queue of it would outlast every calm.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import msgspec

from tickwise.control.bodies import JobBody
from tickwise.control.buffered.pending import PendingBatch, PendingRequest
from tickwise.control.control import Control
from tickwise.control.jobs.submission import Submitted
from tickwise.control.receipts import Once
from tickwise.domain.errors import Bug, Refused
from tickwise.domain.history.checker import ClientAnswer, Operation, RequestKind
from tickwise.domain.model import time_id
from tickwise.ports.store import Replay
from tickwise.testing.world.clients import MAX_REPEATS, WHO, Asking, Known, Request, pause, receipt, written
from tickwise.testing.world.nodes import SIDE
from tickwise.testing.world.tasks import QUICK, SLOW

BURST: Final = 130
"""More than a claim that is sent ahead asks for."""
RARE_SECONDS: Final = 11.0
"""An interval in which also a long task ends, …"""
OFTEN_SECONDS: Final = 0.4
"""… and the longest task of what comes more often."""
GATE: Final = "gate"
"""The concurrency key that jobs of a world share."""


class Submits(Asking):
    """The jobs that clients submit."""

    def _submit_of(self, feature: str) -> Request:
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
        if swarm.wants("unknown"):
            body["on_unknown"] = dice.choice(("rerun", "fail", "hold"))
        if swarm.wants("limit") and dice.random() < 0.4:
            # One limit for one key in all of a world, so that the history can be held against it.
            body["concurrency"] = dice.choice(({"limit": 1}, {"limit": self.gate_limit, "key": f"key:{GATE}"}))
        if swarm.wants("rate") and dice.random() < 0.3:
            body["rate"] = {"limit": dice.choice((1, 3)), "per_seconds": dice.choice((0.5, 2.0))}
        if swarm.wants("hold") and dice.random() < 0.5:
            body["queue"] = SIDE
        if swarm.wants("failing"):
            rule = dice.choice(({}, {"exit_code": {"1": "fail"}}, {"exit_code": {"0-9": "retry"}}))
            body["retry"] = {**body["retry"], "on": rule}
        if swarm.wants("priority"):
            body["priority"] = dice.randrange(10)
        if swarm.wants("timeout") and dice.random() < 0.2:
            body["timeout_seconds"] = dice.choice((0.2, 1.0, 5.0))
        return body

    async def _sequence(self) -> None:
        """Three jobs of which each starts the next, and one for what fails."""
        last = await self._link({})
        second = await self._link({"then": last})
        fallback = await self._link({})
        if last and second and fallback:
            body = self._body(self._dice.choice(("once", "future")))
            body |= {"then": [str(second)], "on_failure": [str(fallback)]}
            await self._submit(body, recurring=False)

    async def _link(self, follows: dict[str, UUID | None]) -> UUID | None:
        """A job that runs when another one ends; None if the client was not told of it."""
        body = {"name": self._name("link"), "schedule_type": "ON_DEMAND", "task": self._task(), **self._policies()}
        body |= {name: [str(job_id)] for name, job_id in follows.items() if job_id is not None}
        return (await self._submit(body, recurring=False, once=False)).job_id

    async def _submit(self, body: dict[str, Any], *, recurring: bool, once: bool | None = None) -> Known:
        """One submit, repeated under its name until the client knows; and now and then although it does.

        `once`: one run comes of it by itself; if that is not said, of what does not recur."""
        dice = self._dice
        named = dice.random() < 0.5
        if named:
            # The client draws the id: the store knows a repeat by it.
            body["job_id"] = str(time_id(int(self.now() * 1000), dice.randbytes(10)))
        key = None if named else body["name"]
        known = Known(UUID(body["job_id"]) if named else None, recurring)
        text = json.dumps(body)
        for number in range(MAX_REPEATS):
            begun = self.now()
            answer, job_id = await self._answered(lambda c: self._send(c, text, key), f"submit {body['name']}")
            known.job_id = job_id or known.job_id
            operation = Operation(
                RequestKind.SUBMIT,
                answer,
                begun,
                self.now(),
                key=body["name"],
                job_id=known.job_id,
                once=not recurring if once is None else once,
            )
            self.operations.append(operation)
            self._watch.note("    ", operation.asked, operation.answer, operation.job_id)
            again = answer is not ClientAnswer.OK or (self._swarm.wants("repeat") and dice.random() < 0.2)
            if not again or self.now() > self._ends_at:
                break
            if number:
                self._tell("submit repeated")
            await pause(self._loop, dice.random() * 2.0)
        if known.job_id is not None:
            self.jobs.append(known)
        return known

    async def _send(self, control: Control, text: str, key: str | None) -> UUID:
        """As the API's route does it."""

        def read() -> JobBody:
            return msgspec.json.decode(text, type=JobBody)

        if key is None:
            return job_of(await control.requests.create(WHO, read))
        digest = sha256(text.encode()).digest()
        done = await control.requests.create(
            WHO,
            read,
            once=Once("POST /jobs", key, digest),
            receipt_for=lambda made: receipt("POST /jobs", key, digest, made.job_id),
        )
        return job_of(done)

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
            async def read() -> list[JobBody | Refused]:
                return [msgspec.json.decode(text, type=JobBody) for text in texts]

            verdicts = await control.requests.create_many(WHO, read)
            if not isinstance(verdicts, (Replay, PendingBatch)):
                for verdict in verdicts:
                    if isinstance(verdict, Refused):
                        raise verdict

        answer = ClientAnswer.INFO
        for _ in range(MAX_REPEATS):
            answer, _nothing = await self._answered(send, "a burst")
            if answer is ClientAnswer.OK:
                break
            # A submit that was in doubt once stays so, also if its repeats are answered.
            answer = ClientAnswer.INFO
            await pause(self._loop, 1.0)
        for body in bodies:
            job_id = UUID(str(body["job_id"]))
            self.operations.append(Operation(RequestKind.SUBMIT, answer, begun, self.now(), job_id=job_id))


def job_of(done: Submitted | PendingRequest | Replay) -> UUID:
    """The job of a submit that was answered."""
    if isinstance(done, PendingRequest):
        raise Bug("a world without a broker accepted a request for later")
    return UUID(done.body.decode()) if isinstance(done, Replay) else done.job_id
