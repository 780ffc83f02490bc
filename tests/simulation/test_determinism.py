"""The same seed comes to the same trace, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwise.testing.world import play

TWICE = range(200, 206)
ELSEWHERE = (0, 4, 9, 15)
PROGRAM = f"""
from tickwise.testing.world import play
for seed in {ELSEWHERE}:
    print(play(seed).digest)
"""


@pytest.mark.parametrize("seed", TWICE)
def test_a_seed_that_is_run_again_comes_to_the_same_trace(seed: int) -> None:
    """In one process, one after the other."""
    assert play(seed, whole=True).tail == play(seed, whole=True).tail


def digests(hash_seed: str) -> str:
    """What a process of its own comes to, whose hashes of texts begin with this."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=350, check=True
    )
    return done.stdout


@pytest.mark.takes_up_to(390)
def test_no_hash_and_no_address_decides_anything() -> None:
    """Two processes in which sets and dicts of texts have another order, and everything lies elsewhere in memory."""
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(digests, ("1", "2"))
    assert len(ELSEWHERE) == len(one.split())
    assert one == other
