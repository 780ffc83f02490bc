"""What the jobs of a scene wrote down themselves, outside of the system, on the machine's monotonic clock."""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tickwise.domain.history.checker import Execution


class Line(NamedTuple):
    """One line, see `tests.chaos.tasks`."""

    what: str
    run_id: UUID
    token: int
    attempt: int
    at: float
    """CLOCK_MONOTONIC."""
    pid: int


class Witness:
    """The file, and how jobs are told of it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.touch()
        self._wall = time.time() - time.monotonic()
        self._boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()

    def wall(self, monotonic: float) -> float:
        """That instant in Unix seconds, as the machine's clock stood when the scene began."""
        return monotonic + self._wall

    def payload(self, **more: Any) -> dict[str, Any]:
        """What a function of `tests.chaos.tasks` needs."""
        return {"witness": str(self.file), **more}

    def shell(self, between: str = "") -> str:
        """A shell task that writes its lines as the functions do, with `between` in between.

        It knows CLOCK_BOOTTIME, to 10 ms: the same clock on a machine that does not sleep.
        """
        say = (
            f'say() {{ read -r up _ < /proc/uptime; echo "$1 $TICKWISE_RUN_ID $TICKWISE_FENCING_TOKEN '
            f'$TICKWISE_ATTEMPT $up $$" >> {shlex.quote(str(self.file))}; }}'
        )
        return f"{say}; say B; {between or ':'}; say E"

    def lines(self) -> Iterator[Line]:
        """All of them, in the order in which they were written."""
        for text in self.file.read_text().splitlines():
            what, run_id, token, attempt, at, pid = text.split()
            instant = float(at) - (self._boot if what.isupper() else 0.0)
            yield Line(what.lower(), UUID(run_id), int(token), int(attempt), instant, int(pid))

    def begun(self) -> list[Line]:
        """The beginnings."""
        return [line for line in self.lines() if line.what == "b"]

    def overlaps(self) -> list[float]:
        """Of each execution that still showed a sign of life after a later one of its run had begun: for how long."""
        begins: dict[UUID, list[tuple[int, float]]] = defaultdict(list)
        last: dict[tuple[UUID, int], float] = {}
        for line in self.lines():
            if line.what == "b":
                begins[line.run_id].append((line.token, line.at))
            last[line.run_id, line.token] = max(line.at, last.get((line.run_id, line.token), 0.0))
        found = []
        for run_id, begun in begins.items():
            for token, _ in begun:
                later = [at for other, at in begun if other > token]
                if later and last[run_id, token] > min(later):
                    found.append(last[run_id, token] - min(later))
        return found

    def executions(self) -> list[Execution]:
        """Each time that a task really ran."""
        ends: dict[tuple[UUID, int], float] = {}
        begins: list[Line] = []
        for line in self.lines():
            if line.what == "b":
                begins.append(line)
            elif line.what == "e":
                ends[line.run_id, line.token] = self.wall(line.at)
        return [Execution(b.run_id, b.token, self.wall(b.at), ends.get((b.run_id, b.token))) for b in begins]
