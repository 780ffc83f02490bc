"""Names of images, and the patterns that allow them."""

from __future__ import annotations

import pytest

from tickwise.adapters.runner.container.references import is_allowed, read_image
from tickwise.domain.errors import Invalid

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "pulled"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.12", "docker.io/library/python:3.12"),
        ("acme/etl", "docker.io/acme/etl:latest"),
        ("docker.io/python", "docker.io/library/python:latest"),
        ("localhost/busy:1", "localhost/busy:1"),
        ("localhost:5000/team/etl:a", "localhost:5000/team/etl:a"),
        (f"ghcr.io/acme/etl:1@{DIGEST}", f"ghcr.io/acme/etl@{DIGEST}"),
    ],
)
def test_a_name_has_a_registry_and_a_tag_or_a_digest(text: str, pulled: str) -> None:
    """As the engine reads it; a digest counts more than a tag."""
    assert pulled == read_image(text).pulled


@pytest.mark.parametrize(
    "text",
    ["", " python", "Python", "a//b", "a/../b", "a:b:c", "-a", "a:" + "t" * 129, "a@sha256:12", f"a@{DIGEST}x",
     "a@md5:1", "http://a/b", "a b", "a\n", "é"],
)  # fmt: skip
def test_another_text_is_no_name(text: str) -> None:
    """It goes into an address of the engine's API."""
    with pytest.raises(Invalid):
        read_image(text)


@pytest.mark.parametrize(
    ("pattern", "text", "allowed"),
    [
        ("python", "python:3.12", True),
        ("python", "docker.io/library/python", True),
        ("python:3.*", "python:3.12", True),
        ("python:3.*", "python", False),
        ("python", "evil.example.com/library/python", False),
        ("ghcr.io/acme/*", "ghcr.io/acme/etl:1", True),
        ("ghcr.io/acme/*", "ghcr.io/acme-evil/etl:1", False),
        ("*.example.com/*", "a.example.com/b", True),
        ("*.example.com/*", "evil.com/a.example.com/b", False),
        ("*.example.com/x", "evil.com/.example.com/x", False),
        ("*", "evil.com/x", True),
        ("localhost/*", "localhost:5000/x", False),
        ("ghcr.io/acme/*:stable", f"ghcr.io/acme/etl@{DIGEST}", False),
        ("ghcr.io/acme/*", f"ghcr.io/acme/etl@{DIGEST}", True),
    ],
)
def test_a_pattern_allows_what_it_names(pattern: str, text: str, allowed: bool) -> None:
    """No star reaches from a registry into a name."""
    try:
        image = read_image(text)
    except Invalid:
        assert not allowed
        return
    assert allowed is is_allowed(image, (pattern,))
