"""A process with a file store, killed at any moment, loses nothing that it acknowledged, and does nothing twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from tests.support.roles import ROOT
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.file_log import FileLog, examine
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.lifecycle import RunState

ROUNDS = 4
SEED = 23


def killed_after(folder: Path, lines: int) -> list[str]:
    """What a writer said until it was killed, after it had said so much."""
    command = [sys.executable, "-m", "tests.support.file_writer", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        said += process.stdout.readlines()
    # The last line may be half of one.
    return [line.strip() for line in said if line.endswith("\n")]


def named(said: Sequence[str], word: str) -> list[list[str]]:
    """The rest of the lines that begin with a word."""
    return [line.split()[1:] for line in said if line.startswith(f"{word} ")]


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """Four times on one folder: jobs are there, ended runs are ended under the token that ended them, none has two
    ends, and each job has one run. The files of ended runs end with the processes."""
    chance, said = random.Random(SEED), list[str]()
    for _ in range(ROUNDS):
        said += killed_after(tmp_path, chance.randint(1, 800))
        examine(tmp_path)
    store = KeeperStore(FileLog(tmp_path), SystemClock())
    await store.open()
    state = store.memory.state
    jobs = {UUID(job_id) for [job_id] in named(said, "job")}
    ends = {UUID(run_id): int(token) for run_id, token in named(said, "ended")}
    assert set() == jobs - state.jobs.keys()
    assert ends == {run_id: state.ended[run_id].token for run_id in ends}
    assert {RunState.SUCCESS} == {each.row.state for each in state.ended.values()}
    assert set() == state.runs.keys() & state.ended.keys()
    assert {1} == {len(job.runs) + len(list(state.ended.newest(job.job_id))) for job in state.jobs.values()}
    assert len(state.ended) == len({each.token for each in state.ended.values()})
    assert any(tmp_path.glob("checkpoint-*.tw"))
    assert any(tmp_path.glob("block-*.tw"))
    assert [] == list(tmp_path.glob("*.new"))
    assert [] == list(tmp_path.glob("*.spill"))
    await store.close()
