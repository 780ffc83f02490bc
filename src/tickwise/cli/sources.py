"""Files that hold schedules, of whatever system, as one report.

    crontab · systemd (.timer, .service) · k8s (YAML) · celery (.py, .json) · jobs (JSON, as the API takes them)

The system is told by `--format`, or by the file's name. Reading does no more than that: nothing is executed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tickwise.cli.failures import Exit, Failure

if TYPE_CHECKING:
    from tickwise.importers.report import Entry

SYSTEMS: Final = ("crontab", "systemd", "k8s", "celery")
FORMATS: Final = (*SYSTEMS, "jobs")
FILE_BYTES_MOST: Final = 32 * 1024 * 1024
_BY_SUFFIX: Final = {
    ".yaml": "k8s", ".yml": "k8s", ".timer": "systemd", ".service": "systemd", ".py": "celery", ".json": "jobs",
    ".ndjson": "jobs",
}  # fmt: skip


def contents(name: str) -> bytes:
    """The bytes of a file; `-` is standard input."""
    try:
        data = sys.stdin.buffer.read(FILE_BYTES_MOST + 1) if name == "-" else _read(Path(name))
    except OSError as failure:
        raise Failure(f"{name} cannot be read: {failure.strerror or failure}", Exit.USAGE) from None
    if len(data) > FILE_BYTES_MOST:
        raise Failure(f"{name} is larger than {FILE_BYTES_MOST // 1024**2} MB; split it", Exit.USAGE)
    return data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MOST + 1)


def format_of(name: str) -> str:
    """By the file's suffix; a file without one is a crontab, as `crontab -l` writes it."""
    return _BY_SUFFIX.get(Path(name).suffix.lower(), "crontab")


def entries(files: Sequence[str], system: str, *, timezone: str | None = None) -> list[tuple[str, Entry]]:
    """What importers find in files of one system: each entry with the file that it stands in."""
    if system == "systemd":
        from tickwise.importers.systemd import read_systemd

        units = {Path(name).name: contents(name) for name in _units(files)}
        return [(", ".join(files), entry) for entry in read_systemd(units, timezone=timezone).entries]
    found: list[tuple[str, Entry]] = []
    for name in files:
        source = "stdin" if name == "-" else Path(name).name
        found += [(name, entry) for entry in _entries(contents(name), system, source, timezone)]
    return found


def _entries(data: bytes, system: str, source: str, timezone: str | None) -> Sequence[Entry]:
    if system == "crontab":
        from tickwise.importers.crontab import read_crontab

        return read_crontab(data, source=source, timezone=timezone).entries
    if system == "k8s":
        from tickwise.importers.kubernetes import read_kubernetes

        return read_kubernetes(data, source=source, timezone=timezone).entries
    from tickwise.importers.celery import read_celery

    return read_celery(data, source=source, timezone=timezone).entries


def _units(files: Sequence[str]) -> list[str]:
    """A timer is of no use without the service beside it: that is read too."""
    wanted = dict.fromkeys(files)
    for name in files:
        service = Path(name).with_suffix(".service")
        if Path(name).suffix == ".timer" and service.is_file():
            wanted[str(service)] = None
    return list(wanted)


def jobs(data: bytes, name: str) -> list[Mapping[str, Any]]:
    """Job bodies: one, a list of them, `{"jobs": […]}`, or one a line."""
    try:
        text = data.decode("utf-8")
        lines = [line for line in text.splitlines() if line.strip()]
        said = json.loads(text) if not name.endswith(".ndjson") else [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as failure:
        raise Failure(f"{name} is no JSON: {failure}", Exit.USAGE) from None
    if isinstance(said, dict) and isinstance(said.get("jobs"), list):
        said = said["jobs"]
    found = said if isinstance(said, list) else [said]
    for number, job in enumerate(found, 1):
        if not isinstance(job, dict):
            raise Failure(f"{name}: job {number} is no JSON object", Exit.USAGE)
    return found
