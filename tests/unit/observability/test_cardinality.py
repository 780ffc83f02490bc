"""The number of series does not grow with what users do: jobs, labels, queues, reasons, paths."""

from __future__ import annotations

import pytest

from tests.support.alarm import more_time
from tests.support.app import API, World, world
from tickwise.observability.metrics import MAX_REASONS, Metrics
from tickwise.roles.scheduler.queue_counts import QUEUES_MOST, QueueCounts

BATCH, BATCHES, LABELS = 5_000, 20, 10
QUEUES = 300


def series(metrics: Metrics) -> int:
    """The series of a scrape."""
    return sum(not line.startswith("#") for line in metrics.render().decode().splitlines())


async def submit(here: World, batch: int) -> None:
    """Jobs with a name, a key and labels that no other has, in some hundred queues."""
    jobs = [
        {
            "name": f"job {number}",
            "key": f"key-{number}",
            "queue": f"queue-{number % QUEUES}",
            "labels": {f"label-{place}": f"{number}-{place}" for place in range(LABELS)},
            "task": {"kind": "shell", "command": f"echo {number}"},
            "schedule_type": "IMMEDIATE",
        }
        for number in range(batch * BATCH, (batch + 1) * BATCH)
    ]
    answer = await here.client.post(f"{API}/jobs:batch", json={"jobs": jobs})
    assert (BATCH, 0) == (answer.json()["created"], answer.json()["refused"]), answer.text[:300]
    # Paths with ids and names that nobody has: they are counted by the route, or as unknown.
    for path in (f"/jobs/key-{batch * BATCH}", f"/nowhere-{batch}", f"/queues/queue-{batch}"):
        await here.client.get(f"{API}{path}")


@pytest.mark.thorough
@pytest.mark.takes_up_to(180)
async def test_a_hundred_thousand_jobs_and_a_million_values_of_labels_add_no_series() -> None:
    """What the first batch needed is enough for all: jobs are counted, and not named."""
    with more_time(180):
        async with world() as here:
            counts = QueueCounts(here.store.upkeep, here.store.notices, here.metrics)
            await submit(here, 0)
            await counts.step()
            before = series(here.metrics)
            for batch in range(1, BATCHES):
                await submit(here, batch)
            await counts.step()
            assert before == series(here.metrics)
            stats = await here.store.upkeep.stats()
            assert BATCH * BATCHES == stats.queued
            text = here.metrics.render().decode()
            assert QUEUES_MOST == text.count('state="waiting"')
            assert "label-" not in text
            assert "key-" not in text


def test_reasons_that_tasks_invent_are_bounded() -> None:
    """A million of them are a hundred series, and one for the rest."""
    metrics = Metrics()
    metrics.retried({f"reason-{number}": 1 for number in range(1_000_000)})
    assert MAX_REASONS + 1 == metrics.render().decode().count("tickwise_retries_total{")
