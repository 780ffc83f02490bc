"""Signals, events, board and limits through Redis. All of its keys may vanish at any time."""

from tickwise.adapters.signals.redis.link import RedisLink
from tickwise.adapters.signals.redis.signals import RedisSignals

__all__ = ["RedisLink", "RedisSignals"]
