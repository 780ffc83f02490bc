"""Structured logs: one line an event, for people on a terminal, as JSON for machines and files.

Ids (request, job, run) are bound to the context of the task that works on them, so every line under it bears them.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

import structlog

from tickwise.domain.errors import Misconfigured

FILE_BYTES_MAX: Final = 50 * 1024 * 1024
FILES_KEPT: Final = 5
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("console", "json", "auto")

Processor = Callable[[Any, str, Any], Any]

_shared: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)

# Here as on a terminal without the values of variables: some of them are payloads, passwords and keys.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure(
    level: str = "info", style: str = "auto", file: Path | None = None, *, stream: TextIO | None = None
) -> None:
    """Send every log line of this process to `stream` (standard error), and as JSON to `file` if one is given.

    `style` auto means for people on a terminal, JSON elsewhere. Raises `Misconfigured`.
    """
    stream = sys.stderr if stream is None else stream
    if level not in LEVELS or style not in FORMATS:
        raise Misconfigured(f"log level is one of {', '.join(LEVELS)}, log format one of {', '.join(FORMATS)}")
    pretty = style == "console" or (style == "auto" and stream.isatty())
    handlers: list[logging.Handler] = [_stream_handler(stream, pretty=pretty)]
    if file is not None:
        handlers.append(_file_handler(file))
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
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(pretty=pretty, colors=stream.isatty()))
    return handler


def _file_handler(file: Path) -> logging.Handler:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            file, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8"
        )
    except OSError as failure:
        raise Misconfigured(f"the log file {file} cannot be written: {failure.strerror or failure}") from failure
    handler.setFormatter(_formatter(pretty=False))
    return handler
