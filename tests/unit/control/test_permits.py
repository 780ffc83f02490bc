"""Streams whose callers come to have fewer permissions while they are open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.control.live.filters import EventFilter
from tickwise.control.live.permits import Credential, Permits
from tickwise.control.live.streams import EventStream
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.model import Principal
from tickwise.domain.selectors import RestrictedGrant

ALL = Principal("ada", "default", frozenset({"runs:read"}), everywhere=frozenset({"runs:read"}))


@pytest_asyncio.fixture
async def permits() -> AsyncIterator[Permits]:
    made = Permits(SystemClock())
    yield made
    await made.stop()


def stream(namespace: str | None) -> EventStream:
    """A stream about one namespace, or about each."""
    return EventStream(EventFilter(namespace=namespace), None, SystemClock().monotonic, lambda _: None)


def asked(*answers: Principal | Exception) -> Callable[[], Awaitable[Principal]]:
    """Answers in turn, the last one for ever."""
    left = list(answers)

    async def ask() -> Principal:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


async def test_a_stream_of_each_namespace_needs_the_permission_in_each(permits: Permits) -> None:
    """Once it holds in one alone, the stream ends; that of the one goes on."""
    whole, own = stream(None), stream("default")
    credential = Credential(("key",), asked(ALL, ALL._replace(everywhere=frozenset())))
    permits.add(whole, credential)
    permits.add(own, credential)
    await eventually(lambda: whole.ended, what="it ends")
    assert ("forbidden", False) == (whole.end_reason, own.ended)


async def test_a_stream_is_bound_to_labels_as_its_caller_is(permits: Permits) -> None:
    """From the next look on."""
    own = stream("default")
    grant = RestrictedGrant(frozenset({"runs:read"}), (("team", "a"),), is_everywhere=False)
    bound = Principal("ada", "default", frozenset(), restricted=(grant,))
    permits.add(own, Credential(("key",), asked(ALL, bound)))
    await eventually(lambda: own.within is not None, what="it is bound")
    assert not own.ended


async def test_a_look_that_fails_is_not_the_last(permits: Permits) -> None:
    """A store that is away, and a bug: asked again, and then the stream ends."""
    own = stream("default")
    answers = StoreUnavailable("away"), RuntimeError("a bug"), ALL._replace(scopes=frozenset(), everywhere=frozenset())
    permits.add(own, Credential(("key",), asked(*answers)))
    await eventually(lambda: own.ended, what="it ends")
    assert "forbidden" == own.end_reason
