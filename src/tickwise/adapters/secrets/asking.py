"""Questions to a server that keeps secrets: one JSON answer, bounded in time and size, and values kept for seconds."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from ssl import SSLContext, SSLError, create_default_context
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess
from tickwise.adapters.outgoing.exchange import NoAnswer, Request
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.secrets import SecretFault

ANSWER_BYTES_MOST: Final = 4 << 20
"""Kubernetes' secrets have at most 1 MiB, which base64 makes a third longer, and Vault's entries 1 MiB by default."""
CONNECTIONS: Final = 8
MAX_KEPT: Final = 10_000
Name = TypeVar("Name")
Answer = TypeVar("Answer")
BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same question may be answered."""


class Asked(NamedTuple):
    """An answer."""

    status: int
    body: Mapping[str, Any]
    """Empty: it was no JSON object."""


class Away(Exception):
    """There is no answer for now. Its text is for people."""


class SecretServer:
    """One server, by its address. Its first question opens the connections."""

    def __init__(self, called: str, address: str, *, seconds: float, authority: Path | None = None) -> None:
        """`called`: its name for people. `seconds`: the limit of one question. `authority`: a file that its certificate
        is checked with; None: those of the system. Raises `Misconfigured`."""
        self.called = called
        self._address = address.rstrip("/")
        parts = urlsplit(self._address)
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise Misconfigured(
                f"the address of {called} ({parts.hostname or 'without a host'}) must be a plain one, such as "
                "https://vault.example.com:8200, without a user, a query or a fragment"
            )
        # The operator names it: it may be anywhere.
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._access = HttpAccess(hosts=frozenset({(parts.hostname, port)}))
        self._seconds = seconds
        self._authority = authority
        self._client: Any = None
        self._tls: SSLContext | None = None

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> Asked:
        """Ask; `path` begins with a slash and is encoded. Raises `Away`."""
        kept = bytearray()

        async def take(_status: int, piece: bytes) -> None:
            kept.extend(piece)
            if len(kept) > ANSWER_BYTES_MOST:
                raise Away(f"{self.called} answered with more than {ANSWER_BYTES_MOST} bytes")

        try:
            async with asyncio.timeout(self._seconds):
                client = await self._opened()
                url = self._access.vet(f"{self._address}{path}")
                encoded = None if body is None else json.dumps(body).encode()
                sent = {**headers, "Accept": "application/json"}
                if encoded is not None:
                    sent["Content-Type"] = "application/json"
                status, _ = await client.send(Request(method, url, sent, encoded, tls=self._tls), take)
        except TimeoutError:
            raise Away(f"{self.called} did not answer within {self._seconds:g} s") from None
        except (NoAnswer, AddressRefused) as error:
            raise Away(f"no answer of {self.called}: {error}") from None
        except (OSError, SSLError) as error:
            raise Away(f"the authority of {self.called} cannot be read: {error}") from None
        return Asked(status, _object(bytes(kept)))

    async def _opened(self) -> Any:
        if self._client is None:
            if self._authority is not None and self._address.startswith("https:"):
                self._tls = await asyncio.to_thread(create_default_context, cafile=str(self._authority))
            # An extra tenth of a second, which only an executor with such secrets takes.
            from tickwise.adapters.outgoing.client import HttpClient

            self._client = HttpClient(self._access, connections=CONNECTIONS)
        return self._client

    async def close(self) -> None:
        """End the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class KeptAnswers(Generic[Name, Answer]):
    """Answers that are kept for a bounded time, and asked for once by all who want one at once."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._kept: OrderedDict[Name, tuple[Answer, float]] = OrderedDict()
        self._asking: dict[Name, asyncio.Task[Answer | SecretFault]] = {}

    async def of(self, name: Name, ask: Callable[[], Awaitable[Answer | SecretFault]]) -> Answer | SecretFault:
        """The answer; a fault is never kept."""
        kept = self._kept.get(name)
        if kept is not None and kept[1] > self._clock.monotonic():
            return kept[0]
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.ensure_future(self._asked(name, ask))
        return await asyncio.shield(task)

    async def _asked(self, name: Name, ask: Callable[[], Awaitable[Answer | SecretFault]]) -> Answer | SecretFault:
        try:
            found = await ask()
        finally:
            self._asking.pop(name, None)
        if self._seconds > 0 and not isinstance(found, SecretFault):
            self._kept[name] = (found, self._clock.monotonic() + self._seconds)
            self._kept.move_to_end(name)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
