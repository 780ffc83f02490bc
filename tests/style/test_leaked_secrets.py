"""No file of the repository holds a secret that was given out: the rule of `docs/how-to/keys.md`, on ourselves."""

from __future__ import annotations

import re

import pytest

from tests.style import tree
from tickwise.control.keys.forms import PATTERN, SecretKind, is_genuine, new_secret
from tickwise.testing.clock import VirtualClock


def leaked(place: str, text: str) -> list[str]:
    """The secrets in a text, by their place; nothing of a secret is repeated."""
    return [
        f"{place}:{text.count(chr(10), 0, found.start()) + 1}: a secret that was given out; revoke it, and take it out"
        for found in re.finditer(PATTERN, text)
        if is_genuine(found[0])
    ]


@pytest.mark.parametrize("kind", SecretKind)
def test_a_secret_in_a_file_is_found(kind: SecretKind) -> None:
    """In its line; a look-alike without the checksum is none."""
    secret = new_secret(VirtualClock(), kind)
    [found] = leaked("settings.toml", f"# ours\nkey = '{secret}'\n")
    assert found.startswith("settings.toml:2: ")
    assert secret not in found
    assert not leaked("example.md", f"{kind}{'x' * 49}")


def test_no_file_holds_a_secret() -> None:
    """Sources, tests, documents, deployments and recorded results."""
    assert [] == [found for place in tree.committed_files() for found in leaked(place, tree.read(place))]


def test_the_documents_give_the_expression_that_finds_them() -> None:
    """As it stands, for scanners by hand and for both tools."""
    assert 3 <= tree.read("docs/how-to/keys.md").count(PATTERN.strip(r"\b"))
