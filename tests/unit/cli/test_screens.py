"""What people see of the most common commands, as terminals of 80 and 120 columns show it.

A change of a screen is looked at, and recorded: `python -m tests.support.screens`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.local_up import environment
from tests.support.screens import SCREENS, WIDTHS, kept, path_of, shown
from tests.unit.cli.replay import replaying
from tickwise.cli.terminal import cells


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_it_was_looked_at(name: str, width: int) -> None:
    """Every line of it."""
    at, answers = kept()
    with replaying(answers) as address:
        assert path_of(name, width).read_text(encoding="utf-8") == shown(SCREENS[name], address, at, width)


@pytest.mark.parametrize("width", [20, 40, *WIDTHS])
@pytest.mark.parametrize("name", [name for name in SCREENS if name.endswith(("-list", "-show", "status", "top"))])
def test_no_line_of_a_screen_is_wider_than_its_terminal(name: str, width: int) -> None:
    """Nothing goes on in the next line of the terminal, also where that has 20 columns."""
    at, answers = kept()
    with replaying(answers) as address:
        screen = shown(SCREENS[name], address, at, width)
    output, *_ = screen.partition("\n")[2].partition("──")
    assert [] == [line for line in output.splitlines() if cells.width(line) > width]


LOOKS = {
    "status": ("status",),
    "jobs": ("jobs", "list"),
    "job": ("jobs", "show", "nightly report"),
    "runs": ("runs", "list"),
    "logs": ("runs", "logs", "夜间 backup"),
    "completion": (),
}
"""Commands that a person waits for many times a day, by their words; without any: completion of a job's name."""
SLOW = (
    "asyncpg", "starlette", "rich", "msgspec", "psutil", "structlog", "asyncio", "jinja2", "platformdirs", "tomllib",
    "tickwise.config", "tickwise.control", "tickwise.api", "tickwise_sdk.calls", "tickwise_sdk.types",
    "tickwise_sdk.async_client",
)  # fmt: skip
"""What none of them needs: the server, the database, the settings, a method for each operation of the API."""


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_imports_nothing_that_takes_long(name: str, tmp_path: Path) -> None:
    """Each is a process of its own, and most of its time is that of its imports: `tickwise status` is to answer within
    0.2 s. The server is found by its record, as on a laptop."""
    at, answers = kept()
    code = (
        "import sys\nfrom tickwise.cli import moments\nfrom tickwise.cli.main import main\n"
        f"moments.now = lambda: {at!r}\n"
        f"try:\n    main({list(LOOKS[name])!r})\nexcept SystemExit:\n    pass\n"
        f"print('\\nlib', *(each for each in ('httpx2', *{SLOW!r}) if each in sys.modules))"
    )
    with replaying(answers) as address:
        (tmp_path / "client.json").write_text(json.dumps({"url": address, "key": "k", "pid": 1}), encoding="utf-8")
        environ = environment(COLUMNS="80", TICKWISE_DATA_DIR=str(tmp_path))
        del environ["TICKWISE_ISOLATION"]  # a setting, for which all settings are read
        if name == "completion":
            environ |= {"_TICKWISE_COMPLETE": "bash_complete", "COMP_WORDS": "tickwise jobs show ", "COMP_CWORD": "3"}
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    # The client is there: the server was asked.
    assert "lib httpx2" == done.stdout.splitlines()[-1], done.stderr
