"""In CI no test is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.style.tree import ROOT

pytestmark = pytest.mark.takes_up_to(300)  # each starts other runs of pytest, 10 to 25 s on a busy machine

SKIPS = {
    "within the test": "def test_it():\n    pytest.skip('no shovel')\n",
    "by a mark": "@pytest.mark.skipif(True, reason='no shovel')\ndef test_it():\n    pass\n",
    "by a fixture": "@pytest.fixture\ndef it():\n    pytest.skip('no shovel')\n\ndef test_it(it):\n    pass\n",
    "without parameters": "@pytest.mark.parametrize('it', [])\ndef test_it(it):\n    pass\n",
    "the whole file": "pytest.skip('no shovel', allow_module_level=True)\n",
}
EXPECTED = "@pytest.mark.xfail(strict=True)\ndef test_it():\n    assert False\n"


def ended(folder: Path, text: str, *, ci: bool) -> tuple[int, str]:
    """The exit code and the output of one file of tests."""
    file = folder / "test_sample.py"
    file.write_text(f"import pytest\n\n{text}")
    others = {name: value for name, value in os.environ.items() if name != "CI"}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.skips", "-p", "no:cacheprovider", str(file)],
        cwd=ROOT, env={**others, "CI": "true"} if ci else others,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.returncode, found.stdout


@pytest.mark.parametrize("text", SKIPS.values(), ids=SKIPS.keys())
def test_a_skip_fails_in_ci_and_nowhere_else(tmp_path: Path, text: str) -> None:
    """Whatever it comes from; its reason is in the output."""
    assert ended(tmp_path, text, ci=False)[0] in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    code, said = ended(tmp_path, text, ci=True)
    assert code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "may not be skipped where CI is set" in said
    assert ("no shovel" in said) == ("no shovel" in text)


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    """pytest counts it as one."""
    assert 0 == ended(tmp_path, EXPECTED, ci=True)[0]
