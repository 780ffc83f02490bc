"""Numbers of processes that tasks leave used up."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.security.probes import probe
from tests.support.sandboxes import SandboxShop
from tests.support.waiting import eventually
from tickwise.domain.rules.confinement import PLAIN
from tickwise.ports.runner import Verdict

LEAVING = """
import os
for _ in range(30):
    if os.fork() == 0:
        os.setsid()
        os._exit(0)
print(os.getppid())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's executor has one user for all tasks")
@probe(6, stopped_by="the interpreter that warm scripts are forked from takes the exit statuses of what they leave")
async def test_ended_processes_of_warm_scripts_do_not_use_up_the_numbers_of_the_machine(tmp_path: Path) -> None:
    """Warm scripts that leave processes behind whose exit statuses nobody takes, one script after the other."""
    shop = SandboxShop(tmp_path / "work", isolation="process")
    await shop.open()
    try:
        task = {"kind": "python", "source": LEAVING, "start": "warm"}
        found = [await shop.run(task, confinement=PLAIN) for _ in range(3)]
        assert [Verdict.OK] * 3 == [ending.verdict for ending, _ in found]
        [zygote] = {int(said) for _, said in found}
        await eventually(lambda: [] == psutil.Process(zygote).children())
    finally:
        await shop.close()
