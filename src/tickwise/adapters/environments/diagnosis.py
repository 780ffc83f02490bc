"""The meaning of a failed build, from the exit status and the words of uv. Pure.

ended after its time ──────────────────────► environment_timeout, may be tried again
ended over its memory or its disk ──────────► environment_invalid
a signal, a full disk, an index that is away ► environment_unavailable, may be tried again
anything else ─────────────────────────────► environment_invalid, with the words of uv: no retry can help
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tickwise.ports.environments import (
    ENVIRONMENT_INVALID,
    ENVIRONMENT_TIMEOUT,
    ENVIRONMENT_UNAVAILABLE,
    BuildLimit,
    EnvironmentFailure,
)

OWN_WORDS: Final = "tickwise: "
"""The beginning of the lines in a build's log that are not uv's."""
UNTOLD: Final = (OWN_WORDS, "Using Python ", "Using CPython ")
"""The beginnings of lines that say nothing of a failure."""
MAX_WORDS: Final = 1_500
"""Characters of uv's words in an error; the whole log is kept with the run."""
KILLED: Final = 137
"""The builder's exit status when uv was ended by KILL, as a shell tells it."""


class BuildLimits(NamedTuple):
    """The limits of one build."""

    seconds: float
    memory_bytes: int
    disk_bytes: int
    """Of its folder, and of what its downloads add to the cache."""


_DISK_FULL: Final = re.compile(r"No space left on device|\(os error 28\)|Disk quota exceeded|\(os error 122\)")
_AWAY: Final = re.compile(
    r"error sending request|[Cc]onnection (?:refused|reset|closed)|dns error|failed to lookup address|timed out|"
    r"[Nn]etwork is unreachable|No route to host|Temporary failure in name resolution|"
    r"HTTP status server error|429 Too Many Requests|408 Request Timeout|error decoding response body|"
    r"tls handshake|unexpected EOF"
)
_NO_WHEEL: Final = re.compile(
    r"ha(?:s|ve) no usable wheels|building from source is disabled|Building source distributions .* disabled|"
    r"is marked as `--no-build`|the packages of a script in a sandbox are wheels"
)
WHEELS_ADVICE: Final = (
    ". Nothing of a package runs before the script is in its sandbox, so packages come as wheels: put one into your "
    "index (`pip wheel`), or let the job run with isolation process"
)
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")


def failure_of(status: int | BuildLimit, log: bytes, limits: BuildLimits) -> EnvironmentFailure:
    """The failure that a build ended with. `status`: its exit status, or the limit that ended it."""
    lines = _COLOR.sub("", log.decode(errors="replace")).splitlines()
    words = "\n".join(line for line in lines if not line.startswith(UNTOLD)).strip()[-MAX_WORDS:]
    if isinstance(status, BuildLimit):
        return _over(status, words, limits)
    if _DISK_FULL.search(words):
        return disk_full(words)
    if status < 0 or status >= KILLED - 9:
        number = -status if status < 0 else status - 128
        return EnvironmentFailure(
            ENVIRONMENT_UNAVAILABLE, f"the build of the script's environment was ended by signal {number}: {words}"
        )
    if _AWAY.search(words):
        return EnvironmentFailure(
            ENVIRONMENT_UNAVAILABLE, f"the index of packages could not be reached for the script's environment: {words}"
        )
    advice = WHEELS_ADVICE if _NO_WHEEL.search(words) else ""
    return EnvironmentFailure(
        ENVIRONMENT_INVALID, f"the environment that the script declares cannot be built: {words}{advice}"
    )


def _over(limit: BuildLimit, words: str, limits: BuildLimits) -> EnvironmentFailure:
    if limit is BuildLimit.TIME:
        reason = ENVIRONMENT_TIMEOUT
        detail = f"the environment of the script was not built within {limits.seconds:g} s, and its build was ended"
    else:
        reason = ENVIRONMENT_INVALID
        detail = (
            f"the build of the script's environment used more than {limits.memory_bytes} bytes of memory, and was "
            "ended; declare wheels, or raise TICKWISE_ENVIRONMENT_BUILD_MEMORY_BYTES"
        )
    return EnvironmentFailure(reason, f"{detail}: {words}" if words else detail)


def too_large(limits: BuildLimits) -> EnvironmentFailure:
    """The failure of a build that filled more of the disk than it may."""
    return EnvironmentFailure(
        ENVIRONMENT_INVALID,
        f"the script's environment and its downloads take more than {limits.disk_bytes} bytes, and its build was "
        "ended; declare less, or raise TICKWISE_ENVIRONMENT_BUILD_BYTES",
    )


def disk_full(words: str) -> EnvironmentFailure:
    """The failure of a build that found no room."""
    return EnvironmentFailure(
        ENVIRONMENT_UNAVAILABLE,
        f"no space is left on the disk for the script's environment; free some space or lower "
        f"TICKWISE_ENVIRONMENTS_LIMIT_BYTES: {words}",
        is_of_machine=True,
    )
