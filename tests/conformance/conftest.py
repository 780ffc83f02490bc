"""The suites are a library: their assertions are explained as those of tests are."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tickwise.testing.contracts")
