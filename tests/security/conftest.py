"""Every test of this folder is a probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.probes import row_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that does not say what it tries and what stops it."""
    for item in items:
        if item.path.is_relative_to(HERE):
            row_of(item)
