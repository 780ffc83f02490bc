"""A broker over Kafka, by librdkafka (`pip install 'tickwise[kafka]'`).

address            what an operator writes, and what the client is told from it
library            the client, imported when it is needed; what it says, said once
topics             made, checked, and marked with whose they are
producer           sends and throws, from the event loop
partition_buffers  fetched messages that are not taken: the thread writes, the loop takes
member             one member of a group, in a thread that always polls
share              the same of a share group, for hints
consumer           the loop's side of it
broker             all of it as the port wants it
rights             who may do what, as ACLs
inspection         a look that changes nothing
"""

from tickwise.adapters.broker.kafka.broker import KafkaBroker
from tickwise.adapters.broker.kafka.inspection import Inspection, inspect_topics

__all__ = ["Inspection", "KafkaBroker", "inspect_topics"]
