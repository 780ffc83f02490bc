"""The pace of sign-ins slows guesses down, locks nobody out, and holds little memory."""

from __future__ import annotations

import pytest

from tickwise.adapters.signals.local import LocalLimits
from tickwise.control.people import pace
from tickwise.control.people.pace import BURST, FREE_FAILURES, PAUSE_SECONDS_MOST, SignInPace
from tickwise.domain.errors import SignInPaced
from tickwise.testing.clock import VirtualClock

HERE, THERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def paced(clock: VirtualClock) -> SignInPace:
    return SignInPace(clock)


async def tries(paced: SignInPace, account: str, address: str, count: int) -> int:
    """How many of so many attempts are let through."""
    passed = 0
    for _ in range(count):
        try:
            await paced.begin(account, address)
        except SignInPaced:
            continue
        passed += 1
    return passed


async def test_an_address_has_a_burst_and_then_a_rate(paced: SignInPace, clock: VirtualClock) -> None:
    """Whatever names it tries; others have their own."""
    assert BURST == await tries(paced, "ada", HERE, BURST + 30)
    assert 0 == await tries(paced, "bob", HERE, 1)
    assert 1 == await tries(paced, "bob", THERE, 1)
    await clock.advance(3.0)
    assert 3 == await tries(paced, "ada", HERE, 10)


async def test_failures_pause_the_name_where_they_came_from(paced: SignInPace, clock: VirtualClock) -> None:
    """Each one longer than the one before, up to a bound; elsewhere the person signs in."""
    for _ in range(FREE_FAILURES):
        await paced.begin("ada", HERE)
        await paced.failed("ada", HERE)
    with pytest.raises(SignInPaced) as refusal:
        await paced.begin("ada", HERE)
    assert 1 == refusal.value.retry_after_seconds
    await paced.begin("ada", THERE)
    await paced.begin("bob", HERE)
    waits = []
    for _ in range(14):
        await clock.advance(PAUSE_SECONDS_MOST)
        await paced.begin("ada", HERE)
        await paced.failed("ada", HERE)
        with pytest.raises(SignInPaced) as refusal:
            await paced.begin("ada", HERE)
        waits.append(refusal.value.retry_after_seconds)
    assert waits == sorted(waits)
    assert waits[:3] == [2, 4, 8]
    assert PAUSE_SECONDS_MOST == waits[-1]


async def test_a_sign_in_forgets_the_failures_before_it(paced: SignInPace) -> None:
    """Somebody who mistyped begins anew."""
    for _ in range(FREE_FAILURES - 1):
        await paced.failed("ada", HERE)
    paced.succeeded("ada", HERE)
    await paced.failed("ada", HERE)
    await paced.begin("ada", HERE)


async def test_a_name_that_is_known_there_does_not_wait_for_the_others(paced: SignInPace, clock: VirtualClock) -> None:
    """A neighbour behind the same address uses up its attempts; guesses of that very name wait as ever."""
    paced.succeeded("ada", HERE)
    assert BURST == await tries(paced, "bob", HERE, BURST + 5)
    assert BURST == await tries(paced, "ada", HERE, BURST + 5)
    assert not paced.is_known("ada", THERE)
    await clock.advance(60.0)
    for _ in range(FREE_FAILURES):
        await paced.begin("ada", HERE)
        await paced.failed("ada", HERE)
    with pytest.raises(SignInPaced):
        await paced.begin("ada", HERE)
    await paced.begin("ada", THERE)


async def test_made_up_names_free_no_name_that_has_to_wait(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attacker who waits fails for other names, from other addresses, so that the wait is forgotten."""
    monkeypatch.setattr(pace, "REMEMBERED_MAX", 100)
    paced = SignInPace(clock)
    for _ in range(FREE_FAILURES + 5):
        await paced.failed("ada", HERE)
    for number in range(1_000):
        await paced.begin(f"name {number}", f"10.0.{number // 256}.{number % 256}")
        await paced.failed(f"name {number}", THERE)
    with pytest.raises(SignInPaced):
        await paced.begin("ada", HERE)


async def test_the_memory_is_bounded(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names and addresses are made up."""
    monkeypatch.setattr(pace, "REMEMBERED_MAX", 100)
    paced = SignInPace(clock)
    for number in range(1_000):
        await paced.begin(f"name {number}", f"10.0.{number // 256}.{number % 256}")
        await paced.failed(f"name {number}", HERE)
    assert 100 >= len(paced._addresses)
    assert 100 >= len(paced._failures)


async def test_attempts_of_an_address_count_in_all_processes(clock: VirtualClock) -> None:
    """Of one process and another, as of one alone."""
    limits = LocalLimits(clock)
    processes = [SignInPace(clock, limits) for _ in range(3)]
    passed = [await tries(processes[number % 3], f"name {number}", HERE, 1) for number in range(3 * BURST)]
    assert BURST == sum(passed)
    assert 1 == await tries(processes[0], "ada", THERE, 1)


async def test_failures_of_a_name_count_in_all_processes(clock: VirtualClock) -> None:
    """A guesser who waits as each process says has no more tries with three of them than the longest pauses allow."""
    limits = LocalLimits(clock)
    processes = [SignInPace(clock, limits) for _ in range(3)]
    wrong, seconds = 0, 0.0
    while seconds < 8 * PAUSE_SECONDS_MOST:
        for each in processes:
            wrong += await guess(each)
        await clock.advance(10.0)
        seconds += 10.0
    assert 15 + 8 <= wrong <= 15 + 8 + len(processes)
    for each in processes:
        await each.begin("ada", THERE)


async def test_a_process_alone_is_never_held_up_by_the_count_of_all(clock: VirtualClock) -> None:
    """The pauses of its own are as long."""
    alone, counted = SignInPace(clock), SignInPace(clock, LocalLimits(clock))
    found = []
    for _ in range(1_000):
        found.append((await guess(alone), await guess(counted)))
        await clock.advance(10.0)
    assert [one for one, _ in found] == [other for _, other in found]


async def guess(paced: SignInPace) -> int:
    """A wrong password for one name; 1: it was tried."""
    try:
        await paced.begin("ada", HERE)
    except SignInPaced:
        return 0
    await paced.failed("ada", HERE)
    return 1
