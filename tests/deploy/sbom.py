"""`make sbom`: what Tickwise and its image are made of, as CycloneDX, from the lock files.

    requirements/base.txt   ──► tickwise.cdx.json          what `pip install tickwise` brings
    requirements/local.txt  ──► tickwise-local.cdx.json    with the embedded PostgreSQL
    requirements/server.txt ──► tickwise-image.cdx.json    what deploy/Dockerfile installs, and the image below it

A lock file has each package with its version and the digests of its files, so the bill is the same on each machine: no
clock and no draw is in it. The system packages of the image's base are for a scanner of images.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from tests.deploy.files import DEPLOY, ROOT
from tickwise import __version__
from tickwise_sdk import __version__ as sdk_version

BILLS: Final = {"tickwise": "base", "tickwise-local": "local", "tickwise-image": "server"}
"""The name of each bill, and its lock file."""
_PINNED: Final = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)")
_DIGEST: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class LockedPackage(NamedTuple):
    """A package of a lock file."""

    name: str
    version: str
    digests: tuple[str, ...]
    """SHA-256 of each of its files."""


def packages(lock: Path) -> Iterator[LockedPackage]:
    """The packages of a lock file."""
    for entry in re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8")):
        pinned = _PINNED.match(entry)
        if pinned is not None:
            yield LockedPackage(pinned[1], pinned[2], tuple(_DIGEST.findall(entry)))


def bill(name: str) -> str:
    """One bill as JSON."""
    found = list(packages(ROOT / "requirements" / f"{BILLS[name]}.txt"))
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"{name} {__version__} {found}"))
    kind = ComponentType.CONTAINER if name == "tickwise-image" else ComponentType.APPLICATION
    whole = Component(type=kind, name=name, version=__version__, bom_ref=name)
    # The SDK is of this repository, so no lock file names it.
    parts = [_component(each) for each in (*found, LockedPackage("tickwise-sdk", sdk_version, ()))]
    if name == "tickwise-image":
        parts.append(_base_image())
    bom.metadata.component = whole
    bom.metadata.timestamp = None  # type: ignore[assignment]  # the bill of one lock file is one file
    bom.components.update(parts)
    bom.register_dependency(whole, parts)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"


def _component(package: LockedPackage) -> Component:
    url = PackageURL("pypi", None, package.name, package.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        purl=url,
        bom_ref=str(url),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.digests],
    )


def _base_image() -> Component:
    """The image that ours is built on, as the Dockerfile names it."""
    (base,) = re.findall(r"^ARG BASE=(\S+)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    name, _, tag = base.partition(":")
    return Component(type=ComponentType.CONTAINER, name=name, version=tag, bom_ref=base)


def main(folder: Path) -> None:
    """Write all bills."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in BILLS:
        (folder / f"{name}.cdx.json").write_text(bill(name), encoding="utf-8")
        sys.stdout.write(f"{folder / name}.cdx.json\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
