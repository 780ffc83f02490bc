"""R7-SQS: ElasticMQ in the place of Kafka is killed and comes back empty, stands still, and its queues are deleted.

It keeps nothing on disk, so each of its deaths is also a loss of all that was under way: what a broker over queues may
do at its worst.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from botocore.session import get_session

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.brokers import BROKEN, check_roles, frozen, killed, under_load
from tests.chaos.scene import CLOCK, Scene
from tests.services.elasticmq import CREDENTIALS, ElasticMq

PREFIX: Final = "chaos"
REGION: Final = "eu-central-1"
KINDS: Final = ("runs-", "results")
VISIBILITY_SECONDS: Final = 10
"""For so long a message that a dead reader took is nobody else's."""


class Queues:
    """Of one server, past the product."""

    def __init__(self, server: ElasticMq) -> None:
        self.server = server

    @property
    def url(self) -> str:
        """As roles are told."""
        options = f"lanes=2&wait_seconds=1&visibility_seconds={VISIBILITY_SECONDS}"
        return f"sqs://{REGION}/{PREFIX}?endpoint={self.server.url}&{options}"

    async def names(self) -> dict[str, str]:
        """The addresses of the queues that are there, by their names without the prefix."""
        return await asyncio.to_thread(self._names)

    async def delete(self) -> int:
        """Those of hints and results, with all that is in them; how many."""
        return await asyncio.to_thread(self._delete)

    async def parked(self) -> int:
        """How many messages nobody could read."""
        return await asyncio.to_thread(self._parked)

    def _client(self) -> Any:
        return get_session().create_client(
            "sqs",
            endpoint_url=self.server.url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def _names(self) -> dict[str, str]:
        found = self._client().list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", [])
        return {url.rpartition("/")[2].removeprefix(f"{PREFIX}-"): url for url in found}

    def _delete(self) -> int:
        client, found = self._client(), [url for name, url in self._names().items() if name.startswith(KINDS)]
        for url in found:
            client.delete_queue(QueueUrl=url)
        return len(found)

    def _parked(self) -> int:
        [url] = [url for name, url in self._names().items() if name.startswith("dead")]
        asked = ["ApproximateNumberOfMessages"]
        answer = self._client().get_queue_attributes(QueueUrl=url, AttributeNames=asked)
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])


async def emptied(scene: Scene, size: Size) -> Knowledge:
    """R7-SQS."""
    server = await scene.beside(ElasticMq())
    queues = Queues(server)
    scene.tell(TICKWISE_BROKER_URL=queues.url, TICKWISE_RESULTS="broker", **CREDENTIALS)
    await scene.cast(schedulers=2, executors=2, recorders=1)
    await under_load(scene, size, "before any fault", partial(CLOCK.sleep, 1.0))
    if missing := [kind for kind in KINDS if not any(name.startswith(kind) for name in await queues.names())]:
        scene.complain(f"there is no queue of {missing}, so this has shown nothing")
    for number in range(size.rounds):
        await under_load(scene, size, f"killed {number}", partial(killed, server, size.seconds))
        await under_load(scene, size, f"paused {number}", partial(frozen, server, size.seconds))
        await under_load(scene, size, f"queues deleted {number}", partial(_deleted, scene, queues))
    if parked := await queues.parked():
        scene.complain(f"{parked} messages were parked")
    check_roles(scene)
    return Knowledge()


async def _deleted(scene: Scene, queues: Queues) -> None:
    deleted = await queues.delete()
    scene.figures["queues_deleted"] = scene.figures.get("queues_deleted", 0) + deleted
    if not deleted:
        scene.complain("there was no queue to delete")


ROWS: Final = (
    Row(
        name="R7-SQS",
        fault="SQS is killed and comes back empty, stands still, and its queues are deleted",
        invariant="as R7; the queues are made again",
        play=emptied,
        short=Size(jobs=40, seconds=2, rounds=1),
        long=Size(jobs=60, seconds=60, rounds=3),
        pace=BROKEN,
        own_recovery=True,
    ),
)
