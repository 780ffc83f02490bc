"""The plugin that `docs/how-to/write-a-plugin.md` shows passes the published suites, in a project of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/write-a-plugin.md"
_NAMED = re.compile(r"`(\w+\.(?:py|toml))`(?:[^`\n]|\n(?!\n))*:\n\n```(?:python|toml)\n(.*?)```", re.DOTALL)


def _project(folder: Path) -> set[str]:
    """Each file that the page names before a block, with what the block says."""
    for name, text in _NAMED.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    return {path.name for path in folder.iterdir()}


def _pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_plugin_of_the_page_passes(tmp_path: Path) -> None:
    """As its author would run it: with the page's own settings of pytest."""
    assert {"wait_plugin.py", "pyproject.toml", "conftest.py", "test_wait_plugin.py"} == _project(tmp_path)
    answer = _pytest(tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert int(re.findall(r"(\d+) passed", answer.stdout)[0]) > 20


def test_a_plugin_that_breaks_a_promise_is_found(tmp_path: Path) -> None:
    """Here it ends as done although it was stopped."""
    _project(tmp_path)
    plugin = tmp_path / "wait_plugin.py"
    whole = plugin.read_text(encoding="utf-8")
    plugin.write_text(whole.replace("if attempt.trouble.done()", "if False"), encoding="utf-8")
    answer = _pytest(tmp_path)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "test_a_stop_while_it_runs_cancels_it" in answer.stdout
