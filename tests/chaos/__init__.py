"""Real processes of the product on a real PostgreSQL, harmed on purpose, and judged by what the jobs themselves wrote.

    row ──► scene: database, journal, proxies, roles ──► load by clients ──► faults ──► calm ──► evidence ──► verdict

`make chaos ROWS="R1 R2 …" SEED=…` runs the rows at length, `tests/chaos/test_*.py` a short form of some of them. The
judge is `tickwise.domain.history.checker`, which users have too; it never asks the product what happened, but reads
three witnesses: what clients asked and were answered, what a trigger wrote down in the very transaction of each move,
and a file that the jobs append to.
"""
