"""A provider of secrets in memory, which keeps what it was asked for and can be away, slow or broken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tickwise.domain.secrets.references import OWN_PROVIDER
from tickwise.ports.secrets import SecretFault, WantedSecret


class HeldSecrets:
    """Secrets by namespace and name."""

    def __init__(self, values: Mapping[tuple[str, str], bytes], name: str = OWN_PROVIDER) -> None:
        self._values = dict(values)
        self._name = name
        self.asked: list[Sequence[WantedSecret]] = []
        self.is_away = False
        self.error: Exception | None = None
        self.open = asyncio.Event()
        """Until it is set, no question is answered."""
        self.open.set()

    @property
    def name(self) -> str:
        return self._name

    async def values(self, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, bytes | SecretFault]:
        self.asked.append(wanted)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        if self.is_away:
            return dict.fromkeys(wanted, SecretFault("the vault is away", True))
        return {each: self._values.get((each.namespace, each.name), _missing(each)) for each in wanted}

    async def close(self) -> None:
        self._values.clear()


def _missing(wanted: WantedSecret) -> SecretFault:
    return SecretFault(f"the namespace {wanted.namespace} has no secret {wanted.name!r}: set one", False)
