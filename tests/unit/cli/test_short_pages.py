"""Lists on the command line go on while the server links to a next page, however short a page is."""

from __future__ import annotations

import json
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
}


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
