"""The cost book: where each microsecond and each byte of a run goes, stage by stage, beside raw SQL.

server.py      a server that counts its statements
meter.py       readings of what processes, sessions, statements and tables have used, and their differences
whole.py       T1 and T2 with all roles: by process, by statement
stages.py      one stage of a run's life at a time, beside its limit
features.py    what single promises cost: the same with one left out
book.py        all of it as `bench/COSTS.md`
"""
