"""The topics of one prefix: made if they are missing, checked if they exist, marked with the store that owns them.

    {prefix}.cluster      one record, the first, for ever: the name of the store that all of this serves
    {prefix}.requests     by job, kept for days          {prefix}.results    by executor, kept for days
    {prefix}.runs.p0 …    hints, kept for an hour        {prefix}.dead       for people, kept for a month

Invariant: nothing that somebody else made is changed. A topic that does not fit is refused with an advice.

All of it blocks, so it is called in another thread, one call at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tickwise.adapters.broker.kafka.address import KafkaAddress
from tickwise.adapters.broker.kafka.library import Complaints, admin_library, client_library
from tickwise.domain.errors import BrokerUnavailable, Misconfigured
from tickwise.ports.broker import DEAD, REQUESTS, RESULTS, Channel, ChannelKind

ANSWER_SECONDS: Final = 4.0
"""The longest time that a look may take. So long after a broker left, and one pause between looks, its absence is
known."""
APPEAR_SECONDS: Final = 5.0
"""The longest time that a topic that was just made may need until every broker knows it, …"""
APPEAR_LOOKS: Final = 50
"""… and how often it is looked for meanwhile."""
MARK_SECONDS: Final = 10.0
MARK_KEY: Final = b"cluster"


class Topic(NamedTuple):
    """One as it must be."""

    name: str
    partitions: int
    config: Mapping[str, str]


class Found(NamedTuple):
    """One as it is."""

    identity: str
    """Another one if it was deleted and made again."""
    partitions: int


def topic_name(address: KafkaAddress, channel: Channel) -> str:
    """The name of the channel's topic."""
    return f"{address.prefix}.{channel.name}"


def channels_of(address: KafkaAddress) -> list[Channel]:
    """All channels."""
    return [REQUESTS, *(Channel(ChannelKind.RUNS, lane) for lane in range(address.lanes)), RESULTS, DEAD]


class Topics:
    """The topics of one prefix."""

    def __init__(self, address: KafkaAddress, complaints: Complaints) -> None:
        self._address = address
        self._complaints = complaints
        self._library = client_library()
        kept = address.retention_ms()
        self._marker = Topic(f"{address.prefix}.cluster", 1, self._config(retention_ms=-1))
        self._topics = {
            channel: Topic(
                topic_name(address, channel), address.partitions, self._config(retention_ms=kept[channel.kind])
            )
            for channel in channels_of(address)
        }
        self.marked = False
        """The marker was there when it was looked last."""
        self._pause = threading.Event()
        self._admin: Any = None

    def ensure(self) -> Mapping[Channel, Found]:
        """Make sure that all topics exist with the right settings. Raises `BrokerUnavailable`, `Misconfigured`."""
        self._begin()
        wanted = [self._marker, *self._topics.values()]
        there = self._look(wanted)
        missing = [topic for topic in wanted if topic.name not in there]
        if missing:
            self._make(missing)
        # A broker tells of a topic a moment after its controller has made it.
        for _ in range(APPEAR_LOOKS):
            there |= self._look(missing) if missing else {}
            missing = [topic for topic in missing if topic.name not in there]
            if not missing:
                break
            self._pause.wait(APPEAR_SECONDS / APPEAR_LOOKS)
        self._check(there)
        return self._by_channel(there)

    def look(self) -> Mapping[Channel, Found]:
        """The topics that exist now. Raises `BrokerUnavailable`."""
        self._begin()
        there = self._look([self._marker, *self._topics.values()])
        self.marked = self._marker.name in there
        return self._by_channel(there)

    def mark(self, cluster: str) -> None:
        """Mark the topics as those of `cluster`. The first mark counts, also if others write one. Raises
        `Misconfigured`."""
        owner = self.owner()
        if owner is None:
            self._write_mark(cluster)
            owner = self.owner()
        if owner is None:
            raise BrokerUnavailable(f"{self._marker.name} was written, and could not be read back")
        if owner != cluster:
            raise Misconfigured(
                f"broker_url: the topics {self._address.prefix}.* belong to the store {owner}, and this one is "
                f"{cluster}. Two stores never share them: give this one a prefix of its own, as in ?prefix=other. "
                f"If the other is gone for good, delete the topics."
            )

    def forget(self) -> None:
        """Free the connection."""
        self._admin = None

    # ---------------------------------------------------------------------------------------------- what is there

    def _config(self, *, retention_ms: int) -> dict[str, str]:
        config = {
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
            # Some clusters ship with a limit in bytes, beyond which the broker drops requests that were not applied.
            "retention.bytes": "-1",
            # Times of messages are compared with each other, so one clock says them: the broker's.
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self._address.message_bytes_most),
        }
        if self._address.replication >= 3:
            config["min.insync.replicas"] = "2"
        return config

    def _begin(self) -> None:
        if self._admin is None:
            errors = self._complaints.errors(lambda _: None)
            self._admin = admin_library().AdminClient(
                {**self._address.client(), "error_cb": errors}, logger=self._complaints
            )

    def _by_channel(self, there: Mapping[str, Found]) -> dict[Channel, Found]:
        return {channel: there[topic.name] for channel, topic in self._topics.items() if topic.name in there}

    def _look(self, wanted: Sequence[Topic]) -> dict[str, Found]:
        names = self._library.TopicCollection([topic.name for topic in wanted])
        found: dict[str, Found] = {}
        for name, future in self._admin.describe_topics(names, request_timeout=ANSWER_SECONDS).items():
            try:
                told = future.result()
            except self._library.KafkaException as failure:
                if failure.args[0].code() != self._library.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._failed("look at", name, failure) from failure
            else:
                found[name] = Found(str(told.topic_id), len(told.partitions))
        self._admin.poll(0)
        return found

    def _make(self, missing: Sequence[Topic]) -> None:
        asked = [
            admin_library().NewTopic(
                topic.name, topic.partitions, self._address.replication or -1, config=dict(topic.config)
            )
            for topic in missing
        ]
        made = self._admin.create_topics(asked, operation_timeout=ANSWER_SECONDS, request_timeout=2 * ANSWER_SECONDS)
        for name, future in made.items():
            try:
                future.result()
            except self._library.KafkaException as failure:
                if failure.args[0].code() != self._library.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._failed("make", name, failure) from failure

    def _check(self, there: Mapping[str, Found]) -> None:
        wanted = [self._marker, *self._topics.values()]
        for topic in wanted:
            if topic.name not in there:
                raise BrokerUnavailable(f"the topic {topic.name} was made, and is not there yet")
            if there[topic.name].partitions < topic.partitions:
                raise Misconfigured(
                    f"broker_url: the topic {topic.name} has {there[topic.name].partitions} partitions, and "
                    f"partitions={topic.partitions} is asked for: add some, or ask for fewer"
                )
        for name, config in self._configs(wanted).items():
            self._check_config(next(topic for topic in wanted if topic.name == name), config)

    def _check_config(self, topic: Topic, config: Mapping[str, str]) -> None:
        kept, wanted = int(config["retention.ms"]), int(topic.config["retention.ms"])
        largest = int(config["max.message.bytes"])
        bytes_kept, stamped = config.get("retention.bytes", "-1"), config.get("message.timestamp.type", "")
        problem = ""
        if "compact" in config["cleanup.policy"]:
            problem = f"cleanup.policy={config['cleanup.policy']}, which drops messages: set it to delete"
        elif kept != -1 and (wanted == -1 or kept < wanted):
            problem = f"retention.ms={kept}: set it to {wanted} or more, or ask for less in broker_url"
        elif bytes_kept != "-1":
            problem = f"retention.bytes={bytes_kept}, which drops messages before their time: set it to -1"
        elif stamped != "LogAppendTime":
            problem = f"message.timestamp.type={stamped}: set it to LogAppendTime, so that one clock says all times"
        elif largest < self._address.message_bytes_most:
            problem = f"max.message.bytes={largest}: set it to {self._address.message_bytes_most} or more"
        if problem:
            raise Misconfigured(f"the topic {topic.name} has {problem}")

    def _configs(self, topics: Sequence[Topic]) -> dict[str, dict[str, str]]:
        """The settings of topics, without those of topics that this user may not read: not every cluster allows it."""
        admin = admin_library()
        asked = [admin.ConfigResource(admin.ResourceType.TOPIC, topic.name) for topic in topics]
        found = {}
        for resource, future in self._admin.describe_configs(asked, request_timeout=ANSWER_SECONDS).items():
            try:
                entries = future.result()
            except self._library.KafkaException as failure:
                self._complaints.complain("configs", f"{resource.name}: {failure.args[0].str()}")
            else:
                found[resource.name] = {name: entry.value for name, entry in entries.items()}
        return found

    def _failed(self, doing: str, name: str, failure: Any) -> BrokerUnavailable | Misconfigured:
        """Translate a failure of the cluster for the caller."""
        error, kinds = failure.args[0], self._library.KafkaError
        detail = f"could not {doing} the topic {name}: {error.str()}"
        if error.code() in (kinds.TOPIC_AUTHORIZATION_FAILED, kinds.CLUSTER_AUTHORIZATION_FAILED):
            # An operator makes the topics and gives the rights, and may do so later.
            return BrokerUnavailable(f"{detail} Run `tickwise broker prepare` with the address of a user who may.")
        if error.code() in (
            kinds.INVALID_REPLICATION_FACTOR,
            kinds.POLICY_VIOLATION,
            kinds.INVALID_CONFIG,
            kinds.INVALID_PARTITIONS,
            kinds.TOPIC_EXCEPTION,
        ):
            return Misconfigured(f"broker_url: {detail}")
        self._admin.poll(0)
        if self._complaints.refusal:
            return Misconfigured(
                f"broker_url: the broker and this client do not come to terms: {self._complaints.refusal}"
            )
        last = self._complaints.last
        return BrokerUnavailable(f"{detail}{f' ({last})' if last else ''}")

    # ---------------------------------------------------------------------------------------------- whose they are

    def owner(self) -> str | None:
        """The store that they serve, by the first record of the marker; None: no store yet.

        Raises `BrokerUnavailable`.
        """
        # By number: asking where it begins first would wait 0.5 s for a leader that the client does not know yet.
        place = self._library.TopicPartition(self._marker.name, 0, 0)
        consumer = self._library.Consumer(
            {
                **self._address.client(),
                "group.id": f"{self._address.prefix}.cluster",  # the library wants one; nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,  # an empty topic says so at once, instead of after 500 ms
                "error_cb": self._complaints.errors(lambda _: None),
            },
            logger=self._complaints,
        )
        try:
            consumer.assign([place])
            found = consumer.poll(MARK_SECONDS)
            if found is None:
                raise BrokerUnavailable(f"{self._marker.name} could not be read within {MARK_SECONDS:g} s")
            if found.error() is None:
                return bytes(found.value() or b"").decode(errors="replace")
            if found.error().code() == self._library.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its own codes begin so
                return None
            raise BrokerUnavailable(f"{self._marker.name} could not be read: {found.error().str()}")
        finally:
            consumer.unassign()

    def _write_mark(self, cluster: str) -> None:
        told: list[Any] = []
        producer = self._library.Producer(
            {
                **self._address.client(),
                "acks": "all",
                "delivery.timeout.ms": int(MARK_SECONDS * 1_000),
                "error_cb": self._complaints.errors(lambda _: None),
            },
            logger=self._complaints,
        )
        producer.produce(
            self._marker.name, cluster.encode(), MARK_KEY, 0, on_delivery=lambda error, _: told.append(error)
        )
        producer.flush(MARK_SECONDS + 1)
        if told != [None]:
            why = told[0].str() if told else "no answer"
            raise BrokerUnavailable(f"{self._marker.name} could not be written: {why}")
