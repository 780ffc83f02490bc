"""The settings of a cluster that a promise of the log rests on. Nothing is changed by looking.

commitlog_sync: batch    else a node that dies loses writes that it has confirmed
paxos_variant: v2        else a read at SERIAL is not sure to settle an update that was under way
three copies             else one lost node is a stop, or a loss
one data centre writes   bodies are read from a majority of one data centre
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickwise.adapters.store.cassandra.link import CassandraLink, statement
from tickwise.adapters.store.cassandra.time import middle, offsets
from tickwise.domain.errors import TickwiseError

COPIES: Final = 3
CLOCKS_APART_SECONDS: Final = 1.0
OLDEST: Final = (5, 0)
"""The release that this was measured and tested on."""


class ClusterFinding(NamedTuple):
    """The result of one check of a cluster."""

    name: str
    level: str
    """`ok`, `warning` or `error`."""
    detail: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """A cluster as its nodes describe it."""

    settings: Mapping[str, Mapping[str, str]]
    """Of each node that answered, by its address: its settings."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Of each node that did not answer: why."""
    releases: Mapping[str, str]
    """Of each node that answered: its version."""
    replication: Mapping[str, str] | None
    """Copies by data centre; None: there is no keyspace yet."""
    datacenter: str
    """The data centre that this address writes in."""
    writing: str = ""
    """The data centre that the keyspace was made for; empty: there is none yet."""
    keyspace: str = ""
    offsets: Mapping[str, float] = field(default_factory=dict)
    """Of each node its clock minus a clock of ours, in seconds."""

    @property
    def nodes(self) -> int:
        """The number of nodes of the data centre, with the silent ones."""
        return len(self.settings) + len(self.silent)


async def look(link: CassandraLink, writing: str = "") -> ClusterFacts:
    """Ask each node of the data centre. `writing`: what the keyspace says of itself."""
    settings: dict[str, dict[str, str]] = {}
    releases: dict[str, str] = {}
    silent: dict[str, str] = {}
    for host in link.hosts():
        name = str(host.endpoint)
        try:
            settings[name] = {row[0]: row[1] for row in await link.run(statement("settings_read"), host=host)}
            ((releases[name], _),) = await link.run(statement("node_read"), host=host)
        except TickwiseError as failure:
            settings.pop(name, None)
            silent[name] = failure.detail
    found, _ = await offsets(link)
    return ClusterFacts(
        settings=settings,
        silent=silent,
        releases=releases,
        replication=await _replication(link),
        datacenter=link.datacenter,
        writing=writing,
        keyspace=link.address.keyspace,
        offsets=dict(found),
    )


async def _replication(link: CassandraLink) -> dict[str, str] | None:
    rows = await link.ask("keyspace_read", link.address.keyspace)
    if not rows:
        return None
    return {name: copies for name, copies in dict(rows[0][0]).items() if name != "class"}


def judge(facts: ClusterFacts) -> list[ClusterFinding]:
    """The findings, in a fixed order."""
    found = [_nodes(facts), *_settings(facts)]
    if facts.replication is not None:
        found += [_copies(facts, facts.replication), _datacenters(facts, facts.replication)]
    if len(facts.offsets) > 1:
        found.append(_clocks(facts))
    return found


def _nodes(facts: ClusterFacts) -> ClusterFinding:
    old = sorted(name for name, release in facts.releases.items() if _numbers(release) < OLDEST)
    if old:
        return ClusterFinding(
            "cassandra", "error", f"{', '.join(old)} runs a release before 5.0", "upgrade to Cassandra 5.0 or newer"
        )
    if not facts.settings:
        text = "; ".join(sorted(set(facts.silent.values())))
        advice = "let the user read the tables of system_views"
        return ClusterFinding("cassandra", "error", f"no node tells its settings: {text}", advice)
    if facts.silent:
        text = "; ".join(f"{name}: {why}" for name, why in sorted(facts.silent.items()))
        return ClusterFinding("cassandra", "warning", f"{len(facts.silent)} of {facts.nodes} nodes are silent: {text}")
    releases = ", ".join(sorted(set(facts.releases.values())))
    count = "1 node" if facts.nodes == 1 else f"{facts.nodes} nodes"
    return ClusterFinding("cassandra", "ok", f"{count} of {releases} in the data centre {facts.datacenter}")


def _settings(facts: ClusterFacts) -> list[ClusterFinding]:
    wanted = {
        "commitlog_sync": ("batch", "a node that dies would lose entries that it has confirmed"),
        "paxos_variant": ("v2", "whether an update was applied could not be told for certain"),
    }
    found = []
    for name, (value, because) in wanted.items():
        wrong = {node: each.get(name, "unknown") for node, each in facts.settings.items() if each.get(name) != value}
        if wrong:
            text = ", ".join(f"{node} has {found_value}" for node, found_value in sorted(wrong.items()))
            advice = f"set `{name}: {value}` in cassandra.yaml of each node, and restart them one by one"
            found.append(ClusterFinding(name, "error", f"{text}: {because}", advice))
        elif facts.settings:
            found.append(ClusterFinding(name, "ok", value))
    return found


def _copies(facts: ClusterFacts, replication: Mapping[str, str]) -> ClusterFinding:
    # With transient replication it would be written 3/1.
    said = replication.get(facts.datacenter) or replication.get("replication_factor") or "0"
    copies = int(said.partition("/")[0]) if said.partition("/")[0].isdigit() else 0
    if copies >= COPIES and said.isdigit():
        return ClusterFinding("copies", "ok", f"{copies} of each row")
    wanted = min(COPIES, facts.nodes)
    if copies < wanted:
        values = {"keyspace": facts.keyspace, "datacenter": facts.datacenter, "copies": wanted}
        raising = statement("keyspace_raise").format(**values).strip()
        advice = f"{raising}; then `nodetool repair --full {facts.keyspace}` on each node"
    else:
        advice = "three nodes with three copies survive the loss of each; docs/how-to/cassandra.md has the steps"
    text = f"{said} of each row"
    if facts.nodes == 1:
        return ClusterFinding("copies", "warning", f"{text}: all is lost with the disk of the one node", advice)
    return ClusterFinding("copies", "error", f"{text} on {facts.nodes} nodes: one lost node stops the shards", advice)


def _datacenters(facts: ClusterFacts, replication: Mapping[str, str]) -> ClusterFinding:
    if facts.writing and facts.writing != facts.datacenter:
        return ClusterFinding(
            "data centres", "error", f"keepers write in {facts.writing}, and this address leads to {facts.datacenter}",
            f"use nodes of {facts.writing} in TICKWISE_DATABASE_URL, or `?datacenter={facts.writing}`",
        )  # fmt: skip
    others = sorted(name for name in replication if name not in (facts.datacenter, "replication_factor"))
    if others:
        return ClusterFinding(
            "data centres", "warning",
            f"{facts.datacenter} writes; {', '.join(others)} have copies, and each update asks a majority of them all",
            "keep the keyspace in one data centre, unless the way to the others is short",
        )  # fmt: skip
    return ClusterFinding("data centres", "ok", f"{facts.datacenter} alone writes")


def _clocks(facts: ClusterFacts) -> ClusterFinding:
    right = middle(list(facts.offsets.values()))
    wrong = {name: at - right for name, at in facts.offsets.items() if abs(at - right) > CLOCKS_APART_SECONDS}
    if wrong:
        text = ", ".join(f"{name} {ahead:+.1f} s" for name, ahead in sorted(wrong.items()))
        return ClusterFinding(
            "node clocks", "warning", f"off the middle one: {text}", "run an NTP client on those nodes"
        )
    return ClusterFinding("node clocks", "ok", f"within {CLOCKS_APART_SECONDS:.0f} s of each other")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.partition("-")[0].split(".") if part.isdigit())
