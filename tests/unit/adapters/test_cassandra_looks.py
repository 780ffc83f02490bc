"""The verdict on a cluster, on facts of every kind; and the time of its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwise.adapters.store.cassandra.looks import ClusterFacts, judge
from tickwise.adapters.store.cassandra.pieces import PIECE_BYTES, cut, grouped, joined
from tickwise.adapters.store.cassandra.time import middle

GOOD = {"commitlog_sync": "batch", "paxos_variant": "v2"}
NODES = ("127.0.0.1:9042", "127.0.0.2:9042", "127.0.0.3:9042")
WELL = ClusterFacts(
    settings=dict.fromkeys(NODES, GOOD),
    releases=dict.fromkeys(NODES, "5.0.9"),
    replication={"dc1": "3"},
    datacenter="dc1",
    writing="dc1",
    keyspace="jobs",
    offsets=dict.fromkeys(NODES, 100.0),
)


def levels(facts: ClusterFacts) -> dict[str, str]:
    """Of each finding its level, but for those that are well."""
    return {each.name: each.level for each in judge(facts) if each.level != "ok"}


def test_a_cluster_as_it_should_be_has_no_findings() -> None:
    """Every look says that it is well."""
    assert {} == levels(WELL)
    expected = ["cassandra", "commitlog_sync", "paxos_variant", "copies", "data centres", "node clocks"]
    assert expected == [each.name for each in judge(WELL)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("commitlog_sync", "periodic"), ("commitlog_sync", "group"), ("paxos_variant", "v1"), ("paxos_variant", None)],
)
def test_one_node_with_an_unsafe_setting_is_an_error(name: str, value: str | None) -> None:
    """The node is named, and the line of its cassandra.yaml."""
    bad = {**GOOD, name: value} if value else {key: each for key, each in GOOD.items() if key != name}
    facts = replace(WELL, settings={**WELL.settings, NODES[1]: bad})
    assert {name: "error"} == levels(facts)
    (found,) = [each for each in judge(facts) if each.name == name]
    assert NODES[1] in found.detail
    assert NODES[0] not in found.detail
    assert f"{name}: {GOOD[name]}" in found.advice


@pytest.mark.parametrize(
    ("copies", "nodes", "level"), [("1", 1, "warning"), ("1", 3, "error"), ("2", 2, "error"), ("3/1", 3, "error")]
)
def test_too_few_copies_are_told(copies: str, nodes: int, level: str) -> None:
    """One node is a trial, and warned of; more nodes with fewer than three copies are an error."""
    settings = dict.fromkeys(NODES[:nodes], GOOD)
    facts = replace(WELL, settings=settings, replication={"dc1": copies})
    assert {"copies": level} == levels(facts)
    advice = {each.name: each.advice for each in judge(facts)}["copies"]
    is_short = int(copies[0]) < nodes
    assert ("ALTER KEYSPACE jobs WITH" in advice) == is_short, advice
    if is_short:
        assert f"'dc1': {nodes}}}; then `nodetool repair --full jobs` on each node" in advice


def test_a_simple_strategy_is_read_too() -> None:
    """It names no data centre."""
    assert {} == levels(replace(WELL, replication={"replication_factor": "3"}))


def test_a_second_data_centre_may_not_write() -> None:
    """Copies elsewhere are slow; writes from elsewhere are refused."""
    two = {"dc1": "3", "dc2": "3"}
    assert {"data centres": "warning"} == levels(replace(WELL, replication=two))
    assert {"data centres": "error"} == levels(replace(WELL, replication=two, datacenter="dc2"))


def test_old_and_silent_nodes_are_told() -> None:
    """A release that this was never tried on, and a node whose settings nobody knows."""
    assert {"cassandra": "error"} == levels(replace(WELL, releases={**WELL.releases, NODES[0]: "4.1.7"}))
    silent = replace(WELL, settings=dict.fromkeys(NODES[1:], GOOD), silent={NODES[0]: "no answer"})
    assert {"cassandra": "warning"} == levels(silent)
    mute = replace(WELL, settings={}, silent=dict.fromkeys(NODES, "you have no SELECT permission"))
    assert {"cassandra": "error"} == levels(mute)


def test_a_node_with_another_time_is_told() -> None:
    """By how much it is off the middle one."""
    facts = replace(WELL, offsets={NODES[0]: 3_700.0, NODES[1]: 100.0, NODES[2]: 100.2})
    assert {"node clocks": "warning"} == levels(facts)
    (found,) = [each for each in judge(facts) if each.name == "node clocks"]
    assert f"{NODES[0]} +3599.8 s" in found.detail


@pytest.mark.parametrize(
    ("clocks", "right"),
    [([5.0], 5.0), ([5.0, 3_605.0], 5.0), ([3_605.0, 5.0, 5.1], 5.1), ([-3_595.0, 5.0, 5.1], 5.0), ([4, 1, 3, 2], 2)],
)
def test_the_time_of_nodes_is_the_middle_one(clocks: list[float], right: float) -> None:
    """One wrong clock of three changes nothing; of two the earlier one counts, for nothing may be early."""
    assert right == middle(clocks)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_pieces_make_the_whole_again(size: int) -> None:
    """None is larger than a node takes, and a missing one is noticed."""
    pieces = cut(b"x" * size)
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    rows = [(len(pieces), piece) for piece in pieces]
    assert b"x" * size == joined(rows)
    assert None is joined(rows[:-1])


def test_the_highest_epoch_of_a_position_counts() -> None:
    """A body of an earlier owner, with more pieces or fewer, is passed over."""
    rows = [
        (1, 3, 0, 1, b"good"), (1, 2, 0, 2, b"stale"), (1, 2, 1, 2, b"stale"),
        (2, 3, 0, 2, b"in "), (2, 3, 1, 2, b"two"), (2, 1, 0, 1, b"stale"),
    ]  # fmt: skip
    assert [(1, b"good"), (2, b"in two")] == [(at, joined(pieces)) for at, pieces in grouped(rows)]
