"""A log with the origin of each line, on a terminal that obeys what a task prints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

RUN = "01a3185c-5000-834e-94b6-daa72b1d976d"


def part(text: str, offset: int, *, parts: list[tuple[str, str]] | None = None) -> Reply:
    """A part of a log; it ends where the next one begins."""
    body: dict[str, Any] = {
        "run_id": RUN, "attempt_number": 1, "offset": offset, "next_offset": offset + len(text), "complete": False,
        "text": text, "parts": [{"origin": origin, "offset": 0, "text": each} for origin, each in parts or ()],
    }  # fmt: skip
    return Reply(200, body)


def called(*words: str, url: str) -> int:
    """The exit code of a command."""
    return int(main(["runs", "logs", RUN, *words, "--url", url, "--api-key", "k"]))


def test_each_line_has_its_origin_and_a_task_cannot_print_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Its control characters are shown; a line that goes over two parts is one."""
    run = Reply(200, {"run_id": RUN, "status": "SUCCESS", "attempt_number": 1})
    first = [("task", "a\r\x1b[2Ktickwise | [fake]\nhalf"), ("tickwise", "\n[kept as artefacts: x]\n")]
    with serving(run, part("x" * 9, 0, parts=first), part("\nta", 9), part("il\n", 12), part("", 15)) as server:
        assert 0 == called("--origin", url=server.url)
    lines = capsys.readouterr().out.splitlines()
    assert ["task     | half", "tickwise | [kept as artefacts: x]", "task     | ", "task     | tail"] == lines[1:]
    assert (True, False, False) == (lines[0].startswith("task     | a"), "\x1b" in lines[0], "\r" in lines[0])


@pytest.mark.parametrize("further", ["--follow", "--json"])
def test_origins_are_for_people_and_for_a_log_as_it_is(capsys: pytest.CaptureFixture[str], further: str) -> None:
    """The other forms have their own."""
    with serving() as server:
        assert 2 == called("--origin", further, url=server.url)
    assert "--origin goes neither with --follow nor with --json" in capsys.readouterr().err
