"""Messages through a broker, by somebody who may write its topics and read what is in them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.security.probes import probe
from tests.support.buffered import Buffered, buffered
from tests.unit.control.test_rechecking import FORGERIES, Forgery, composed, forged
from tests.unit.roles.test_signatures import NEW, WHO, body, invented, names, running, staged, success_of
from tickwise.adapters.signing import Ed25519Key, SharedSecrets
from tickwise.ports.broker import REQUESTS, RESULTS, Message
from tickwise.roles.shared.messages import Request, decode, encode
from tickwise.roles.shared.signatures import LATE_SECONDS, signed

CLUSTER = "a-cluster"


def altered(here: Buffered, real: Message) -> Message:
    """Another namespace and principal under a signature that was read."""
    request = msgspec.structs.replace(decode(Request, real.value), namespace="payroll", principal="cfo")
    return real._replace(value=encode(request))


def unsigned(here: Buffered, real: Message) -> Message:
    """The same without a signature."""
    return altered(here, real)._replace(headers=())


def guessed(here: Buffered, real: Message) -> Message:
    """The same with a signature by another secret."""
    message = altered(here, real)
    return signed(message, SharedSecrets(["g" * 40]), broker=here.broker, channel=REQUESTS, cluster=CLUSTER)


def moved(here: Buffered, real: Message) -> Message:
    """A true request, copied into another partition, before others of its job."""
    return real._replace(partition=((real.partition or 0) + 1) % 3)


@probe(9, stopped_by="the signature, which covers cluster, channel, partition, key and value")
@pytest.mark.parametrize("made", [unsigned, guessed, altered, moved], ids=lambda made: made.__name__)
async def test_the_right_to_write_requests_speaks_for_nobody(made: Callable[[Buffered, Message], Message]) -> None:
    """A request for another namespace: unsigned, signed by a guess, changed under a true signature, or moved."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body("read by the attacker"))
        (sent,) = await here.batch()
        await here.consumer.done([sent])
        await here.broker.send(REQUESTS, [made(here, Message(sent.value, sent.key, sent.headers, sent.partition))])
        await here.apply()
        assert [] == await names(here)


@probe(9, stopped_by="the signature covers the name of the store")
async def test_a_request_of_another_installation_is_refused() -> None:
    """A topic that is mirrored from another installation with the same secret."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW], cluster="another") as here:
        await here.ingest.accept(WHO, body())
        await here.apply()
        assert [] == await names(here)


@probe(9, stopped_by="its age when the broker got it")
async def test_an_old_request_is_not_replayed() -> None:
    """A signed request that is sent again after the store may have forgotten it."""
    async with buffered(api_keys=[NEW], recorder_keys=[NEW]) as here:
        await here.ingest.accept(WHO, body())
        (sent,) = await here.batch()
        await here.consumer.done([sent])
        await here.clock.advance(LATE_SECONDS + 1)
        await here.broker.send(REQUESTS, [Message(sent.value, sent.key, sent.headers, sent.partition)])
        await here.apply()
        assert [] == await names(here)


@probe(9, stopped_by="the key of each executor, in its row")
@pytest.mark.parametrize("how", ["unsigned", "with a key of its own"])
async def test_the_right_to_write_results_speaks_for_no_executor(how: str) -> None:
    """An invented success of a run that another executor holds."""
    async with staged() as stage:
        assert stage.rig.broker is not None
        job = await running(stage.rig)
        message = invented(1, await success_of(stage.rig, job))
        if how != "unsigned":
            message = signed(message, Ed25519Key(), broker=stage.rig.broker, channel=RESULTS, cluster=CLUSTER)
        await stage.publish(message)
        await stage.recorder.step(0.0)
        assert "DISPATCHED" == await stage.rig.state(job)


@probe(9, stopped_by="the recorder checks a job as the API does")
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_no_job_becomes_a_row_that_the_api_would_refuse(forgery: Forgery) -> None:
    """A job over its limits, with a reserved label or an unknown kind, by an unsigned request where none is signed."""
    async with buffered() as here:
        request = await composed(here, **forgery.body)
        assert request.job is not None
        assert [] == await forged(here, msgspec.structs.replace(request, job=forgery.part(request.job)))
