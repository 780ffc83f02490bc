"""The shared count of requests in Redis: one number a caller, moved by a script, so that a count is one step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from redis.exceptions import NoScriptError

from tickwise.adapters.signals.pacing import COUNT_SECONDS, SharedLimits, Standing, Wanted
from tickwise.adapters.signals.redis.link import AWAY, Command, RedisLink

_SCRIPT: Final = Path(__file__).with_name("pace.lua").read_text(encoding="utf-8")
_SHA: Final = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""The digest by which Redis knows the script."""


def redis_limits(
    link: RedisLink, *, api_processes: Callable[[], int] = lambda: 1, wait_seconds: float = COUNT_SECONDS
) -> SharedLimits:
    """`ports.limits.Limits` over one Redis; the rest as `SharedLimits` says."""

    async def count(asked: Mapping[str, Wanted]) -> Mapping[str, Standing]:
        keys = [link.key("pace", who) for who in asked]
        measures = [
            measure
            for wanted in asked.values()
            for measure in (repr(wanted.pace.interval_seconds), repr(wanted.pace.tolerance_seconds), wanted.requests)
        ]
        arguments: Command = (len(keys), *keys, *measures)
        try:
            found: Any = await link.ask("EVALSHA", _SHA, *arguments)
        except NoScriptError:
            found = await link.ask("EVAL", _SCRIPT, *arguments)
        pairs = zip(found[::2], found[1::2], strict=True)
        return {who: Standing(int(granted), float(ahead)) for who, (granted, ahead) in zip(asked, pairs, strict=True)}

    return SharedLimits(count, clock=link.clock, away=AWAY, api_processes=api_processes, wait_seconds=wait_seconds)
