"""Other queues and schedulers, measured beside Tickwise: same machine, same server settings, same work.

Each peer is a package of this folder whose `__init__` ends with `PEERS = (Peer(...), ...)`: one for its default and
one for the best setting that its documentation names. What a peer is, is in `bench.peers.peer`; what it gets for a
run, in `bench.peers.rig`; the cases that all of them share, and the few lines that their programs speak with us, in
`bench.peers.program`. `python -m bench.peers` measures.
"""

from __future__ import annotations

import importlib
import pkgutil

from bench.peers.peer import Peer

__all__ = ["PEERS", "Peer"]

PEERS: tuple[Peer, ...] = tuple(
    peer
    for found in pkgutil.iter_modules(__path__)
    if found.ispkg
    for peer in importlib.import_module(f"{__name__}.{found.name}").PEERS
)
