"""Cases about real tasks: what it costs to run a process for each, and to give it secrets."""

from typing import Final

from bench.cases.tasks import processes, secrets

CASES: Final = (processes.CASE, *secrets.CASES)
