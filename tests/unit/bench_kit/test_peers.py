"""A peer's round counts only if every job was run, and each of its figures is of what really ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.harness import Failed
from bench.peers import PEERS
from bench.peers.program import judge

FOLDER = Path(__file__).parents[3] / "bench" / "peers"


def test_a_round_in_which_every_job_ran_once_has_an_outcome() -> None:
    """Whatever worker ran it, and in whatever order."""
    assert {"runs": 4, "lost": 0, "duplicates": 0} == judge([{"ids": [3, 0]}, {"ids": []}, {"ids": [1, 2]}], 4)


def test_a_lost_job_voids_the_round() -> None:
    """A peer that is quick because it drops jobs has no figure."""
    with pytest.raises(Failed, match="1 of 4 jobs lost"):
        judge([{"ids": [0, 1, 3, 3]}], 4)


def test_a_job_that_nobody_queued_voids_the_round() -> None:
    """Jobs of another run in the same queue would make a peer look better than it is."""
    with pytest.raises(Failed, match="1 that nobody queued"):
        judge([{"ids": [0, 1, 2, 4]}], 3)


def test_a_job_that_ran_twice_is_counted_and_told() -> None:
    """Peers promise at least once, so it is no loss."""
    assert {"runs": 2, "lost": 0, "duplicates": 2} == judge([{"ids": [0, 1, 1]}, {"ids": [1]}], 2)


def test_peers_have_titles_of_their_own() -> None:
    """Results are kept by title."""
    titles = [peer.title for peer in PEERS]
    assert sorted(set(titles)) == sorted(titles)


def test_every_peer_says_what_it_keeps_and_where_its_setting_is_documented() -> None:
    """A figure without its durability compares nothing."""
    lacking = [peer.title for peer in PEERS if not (peer.durability and peer.stores and peer.version and peer.cases)]
    assert [] == lacking
    assert [] == [peer.title for peer in PEERS if not peer.link.startswith("https://")]


@pytest.mark.parametrize("lock", sorted(FOLDER.glob("*/package-lock.json")), ids=lambda lock: lock.parent.name)
def test_packages_of_node_peers_are_pinned_by_hash_and_not_by_place(lock: Path) -> None:
    """They come from whatever registry npm is set to, and are what was measured."""
    packages = {name: about for name, about in json.loads(lock.read_text())["packages"].items() if name}
    assert packages
    assert [] == [name for name, about in packages.items() if "integrity" not in about or "resolved" in about]
