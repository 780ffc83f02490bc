"""The metrics of a keeper say what its store did, and nothing of a shard that another one owns."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.keepers import GatedLog
from tests.support.readable import ModelTables
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.observability.keepers import ShardFigures, ShardMetrics
from tickwise.observability.metrics import Metrics
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory

SHARD = 7


def told(metrics: Metrics) -> dict[str, float]:
    """Each sample of shard 7, and those without a shard."""
    families = text_string_to_metric_families(metrics.render().decode())
    found = {}
    for sample in (each for family in families for each in family.samples):
        others = [value for label, value in sample.labels.items() if label != "shard"]
        if sample.name.startswith("tickwise_keeper") and sample.labels.get("shard", "7") == "7":
            found[" ".join([sample.name.removeprefix("tickwise_keeper_"), *others])] = sample.value
    return found


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def shard(metrics: Metrics) -> ShardMetrics:
    return metrics.keepers.shard(SHARD, SystemClock())


@pytest.fixture
def log(tmp_path: Path) -> GatedLog:
    return GatedLog(tmp_path)


@pytest.fixture
async def store(log: GatedLog, shard: ShardMetrics) -> AsyncIterator[KeeperStore]:
    clock = SystemClock()
    store = KeeperStore(log, clock, projection=TableProjector(ModelTables(), clock, shard=SHARD), watch=shard)
    await store.open()
    yield store
    await store.close()


async def test_commits_takeovers_and_checkpoints_are_counted(
    store: KeeperStore, metrics: Metrics, shard: ShardMetrics
) -> None:
    """Entries, their bytes, the calls that each answers, one takeover, and the size of the last checkpoint."""
    make = Factory(await store.now(), seed="metrics")
    before = store.position
    for _ in range(3):
        await store.jobs.add([make.job()])
    await store.keep_checkpoint()
    shard.observe(store.figures())
    seen = told(metrics)
    entries = store.position - before
    assert entries >= 3
    assert (1, entries, entries) == (
        seen["takeover_seconds_count"], seen["log_entries_total"], seen["commit_seconds_count"]
    )  # fmt: skip
    assert (3, store.position, 1) == (seen["jobs"], seen["log_position"], seen["checkpoint_seconds_count"])
    assert seen["log_bytes_total"] > 500 < seen["checkpoint_bytes"]
    assert (1, 1) == (seen["owned"], seen["epoch"])


async def test_an_owner_whose_lease_was_over_for_a_moment_tells_its_epoch_again(
    store: KeeperStore, metrics: Metrics, shard: ShardMetrics
) -> None:
    """It says nothing while its lease is over, and goes on in the same epoch."""
    shard.observe(None)
    assert math.isnan(told(metrics)["epoch"])
    shard.observe(store.figures())
    assert (1, 1) == (told(metrics)["owned"], told(metrics)["epoch"])


async def test_a_commit_in_doubt_is_counted_and_the_shard_is_taken_again(
    store: KeeperStore, log: GatedLog, metrics: Metrics
) -> None:
    """The owner acquires its log again: that is a takeover, too."""
    make = Factory(await store.now(), seed="doubt")
    log.fails = StoreUnavailable("no answer")
    with pytest.raises(InDoubt):
        await store.jobs.add([make.job()])
    assert [False] == [store.answers]
    log.fails = None
    await eventually(lambda: store.answers, what="the shard is owned again")
    seen = told(metrics)
    assert (1, 2) == (seen["commits_in_doubt_total"], seen["takeover_seconds_count"])


async def test_tables_that_are_behind_are_told_with_their_age(metrics: Metrics) -> None:
    """The oldest entry that is not in them says how old they are; once they have caught up it is 0."""
    clock = VirtualClock()
    shard = metrics.keepers.shard(SHARD, clock)

    def figures(tables: int) -> ShardFigures:
        return ShardFigures(position=3, jobs=0, active_runs=0, ended_runs=0, tables_position=tables,
                            tables_waiting_bytes=20, tables_waiting_rows=4)  # fmt: skip

    shard.opened(1, 0.1)
    for position in (1, 2, 3):
        shard.committed(position, 1, 10, 0.001)
        await clock.advance(60.0)
    shard.observe(figures(1))
    seen = told(metrics)
    assert (2, 20, 4) == tuple(seen[f"tables_behind_{name}"] for name in ("entries", "bytes", "rows"))
    assert pytest.approx(120.0) == seen["tables_behind_seconds"]
    shard.observe(figures(3))
    assert (0, 0) == tuple(told(metrics)[f"tables_behind_{name}"] for name in ("entries", "seconds"))


async def test_a_keeper_that_waits_tells_no_figures_of_the_shard(
    store: KeeperStore, metrics: Metrics, shard: ShardMetrics
) -> None:
    """They would be those of another time."""
    shard.observe(store.figures())
    shard.observe(None)
    seen = told(metrics)
    assert 0 == seen["owned"]
    gauges = ("epoch", "log_position", "jobs", "active_runs", "ended_runs", "tables_behind_seconds")
    assert [] == [name for name in gauges if not math.isnan(seen[name])]


async def test_a_method_of_a_later_release_makes_no_series(metrics: Metrics) -> None:
    """Calls of unknown names make no further series."""
    for number in range(100):
        metrics.keepers.called(SHARD, f"later.{number}", is_known=False)
    metrics.keepers.called(SHARD, "jobs.add", is_known=True)
    calls = {name: value for name, value in told(metrics).items() if name.startswith("calls")}
    assert {"calls_total other": 100, "calls_total jobs.add": 1} == calls
