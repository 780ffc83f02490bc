"""Both bells keep the promises of the port."""

from __future__ import annotations

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.signals.postgres import PostgresSignals
from tickwise.ports.signals import Signals
from tickwise.testing.contracts.signals import SignalsContract


class TestLocal(SignalsContract):
    @pytest.fixture
    def bells(self) -> tuple[Signals, Signals]:
        bell = LocalSignals()
        return bell, bell


class TestPostgres(SignalsContract):
    @pytest.fixture
    def bells(self, database_url: str) -> tuple[Signals, Signals]:
        return PostgresSignals(database_url, SystemClock()), PostgresSignals(database_url, SystemClock())
