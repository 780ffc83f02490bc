"""Wakes executors for what a call did besides: runs that waited and are claimable, runs that are to stop.

    store ──Handover──┬── claimable ──► a ring, and hints by name where a broker carries them ──► some executor claims
                      └── stopping ───► a ring that names the runs ─────────────────────────────► their holder stops

Invariant: nothing depends on it. Executors look for themselves, and hear at each heartbeat what they are to stop.
"""

from __future__ import annotations

from collections.abc import Callable

from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Handover
from tickwise.roles.shared.hint_publisher import HintPublisher


def handover_bell(signals: Signals, hint_publisher: HintPublisher | None = None) -> Callable[[Handover], None]:
    """The function that a store calls after each commit (`Store.on_handover`), in every role."""

    def ring(handover: Handover) -> None:
        if handover.claimable:
            signals.send(Topic.RUNS)
            if hint_publisher is not None:
                hint_publisher.publish(handover.claimable)
        if handover.stopping:
            signals.send(Topic.CANCELS, handover.stopping)

    return ring
