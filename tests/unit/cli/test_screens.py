"""What people see of the most common commands, as terminals of 80 and 120 columns show it.

A change of a screen is looked at, and recorded: `python -m tests.support.screens`.
"""

from __future__ import annotations

import subprocess
import sys

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


def test_status_imports_nothing_that_takes_long() -> None:
    """Its answer comes within 0.2 s: the client, and nothing of the server, the database or rich."""
    at, answers = kept()
    code = (
        "import sys\nfrom tickwise.cli import moments\nfrom tickwise.cli.main import main\n"
        f"moments.now = lambda: {at!r}\nassert main(['status']) == 0\n"
        "print(*sorted({'asyncpg', 'starlette', 'rich', 'msgspec', 'psutil', 'structlog'} & set(sys.modules)))"
    )
    with replaying(answers) as address:
        environ = environment(TICKWISE_URL=address, TICKWISE_API_KEY="k", COLUMNS="80")
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert "" == done.stdout.splitlines()[-1]
