"""The actor, for producers and for the processes of `dramatiq actors`."""

from __future__ import annotations

import os
from pathlib import Path

import dramatiq
import speak
from dramatiq.brokers.redis import RedisBroker

RECORD = speak.Record()


class Parts(dramatiq.Middleware):
    """Each worker process says that it is up, and leaves its part of the record when it ends."""

    def after_worker_boot(self, *_: object) -> None:
        Path(f"{os.environ['PEER_RECORD']}.up-{os.getpid()}").touch()

    def after_worker_shutdown(self, *_: object) -> None:
        RECORD.write_part()


broker = RedisBroker(url=os.environ["PEER_REDIS_URL"])
broker.add_middleware(Parts())
dramatiq.set_broker(broker)


def noop(number: int) -> None:
    """The job."""
    RECORD.ran(number)


actor = dramatiq.actor(noop)
