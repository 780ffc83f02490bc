"""Addresses of blob stores, and the view of an executor. `tests/conformance` has the promises of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwise.adapters.blobs import OutputBlobs, open_blobs
from tickwise.domain.errors import Bug, Misconfigured


@pytest.mark.parametrize("url", ["gs://bucket", "s3://", "file://host/folder", "file:relative", "/folder", ""])
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    """With what it must look like."""
    with pytest.raises(Misconfigured, match="blobs_url must"):
        open_blobs(url)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    """With its name."""
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="cannot be used"):
        open_blobs((tmp_path / "file").as_uri())


@pytest.mark.parametrize("key", ["scripts/x/y", "scripts/y", "logsx/y", "other"])
async def test_an_executor_writes_outputs_alone(key: str) -> None:
    """It reads everything; a script it neither changes nor removes."""
    blobs = open_blobs("memory://")
    await blobs.put(key, b"as it was")
    view = OutputBlobs(blobs)
    assert b"as it was" == await view.get(key)
    with pytest.raises(Bug):
        await view.put(key, b"changed")
    with pytest.raises(Bug):
        await view.delete([key])
    assert b"as it was" == await blobs.get(key)
    await view.put("logs/1/2/3", b"said")
    assert b"said" == await view.get_range("logs/1/2/3", 0, 10)
    await view.delete(["logs/1/2/3"])
    assert [] == await view.list("logs/")
