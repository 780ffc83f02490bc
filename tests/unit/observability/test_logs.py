"""One line an event, with its ids, for people or for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tickwise.domain.errors import Misconfigured
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
    structlog.contextvars.clear_contextvars()


def test_lines_for_machines_bear_the_bound_ids() -> None:
    """What is bound to the context is on every line under it, on those of libraries too."""
    stream = io.StringIO()
    configure("info", "json", stream=stream)
    structlog.contextvars.bind_contextvars(request_id="r-1")
    structlog.get_logger("tickwise.test").info("job_stored", job_id="j-1")
    logging.getLogger("library").warning("said %s", "something")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert ("job_stored", "j-1", "r-1", "info", "tickwise.test") == tuple(
        first[name] for name in ("event", "job_id", "request_id", "level", "logger")
    )
    assert ("said something", "r-1", "warning") == tuple(second[name] for name in ("event", "request_id", "level"))
    assert first["timestamp"].endswith("Z")


def test_a_file_is_written_beside_the_console_as_json(tmp_path: Path) -> None:
    """In a folder that is made if need be; the console may be for people."""
    stream = io.StringIO()
    file = tmp_path / "logs" / "api.log"
    configure("info", "console", LogFiles(folder=tmp_path / "logs", name="api"), stream=stream)
    structlog.get_logger("tickwise.test").info("started", port=1)
    assert "started" in stream.getvalue()
    assert "started" == json.loads(file.read_text())["event"]


def test_what_is_below_the_level_is_not_written() -> None:
    """Neither ours nor a library's."""
    stream = io.StringIO()
    configure("warning", "json", stream=stream)
    structlog.get_logger("tickwise.test").info("no")
    logging.getLogger("library").info("no")
    assert "" == stream.getvalue()


def test_a_traceback_is_data_for_machines() -> None:
    """Not a text with line breaks."""
    stream = io.StringIO()
    configure("info", "json", stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger("tickwise.test").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError" == json.loads(line)["exception"][0]["exc_type"]


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """With the path, before anything else goes on."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(Misconfigured, match="taken"):
        configure("info", "json", LogFiles(folder=tmp_path / "taken"), stream=io.StringIO())


def test_unknown_levels_and_formats_are_refused() -> None:
    """The message lists what there is."""
    with pytest.raises(Misconfigured, match="debug, info"):
        configure("loud", "json", stream=io.StringIO())


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_shows_no_values_of_variables(style: str) -> None:
    """Among them are payloads, passwords and keys."""
    stream = io.StringIO()
    configure("info", style, stream=stream)
    password = "".join(("not", "for", "the", "log"))
    try:
        raise ValueError(len(password))
    except ValueError:
        structlog.get_logger("tickwise.test").exception("failed")
    assert "ValueError" in stream.getvalue()
    assert "notforthelog" not in stream.getvalue()


def test_a_logger_that_was_used_below_other_settings_is_captured_later() -> None:
    """Settings of one test, as those of a command that runs in it, do not stay with the loggers of the modules."""
    used = structlog.get_logger("tickwise.test.used")
    configure("error", stream=io.StringIO())
    used.error("below_other_settings")
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as logs:
        used.info("later")
    assert ["later"] == [line["event"] for line in logs]
