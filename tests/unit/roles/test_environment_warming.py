"""An executor builds the environments of jobs that it may be given ahead: in order, one at a time, within bounds."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.unit.roles.rig import Rig, ScriptedRunner
from tickwise.ports.environments import ENVIRONMENT_INVALID, EnvironmentDemand, EnvironmentFailure
from tickwise.ports.signals import Topic
from tickwise.ports.store.environments import DeclaredEnvironment
from tickwise.roles.executor.warming import (
    FAILED_FIRST_SECONDS,
    FAILED_MAX_SECONDS,
    KNOWN_SECONDS,
    LOOK_SECONDS,
    EnvironmentWarming,
)
from tickwise.roles.shared.service import IDLE_SECONDS


class WarmRunner(ScriptedRunner):
    """Notes what it is to build."""

    def __init__(self) -> None:
        super().__init__()
        self.warmed: list[str] = []
        self.failures: dict[str, EnvironmentFailure] = {}
        self.rig: Rig
        self.rings = False

    async def warm(self, demand: EnvironmentDemand) -> EnvironmentFailure | None:
        """As the test says."""
        self.warmed.append(demand.requirements)
        if self.rings:
            self.rings = False
            self.rig.signals.send(Topic.ENVIRONMENTS)
        return self.failures.get(demand.requirements)


class Stage:
    """An executor whose runner builds environments."""

    def __init__(self, **settings: Any) -> None:
        self.runner = WarmRunner()
        self.rig = self.runner.rig = Rig(self.runner, **settings)

    @property
    def warming(self) -> EnvironmentWarming:
        assert self.rig.executor._warming is not None
        return self.rig.executor._warming

    async def declare(self, *names: str, job_id: UUID | None = None, **fields: Any) -> None:
        """Jobs declare these packages."""
        given: dict[str, Any] = {"queue": "default", "requires": (), **fields}
        await self.rig.store.environments.declare(
            [DeclaredEnvironment(EnvironmentDemand("default", name), job_id=job_id, **given) for name in names]
        )

    async def warmed(self) -> list[str]:
        """What one look builds."""
        self.runner.warmed.clear()
        await self.warming.step()
        return [*self.runner.warmed]


async def test_an_executor_that_starts_later_builds_what_is_declared() -> None:
    """First what is due first. Each once, and again after hours: it may have been removed."""
    stage = Stage()
    job = stage.rig.make.recurring(stage.rig.clock.now() + 50.0)
    await stage.rig.store.jobs.add([job])
    await stage.declare("soon", job_id=job.job_id)
    await stage.rig.clock.advance(1.0)
    await stage.declare("some day")
    assert ["soon", "some day"] == await stage.warmed()
    assert [] == await stage.warmed()
    await stage.rig.clock.advance(KNOWN_SECONDS)
    assert ["soon", "some day"] == await stage.warmed()


async def test_what_it_cannot_be_given_it_does_not_build() -> None:
    """By queue, labels and namespaces."""
    stage = Stage(queues=("reports",), labels=("gpu",), namespaces=("default",))
    await stage.declare("elsewhere")
    await stage.declare("labelled", queue="reports", requires=("gpu",))
    await stage.declare("other label", queue="reports", requires=("tpu",))
    assert ["labelled"] == await stage.warmed()
    bound = Stage(namespaces=("another",))
    await bound.declare("not its namespace")
    assert [] == await bound.warmed()


async def test_no_more_are_built_than_the_setting_says() -> None:
    """Those that are due first; 0 builds none ahead."""
    stage = Stage(environments_ahead=2)
    await stage.declare("a", "b", "c")
    assert 2 == len(await stage.warmed())
    assert Stage(environments_ahead=0).rig.executor._warming is None
    assert Rig().executor._warming is None


async def test_a_failed_build_is_on_record_and_tried_again_more_and_more_seldom() -> None:
    """Until it succeeds, which takes it off the record."""
    stage = Stage()
    demand = EnvironmentDemand("default", "bad")
    await stage.declare("bad")
    stage.runner.failures["bad"] = EnvironmentFailure(ENVIRONMENT_INVALID, "no such package")
    assert ["bad"] == await stage.warmed()
    fault = await stage.rig.store.environments.fault(demand)
    assert fault is not None
    assert ("no such package", "under test") == (fault.detail, fault.executor)
    pauses = []
    for _ in range(9):
        waited = 0.0
        while not await stage.warmed():
            await stage.rig.clock.advance(FAILED_FIRST_SECONDS)
            waited += FAILED_FIRST_SECONDS
        pauses.append(waited)
    assert [30, 60, 120, 240, 480, 960, 1920, FAILED_MAX_SECONDS, FAILED_MAX_SECONDS] == pauses
    del stage.runner.failures["bad"]
    await stage.rig.clock.advance(FAILED_MAX_SECONDS)
    assert ["bad"] == await stage.warmed()
    assert await stage.rig.store.environments.fault(demand) is None


async def test_a_new_declaration_is_looked_at_before_the_rest() -> None:
    """After the build that is under way."""
    stage = Stage()
    await stage.declare("a", "b")
    stage.runner.rings = True
    stage.warming.wake.clear()
    assert 0.0 == await stage.warming.step()
    assert 1 == len(stage.runner.warmed)
    stage.warming.wake.clear()
    assert LOOK_SECONDS == await stage.warming.step()
    assert 2 == len(stage.runner.warmed)


async def test_an_executor_that_leaves_builds_nothing_more() -> None:
    """It drains."""
    stage = Stage()
    await stage.declare("a")
    stage.rig.executor._held_runs.closed = True
    assert IDLE_SECONDS == await stage.warming.step()
    assert [] == stage.runner.warmed
