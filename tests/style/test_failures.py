"""A test that fails makes no other one fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.style.tree import ROOT

pytestmark = pytest.mark.takes_up_to(300)  # each starts other runs of pytest, 10 to 25 s on a busy machine

SAMPLE = """
import gc
import socket


def test_that_fails():
    opened = [socket.socket()]
    opened.append(opened)
    assert opened == []


def test_that_collects():
    gc.collect()
"""


def test_what_a_failed_test_left_open_is_no_failure_of_the_next_one(tmp_path: Path) -> None:
    """Its socket is freed when it is over, and nobody hears of that."""
    file = tmp_path / "test_sample.py"
    file.write_text(SAMPLE)
    warnings = ["-W", "error::ResourceWarning", "-W", "error::pytest.PytestUnraisableExceptionWarning"]
    command = [sys.executable, "-m", "pytest", "-q", *warnings, "-p", "no:cacheprovider"]
    plain, kept = (
        subprocess.run([*command, *plugin, str(file)], cwd=ROOT, capture_output=True, text=True, check=False).stdout
        for plugin in ([], ["-p", "tests.support.failures"])
    )
    assert "2 failed" in plain, "the sample shows nothing"
    assert "1 failed, 1 passed" in kept, kept
