"""Names of images, and the patterns of those that are allowed.

    python:3.12                       docker.io   library/python   3.12
    localhost:5000/team/etl@sha256:…  localhost:5000   team/etl    –      sha256:…

A pattern has the same form, with `*` and `?`: `python`, `ghcr.io/acme/*`, `*.example.com/*:stable`. Without a tag it
means every tag. No `*` reaches from the registry into the name.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid

DEFAULT_REGISTRY: Final = "docker.io"
OFFICIAL: Final = "library/"
MAX_IMAGE: Final = 500
PREPARED_NAME: Final = "localhost/tickwise-prepared"
"""The images that executors make for themselves. No task may name one."""
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?")
_PART: Final = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class ImageName(NamedTuple):
    """The name of an image, in its parts."""

    registry: str
    repository: str
    tag: str | None
    """None: none is said. With a digest, none counts; without one, it is `latest`."""
    digest: str | None

    @property
    def repository_name(self) -> str:
        """With its registry, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def tagged(self) -> str | None:
        """The name with its tag; None: it is named by its digest alone."""
        if self.tag is None and self.digest is not None:
            return None
        return f"{self.repository_name}:{self.tag or 'latest'}"

    @property
    def pulled(self) -> str:
        """The name that a registry is asked for: by the digest, if there is one."""
        if self.digest is not None:
            return f"{self.repository_name}@{self.digest}"
        return f"{self.repository_name}:{self.tag or 'latest'}"


def read_image(text: str) -> ImageName:
    """The parts of a name. Raises `Invalid`."""
    name, at, digest = text.partition("@")
    if len(text) > MAX_IMAGE or (at and not _DIGEST.fullmatch(digest)):
        raise Invalid(f"{text[:80]!r}: a digest is sha256: and 64 hexadecimal digits in lower case")
    registry, path, tag = _parts(name)
    good = _HOST.fullmatch(registry) and all(_PART.fullmatch(part) for part in path.split("/"))
    if not good or (tag is not None and not _TAG.fullmatch(tag)):
        raise Invalid(f"{text[:80]!r} is no name of an image; write one such as python:3.12 or ghcr.io/acme/etl:1")
    return ImageName(registry, path, tag, digest or None)


def _parts(name: str) -> tuple[str, str, str | None]:
    """Registry, repository and tag of a name or a pattern."""
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or any(mark in first for mark in ".:*")):
        registry, path = first, rest
    else:
        registry, path = DEFAULT_REGISTRY, name
    path, _, tag = path.partition(":")
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = f"{OFFICIAL}{path}"
    return registry, path, tag or None


def is_allowed(image: ImageName, patterns: tuple[str, ...]) -> bool:
    """Check whether one of the patterns allows the image."""
    return any(_matches(image, pattern) for pattern in patterns)


def _matches(image: ImageName, pattern: str) -> bool:
    if pattern == "*":
        return True
    registry, path, tag = _parts(pattern)
    return (
        fnmatchcase(image.registry, registry)
        and fnmatchcase(image.repository, path)
        and (tag is None or fnmatchcase(image.tag or ("" if image.digest else "latest"), tag))
    )
