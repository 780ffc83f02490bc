"""Environments of scripts: built once, whole or not there, and never taken away from those who hold them."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass

from tickwise.ports.environments import (
    ENVIRONMENT_INVALID,
    Environment,
    EnvironmentDemand,
    EnvironmentFailure,
    Environments,
)
from tickwise.testing.contracts.base import Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStage:
    """The adapter's part of the suite."""

    environments: Environments
    other: Environments
    """Another executor's, of the same folder."""
    demand: EnvironmentDemand
    """One that can be fulfilled."""
    module: str
    """A module that only its packages have."""
    impossible: EnvironmentDemand


def ignored(_content: bytes) -> None:
    """The log of a build that nobody reads."""


class EnvironmentsContract(Contract):
    """The promises of `Environments`. The adapter's class provides the fixture `stage`, both of whose environments are
    open, and closes them."""

    async def test_an_environment_has_the_packages_that_are_declared(self, stage: EnvironmentStage) -> None:
        """Its interpreter finds them."""
        held = await self._held(stage.environments, stage.demand)
        assert 0 == await asyncio.to_thread(self._imports, held, stage.module)
        held.release()

    async def test_the_log_of_a_build_is_told_once(self, stage: EnvironmentStage) -> None:
        """To the caller that waits for it, and not to those who find the environment."""
        first, second = bytearray(), bytearray()
        for log in (first, second):
            held = await stage.environments.acquire(stage.demand, log.extend)
            assert not isinstance(held, EnvironmentFailure), held
            held.release()
        assert first
        assert not second

    async def test_what_is_prepared_is_found(self, stage: EnvironmentStage) -> None:
        """Without a log of its build; what cannot be built raises nothing."""
        log = bytearray()
        for demand in (stage.demand, stage.demand, stage.impossible):
            await stage.environments.prepare(demand)
        held = await stage.other.acquire(stage.demand, log.extend)
        assert not isinstance(held, EnvironmentFailure), held
        assert not log
        held.release()

    async def test_equal_demands_have_one_environment(self, stage: EnvironmentStage) -> None:
        """Also those of two executors at one time."""
        demands = [self._held(each, stage.demand) for each in (stage.environments, stage.other, stage.environments)]
        found = await asyncio.gather(*demands)
        assert 1 == len({each.program for each in found})
        for each in found:
            each.release()

    async def test_an_environment_that_is_held_is_shared_at_once(self, stage: EnvironmentStage) -> None:
        """By those of the same demand, until the last of them lets it go; before and after nothing is shared."""
        environments = stage.environments
        assert environments.share(stage.demand) is None
        first = await self._held(environments, stage.demand)
        second = environments.share(stage.demand)
        assert second is not None
        assert first.program == second.program
        assert environments.share(stage.demand._replace(namespace="another")) is None
        first.release()
        third = environments.share(stage.demand)
        assert third is not None
        for each in (second, third):
            each.release()
        assert environments.share(stage.demand) is None

    async def test_each_namespace_has_its_own(self, stage: EnvironmentStage) -> None:
        """No build of a namespace runs in a script of another."""
        demands = (stage.demand, stage.demand._replace(namespace="another"))
        found = [await self._held(stage.environments, demand) for demand in demands]
        assert 2 == len({each.program for each in found})
        for each in found:
            each.release()

    async def test_what_cannot_be_built_is_permanent(self, stage: EnvironmentStage) -> None:
        """With a reason for people; a later demand is answered in the same way."""
        for _ in range(2):
            found = await stage.environments.acquire(stage.impossible, ignored)
            assert isinstance(found, EnvironmentFailure)
            assert (ENVIRONMENT_INVALID, True) == (found.reason, found.is_permanent)
            assert found.detail

    async def test_a_build_goes_on_without_its_caller(self, stage: EnvironmentStage) -> None:
        """A cancelled attempt leaves the environment to the next one."""
        begun = asyncio.Event()
        first = asyncio.ensure_future(stage.environments.acquire(stage.demand, lambda _content: begun.set()))
        await begun.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        held = await self._held(stage.environments, stage.demand)
        held.release()

    async def test_closing_may_be_repeated(self, stage: EnvironmentStage) -> None:
        """It ends the builds."""
        begun = asyncio.Event()
        waiting = asyncio.ensure_future(stage.other.acquire(stage.demand, lambda _content: begun.set()))
        await begun.wait()
        await stage.other.close()
        await stage.other.close()
        await asyncio.gather(waiting, return_exceptions=True)
        (await self._held(stage.environments, stage.demand)).release()

    async def _held(self, environments: Environments, demand: EnvironmentDemand) -> Environment:
        found = await environments.acquire(demand, ignored)
        assert not isinstance(found, EnvironmentFailure), found
        return found

    def _imports(self, held: Environment, module: str) -> int:
        return subprocess.run([held.program, "-c", f"import {module}"], check=False).returncode
