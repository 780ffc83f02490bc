"""K1 to K4: T2 over a broker, on Cassandra, and over two databases, beside T2 as it is."""

from bench.cases.scaling import cassandra, kafka, sqs, two_databases

CASES = (kafka.CASE, cassandra.CASE, two_databases.CASE, sqs.CASE)
