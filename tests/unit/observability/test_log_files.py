"""Log files that rotate, are shared by no two processes, and stop nothing when they cannot be written."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tickwise.domain.errors import Misconfigured
from tickwise.observability import logs
from tickwise.observability.log_files import RotatingLog, claimed_file
from tickwise.observability.logs import LogFiles, configure


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Logging is a process's own; the next test finds it as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


logger = structlog.get_logger("tickwise.test")


class Full(io.StringIO):
    """A console whose disk is full."""

    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_file_of_the_chosen_size_is_followed_by_a_new_one_and_so_many_are_kept(tmp_path: Path) -> None:
    """The newest lines are in the file without a number; no line is torn or in two files."""
    configure("info", "json", LogFiles(folder=tmp_path, bytes_most=1_000, kept=2), stream=io.StringIO())
    for number in range(40):
        logger.info("said", number=number)
    files = sorted(tmp_path.glob("*.log*"))
    assert ["tickwise.log", "tickwise.log.1", "tickwise.log.2"] == [file.name for file in files]
    assert all(file.stat().st_size <= 1_000 for file in files)
    found = [line["number"] for file in reversed(files) for line in lines(file)]
    assert list(range(40 - len(found), 40)) == found
    assert len(found) > 10


def test_without_earlier_files_the_one_begins_anew(tmp_path: Path) -> None:
    """`log_files_kept` may be 0."""
    configure("info", "json", LogFiles(folder=tmp_path, bytes_most=500, kept=0), stream=io.StringIO())
    for number in range(20):
        logger.info("said", number=number)
    assert ["tickwise.log"] == [file.name for file in tmp_path.glob("*.log*")]
    assert 19 == lines(tmp_path / "tickwise.log")[-1]["number"]


def test_of_size_0_it_is_never_rotated(tmp_path: Path) -> None:
    """Then logrotate does it."""
    configure("info", "json", LogFiles(folder=tmp_path, bytes_most=0), stream=io.StringIO())
    for number in range(200):
        logger.info("said", number=number)
    assert ["tickwise.log"] == [file.name for file in tmp_path.glob("*.log*")]
    assert 200 == len(lines(tmp_path / "tickwise.log"))


def test_a_file_that_was_moved_away_is_written_anew(tmp_path: Path) -> None:
    """By logrotate's `create`, without a signal; a removed one too."""
    configure("info", "json", LogFiles(folder=tmp_path), stream=io.StringIO())
    file = tmp_path / "tickwise.log"
    logger.info("first")
    file.rename(tmp_path / "moved")
    logger.info("second")
    file.unlink()
    logger.info("third")
    assert ["first"] == [line["event"] for line in lines(tmp_path / "moved")]
    assert ["third"] == [line["event"] for line in lines(file)]


def test_it_is_opened_anew_when_that_is_asked_for(tmp_path: Path) -> None:
    """At SIGHUP. Nothing is lost or twice."""
    configure("info", "json", LogFiles(folder=tmp_path), stream=io.StringIO())
    logger.info("first")
    logs.reopen()
    logger.info("second")
    assert ["first", "second"] == [line["event"] for line in lines(tmp_path / "tickwise.log")]


def test_a_full_disk_stops_nothing_and_is_counted_and_said_once(tmp_path: Path) -> None:
    """`/dev/full` is the device whose disk is full. When there is room again, that is said with the number of lines."""
    (tmp_path / "tickwise.log").symlink_to("/dev/full")
    console = io.StringIO()
    before = logs.losses.lost["file"]
    configure("info", "json", LogFiles(folder=tmp_path), stream=console)
    for number in range(5):
        logger.info("said", number=number)
    told = [json.loads(line) for line in console.getvalue().splitlines()]
    assert ["log_file_unwritten"] == [line["event"] for line in told if line["event"] != "said"]
    assert [0, 1, 2, 3, 4] == [line["number"] for line in told if line["event"] == "said"]
    assert "No space left" in next(line["detail"] for line in told if line["event"] == "log_file_unwritten")
    assert 5 + 1 == logs.losses.lost["file"] - before  # the line about it is not in the file either
    (tmp_path / "tickwise.log").unlink()
    logger.info("again")
    assert ["again", "log_file_written_again"] == [line["event"] for line in lines(tmp_path / "tickwise.log")]
    last = json.loads(console.getvalue().splitlines()[-1])
    assert ("log_file_written_again", 6) == (last["event"], last["lost"])


def test_a_console_that_cannot_be_written_stops_nothing_and_is_counted(tmp_path: Path) -> None:
    """Its file may be on a full disk; the log file still gets the line."""
    before = logs.losses.lost["console"]
    configure("info", "json", LogFiles(folder=tmp_path), stream=Full())
    logger.info("said")
    assert 1 == logs.losses.lost["console"] - before
    assert ["said"] == [line["event"] for line in lines(tmp_path / "tickwise.log")]


def test_a_second_process_of_a_role_writes_a_file_of_its_own(tmp_path: Path) -> None:
    """Two that rotate one file would take lines from each other. A free name is taken again."""
    configure("info", "json", LogFiles(folder=tmp_path, name="tickwise-executor"), stream=io.StringIO())
    script = (
        "import io, sys; from pathlib import Path; import structlog\n"
        "from tickwise.observability.logs import LogFiles, configure\n"
        "files = LogFiles(folder=Path(sys.argv[1]), name='tickwise-executor')\n"
        "configure('info', 'json', files, stream=io.StringIO())\n"
        "structlog.get_logger('tickwise.test').info('of the other')\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    logger.info("of the first")
    assert ["of the first"] == [line["event"] for line in lines(tmp_path / "tickwise-executor.log")]
    assert ["of the other"] * 2 == [line["event"] for line in lines(tmp_path / "tickwise-executor-2.log")]
    assert not (tmp_path / "tickwise-executor-3.log").exists()


def test_a_line_that_cannot_be_formatted_is_named_and_stops_nothing(tmp_path: Path) -> None:
    """A library may put anything into a record."""
    configure("info", "json", LogFiles(folder=tmp_path), stream=io.StringIO())
    logging.getLogger("library").info("%d", "no number")
    logger.info("next")
    first, second = lines(tmp_path / "tickwise.log")
    assert "library" in first["event"]
    assert "next" == second["event"]


def test_a_folder_that_cannot_be_made_is_said_at_the_start(tmp_path: Path) -> None:
    """Not with the first line."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(Misconfigured, match="TICKWISE_LOG_DIR"):
        claimed_file(tmp_path / "taken" / "logs", "tickwise")
    with pytest.raises(Misconfigured, match="gone"):
        RotatingLog(
            tmp_path / "gone" / "a.log", bytes_most=0, kept=0, losses=logs.losses, failed=print, recovered=print
        )


def test_a_line_without_a_trace_has_no_field_for_it(tmp_path: Path) -> None:
    """Most lines have none."""
    configure("info", "json", LogFiles(folder=tmp_path), stream=io.StringIO())
    logger.info("first", trace_id=None, span_id=None)
    logger.info("second", trace_id="a" * 32)
    first, second = lines(tmp_path / "tickwise.log")
    assert {"trace_id", "span_id"}.isdisjoint(first)
    assert "a" * 32 == second["trace_id"]
