"""The tables of the schema, and what becomes of each when a namespace moves to another database.

    DIRECT   many rows, on which nobody acts without a timer or a run: copied to their table while the namespace works
    WAITING  many rows that act by themselves: copied to a table in which they wait
    AT_ONCE  few rows: copied while the namespace takes no writes
    APPENDED rows that are never changed: copied while the namespace works, and since then by their time

Invariant: each table of the schema is named here, once. A test compares both, so that a later table is not forgotten.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Ownership(StrEnum):
    """The way in which a row names its namespace, for `shard_owner` and `shard_scope` of the database."""

    NAMESPACE = "namespace"
    NAME = "name"
    PRINCIPAL = "principal"
    JOB = "job"
    RUN = "run"
    GROUP = "group"
    PAGE = "page"
    CHANNEL = "channel"
    OBJECTIVE = "objective"


class CopyWay(StrEnum):
    """The time at which the rows of a table are copied, and their place."""

    DIRECT = "direct"
    WAITING = "waiting"
    AT_ONCE = "at_once"
    APPENDED = "appended"


class MovedTable(NamedTuple):
    """A table of which rows move with their namespace."""

    name: str
    ownership: Ownership = Ownership.NAMESPACE
    way: CopyWay = CopyWay.AT_ONCE
    key: str | None = None
    """The column by which it is read page by page; of changed rows it is noted."""
    acts: bool = False
    """Somebody acts on each row (a timer, a queue): they go from the old database in the moment of the move."""

    @property
    def is_captured(self) -> bool:
        """True if changes of its rows are noted while they are copied."""
        return self.way in (CopyWay.DIRECT, CopyWay.WAITING)

    @property
    def is_staged(self) -> bool:
        """True if its rows wait in a table of their own until the namespace arrives."""
        return self.way in (CopyWay.WAITING, CopyWay.AT_ONCE)


MOVED: Final = (
    MovedTable("namespaces", Ownership.NAME),
    MovedTable("jobs", way=CopyWay.DIRECT, key="job_id"),
    MovedTable("history", way=CopyWay.DIRECT, key="run_id"),
    MovedTable("attempts", Ownership.RUN, CopyWay.DIRECT, "run_id"),
    MovedTable("timers", Ownership.JOB, CopyWay.WAITING, "job_id", acts=True),
    MovedTable("runs", acts=True),
    MovedTable("cancel_requests", Ownership.RUN, acts=True),
    MovedTable("follows", Ownership.RUN, acts=True),
    MovedTable("failures_new", Ownership.RUN, acts=True),
    MovedTable("tallies_new", acts=True),
    MovedTable("tallies"),
    MovedTable("letters", Ownership.RUN),
    MovedTable("jobs_placed"),
    MovedTable("holds"),
    MovedTable("stops"),
    MovedTable("limits"),
    MovedTable("rates"),
    MovedTable("fires"),
    MovedTable("operations", acts=True),
    MovedTable("receipts", Ownership.PRINCIPAL),
    MovedTable("tasks"),
    MovedTable("rules"),
    MovedTable("quota_use"),
    MovedTable("quota_sizes"),
    MovedTable("saved_views"),
    MovedTable("environments"),
    MovedTable("secrets"),
    MovedTable("secret_versions"),
    MovedTable("error_groups"),
    MovedTable("error_jobs", Ownership.GROUP),
    MovedTable("error_hours", Ownership.GROUP),
    MovedTable("error_letters", Ownership.GROUP),
    MovedTable("channels"),
    MovedTable("channel_secrets", Ownership.CHANNEL),
    MovedTable("notification_rules"),
    MovedTable("notices_watched"),
    MovedTable("notices_events", acts=True),
    MovedTable("notices_noted"),
    MovedTable("alerts", acts=True),
    MovedTable("notices", acts=True),
    MovedTable("status_pages", acts=True),
    MovedTable("status_days", Ownership.PAGE),
    MovedTable("status_announcements", Ownership.PAGE),
    MovedTable("objectives"),
    MovedTable("objective_starts", Ownership.OBJECTIVE, acts=True),
    MovedTable("objective_counts", Ownership.OBJECTIVE),
    MovedTable("audit", way=CopyWay.APPENDED, key="at"),
    MovedTable("audit_seals", way=CopyWay.APPENDED, key="seq"),
    MovedTable("audit_checkpoints"),
    MovedTable("audit_unsealed", acts=True),
)
"""Parents before their children."""

AUDIT: Final = frozenset({"audit", "audit_seals", "audit_checkpoints"})
"""Rows that only one function of the database may remove."""

STAYING: Final = {
    "lanes": "numbers of this database; those of the namespace are given numbers in the other one",
    "lanes_freed": "as above",
    "rules_version": "one number for all namespaces, raised by an arrival",
    "notices_version": "as above",
    "notices_successes": "written by a trigger of notification_rules, here and in the other one",
    "executors": "they are in each database; those that hold runs of the namespace are made known in the other one",
    "results_applied": "of executors",
    "incidents": "of this database",
    "epochs": "of this database",
    "cluster": "of this database",
    "schema_version": "of this database",
    "alembic_version": "of this database",
    "board": "of processes",
    "paces": "of processes",
    "requests_applied": "of the broker",
    "feed": "news of this database: those who follow runs begin anew in the other one",
    "feed_watch": "as above",
    "feed_marks": "as above",
    "namespaces_removed": "names that are gone",
    "keys": "people and credentials stay in the first database",
    "key_secrets": "as above",
    "users": "as above",
    "members": "as above",
    "custom_roles": "as above",
    "user_links": "as above",
    "sessions": "as above",
    "session_tokens": "as above",
    "token_keys": "as above",
    "browser_sessions": "as above",
    "session_links": "as above",
    "identities": "as above",
    "sign_ins": "as above",
    "provider_sessions": "as above",
    "logout_tokens": "as above",
    "device_sign_ins": "as above",
    "federations": "as above",
    "used_assertions": "as above",
    "factors": "as above",
    "recovery_codes": "as above",
    "factor_steps": "as above",
    "factor_resets": "as above",
    "identity_keys": "keys of the installation",
    "shard_map": "the map itself, and moves under way",
    "shards": "as above",
    "shard_places": "as above",
    "shard_membership": "as above",
    "shard_departures": "as above",
    "shard_changes": "as above",
    "shard_departed_runs": "as above",
    "shard_arrivals": "as above",
}
"""Tables of which nothing moves, each with the reason."""
