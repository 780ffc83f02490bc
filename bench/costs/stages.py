"""Each stage of a run's life by itself, through the product's store, in batches of the size that the product uses.

Every stage begins with an empty store, prepares what it needs, warms its sessions with one batch, and is measured then.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace

import msgspec

from bench.costs import features, limits
from bench.costs.meter import Meter, Rows, less
from bench.costs.spending import Cost, spent
from bench.harness import SQL, Failed, Rig
from bench.work import LANE, jobs
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.documents.definition import Definition, encode_definition
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed, Outcome, executor_number, run_id, time_id
from tickwise.domain.schedule import ScheduleType
from tickwise.observability.metrics import Metrics
from tickwise.ports.store import Began, ClaimRequest, NewExecutor, NewJob, Retention
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings

RUNS = 20_000
SUBMIT_BATCH = 500
CLAIM_BATCH = 500
MAX_CLAIMS = 1000
"""Many times what is needed."""
FINISH_BATCH = 1000
FIRE_BATCH = 1000
SCHEDULES = 5_000
PERIOD_SECONDS = 10.0
HOUR_SECONDS = 3600.0
DAY_SECONDS = 86_400.0
RETENTION = Retention(runs_seconds=30 * DAY_SECONDS, failed_seconds=90 * DAY_SECONDS)
LONG_AGO_SECONDS = 40 * DAY_SECONDS
SUCCESS = CODES[RunState.SUCCESS]


class Bench:
    """What a stage works with."""

    def __init__(self, rig: Rig, meter: Meter) -> None:
        self.rig = rig
        self.meter = meter
        self.opened = PostgresStore(rig.dsn, clock=rig.clock)
        self._tables: Mapping[str, Rows] = {}

    async def renew(self) -> None:
        """Go on with new sessions: the old ones tell of the rows that they wrote when they end."""
        await self.opened.close()
        self._tables = await self.meter.tables()
        self.opened = PostgresStore(self.rig.dsn, clock=self.rig.clock)
        await self.opened.open()

    async def rows(self) -> Mapping[str, Rows]:
        """What the sessions since the last renewal did to rows. They are closed by it."""
        await self.opened.close()
        return less(await self.meter.tables(), self._tables)


Measure = Callable[[Bench], Awaitable[Cost]]


@dataclass(frozen=True)
class Stage:
    """A stage and the least that its writes can cost."""

    name: str
    title: str
    batch: int
    product: Measure
    limit: limits.Measure
    limit_is: str

    @property
    def warm(self) -> int:
        """So many runs go through the stage before it is measured."""
        if self.name == "retire":
            return 0
        return SCHEDULES if self.name == "fire" else self.batch


@dataclass(frozen=True)
class Measured:
    """One round of a stage."""

    cost: Cost
    rows: Mapping[str, Rows]
    runs: int
    """So many runs the rows are of: those that warmed up are among them."""


async def product_round(rig: Rig, meter: Meter, stage: Stage) -> Measured:
    """The product's share of a round."""
    await rig.reset()
    bench = Bench(rig, meter)
    await bench.renew()
    try:
        cost = await stage.product(bench)
    finally:
        rows = await bench.rows()
    return Measured(cost, rows, RUNS + stage.warm)


# ------------------------------------------------------------------ what stages are made of


async def _submit(bench: Bench, work: list[NewJob], batch: int = SUBMIT_BATCH) -> None:
    for at in range(0, len(work), batch):
        await bench.opened.jobs.add(work[at : at + batch])


async def _join(bench: Bench) -> int:
    """An executor that lives long enough for any measurement."""
    return await bench.opened.executors.join(
        NewExecutor(
            number=executor_number(int(bench.rig.clock.now() * 1000), bench.rig.clock.random_bytes(2)),
            name="bench",
            queues=("default",),
            labels=LANE.requires,
            functions=(),
            slots=16,
            lease_seconds=HOUR_SECONDS,
        )
    )


async def _claim(bench: Bench, executor: int, count: int) -> list[Claimed]:
    request = ClaimRequest(
        executor=executor, queues=("default",), labels=LANE.requires, limit=CLAIM_BATCH, ahead_seconds=1.5
    )
    claims: list[Claimed] = []
    for _ in range(MAX_CLAIMS):
        if len(claims) >= count:
            return claims
        claims += await bench.opened.attempts.claim(request)
    raise Failed(f"{len(claims)} of {count} runs could be claimed")


async def _finish(bench: Bench, executor: int, claims: list[Claimed]) -> None:
    for at in range(0, len(claims), FINISH_BATCH):
        outcomes = [
            Outcome(claimed.run_id, claimed.token, SUCCESS, claimed.now, claimed.now + 0.001)
            for claimed in claims[at : at + FINISH_BATCH]
        ]
        await bench.opened.attempts.finish(executor, outcomes)


def _schedules(rig: Rig, count: int) -> list[NewJob]:
    """Recurring jobs, due evenly within one period that begins now."""
    now = rig.clock.now()
    begin = math.ceil(now)
    made = []
    for number in range(count):
        anchor = begin + number * PERIOD_SECONDS / count
        definition = Definition(
            schedule_type=ScheduleType.INTERVAL,
            planned_at=now,
            task=msgspec.Raw(b'{"kind":"function","name":"bench.noop"}'),
            interval_seconds=PERIOD_SECONDS,
            anchor=anchor,
        )
        made.append(
            NewJob(
                job_id=time_id(int(now * 1000), rig.clock.random_bytes(10)),
                namespace="default",
                name="bench",
                schedule_type=ScheduleType.INTERVAL.value,
                task_kind="function",
                definition=encode_definition(definition),
                lane=LANE,
                created_by="bench",
                recurring=True,
                run_id=None,
                due=anchor,
            )
        )
    return made


def _long_ago(rig: Rig, count: int) -> list[NewJob]:
    """One-time jobs that were handed in, and due, so long ago that their day is past its retention."""
    then = rig.clock.now() - LONG_AGO_SECONDS
    made = []
    for job in jobs(rig, count):
        job_id = time_id(int(then * 1000), rig.clock.random_bytes(10))
        made.append(job._replace(job_id=job_id, run_id=run_id(job_id, then)))
    return made


# ------------------------------------------------------------------ the stages


async def submit(bench: Bench) -> Cost:
    """Immediate jobs: a definition and a run each."""
    work = jobs(bench.rig, RUNS)
    await _submit(bench, jobs(bench.rig, SUBMIT_BATCH))
    return await spent(bench.meter, RUNS, _submit(bench, work))


async def submit_future(bench: Bench) -> Cost:
    """Jobs due in an hour: a definition and a timer each."""
    due = bench.rig.clock.now() + HOUR_SECONDS
    work = jobs(bench.rig, RUNS, due=[due + number / 1000 for number in range(RUNS)])
    await _submit(bench, jobs(bench.rig, SUBMIT_BATCH, due=[due] * SUBMIT_BATCH))
    return await spent(bench.meter, RUNS, _submit(bench, work))


async def materialise(bench: Bench) -> Cost:
    """Timers of one-time jobs become runs."""
    due = bench.rig.clock.now() + HOUR_SECONDS
    count = RUNS + FIRE_BATCH
    await _submit(bench, jobs(bench.rig, count, due=[due + number / 1000 for number in range(count)]))

    async def fire(most: int) -> None:
        for _ in range(0, most, FIRE_BATCH):
            await bench.opened.timers.fire(2 * HOUR_SECONDS, FIRE_BATCH)

    await bench.renew()
    await fire(FIRE_BATCH)
    return await spent(bench.meter, RUNS, fire(RUNS))


async def fire(bench: Bench) -> Cost:
    """Schedules that are due: taken, decided by the scheduler, recorded."""
    await _submit(bench, _schedules(bench.rig, SCHEDULES))
    await bench.renew()
    scheduler = Scheduler(
        store=bench.opened,
        blobs=_NoBlobs(),  # type: ignore[arg-type]  # only what forgets old outputs looks there, and that is not driven
        signals=LocalSignals(),
        clock=bench.rig.clock,
        settings=SchedulerSettings(retention=RETENTION),
        telemetry=Metrics(),
    )

    async def due() -> None:
        left = SCHEDULES
        while left > 0:
            left -= await scheduler.fire_due()

    # On the store's clock a period passes between two rounds; the first one warms up.
    await bench.opened.shift(PERIOD_SECONDS + 1.0)
    await due()
    costs = []
    for number in range(2, 2 + RUNS // SCHEDULES):
        await bench.meter.connection.execute(SQL["costs_empty_runs"])
        await bench.opened.shift(number * PERIOD_SECONDS + 1.0)
        cost = await spent(bench.meter, 1, due())
        # A few fire twice, for real time passes as well.
        costs.append(divided(cost, await bench.meter.connection.fetchval(SQL["waiting"])))
    return mean(costs)


class _NoBlobs:
    """Nothing is kept anywhere."""


def divided(cost: Cost, runs: int) -> Cost:
    """What many runs cost, of one."""
    return Cost(**{name: value / runs for name, value in asdict(cost).items()})


def mean(costs: list[Cost]) -> Cost:
    """Of parts of one round that are equally large."""
    several = [asdict(cost) for cost in costs]
    return Cost(**{name: sum(one[name] for one in several) / len(several) for name in several[0]})


async def claim(bench: Bench) -> Cost:
    """Free runs are taken by an executor."""
    executor = await _join(bench)
    await _submit(bench, jobs(bench.rig, RUNS + CLAIM_BATCH))
    await bench.renew()
    await _claim(bench, executor, CLAIM_BATCH)
    return await spent(bench.meter, RUNS, _claim(bench, executor, RUNS))


async def start(bench: Bench) -> Cost:
    """The start of guarded runs is recorded before their tasks begin."""
    executor = await _join(bench)
    await _submit(bench, jobs(bench.rig, RUNS + CLAIM_BATCH))
    claims = await _claim(bench, executor, RUNS + CLAIM_BATCH)

    async def begin(part: list[Claimed]) -> None:
        for at in range(0, len(part), CLAIM_BATCH):
            starts = [Began(one.run_id, one.token, one.now) for one in part[at : at + CLAIM_BATCH]]
            await bench.opened.attempts.start(executor, starts)

    await bench.renew()
    await begin(claims[:CLAIM_BATCH])
    return await spent(bench.meter, RUNS, begin(claims[CLAIM_BATCH:]))


async def finish(bench: Bench) -> Cost:
    """Runs end: they go, and a row of history comes."""
    executor = await _join(bench)
    await _submit(bench, jobs(bench.rig, RUNS + FINISH_BATCH))
    claims = await _claim(bench, executor, RUNS + FINISH_BATCH)
    await bench.renew()
    await _finish(bench, executor, claims[:FINISH_BATCH])
    return await spent(bench.meter, RUNS, _finish(bench, executor, claims[FINISH_BATCH:]))


async def finish_unrecorded(bench: Bench) -> Cost:
    """Runs end, and nothing is kept of them: what is left of the statement without its insert."""
    with features.without(["finish.history"]):
        return await finish(bench)


async def retire(bench: Bench) -> Cost:
    """A day of jobs and runs is given up, all at once."""
    await bench.opened.shift(-LONG_AGO_SECONDS)
    await bench.opened.upkeep.maintain(RETENTION)
    executor = await _join(bench)
    await _submit(bench, _long_ago(bench.rig, RUNS))
    await _finish(bench, executor, await _claim(bench, executor, RUNS))
    await bench.renew()

    async def upkeep() -> None:
        if not (await bench.opened.upkeep.maintain(RETENTION)).dropped:
            raise Failed("nothing was past its time")

    cost = await spent(bench.meter, RUNS, upkeep())
    # Upkeep has a session of its own, which ends with it.
    return replace(cost, database=cost.database + cost.background, background=0.0)


STAGES = (
    Stage("submit", "submit, due now", SUBMIT_BATCH, submit, limits.submit, "insert a definition and a run"),
    Stage(
        "submit_future", "submit, due later", SUBMIT_BATCH, submit_future, limits.submit_future,
        "insert a definition and a timer",
    ),
    Stage(
        "materialise", "timer to run", FIRE_BATCH, materialise, limits.materialise, "delete the timer, insert the run"
    ),
    Stage("fire", "schedule to run", FIRE_BATCH, fire, limits.fire, "move the timer on, insert a run: no decision"),
    Stage("claim", "claim", CLAIM_BATCH, claim, limits.claim, "update holder and token of free runs"),
    Stage("start", "recorded start, guarded runs", CLAIM_BATCH, start, limits.start, "update one column of held runs"),
    Stage("finish", "finish, with history", FINISH_BATCH, finish, limits.finish, "delete the run, insert history"),
    Stage("forget", "the same without history", FINISH_BATCH, finish_unrecorded, limits.forget, "delete the run"),
    Stage("retire", "retention, a day at once", RUNS, retire, limits.erase, "delete rows of history by id"),
)  # fmt: skip
