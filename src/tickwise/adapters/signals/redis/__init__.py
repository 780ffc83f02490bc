"""Signals, shared state and limits through Redis. All of its keys may vanish at any time."""

from tickwise.adapters.signals.redis.limits import redis_limits
from tickwise.adapters.signals.redis.link import RedisLink
from tickwise.adapters.signals.redis.shared_state import RedisSharedState
from tickwise.adapters.signals.redis.signals import RedisSignals

__all__ = ["RedisLink", "RedisSharedState", "RedisSignals", "redis_limits"]
