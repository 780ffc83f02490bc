"""What the tests of the command line share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width of lines is said from outside: pytest's workers have `COLUMNS`."""
    monkeypatch.delenv("COLUMNS", raising=False)
