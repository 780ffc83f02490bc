"""The SDK says what the API says, and a type checker of a user believes it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.style import sdk_modules, tree
from tests.style.api_page import description
from tests.style.rules import imported_packages

SAMPLE = "tests/unit/sdk/typed_sample.py"
PYRIGHT = tree.ROOT / "requirements" / "browser" / "node_modules" / "pyright" / "index.js"


def test_the_written_modules_say_what_the_description_says() -> None:
    """Run `python -m tests.style.sdk_modules` after a change of the API."""
    for place, text in sdk_modules.modules().items():
        assert text == tree.read(place), place


def test_every_operation_is_a_method_of_both_clients() -> None:
    """But for streams, which are followed, and the description itself."""
    names = {
        operation["operationId"]
        for path, methods in description()["paths"].items()
        for operation in methods.values()
        if path.startswith("/api/v1/")
    }
    for place in sdk_modules.PLACES[1:]:
        text = tree.read(place)
        missing = [name for name in names - sdk_modules.BY_HAND if f"def {sdk_modules.snake(name)}(" not in text]
        assert [] == missing, place


def test_the_sdk_imports_nothing_of_the_server() -> None:
    """Only its one HTTP library; what type checkers read; and pytest, in the plugin of pytest."""
    imported = set().union(*(imported_packages(tree.read(place)) for place in tree.python_files("sdk")))
    outside = {name for name in imported if name not in sys.stdlib_module_names}
    assert {"tickwise_sdk", "httpx2", "httpx", "typing_extensions", "pytest"} == outside


@pytest.mark.takes_up_to(300)
@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_strict_checkers_accept_the_sdk_and_a_program_that_uses_it(version: str, tmp_path: Path) -> None:
    """On the oldest and the newest Python; the sample also says what must be refused."""
    command = [
        sys.executable, "-m", "mypy", "--strict", "--python-version", version, "--config-file", "",
        "--explicit-package-bases", "--cache-dir", str(tree.ROOT / ".mypy_cache" / "sdk"),
        "sdk/src/tickwise_sdk", SAMPLE,
    ]  # fmt: skip
    env = {"MYPYPATH": "sdk/src", "PATH": ""}
    done = subprocess.run(command, cwd=tree.ROOT, env=env, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.takes_up_to(300)
def test_pyright_accepts_the_sdk_and_a_program_that_uses_it() -> None:
    """In its strict mode and on the oldest Python; what mypy must refuse in the sample, it refuses as well."""
    node = shutil.which("node")
    if node is None or not PYRIGHT.exists():
        pytest.skip("pyright is not here: install npm (on Debian: apt-get install npm), and call make setup")
    command = [
        node,
        str(PYRIGHT),
        "--project",
        "sdk/pyrightconfig.json",
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    done = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert [] == said["generalDiagnostics"]
    # It says nothing of paths that it does not look at.
    assert len(tree.python_files("sdk")) + 1 == said["summary"]["filesAnalyzed"]
