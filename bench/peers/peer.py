"""What we say of a peer, and how it is brought here."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.harness import Round
from bench.peers.rig import PeerRig

# Packages of peers, kept between runs and never committed.
INSTALLED = Path(__file__).parent.parent / ".peers"


@dataclass(frozen=True)
class Peer:
    """One product at one setting.

    `durability` says in a line what survives what; `stores`, what is kept of each job once it has run. `link` leads to
    the documentation of the setting. `cases` has a measurement for each case that the peer can do, of T1, T2, L2 and
    R1. `install` puts the pinned packages into `INSTALLED` and is quick if they are there. `needs` names the programs
    that must be on the path.
    """

    name: str
    version: str
    language: str
    durability: str
    stores: str
    settings: Literal["default", "best"]
    link: str
    cases: Mapping[str, Callable[[PeerRig], Awaitable[Round]]]
    install: Callable[[], None]
    needs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Tells it from all others: `river-best`."""
        return f"{self.name}-{self.settings}"

    def missing(self) -> tuple[str, ...]:
        """The programs that it needs and that are not here."""
        return tuple(program for program in self.needs if shutil.which(program) is None)
