"""The first request of a look at the server. While the store is away its answer takes long, and says little.

    request ──► answered within `ANSWER_SECONDS` ──► the answer
       └── not yet ──► `/readyz` ──► the store is away ──► the server's words on it, and no further wait
                           └── anything else ──► the answer, however long it takes

A server waits for a keeper that takes over, and a client repeats what was refused for now: 20 s together, in which a
person at a terminal sees nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from tickwise.sdk.client import Client

T = TypeVar("T")

ANSWER_SECONDS: Final = 1.5
"""A server that is well answers within a hundredth of it."""
PROBE_SECONDS: Final = 6.0
"""A server tells within 5 s whether its store is away, and within 2 s if the store has a cause."""
STORE_CODE: Final = "store_unavailable"


def first_answer(ask: Callable[[], T], client: Client) -> T:
    """The answer of `ask`. Raises what that raises, and `Unreachable` with the cause if the server says meanwhile that
    its store is away."""
    from tickwise.sdk.client import Unreachable

    found: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(ask())
        except BaseException as failure:  # noqa: BLE001  # raised below
            failed.append(failure)

    # A daemon: an interrupt, or a cause, ends the command, and waits for no answer.
    asking = threading.Thread(target=work, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if asking.is_alive():
        problem = client.trouble(PROBE_SECONDS)
        if problem is not None and problem.get("code") == STORE_CODE and asking.is_alive():
            raise Unreachable(str(problem.get("detail")), status=503, request_id=problem.get("request_id"))
        asking.join()
    if failed:
        raise failed[0]
    return found[0]
