"""The settings of scripts: their environments, and the files that they leave. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwise.config.facts import declared_field


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `ScriptSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class ScriptSettings:
    """The environments that executors build for scripts, and the files that they keep."""

    environments_limit_bytes: int = _setting(
        5 << 30,
        "The room for environments with what uv keeps of downloads. Over it, those that were used least recently are "
        "removed; none that is in use.",
        least=0,
    )
    environments_limit: int = _setting(
        200, "Most environments that are kept; then as `environments_limit_bytes`.", least=1, most=100_000
    )
    environment_build_seconds: float = _setting(
        300.0,
        "The longest that the build of one environment may take; then it is ended, and the attempt fails with the "
        "reason `environment_timeout`.",
        least=1,
        most=86_400,
    )
    environment_index_url: str | None = _setting(
        None,
        "The index that packages of environments come from. Unset: the public one of uv. Builds run as the user of the "
        "tasks, who can read this address with its password.",
        secret=True,
    )
    environment_find_links: str | None = _setting(
        None, "A folder or a page with packages, which environments take beside those of the index."
    )
    environment_proxy: str | None = _setting(
        None, "The proxy for all requests of builds, such as `http://proxy:3128`.", secret=True
    )
    environment_network: str = _setting(
        "on",
        "Whether builds ask the network: `on`; or `off`, so packages come from `environment_find_links` and from "
        "earlier builds alone.",
        choices=("on", "off"),
    )
    environment_build_bytes: int = _setting(
        4 << 30,
        "The most that one build may put on the disk, its downloads included; then it is ended, and the run fails with "
        "the reason `environment_invalid`.",
        least=1 << 20,
    )
    environment_build_memory_bytes: int = _setting(
        4 << 30,
        "The memory that all processes of one build may use at once; then it is ended, and the run fails with the "
        "reason `environment_invalid`.",
        least=64 << 20,
    )
    environment_failure_seconds: float = _setting(
        300.0,
        "The time for which the answer of a failed build is given again without another build. After a failure that "
        "may pass, such as an index that is away, a build is tried again after 1 s, 2 s, 4 s and so on, at most 60 s. "
        "0: each run builds.",
        least=0,
        most=86_400,
    )
    environments_ahead: int = _setting(
        50,
        "Environments that an executor builds before a run needs them, one at a time and at low priority: of the jobs "
        "that it may be given, those that are due first. 0: none.",
        least=0,
        most=1_000,
    )
    artefacts_limit: int = _setting(
        100, "Files of one attempt that are kept as artefacts; the log names those that are not.", least=0, most=1_000
    )
    artefact_limit_bytes: int = _setting(
        16 << 20,
        "The largest file that is kept as an artefact. An executor holds one at a time in memory.",
        least=0,
        most=1 << 30,
    )
    artefacts_attempt_bytes: int = _setting(
        64 << 20, "Most bytes of all artefacts of one attempt.", least=0, most=1 << 40
    )
    artefacts_limit_bytes: int = _setting(
        10 << 30, "Most bytes of all artefacts that are stored; over it, the oldest go.", least=0
    )
    retention_artefacts_days: float = _setting(
        30.0,
        "The time that artefacts are kept, and no longer than their runs (`retention_runs_days`).",
        least=0.01,
        most=36_500,
    )
