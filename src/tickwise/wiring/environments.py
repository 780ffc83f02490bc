"""The environments of scripts on this machine: their settings, and the folder for the commands that list and remove."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings
from tickwise.adapters.environments.folder import EnvironmentFolder
from tickwise.adapters.runner.process.task_places import expected_work_root
from tickwise.adapters.runner.process.task_users import task_users
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured


def environment_settings(settings: Settings) -> EnvironmentSettings:
    """The settings of environments."""
    return EnvironmentSettings(
        root=settings.environments_dir or settings.data_dir / "environments",
        index_url=settings.environment_index_url,
        find_links=settings.environment_find_links,
        proxy=settings.environment_proxy,
        is_offline=settings.environment_network == "off",
        limit_bytes=settings.environments_limit_bytes,
        limit=settings.environments_limit,
        build_seconds=settings.environment_build_seconds,
        build_bytes=settings.environment_build_bytes,
        build_memory_bytes=settings.environment_build_memory_bytes,
        failure_seconds=settings.environment_failure_seconds,
    )


class KeptEnvironment(NamedTuple):
    """An environment of this machine."""

    key: str
    namespace: str
    declared: str
    """The packages that its script declares, for people."""
    python: str
    built_at: float
    """Seconds since the epoch."""
    seconds: float
    """The duration of its build."""
    size_bytes: int
    used_at: float
    in_use: bool


def kept_environments(settings: Settings) -> list[KeptEnvironment]:
    """The environments of an executor with these settings, those used last first. Blocking. Raises `Misconfigured`."""
    folder = _open(settings)
    stored = [] if folder is None else folder.stored()
    return [KeptEnvironment(*each.facts, each.used_at, each.in_use) for each in reversed(stored)]


def build_log(settings: Settings, key: str) -> str:
    """The log of the build of one environment; empty if it was removed. Blocking. Raises `Misconfigured`."""
    folder = _open(settings)
    log = None if folder is None else folder.log(key)
    return "" if log is None else log.decode(errors="replace")


def prune_environments(settings: Settings, unused_seconds: float | None = None) -> list[str]:
    """Remove all environments that are not in use, and all downloads; or the environments that were not used for so
    long. The keys of the removed environments. Blocking. Raises `Misconfigured`."""
    folder = _open(settings)
    if folder is None:
        return []
    if unused_seconds is not None:
        return folder.remove_unused(SystemClock().now() - unused_seconds)
    return folder.shrink(bytes_most=0, count_most=0)


def _open(settings: Settings) -> EnvironmentFolder | None:
    """The folder in which an executor with these settings keeps environments; None: it has made none yet. Raises
    `Misconfigured` if it cannot be opened, as by another user than the executor's."""
    root = _root(settings)
    if not root.exists():
        return None
    try:
        return EnvironmentFolder(root)
    except OSError as error:
        raise Misconfigured(
            f"the folder of environments, {root}, cannot be opened: {error.strerror}; run this as the user of the "
            "executor"
        ) from error


def _root(settings: Settings) -> Path:
    root = environment_settings(settings).root
    users = task_users(settings.run_tasks_as, settings.data_dir / "work", named=bool(settings.run_as_users))
    return root if users is None else expected_work_root(users.least_of_them(), root)
