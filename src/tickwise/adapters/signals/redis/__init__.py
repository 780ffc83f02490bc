"""Signals, board and limits through Redis. All of its keys may vanish at any time."""

from tickwise.adapters.signals.redis.board import RedisBoard
from tickwise.adapters.signals.redis.limits import redis_limits
from tickwise.adapters.signals.redis.link import RedisLink
from tickwise.adapters.signals.redis.signals import RedisSignals

__all__ = ["RedisBoard", "RedisLink", "RedisSignals", "redis_limits"]
