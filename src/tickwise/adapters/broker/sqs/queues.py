"""The queues of one prefix: made where they are absent, checked, and marked as those of one store.

    {prefix}-requests.fifo   {prefix}-results.fifo   {prefix}-dead.fifo      one each
    {prefix}-runs-p{lane}-{group}.fifo                                       one for each lane and group of executors

A tag of the queue of requests names the store. A queue of hints is tagged with the time at which its group was seen
last, so that nobody sends to executors that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tickwise.adapters.broker.sqs.address import DAY_SECONDS, HOUR_SECONDS, SqsAddress
from tickwise.adapters.broker.sqs.library import QueueAbsent, QueueDiffers, translated
from tickwise.domain.errors import Misconfigured
from tickwise.ports.broker import DEAD, REQUESTS, RESULTS, Channel, ChannelKind

FIXED: Final = (REQUESTS, RESULTS, DEAD)
OWNER: Final = "tickwise-store"
"""The tag that names the store of the queues."""
SEEN: Final = "tickwise-seen"
"""The tag with the time at which a group was seen last, Unix seconds."""
SEEN_SECONDS: Final = 600.0
"""A group tells so often that it is there."""
GONE_SECONDS: Final = 4 * SEEN_SECONDS
"""After so long without a word of its group a queue gets no more hints."""
LISTED_AT_ONCE: Final = 1_000


def queue_name(address: SqsAddress, channel: Channel, group: str = "") -> str:
    """The name of a queue; of a channel of runs that of a group."""
    if channel.kind is not ChannelKind.RUNS:
        return f"{address.prefix}-{channel.kind}.fifo"
    return f"{address.prefix}-runs-p{channel.lane}-{re.sub('[^A-Za-z0-9_-]', '-', group)[:24]}.fifo"


class Queues:
    """The queues that are there, by one client."""

    def __init__(self, address: SqsAddress, client: Any) -> None:
        self._address = address
        self._client = client
        self.fixed: dict[Channel, str] = {}
        """The addresses of the queues that are one each."""
        self.groups: dict[Channel, dict[str, str]] = {}
        """The queues of hints: by channel, the address by name."""

    async def ensure(self) -> None:
        """Make the queues that are absent, and check the others. Raises `BrokerUnavailable`, `Misconfigured`."""
        self.fixed = {channel: await self._made(channel) for channel in FIXED}

    async def mark(self, cluster: str) -> None:
        """Mark the queues as those of a store, unless they are marked. Raises `Misconfigured`: they are another
        store's."""
        owner = await self.owner()
        if owner is None:
            with translated():
                await self._client.tag_queue(QueueUrl=self.fixed[REQUESTS], Tags={OWNER: cluster})
            owner = await self.owner()  # of two that mark at once, the later one wins, and both see it
        if owner != cluster:
            raise Misconfigured(
                f"the queues with the prefix {self._address.prefix} belong to the store {owner}, and this one is "
                f"{cluster}: choose another prefix, sqs://{self._address.region}/other"
            )

    async def owner(self) -> str | None:
        """The store that the queues belong to; None: nobody has marked them."""
        return (await self._tags(self.fixed[REQUESTS])).get(OWNER)

    async def look(self) -> None:
        """Check that the fixed queues are there. Raises `QueueAbsent`, `BrokerUnavailable`."""
        for url in self.fixed.values():
            await self.counts(url)

    async def absent(self) -> list[str]:
        """The names of the fixed queues that are not there; those that are become known. Makes nothing."""
        missing = []
        for channel in FIXED:
            name = queue_name(self._address, channel)
            try:
                with translated():
                    self.fixed[channel] = (await self._client.get_queue_url(QueueName=name))["QueueUrl"]
            except QueueAbsent:
                missing.append(name)
        return missing

    async def counts(self, url: str) -> int:
        """The messages of a queue that are not deleted, as SQS knows it: some seconds old."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        with translated():
            answer = await self._client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(count) for count in answer.get("Attributes", {}).values())

    async def join(self, channel: Channel, group: str, now: float) -> str:
        """The queue of a group's hints, made if it is absent, and told that the group is there."""
        url = await self._made(channel, group)
        self.groups.setdefault(channel, {})[queue_name(self._address, channel, group)] = url
        await self.seen(url, now)
        return url

    async def seen(self, url: str, now: float) -> None:
        """Tell that the group of a queue is there."""
        with translated():
            await self._client.tag_queue(QueueUrl=url, Tags={SEEN: str(int(now))})

    async def find_groups(self, now: float) -> None:
        """Learn of all queues of hints whose group is there."""
        found: dict[Channel, dict[str, str]] = {}
        head = f"{self._address.prefix}-runs-p"
        async for url in self._listed(head):
            name = url.rsplit("/", 1)[-1]
            lane = name.removeprefix(head).partition("-")[0]
            if not lane.isdigit():
                continue
            try:
                seen = (await self._tags(url)).get(SEEN, "0")
            except QueueAbsent:
                continue
            if seen.isdigit() and now - int(seen) < GONE_SECONDS:
                found.setdefault(Channel(ChannelKind.RUNS, int(lane)), {})[name] = url
        self.groups = found

    async def _listed(self, head: str) -> Any:
        more: dict[str, str] = {}
        while True:
            with translated():
                answer = await self._client.list_queues(QueueNamePrefix=head, MaxResults=LISTED_AT_ONCE, **more)
            for url in answer.get("QueueUrls", ()):
                yield url
            if not answer.get("NextToken"):
                return
            more = {"NextToken": answer["NextToken"]}

    async def _tags(self, url: str) -> Mapping[str, str]:
        with translated():
            answer = await self._client.list_queue_tags(QueueUrl=url)
        return answer.get("Tags") or {}

    async def _made(self, channel: Channel, group: str = "") -> str:
        """The address of a queue that is there from now on."""
        name = queue_name(self._address, channel, group)
        kept = self._kept_seconds(channel)
        attributes = {
            "FifoQueue": "true",
            "ContentBasedDeduplication": "false",
            "MessageRetentionPeriod": str(kept),
            "VisibilityTimeout": str(self._address.visibility_seconds),
        }
        if not self._address.endpoint:  # AWS alone has the mode in which each bucket has a limit of its own
            attributes |= {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
        try:
            with translated():
                return str((await self._client.create_queue(QueueName=name, Attributes=attributes))["QueueUrl"])
        except QueueDiffers:
            return await self._checked(name, kept)

    async def _checked(self, name: str, kept: int) -> str:
        with translated():
            url = str((await self._client.get_queue_url(QueueName=name))["QueueUrl"])
            answer = await self._client.get_queue_attributes(QueueUrl=url, AttributeNames=["MessageRetentionPeriod"])
        found = int(answer.get("Attributes", {}).get("MessageRetentionPeriod", kept))
        if found < kept:
            raise Misconfigured(
                f"the queue {name} keeps messages for {found} s, and {kept} s are asked for: change its "
                "MessageRetentionPeriod, or the option of broker_url"
            )
        return url

    def _kept_seconds(self, channel: Channel) -> int:
        if channel.kind is ChannelKind.RUNS:
            return self._address.hints_hours * HOUR_SECONDS
        return (self._address.dead_days if channel == DEAD else self._address.requests_days) * DAY_SECONDS
