"""What no seed draws: requests that take effect long after their caller gave them up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwise.testing.world import draw, played


@pytest.mark.takes_up_to(390)
def test_a_request_may_take_effect_after_its_caller_gave_it_up() -> None:
    """A server that stood still carries out what lies in its queue. Its caller has asked what it holds before that, and
    asks again for a while; and what was to be given back then is not taken from what was claimed since. Nobody says
    that the store lost anything."""
    late = [replace(draw(seed), faults=frozenset({"late effect"}), call_fault_share=0.02) for seed in range(24)]
    assert "" == "\n".join(report.as_text() for swarm in late if (report := played(swarm)).findings)
