"""K1 and K3: T2 over more than one database and one executor's polls, beside T2 as it is on one."""

from bench.cases.scaling import kafka, two_databases

CASES = (kafka.CASE, two_databases.CASE)
