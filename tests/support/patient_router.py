"""A router over shards that waits for each of them, in tests in which none is silent.

A router goes on without a shard that does not answer for a second or two, and says so. On a machine that stands still
for so long a call would bring less than the test asked for, which says nothing of the promise.
"""

from __future__ import annotations

from typing import Final

import pytest

from tickwise.adapters.store.sharded import dispatch, fleet, membership

PATIENT_SECONDS: Final = 60.0


def wait_for_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have routers of this process wait a minute for a shard, for the time of a test."""
    monkeypatch.setattr(membership, "BEAT_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(fleet, "SLOW_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(dispatch, "SLOW_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(dispatch, "SLOW_CLAIM_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(dispatch, "PATIENT_CLAIM_SECONDS", PATIENT_SECONDS)
