"""The options of a job that name its successors and channels, limit the runs beside it, and limit one attempt.

--then JOB · --on-failure JOB               ──► then, on_failure
--notify CHANNEL                            ──► notify
--concurrency 3[:KEY] · --rate 10/1m[:KEY]  ──► concurrency, rate
--cpu-limit 30s · --memory-limit 512M · …   ──► limits
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import click

from tickwise.cli import work
from tickwise.cli.session import Decorated, Session

NONE: Final = "none"
"""As the value of an option: take away what the job has."""
_OPTIONS: Final = (
    "then", "on_failure", "notify", "concurrency", "rate", "cpu_limit", "memory_limit", "process_limit",
    "disk_limit", "file_limit",
)  # fmt: skip
_SIZE = re.compile(r"(\d+)\s*(|[KMGT])(?:i?B)?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIMIT_FORM: Final = "N[:KEY]"
_RATE_FORM: Final = "N/DURATION[:KEY]"


def policy_options(command: Decorated) -> Decorated:
    """Add all options of a job's policies."""
    options = [
        click.option(
            "--then", multiple=True, metavar="JOB",
            help="Run this job when a run succeeds: its id or key; repeat it for more."
        ),
        click.option(
            "--on-failure", multiple=True, metavar="JOB",
            help="Run this job when a run fails for good; repeat it for more.",
        ),
        click.option(
            "--notify", multiple=True, metavar="CHANNEL",
            help="Tell this channel when it fails, recovers or did not run; repeat it for more.",
        ),
        click.option(
            "--concurrency", metavar=_LIMIT_FORM,
            help="At most N of its runs at once; or of all with this KEY: queue, namespace, label:NAME, key:TEXT.",
        ),
        click.option("--rate", metavar=_RATE_FORM, help="At most N starts in this time, evenly spaced: 10/1m."),
        click.option("--cpu-limit", metavar="DURATION", help="Processor time of an attempt."),
        click.option("--memory-limit", metavar="SIZE", help="Memory of an attempt: 512M, 2G."),
        click.option("--process-limit", type=click.IntRange(1), metavar="N", help="Processes and threads at once."),
        click.option("--disk-limit", metavar="SIZE", help="Disk space of its work folder and temporary files."),
        click.option("--file-limit", type=click.IntRange(1), metavar="N", help="Files and folders in its work folder."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def fields(session: Session, options: dict[str, Any], *, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields that the options say; they are taken out. `before`: the job that they change."""
    said = {name: options.pop(name) for name in _OPTIONS}
    body: dict[str, Any] = {}
    for name in ("then", "on_failure", "notify"):
        if said[name]:
            option = f"--{name.replace('_', '-')}"
            body[name] = None if tuple(said[name]) == (NONE,) else list(said[name])
            work.blame(session, f"/{name}", option, " ".join(said[name]))
    for name, read in (("concurrency", _concurrency), ("rate", _rate)):
        if said[name] is not None:
            body[name] = None if said[name] == NONE else read(said[name])
            work.blame(session, f"/{name}", f"--{name}", said[name])
    limits = _limits(session, said)
    if limits:
        body["limits"] = {**((before or {}).get("limits") or {}), **limits}
    return body


def _concurrency(text: str) -> dict[str, Any]:
    number, _, key = text.partition(":")
    if not number.isdecimal():
        raise click.UsageError(f"--concurrency {text!r}: write {_LIMIT_FORM}, such as 3 or 3:queue")
    return {"limit": int(number), **({"key": key} if key else {})}


def _rate(text: str) -> dict[str, Any]:
    number, sign, rest = text.partition("/")
    length, _, key = rest.partition(":")
    if not number.isdecimal() or not sign or not length:
        raise click.UsageError(f"--rate {text!r}: write {_RATE_FORM}, such as 10/1m or 5/1s:label:customer")
    seconds = work.duration_seconds("--rate", length if not length.isalpha() else f"1{length}")
    return {"limit": int(number), "per_seconds": seconds, **({"key": key} if key else {})}


def _limits(session: Session, said: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option, field, read in (
        ("cpu_limit", "cpu_seconds", lambda text: work.duration_seconds("--cpu-limit", text)),
        ("memory_limit", "memory_bytes", lambda text: _bytes("--memory-limit", text)),
        ("process_limit", "processes", int),
        ("disk_limit", "disk_bytes", lambda text: _bytes("--disk-limit", text)),
        ("file_limit", "files", int),
    ):
        if said[option] is not None:
            found[field] = read(said[option])
            work.blame(session, f"/limits/{field}", f"--{option.replace('_', '-')}", said[option])
    return found


def _bytes(option: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise click.UsageError(f"{option} {text!r}: write a size such as 512M or 2G")
    return int(match[1]) * _UNITS[match[2].upper()]
