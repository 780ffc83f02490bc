"""Helpers of runners' tests beside their published suite: users, and processes that end or do not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from tickwise.adapters.runner.process import tree as process_tree
from tickwise.adapters.runner.process.parent import parent_program
from tickwise.adapters.runner.process.warm import zygote

PATIENCE_SECONDS = 60.0
OWN_USER = "root" if os.geteuid() == 0 else None
"""For `run_tasks_as`, in tests of what tasks do for the user who runs the tests: in files of theirs, for instance. That
tasks are other users has tests of its own (`test_runner_users`)."""


@contextlib.contextmanager
def without_kill(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> Iterator[None]:
    """As if processes hung inside the kernel: in `modules`, no signal reaches one, and each look finds them."""

    def nothing(_leader: int, _number: signal.Signals) -> None: ...

    def sweep(tree: process_tree.Tree) -> process_tree.Look:
        return process_tree.Look({tree.leader}, is_certain=True)

    with monkeypatch.context() as patch:
        for module in modules:
            patch.setattr(module, "signal_group", nothing)
        patch.setattr(process_tree, "_kill_sweep", sweep)
        yield


def gone(pid: int) -> bool:
    """Nothing of this process runs any more."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextlib.contextmanager
def forks_within(seconds: float) -> Iterator[None]:
    """A zygote that takes longer for a fork is given up. Most tests are patient: they ask which zygote a script has,
    on a machine that may stand still for some seconds."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="tickwise-tests-") as folder:
        program, source = Path(folder) / "parent_program.py", Path(parent_program.__file__).read_text()
        source, count = re.subn(r"^FORK_SECONDS = .*$", f"FORK_SECONDS = {seconds}", source, flags=re.MULTILINE)
        assert 1 == count
        program.write_text(source)
        patch.setattr(parent_program, "__file__", str(program))
        patch.setattr(zygote, "FORK_SECONDS", seconds)
        yield
