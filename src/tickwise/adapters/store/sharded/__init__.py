"""One store over several: each namespace lives in one of them. See `store`."""

from tickwise.adapters.store.sharded.store import ShardedStore

__all__ = ["ShardedStore"]
