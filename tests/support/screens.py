"""Screens of the command line, as a terminal of 80 and of 120 columns shows them: kept, and compared by a test.

    python -m tests.support.screens        starts a server, gives it jobs, and records what it answers and what is shown

The answers are those of a real server, and are given again at the time of their recording (`tests.unit.cli.replay`).
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.support.local_up import Local, call_command, environment, local_up
from tests.unit.cli.replay import Answer, Answers, recording, replaying
from tickwise.cli import moments

FOLDER: Final = Path(__file__).resolve().parents[1] / "unit/cli/data/screens"
WIDTHS: Final = (80, 120)
SCREENS: Final[dict[str, tuple[str, ...]]] = {
    "status": ("status",),
    "top": ("top",),
    "jobs-list": ("jobs", "list"),
    "jobs-list-columns": ("jobs", "list", "--columns", "name,next,queue"),
    "jobs-list-limit": ("jobs", "list", "--limit", "2"),
    "jobs-show": ("jobs", "show", "orders: import of all shops and their returns"),
    "jobs-typo": ("jobs", "show", "nigthly report"),
    "jobs-namesakes": ("jobs", "show", "twins"),
    "runs-list": ("runs", "list"),
    "runs-show": ("runs", "show", "夜间 backup"),
    "runs-list-json": ("runs", "list", "--limit", "2", "--json", "status,trigger"),
    "dead-letters-list": ("dead-letters", "list"),
    "executors-list": ("executors", "list"),
    "queues-list": ("queues", "list"),
    "queues-typo": ("queues", "show", "defualt"),
}
"""Each by its name: the words of the command."""


def shown(words: Sequence[str], address: str, at: float, width: int) -> str:
    """The screen of a terminal of this width after a command at this time: its output, its remarks, its exit code."""
    environ = environment(
        COLUMNS=str(width), TICKWISE_URL=address, TICKWISE_API_KEY="k", TICKWISE_DATA_DIR="/nonexistent"
    )
    with patch.object(moments, "now", lambda: at):
        ran = call_command(words, environ)
    said = f"── stderr\n{ran.err}" if ran.err else ""
    # The address is another one each time.
    return f"$ tickwise {' '.join(words)}\n{ran.out}{said}── exit code {ran.code}\n".replace(address, "http://server")


def kept() -> tuple[float, Answers]:
    """The time of the recording, and the answers."""
    said = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
    return said["at"], {name: Answer(*answer) for name, answer in said["answers"].items()}


def path_of(name: str, width: int) -> Path:
    """The file of a screen."""
    return FOLDER / f"{name}-{width}.txt"


def record() -> None:
    """Record answers and screens anew."""
    with tempfile.TemporaryDirectory() as folder, local_up(Path(folder), "--database", "memory://") as up:
        _give_jobs(up)
        at, answers = time.time(), Answers()
        with recording(up.url, up.key, answers) as address:
            for words in SCREENS.values():
                shown(words, address, at, WIDTHS[0])
        _ran(up, "runs", "cancel", "--status", "RUNNING", "--yes")
    FOLDER.mkdir(parents=True, exist_ok=True)
    said: dict[str, Any] = {"at": at, "answers": dict(sorted(answers.items()))}
    text = json.dumps(said, ensure_ascii=False, indent=1).replace(f"{socket.gethostname()}:", "host-1:")
    (FOLDER / "answers.json").write_text(text + "\n", encoding="utf-8")
    _, answers = kept()
    with replaying(answers) as address:
        for name, words in SCREENS.items():
            for width in WIDTHS:
                path_of(name, width).write_text(shown(words, address, at, width), encoding="utf-8")


def _give_jobs(up: Local) -> None:
    """Make the jobs of a shop: they succeed, fail, run, wait, recur; names that are long or wide; twins."""
    for words in (
        ("--shell", "sleep 60", "--name", "orders: import of all shops and their returns", "--every", "1d",
         "--label", "team=orders", "--queue", "default", "--timezone", "Europe/Berlin"),
        ("--shell", "echo done", "--name", "nightly report", "--cron", "0 3 * * MON-FRI", "--timezone",
         "Europe/Berlin"),
        ("--shell", "echo no space left on device >&2; exit 28", "--name", "夜间 backup", "--cron", "15 2 * * *",
         "--retries", "1"),
        ("--shell", "true", "--name", "twins", "--every", "1h"),
        ("--shell", "true", "--name", "twins", "--every", "2h"),
        ("--http", "https://shop.example/health", "--name", "health", "--every", "5m", "--queue", "reports"),
    ):  # fmt: skip
        _ran(up, "run", *words)
    _ran(up, "jobs", "run-now", "nightly report", "--wait")
    failing = "echo 'no such table: orders_2026_11_26_of_all_shops' >&2; exit 3"
    up.tickwise(
        "run", "--shell", failing, "--name", "migrate the orders of last year", "--retries", "0", "--now", "--wait"
    )
    up.tickwise("jobs", "run-now", "夜间 backup", "--wait")
    _ran(up, "queues", "hold", "reports", "--reason", "the shop moves")
    _ran(up, "jobs", "run-now", "health")
    _ran(up, "jobs", "run-now", "orders: import of all shops and their returns")
    _until_it_runs(up)


def _until_it_runs(up: Local) -> None:
    while not up.tickwise("runs", "list", "--status", "RUNNING", "--json").json:
        time.sleep(0.05)  # noqa: TID251 - between two looks at another process


def _ran(up: Local, *words: str) -> None:
    ran = up.tickwise(*words)
    if ran.code:
        raise AssertionError(ran.err)


if __name__ == "__main__":
    record()
