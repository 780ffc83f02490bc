"""The engine goes away, and executors die: nothing runs twice, nothing is left, and no end is made up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.services.docker import Docker
from tests.support.containers import BUSY, EngineLook, container_settings, policy
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container import sweep
from tickwise.adapters.runner.container.runner import ContainerRunner
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.runner import Verdict
from tickwise.testing.contracts.runner import RunnerBlobs, RunnerStage, log_of

COUNTS = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo line $i; sleep 0.2; done"
pytestmark = pytest.mark.takes_up_to(400)


@pytest_asyncio.fixture(params=[True], ids=["live-restore"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Docker]:
    """An engine of the test's own, which it may kill."""
    async with Docker(survives_restarts=request.param) as started:
        from tests.services import images

        started.load("localhost/busy", "1", images.busy())
        yield started


class Site:
    """Stages on one engine."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.look = EngineLook(url)
        self.blobs = RunnerBlobs()
        self.url = url
        self.stages: list[RunnerStage] = []

    async def stage(self, **changes: Any) -> RunnerStage:
        """A started runner."""
        settings = container_settings(self.folder, self.blobs, policy(self.url, **changes))
        lasting = {"kind": "container", "image": BUSY, "command": "echo ready; exec sleep 600"}
        quick = {"kind": "container", "image": BUSY, "command": ["true"]}
        stage = RunnerStage(
            runner=ContainerRunner(settings), quick=quick, lasting=lasting, failing=quick, lives=self.look.lives
        )
        await stage.runner.start(stage.listener, stage.store_clock.now)
        self.stages.append(stage)
        return stage


@pytest_asyncio.fixture
async def site(tmp_path: Path, engine: Docker) -> AsyncIterator[Site]:
    made = Site(tmp_path, engine.url)
    yield made
    for stage in made.stages:
        await stage.runner.close()


async def test_a_killed_engine_is_waited_for(site: Site, engine: Docker) -> None:
    """Its container goes on; no line is lost and none comes twice; the end is the true one."""
    stage = await site.stage()
    [given] = stage.launch({"kind": "container", "image": BUSY, "command": f"echo ready; {COUNTS}; exit 7"})
    await stage.until_lives(given)
    engine.kill()
    await eventually(lambda: not stage.runner.labels(), within_seconds=90, what="it offers no containers")
    await SystemClock().sleep(1.0)
    await engine.start()
    ending = await stage.listener.ending_of(given)
    assert (Verdict.FAILED, "exit_code", ("7",)) == (ending.verdict, ending.reason, ending.symptoms), ending
    lines = ["ready", *(f"line {number}" for number in range(1, 21))]
    assert lines == (await log_of(site.blobs, given)).splitlines()
    await eventually(lambda: bool(stage.runner.labels()), within_seconds=90, what="it offers containers again")


@pytest.mark.parametrize("engine", [False], indirect=True, ids=["without"])
async def test_an_engine_that_ends_its_containers_makes_the_outcome_unknown(
    site: Site, engine: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's `on_unknown` decides: the task did not fail."""
    # On a busy machine an engine takes its time from the end of its containers to its own.
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.SHUT_DOWN_SECONDS", 60.0)
    stage = await site.stage()
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    await engine.stop()
    await engine.start()
    ending = await stage.listener.ending_of(given)
    assert (Verdict.UNKNOWN, "outcome_lost") == (ending.verdict, ending.reason), ending


async def test_a_run_whose_engine_is_away_is_given_back(site: Site, engine: Docker) -> None:
    """Not charged; after a while another executor may take it."""
    stage = await site.stage()
    engine.kill()
    [given] = stage.launch(stage.quick)
    ending = await stage.listener.ending_of(given)
    assert (Verdict.UNOFFERED, "engine_away") == (ending.verdict, ending.reason), ending
    assert not stage.runner.labels()
    await engine.start()


async def test_a_stop_ends_although_the_engine_is_away(
    site: Site, engine: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is removed when the engine is back."""
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.MAX_KILL_SECONDS", 0.5)
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.SWEEP_SECONDS", 0.1)
    stage = await site.stage()
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    engine.kill()
    stage.runner.stop(given.run_id, grace_seconds=0.1)
    assert Verdict.CANCELLED is await stage.verdict_of(given)
    await engine.start()
    await eventually(lambda: not site.look.all(), within_seconds=90, what="its container is removed")


async def test_a_container_that_somebody_removes_leaves_an_unknown_outcome(site: Site) -> None:
    """It may have done something."""
    stage = await site.stage()
    [given] = stage.launch(stage.lasting)
    await stage.until_lives(given)
    site.look.ask("DELETE", f"/containers/{site.look.container(given.run_id)['Id']}?force=1&v=1")
    ending = await stage.listener.ending_of(given)
    assert Verdict.UNKNOWN is ending.verdict, ending


async def test_what_a_dead_executor_left_is_removed_when_its_lease_is_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one on the engine; not before, and not while the store is away."""
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.SWEEP_SECONDS", 0.05)
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.PING_SECONDS", 0.05)
    held: set[UUID] = set()
    asked: list[UUID] = []

    async def is_held(_namespace: str, run_id: UUID, _token: int) -> bool:
        asked.append(run_id)
        if not held:
            raise StoreUnavailable("away")
        return run_id in held

    dying = await site.stage()
    [lost] = dying.launch(dying.lasting)
    await dying.until_lives(lost)
    await site.stage(is_held=is_held)
    await eventually(lambda: len(asked) > 3, within_seconds=90, what="it asks the store")
    held.add(lost.run_id)
    asked.clear()
    await eventually(lambda: len(asked) > 3, within_seconds=90, what="it asks again")
    assert site.look.lives(lost.run_id)
    held.clear()
    held.add(UUID(int=0))
    await eventually(lambda: not site.look.all(), within_seconds=90, what="nothing is left")
    assert Verdict.UNKNOWN is await dying.verdict_of(lost)


async def test_a_run_has_one_container(site: Site) -> None:
    """The next attempt removes what the one before it left; a later attempt's container is left alone."""
    dying, living = await site.stage(), await site.stage()
    [first] = dying.launch(dying.lasting)
    await dying.until_lives(first)
    second = first._replace(token=first.token + 1, attempt=2)
    living.given.append(second)
    living.runner.launch([second])
    assert Verdict.UNKNOWN is await dying.verdict_of(first)
    await living.until_lives(second)
    assert "2" == site.look.container(first.run_id)["Config"]["Labels"]["tickwise.attempt"]
    third = await site.stage()
    third.given.append(first)
    third.runner.launch([first])
    assert Verdict.RELEASED is await third.verdict_of(first)
    assert site.look.lives(second.run_id)
    living.runner.stop(second.run_id, grace_seconds=5.0)
    assert Verdict.CANCELLED is await living.verdict_of(second)
    assert sweep.SWEEP_SECONDS + 30.0 < 60.0, "a sweep and a lease are less than a minute"
