"""Alerts as rules make them: folded into a store."""

from __future__ import annotations

from uuid import UUID

from tickwise.domain.notices.changes import AlertChange, AlertKey, Fold
from tickwise.domain.notices.rules import NoticeEvent, Severity
from tickwise.ports.store import Store


async def opened(
    store: Store,
    rule_id: UUID | None,
    *,
    alert_id: UUID,
    namespace: str = "default",
    subject: str = "job-1",
    name: str = "nightly",
    at: float = 1_800_000_000.0,
    run_id: UUID | None = None,
) -> UUID:
    """An open alert about a failure."""
    change = AlertChange(
        key=AlertKey(namespace, rule_id, NoticeEvent.FAILURE, subject),
        alert_id=alert_id,
        seen=None,
        subject_name=name,
        severity=Severity.WARNING,
        events=1,
        first_at=at,
        last_at=at,
        sentence="a run failed: exit code 1",
        run_id=run_id,
    )
    assert await store.alerts.fold(Fold(namespace, (), [change], ()))
    return alert_id
