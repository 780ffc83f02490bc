"""Lists on the command line go on while the server links to a next page, however short a page is."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

LISTS = {
    "jobs": ["jobs", "list", "--limit", "5"],
    "all jobs": ["jobs", "list", "--all"],
    "runs": ["runs", "list", "--limit", "5"],
    "dead letters": ["dead-letters", "list", "--limit", "5"],
    "operations": ["operations", "list", "--limit", "5"],
    "tasks": ["tasks", "list", "--limit", "5"],
    "versions": ["tasks", "versions", "clean-up", "--limit", "5"],
    "calendars": ["calendars", "list", "--limit", "5"],
    "windows": ["windows", "list", "--limit", "5"],
    "people": ["users", "list", "--limit", "5"],
    "rules": ["notify", "list", "--limit", "5"],
    "objectives": ["objectives", "list", "--limit", "5"],
    "stops": ["stops", "list", "--limit", "5"],
}
AT = "2027-01-01T00:00:00Z"
CUT: dict[str, tuple[list[str], dict[str, Any]]] = {
    "people": (
        ["users", "list"],
        {"name": "ada", "email": None, "roles": [], "active": True, "has_password": True, "signed_in_at": None},
    ),
    "rules": (
        ["notify", "list"],
        {"rule_id": "r", "name": "a", "enabled": True, "on": ["failure"], "jobs": [], "labels": {}, "channels": [],
         "severity": "info"},
    ),
    "objectives": (
        ["objectives", "list"],
        {"name": "a", "job_id": "j", "state": "met", "ratio": 0.99, "start_within_seconds": 5.0, "good": 1, "late": 0,
         "budget_left": 1.0, "burn": [{"rate": 0.0}]},
    ),
    "stops": (
        ["stops", "list"],
        {"stop_id": "s", "scope": "a queue", "lifted_by": None, "over": False, "in_force": True, "until": AT,
         "by": "ada", "reason": "a move"},
    ),
    "entries": (
        ["audit", "list"],
        {"entry": 1, "at": AT, "namespace": "default", "action": "job.made", "target": "t", "target_kind": "job",
         "targets": [], "before": None, "after": None, "caller": {"name": "ada", "kind": "key", "address": ""}},
    ),
}  # fmt: skip
"""Lists of what people do and keep: the command, and an item."""


@pytest.mark.parametrize("words", LISTS.values(), ids=LISTS)
def test_a_list_goes_on_behind_a_short_page(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Pages of large items end early; one may have a single item. The list ends with its limit, or with the links."""
    pages = [["e"], ["d", "c"], ["b"], ["a"]]
    replies = [
        Reply(200, page, {"Link": f'</api/v1/next?cursor={at}>; rel="next"'} if at < len(pages) else {})
        for at, page in enumerate(pages, 1)
    ]
    with serving(*replies) as server:
        assert 0 == main(["--json", *words, "--url", server.url, "--api-key", "k"])
    assert ["e", "d", "c", "b", "a"] == json.loads(capfd.readouterr().out)
    cursors = [parse_qs(urlsplit(each.path).query).get("cursor") for each in server.received]
    assert [None, ["1"], ["2"], ["3"]] == cursors


@pytest.mark.parametrize("name", CUT)
def test_a_list_that_is_cut_says_so(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """And how to see more; one that is whole does not."""
    words, item = CUT[name]
    items = [{**item, "entry": number} if name == "entries" else item for number in range(3)]
    with serving(Reply(200, items)) as server:
        for limit, is_cut in ((2, True), (3, False)):
            assert 0 == main([*words, "--limit", str(limit), "--url", server.url, "--api-key", "k"])
            told = capfd.readouterr()
            assert limit + 1 == len(told.out.splitlines())
            assert is_cut == (f"There are more than these {limit}; --limit {limit * 5} shows more." in told.err)
