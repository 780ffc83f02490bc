"""The durable truth, one package for each place that has it. One suite judges all of them.

memory      a state machine in the memory of one process: tests, simulation, and what a keeper runs
keeper      the same with a log of its effects; the wire between roles and the process that has it
cassandra   the log of a keeper in Cassandra, who owns it, the tables that people read
postgres    everything else
sharded     one store over several
"""
