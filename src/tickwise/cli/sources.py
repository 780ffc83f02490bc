"""Files of any supported system with schedules, as entries of a report.

    crontab · systemd (.timer, .service) · k8s (YAML) · celery (.py, .json) · jobs (JSON, as the API takes them)

The system is told by `--format`, or by the file's name. Reading does no more than that: nothing is executed.
Invariant: of all entries that are returned together, no two have a job with the same key.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tickwise.cli.failures import CommandFailure, Exit

if TYPE_CHECKING:
    from tickwise.importers.report import ImportEntry

SYSTEMS: Final = ("crontab", "systemd", "k8s", "celery")
FORMATS: Final = (*SYSTEMS, "jobs")
MAX_FILE_BYTES: Final = 32 * 1024 * 1024
STDIN: Final = "-"
_BY_SUFFIX: Final = {
    ".yaml": "k8s", ".yml": "k8s", ".timer": "systemd", ".service": "systemd", ".py": "celery", ".json": "jobs",
    ".ndjson": "jobs",
}  # fmt: skip
_NAMES_UNIT = re.compile(rb"^[ \t]*Unit[ \t]*=[ \t]*([\w:.\\@-]{1,255}\.service)[ \t]*$", re.MULTILINE)
"""In a timer: what it starts, where that has another name."""


class SourceEntry(NamedTuple):
    """An entry, and the file that it stands in."""

    file: str
    entry: ImportEntry


def contents(name: str) -> bytes:
    """The bytes of a file; `-` is standard input."""
    try:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1) if name == STDIN else _read(Path(name))
    except OSError as failure:
        raise CommandFailure(f"{name} cannot be read: {failure.strerror or failure}", Exit.USAGE) from None
    if len(data) > MAX_FILE_BYTES:
        raise CommandFailure(f"{name} is larger than {MAX_FILE_BYTES // 1024**2} MB; split it", Exit.USAGE)
    return data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def format_of(name: str) -> str:
    """By the file's suffix; a file without one is a crontab, as `crontab -l` writes it."""
    return _BY_SUFFIX.get(Path(name).suffix.lower(), "crontab")


def entries(
    files: Sequence[str],
    system: str,
    *,
    timezone: str | None = None,
    user: str | None = None,
    names_users: bool | None = None,
    run_as: bool = True,
    source: str | None = None,
    containers: bool = False,
) -> list[SourceEntry]:
    """Read the files of one system with its importer.

    `timezone` is for times that name none. Of crontabs: `user`, `run_as` and `names_users` (None: found out) as
    `read_crontab` takes them; `source` stands for the file's place in keys. Of CronJobs: whether their images run.
    Raises `CommandFailure` for what cannot be read; `Invalid` for a timezone that is none.
    """
    names = list(dict.fromkeys(files))
    if system == "systemd":
        return _systemd(names, timezone)
    found: list[SourceEntry] = []
    for name in names:
        data = contents(name)
        place = source or ("stdin" if name == STDIN else str(Path(name).absolute()))
        if system == "crontab":
            from tickwise.importers.crontab import read_crontab

            report = read_crontab(data, source=place, system=names_users, timezone=timezone, user=user, run_as=run_as)
        elif system == "k8s":
            from tickwise.importers.kubernetes import read_kubernetes

            report = read_kubernetes(data, source=Path(place).name, timezone=timezone, containers=containers)
        else:
            from tickwise.importers.celery import read_celery

            report = read_celery(data, source=Path(place).name, timezone=timezone)
        found += [SourceEntry(name, entry) for entry in report.entries]
    return _named_apart(_each_key_once(found))


def _named_apart(found: Iterable[SourceEntry]) -> list[SourceEntry]:
    from tickwise.importers.naming import named_apart

    each = list(found)
    named = named_apart([one.entry for one in each])
    return [one._replace(entry=entry) for one, entry in zip(each, named, strict=True)]


def _each_key_once(found: Sequence[SourceEntry]) -> Iterator[SourceEntry]:
    """Importers look at one file each; what has the name of an entry in another one is refused here."""
    from tickwise.importers.report import refused, shown

    holders: dict[str, SourceEntry] = {}
    for each in found:
        if each.entry.job is None or (holder := holders.setdefault(each.entry.job["key"], each)) is each:
            yield each
        else:
            reason = (
                f"it has the name of the entry in line {holder.entry.line} of {shown(holder.file)}; leave out or "
                "rename one of them"
            )
            yield SourceEntry(each.file, refused(each.entry.line, each.entry.text, reason=reason))


# ---------------------------------------------------------------------------------------------------- systemd


def _systemd(files: Sequence[str], timezone: str | None) -> list[SourceEntry]:
    from tickwise.importers.systemd import read_systemd

    units: dict[str, bytes] = {}
    for path in (found for name in files for found in _given(name)):
        units[path] = contents(path)
    for path in [path for path in units if path.endswith(".timer")]:
        for beside in _beside(Path(path), units[path]):
            if str(beside) not in units:
                units[str(beside)] = contents(str(beside))
    paths = {Path(path).name: path for path in units}
    found = read_systemd(units, timezone=timezone).entries
    # An entry's text begins with the name of its timer.
    return [SourceEntry(paths.get(entry.text.partition(": ")[0], ", ".join(files)), entry) for entry in found]


def _given(name: str) -> Iterator[str]:
    """A file, or the units of a folder."""
    path = Path(name)
    if name != STDIN and path.is_dir():
        found = sorted(each for suffix in ("timer", "service") for each in path.glob(f"*.{suffix}") if each.is_file())
        if not found:
            raise CommandFailure(
                f"{name} is a folder without a .timer; name the folder of the units, or files", Exit.USAGE
            )
        yield from map(str, found)
        yield from (str(each) for unit in found for each in _drop_ins(unit))
    elif path.suffix not in {".timer", ".service", ".conf"}:
        raise CommandFailure(
            f"{name}: units of systemd are told by their names; name a file such as backup.timer, or a folder with "
            "them",
            Exit.USAGE,
        )
    else:
        yield str(path)


def _beside(timer: Path, text: bytes) -> Iterator[Path]:
    """A timer is of no use without its service: that is read too, with the drop-ins of both."""
    stem = timer.name.removesuffix(".timer")
    named = [match[1].decode() for match in _NAMES_UNIT.finditer(text)]
    units = [timer.name, f"{stem}.service", *named]
    templates = [re.sub(r"@.*(\.\w+)$", r"@\1", unit) for unit in units if "@" in unit]
    for unit in dict.fromkeys((*units, *templates)):
        path = timer.with_name(unit)
        if path.is_file():
            yield path
        yield from _drop_ins(path)


def _drop_ins(unit: Path) -> list[Path]:
    return sorted(path for path in unit.with_name(f"{unit.name}.d").glob("*.conf") if path.is_file())


# ---------------------------------------------------------------------------------------------------- our own


def jobs(data: bytes, name: str) -> list[Mapping[str, Any]]:
    """Job bodies: one, a list of them, `{"jobs": […]}`, or one a line."""
    try:
        text = data.decode("utf-8")
        lines = [line for line in text.splitlines() if line.strip()]
        said = json.loads(text) if not name.endswith(".ndjson") else [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as failure:
        raise CommandFailure(f"{name} is no JSON: {failure}", Exit.USAGE) from None
    if isinstance(said, dict) and isinstance(said.get("jobs"), list):
        said = said["jobs"]
    found = said if isinstance(said, list) else [said]
    for number, job in enumerate(found, 1):
        if not isinstance(job, dict):
            raise CommandFailure(f"{name}: job {number} is no JSON object", Exit.USAGE)
    return found


def beside_jobs(data: bytes, member: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The other parts of `{"jobs": […], "calendars": {"NAME": {…}}}`, by name. Call it after `jobs`."""
    try:
        said = json.loads(data)
    except ValueError:  # one job a line: there is nothing beside them
        return []
    found = said.get(member, {}) if isinstance(said, dict) and "jobs" in said else {}
    if not isinstance(found, dict) or not all(isinstance(body, dict) for body in found.values()):
        raise CommandFailure(f'"{member}" is no JSON object of objects by name', Exit.USAGE)
    return list(found.items())
