"""K1, K3, K4: T2 over a broker, and over two databases, beside T2 as it is."""

from bench.cases.scaling import kafka, sqs, two_databases

CASES = (kafka.CASE, sqs.CASE, two_databases.CASE)
