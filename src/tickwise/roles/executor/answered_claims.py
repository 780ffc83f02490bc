"""The tokens of claims that the store answered, so that a claim without an answer can be told from a lost end."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from tickwise.domain.model import Claimed

TOKENS_KEPT: Final = 20_000
"""Tokens of answered claims, each of up to some hundred runs: five minutes of a very busy executor."""

logger = structlog.get_logger("tickwise.executor")


class AnsweredClaims:
    """The tokens of the last claims whose answer came."""

    def __init__(self) -> None:
        self.highest = 0
        self._tokens: set[int] = set()
        self._order: collections.deque[int] = collections.deque()

    def add(self, rows: Sequence[Claimed]) -> None:
        """Note one more answer. In most stores all runs of a claim have one token."""
        for token in {rows[0].token} if rows[0].token == rows[-1].token else sorted({row.token for row in rows}):
            self._tokens.add(token)
            self._order.append(token)
            self.highest = max(self.highest, token)
        while len(self._order) > TOKENS_KEPT:
            self._tokens.discard(self._order.popleft())

    def tokens(self) -> Iterator[int]:
        """All tokens that are remembered."""
        return iter(self._order)

    def never_came(self, token: int) -> bool:
        """Check that the answer to the claim with this token certainly never came."""
        full = len(self._order) >= TOKENS_KEPT
        return token not in self._tokens and not (full and token < self._order[0])

    def forget(self) -> None:
        """Drop all tokens: the store expired the executor, which holds nothing any more."""
        self.highest = 0
        self._tokens.clear()
        self._order.clear()


def log_given_back(executor: int, count: int) -> None:
    """Log runs that went back because the answer to their claim never came."""
    if count:
        logger.warning("claim_given_back", executor=executor, count=count)
