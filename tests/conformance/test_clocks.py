"""The clocks keep the promises of the port; and what is particular to the one that stands."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.ports.clock import Clock
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.contracts.clock import ClockContract


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()


class TestShiftedClock(ClockContract):
    @pytest.fixture
    def clock(self) -> ShiftedClock:
        return ShiftedClock()

    def test_it_is_ahead_by_what_was_shifted(self, clock: ShiftedClock) -> None:
        """Both of its times."""
        now, monotonic = clock.now(), clock.monotonic()
        clock.shift(100.0)
        assert 100.0 <= clock.now() - now < 199.0
        assert 100.0 <= clock.monotonic() - monotonic < 199.0


class TestVirtualClock(ClockContract):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    async def pass_time(self, clock: Clock, seconds: float) -> None:
        assert isinstance(clock, VirtualClock)
        await clock.advance(seconds)

    async def test_it_stands_until_it_is_advanced(self, clock: VirtualClock) -> None:
        """And then by exactly that."""
        now = clock.now()
        assert clock.now() == now
        await clock.advance(0.000001)
        assert clock.now() == pytest.approx(now + 0.000001, abs=1e-9)

    async def test_sleepers_wake_in_the_order_of_their_time(self, clock: VirtualClock) -> None:
        """Each at its own instant; of one instant, in the order in which they fell asleep."""
        woken: list[tuple[str, float]] = []

        async def sleep(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic()))

        names = (("late", 3.0), ("early", 1.0), ("twin", 2.0), ("other twin", 2.0), ("never", 99.0))
        tasks = [asyncio.create_task(sleep(name, seconds)) for name, seconds in names]
        await clock.advance(10.0)
        assert woken == [("early", 1.0), ("twin", 2.0), ("other twin", 2.0), ("late", 3.0)]
        assert clock.next_alarm_seconds() == 89.0
        tasks[-1].cancel()
        await clock.advance(100.0)
        assert clock.next_alarm_seconds() is None

    async def test_a_sleeper_that_falls_asleep_again_is_woken_again_in_one_advance(self, clock: VirtualClock) -> None:
        """A loop that sleeps a second runs ten times in ten."""
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await clock.sleep(1.0)
                ticks.append(clock.monotonic())

        task = asyncio.create_task(tick())
        await clock.advance(10.0)
        task.cancel()
        assert ticks == [float(second) for second in range(1, 11)]

    def test_the_same_seed_draws_the_same(self) -> None:
        """A run of a simulation can be seen again; another seed is another run."""

        def drawn(seed: int) -> tuple[bytes, bytes, float]:
            clock = VirtualClock(seed=seed)
            return clock.random_bytes(10), clock.random_bytes(100), clock.chance()

        assert drawn(1) == drawn(1)
        assert drawn(1) != drawn(2)
