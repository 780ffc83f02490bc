"""The page about isolation has the attacks that `make security` makes, and what is stated of them."""

from __future__ import annotations

from collections import Counter

from tests.security.isolation.attacks import Verdict
from tests.security.isolation.catalogue import ALL
from tests.security.isolation.page import PLACE, page
from tickwise.domain.rules.confinement import Isolation

FEWEST_ATTACKS = 60


def test_the_page_has_all_attacks() -> None:
    """Run `python -m tests.security.isolation.page` after a change."""
    text = PLACE.read_text(encoding="utf-8")
    assert page(text) == text


def test_each_attack_is_stated_for_both_levels() -> None:
    """At least sixty, and a sandbox leaves nothing to chance but the three that the page names."""
    assert len(ALL) >= FEWEST_ATTACKS
    at_sandbox = Counter(each.expected[Isolation.SANDBOX, "root"].verdict for each in ALL)
    assert at_sandbox[Verdict.STOPPED] >= FEWEST_ATTACKS
    left = {each.name for each in ALL if each.expected[Isolation.SANDBOX, "root"].verdict is not Verdict.STOPPED}
    assert {"addresses_of_the_kernel", "many_files", "much_in_its_folder"} == left
    assert all(each.expected[Isolation.PROCESS, "root"].because for each in ALL)
