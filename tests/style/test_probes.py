"""The table of `make security` tells a stopped attack from one that was not tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.takes_up_to(300)  # each starts other runs of pytest, 15 s on a busy machine

SAMPLE = '''
import pytest
from tests.security.probes import probe

@probe(1, stopped_by="a wall")
def test_held():
    """A ram."""

@pytest.mark.parametrize("height", [1, 2])
@probe(7, stopped_by="a moat")
def test_broken(height):
    """A ladder
    of any height.

    More words."""
    assert height == 1

@probe(3, stopped_by="nothing")
def test_skipped():
    """A tunnel."""
    pytest.skip("no shovel")
'''


def security(file: Path) -> subprocess.CompletedProcess[str]:
    """What the command says of one file of tests."""
    return subprocess.run(
        [sys.executable, "-m", "tests.security", str(file)], capture_output=True, text=True, check=False
    )


def test_a_probe_that_fails_or_is_skipped_is_not_stopped(tmp_path: Path) -> None:
    """Each test is one row with its cases; the status is that of a failure."""
    sample = tmp_path / "test_sample.py"
    sample.write_text(SAMPLE)
    ended = security(sample)
    assert 1 == ended.returncode
    assert "| A ram. | a wall | 1/1 | held |" in ended.stdout
    assert "| A ladder of any height. | a moat | 1/2 | **NOT STOPPED** |" in ended.stdout
    assert "| A tunnel. | nothing | 0/1 | **NOT STOPPED** |" in ended.stdout
    assert ended.stdout.endswith("1 of 3 probes stopped\n")


def test_a_test_that_says_not_what_it_tries_is_refused(tmp_path: Path) -> None:
    """No row is left out in silence."""
    sample = tmp_path / "test_sample.py"
    sample.write_text("def test_plain():\n    pass\n")
    ended = security(sample)
    assert 0 != ended.returncode
    assert "test_plain is no probe" in ended.stdout + ended.stderr
