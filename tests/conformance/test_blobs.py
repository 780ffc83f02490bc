"""Every store of blobs keeps the promises of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwise.adapters.blobs import OutputBlobs, open_blobs
from tickwise.ports.blobs import Blobs
from tickwise.testing.contracts.blobs import BlobsContract


class TestFolder(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return open_blobs((tmp_path / "a b").as_uri())

    @pytest.fixture
    def other(self, blobs: Blobs, tmp_path: Path) -> Blobs:
        return open_blobs((tmp_path / "a b").as_uri())


class TestMemory(BlobsContract):
    @pytest.fixture
    def blobs(self) -> Blobs:
        return open_blobs("memory://")

    @pytest.fixture
    def other(self, blobs: Blobs) -> Blobs:
        return blobs


class TestOutput(BlobsContract):
    """The view of an executor, which writes below `logs/` alone."""

    @pytest.fixture
    def blobs(self, other: Blobs) -> Blobs:
        return OutputBlobs(other)

    @pytest.fixture
    def other(self) -> Blobs:
        return open_blobs("memory://")
