"""Entries of one import that begin with the same program get names of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.importers.crontab import read_crontab
from tickwise.importers.naming import named_apart


def names(*commands: str) -> list[str]:
    """The names of these entries of one crontab."""
    text = "".join(f"0 3 * * * {command}\n" for command in commands)
    return [entry.job["name"] for entry in named_apart(read_crontab(text, source="test").entries) if entry.job]


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (
            ["tar -czf /b/orders.tgz /srv/orders", "tar -czf /b/images.tgz /srv/images"],
            ["tar orders.tgz", "tar images.tgz"],
        ),
        (["date", "date", "uptime"], ["date", "date 2", "uptime"]),
        (["rsync a web1:", "rsync a web2:", "rsync a web1: --delete"], ["rsync", "rsync web2", "rsync delete"]),
        (["/srv/a/run", "/srv/b/run", "run 2"], ["run", "run 2", "run 3"]),
        (["backup"], ["backup"]),
    ],
)
def test_the_first_word_of_its_own_tells_an_entry_apart(commands: Sequence[str], expected: list[str]) -> None:
    """And a number where there is none. A name that is its own stays."""
    assert expected == names(*commands)


@given(st.lists(st.sampled_from(["date", "date 2", "date x", "tar a b", "tar b", "x/date", "y"]), max_size=12))
def test_no_two_entries_have_one_name(commands: list[str]) -> None:
    """For any commands."""
    found = names(*commands)
    assert (len(commands), len(commands)) == (len(found), len(set(found)))
