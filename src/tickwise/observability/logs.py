"""Structured logs: one line an event, for people on a terminal, as JSON for machines and files.

Ids (request, job, run) are bound to the context of the task that works on them, so every line under it bears them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import structlog

from tickwise.domain.errors import Misconfigured
from tickwise.observability.log_files import ConsoleLog, LogLosses, RotatingLog, claimed_file

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("console", "json", "auto")

Processor = Callable[[Any, str, Any], Any]

logger = structlog.get_logger("tickwise.logs")


def _without_empty(_logger: Any, _name: str, event: Any) -> Any:
    """Most lines belong to no trace."""
    for name in ("trace_id", "span_id"):
        if name in event and event[name] is None:
            del event[name]
    return event


_shared: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _without_empty,
)

# Here as on a terminal without the values of variables: some of them are payloads, passwords and keys.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The log files of a process: their place and their rotation."""

    folder: Path
    name: str = "tickwise"
    """The stem of their names: what the process is."""
    bytes_most: int = 50 * 1024 * 1024
    """Of one file; 0: it is moved by another program."""
    kept: int = 5
    """Earlier files."""


losses: Final = LogLosses()
"""The lines of this process that could not be written."""


def configure(
    level: str = "info", style: str = "auto", files: LogFiles | None = None, *, stream: TextIO | None = None
) -> None:
    """Send every log line of this process to `stream` (standard error), and as JSON to a file if `files` says where.

    `style` auto means for people on a terminal, JSON elsewhere. Raises `Misconfigured`.
    """
    stream = sys.stderr if stream is None else stream
    if level not in LEVELS or style not in FORMATS:
        raise Misconfigured(f"log level is one of {', '.join(LEVELS)}, log format one of {', '.join(FORMATS)}")
    pretty = style == "console" or (style == "auto" and stream.isatty())
    handlers: list[logging.Handler] = [_stream_handler(stream, pretty=pretty)]
    if files is not None:
        handlers.append(_file_handler(files))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _formatter(*, pretty: bool, colors: bool = False) -> logging.Formatter:
    """Renders our own lines and those of libraries alike."""
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if pretty:
        last.append(structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback))
    else:
        last += [_tracebacks, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_shared, processors=last)


def _stream_handler(stream: TextIO, *, pretty: bool) -> logging.Handler:
    handler = ConsoleLog(stream, losses)
    handler.setFormatter(_formatter(pretty=pretty, colors=stream.isatty()))
    return handler


def _file_handler(files: LogFiles) -> logging.Handler:
    file, lock = claimed_file(files.folder, files.name)

    def failed(failure: OSError) -> None:
        logger.error("log_file_unwritten", file=str(file), detail=failure.strerror or str(failure))

    def recovered(lost: int) -> None:
        logger.warning("log_file_written_again", file=str(file), lost=lost)

    handler = RotatingLog(
        file,
        bytes_most=files.bytes_most,
        kept=files.kept,
        losses=losses,
        failed=failed,
        recovered=recovered,
        lock=lock,
    )
    handler.setFormatter(_formatter(pretty=False))
    return handler


def reopen() -> None:
    """Open the log file anew by its name: another program has moved it."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RotatingLog):
            handler.reopen()
