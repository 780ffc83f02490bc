"""The environment that a Python task declares: in the header of its script, as requirements, or as a lock.

    header (PEP 723) ──┐
    task.requirements ─┼─► EnvironmentDemand, or None: it runs on the executor's own Python
    task.lock ─────────┘

Checked when the task is submitted, in a time that grows with the length of the text alone. A lock is read in full only
by its build.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from typing import Any, Final

from tickwise.adapters.runner.checks import text
from tickwise.adapters.runner.scripts.header import Header, check_requirement, header_of, refusal
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.environments import EnvironmentDemand

ENVIRONMENT_FIELDS: Final = ("requirements", "lock")
MAX_REQUIREMENTS_CHARACTERS: Final = 32_768
MAX_LOCK_CHARACTERS: Final = 262_144
"""A lock of 100 packages has 100,000 characters. Each job carries its own."""
MAX_CHECKED_LINES: Final = 300
"""Requirements that are read when they are submitted, at 20 µs each. Those after them are read by the build."""
SCHEMA: Final[Mapping[str, Any]] = {
    "requirements": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_REQUIREMENTS_CHARACTERS,
        "description": "The text of a `requirements.txt`: the script runs in an environment with these packages.",
    },
    "lock": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_LOCK_CHARACTERS,
        "description": "The text of a `uv.lock` or a `pylock.toml`, instead of `requirements`.",
    },
}

_IS_LOCK: Final = re.compile(r"^(?:lock-version|version)\s*=", re.MULTILINE)
_OTHER_FILE: Final = re.compile(r"-r\b|-c\b|-e\b|--requirements?\b|--constraints?\b|--editable\b|\.{1,2}/|/|~|file:")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$")


def environment_fields(task: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a task that declare its environment, checked together with the header of its script. Raises
    `Invalid`."""
    fields: dict[str, str] = {}
    if task.get("requirements") is not None:
        requirements = _unicode(task, "requirements", MAX_REQUIREMENTS_CHARACTERS)
        _check_requirements(requirements)
        fields["requirements"] = requirements
    if task.get("lock") is not None:
        if fields:
            raise refusal("give either `requirements` or `lock`: a lock has all packages", pointer="/lock")
        lock = _unicode(task, "lock", MAX_LOCK_CHARACTERS)
        if not _IS_LOCK.search(lock[:2_000]):
            raise refusal("`lock` must be the text of a `uv.lock` or a `pylock.toml`", pointer="/lock")
        fields["lock"] = lock
    source = task.get("source")
    if isinstance(source, str):
        _check_together(fields, header_of(source))
    return fields


def refuse_with_python(task: Mapping[str, Any]) -> None:
    """Refuse declared packages beside an interpreter that is named. A header's are passed over then, as that
    interpreter does. Raises `Invalid`."""
    for name in ENVIRONMENT_FIELDS:
        if name in task:
            raise refusal(
                f"give either `python` or `{name}`: an interpreter that is named has the packages that it has",
                pointer="/python",
            )


def _unicode(task: Mapping[str, Any], name: str, characters_most: int) -> str:
    found = text(task, name, characters_most=characters_most)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise refusal(f"`{name}` holds half of a surrogate pair", pointer=f"/{name}") from None
    return found


def demand_of(
    namespace: str, task: Mapping[str, Any], source: str, isolation: Isolation = Isolation.SANDBOX
) -> EnvironmentDemand | None:
    """The environment that this task with this script needs; None: the executor's own Python will do. Its packages are
    built from source only for a task that is a plain process. Raises `Invalid`."""
    demand = declared_by(namespace, task, source)
    if demand is None or not needs_build(demand):
        return None
    return demand._replace(from_source=isolation is Isolation.PROCESS)


def needs_build(demand: EnvironmentDemand) -> bool:
    """False: the executor's own Python will do."""
    return bool(demand.requirements or demand.lock) or not _fits(demand.python)


def declared_by(namespace: str, task: Mapping[str, Any], source: str) -> EnvironmentDemand | None:
    """The environment that a task declares, by its fields or its script, from wheels. It names no Python: each executor
    builds it for its own. None: the task declares none. Raises `Invalid`."""
    header = header_of(source)
    _check_together(task, header)
    requirements = task.get("requirements") or "\n".join(header.dependencies)
    lock = task.get("lock") or ""
    if lock:
        requirements = ""
    if not requirements and not lock and not header.python:
        return None
    return EnvironmentDemand(namespace, requirements, lock, header.python, "" if lock else header.exclude_newer)


def _fits(python: str) -> bool:
    if not python:
        return True
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(python).contains(platform.python_version(), prereleases=True)


def _check_together(fields: Mapping[str, Any], header: Header) -> None:
    if header.dependencies and fields.get("requirements"):
        raise refusal(
            "the script's header has `dependencies`, and the task has `requirements`; leave one of them",
            pointer="/requirements",
        )


def _check_requirements(requirements: str) -> None:
    """Raises `Invalid` for a line that needs another file of the submitter's machine, or that is no requirement."""
    continues = False
    for number, raw in enumerate(requirements.splitlines(), 1):
        is_continued, continues = continues, raw.endswith("\\")
        line = _COMMENT.sub("", raw).strip() if len(raw) < MAX_REQUIREMENTS_CHARACTERS else raw
        if not line:
            continue
        if _OTHER_FILE.match(line):
            raise refusal(
                f"{line[:50]!r} in `requirements` names another file, which does not travel with the job; write its "
                "lines here, or send a lock",
                number,
                pointer="/requirements",
            )
        is_plain = line[0] != "-" and "://" not in line and not (continues or is_continued) and " --" not in line
        if number <= MAX_CHECKED_LINES and is_plain and (fault := check_requirement(line)) is not None:
            raise refusal(f"{line[:50]!r} in `requirements` cannot be read: {fault}", number, pointer="/requirements")
