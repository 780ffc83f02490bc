"""Cases about real tasks: what it costs to run a process for each."""

from typing import Final

from bench.cases.tasks import processes

CASES: Final = (processes.CASE,)
