"""The settings of `tickwise keeper` and of stores over a log. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwise.config.facts import declared_field


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `KeeperSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class KeeperSettings:
    """The place where a keeper serves a Cassandra keyspace to the other roles, and what it has in memory."""

    keeper_host: str | None = _setting(
        None,
        "The address that `tickwise keeper` listens on and publishes in the keyspace: one of this machine that all "
        "roles reach. Unset: that from which this machine reaches Cassandra.",
        option="--host",
    )
    keeper_port: int = _setting(
        0, "The port of `tickwise keeper`; 0 takes a free one.", least=0, most=65_535, option="--port"
    )
    ended_runs_in_memory: int = _setting(
        10_000,
        "The number of ended runs, and of one-time jobs that are over, that a keeper, or `tickwise up --store file`, "
        "has in memory: the newest ones, of about 1 kB each. Of runs with long results there are fewer: 32 MiB of each "
        "shard at most. The others are in files of "
        "the process that are read as they are asked for, about 600 bytes for a run and 400 for a job: in the folder "
        "of the store, or of a keeper in the folder `keeper` of `data_dir`.",
        least=0,
        most=10_000_000,
    )
    keeper_tables: str = _setting(
        "written",
        "The readable tables of a Cassandra keyspace: `written` behind the log by `tickwise keeper`, which costs more "
        "than the runs themselves, or `off`: then nothing is in them (`docs/reference/cassandra-tables.md`). After a "
        "time without them run `tickwise db rebuild-tables`.",
        choices=("written", "off"),
    )
