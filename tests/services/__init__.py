"""The servers of the tests, from packages alone: Kafka and Cassandra from Maven's jars, Redis and
nginx from Debian's packages.

    packages   what has to be on the machine: looked for, else installed, once for all processes (a file lock)
    server     one server as a direct child: started, killed, stopped in time, started again on the same data and port
    kafka, cassandra, redis, nginx   each of them: its command, its settings, how it says that it is ready
    shared     one Kafka and one Redis for a whole test run, however many processes share it
    keeper     the process that holds one of those, and ends it when the test run has ended, however that ended
    __main__   `make services-up` and `make services-down`: the same for a developer

Everything listens on 127.0.0.1. PostgreSQL is the product's own embedded one (`tests.support.databases`).
"""
