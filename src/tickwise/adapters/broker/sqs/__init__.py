"""The broker over SQS FIFO queues, of AWS or of a server that speaks its protocol (ElasticMQ).

    address     sqs://REGION/PREFIX?endpoint=…, and every option
    library     the client, its errors in our words
    envelope    a message as the text of one of SQS; a large one by its blob
    queues      which queues there are, made and marked for one store
    sender      outboxes: batches of ten, in order for each bucket
    receiver    polls a queue, keeps what it got hidden, deletes what is done
    consumer    takes from several queues, the urgent ones first
    broker      all of it for one process

What SQS cannot give, and the contract suite declares (`tests/conformance/test_sqs_broker.py`): buckets are not owned by
one member of a group; requests and results are read by one group; hints go to the groups that are there when they are
sent; at most ten messages of a bucket are under way at once.
"""

from tickwise.adapters.broker.sqs.broker import SqsBroker

__all__ = ["SqsBroker"]
