"""The circuit breaker between a buffering API and the store: who waits for a store that is away."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.control import circuit_breaker
from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.domain.errors import InDoubt, StoreUnavailable


@pytest.fixture
def breaker(monkeypatch: pytest.MonkeyPatch) -> StoreCircuitBreaker:
    """One that lets the next caller try at once."""
    monkeypatch.setattr(circuit_breaker, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(circuit_breaker, "ASK_SECONDS", 60.0)
    return StoreCircuitBreaker(SystemClock())


async def away() -> str:
    """A store that cannot be reached."""
    raise StoreUnavailable("away")


async def there() -> str:
    """A store that answers."""
    return "there"


async def test_one_caller_tries_a_store_that_was_away(breaker: StoreCircuitBreaker) -> None:
    """While it waits the others are refused at once, and they go on once it has an answer."""
    with pytest.raises(StoreUnavailable):
        await breaker.ask(away)
    answers = asyncio.Event()
    begun = asyncio.Event()

    async def slow() -> str:
        begun.set()
        await answers.wait()
        return "slow"

    trying = asyncio.create_task(breaker.ask(slow))
    await begun.wait()
    with pytest.raises(StoreUnavailable, match="a moment ago"):
        await breaker.ask(there)
    answers.set()
    assert "slow" == await trying
    assert "there" == await breaker.ask(there)


async def test_a_caller_that_goes_away_while_it_tries_leaves_the_try_to_the_next(breaker: StoreCircuitBreaker) -> None:
    """Its client hung up."""
    with pytest.raises(StoreUnavailable):
        await breaker.ask(away)
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    trying = asyncio.create_task(breaker.ask(hangs))
    await begun.wait()
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert "there" == await breaker.ask(there)


async def test_a_lost_answer_is_an_absence(breaker: StoreCircuitBreaker) -> None:
    """What is asked changes nothing, so there is no doubt about it."""

    async def lost() -> str:
        raise InDoubt("the link broke")

    with pytest.raises(StoreUnavailable, match="the link broke"):
        await breaker.ask(lost)
