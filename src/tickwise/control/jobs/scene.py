"""The facts that composing needs beside a body, as the store and the active executors gave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tickwise.control.jobs.successors import NOTHING, Graph
from tickwise.control.tasks import NO_FINDINGS, Findings
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.store import StoredTask
from tickwise.roles.shared.served_queues import NOBODY, Serving


class Scene(NamedTuple):
    """The facts that composing needs beside the body."""

    now: float
    tasks: Mapping[str, StoredTask]
    """The stored tasks that are named by `taskId`, as far as they exist."""
    serving: Serving = NOBODY
    """The functions and the lanes that active executors serve, as far as they are known."""
    calendars: frozenset[str] = frozenset()
    """The calendars that are named, as far as they exist."""
    successors: Graph = NOTHING
    """The jobs that are named as successors, and what follows from them."""
    channels: frozenset[str] = frozenset()
    """The channels that are named by `notify`, as far as they exist."""
    missing_secrets: frozenset[str] = frozenset()
    """The secrets that are named and do not exist, as far as the caller may know."""
    scripts: Findings = NO_FINDINGS
    """The findings on the scripts in the bodies."""
    sandboxes: bool = True
    """See `ControlContext`."""
    floor: Isolation = Isolation.PROCESS
    """The least isolation that the namespace demands."""
