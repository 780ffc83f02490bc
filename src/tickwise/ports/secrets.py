"""The port of secrets: where an executor gets the values from that the tasks of its runs name.

    claimed runs ──references──► SecretProvider.values ──► Assignment.secrets ──► runner ──► environment, file, header

One provider for each place: our own store, files, the environment, Vault, Kubernetes. Invariant: a provider hands out
the secrets of a namespace to the runs of that namespace alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class WantedSecret(NamedTuple):
    """A secret that a run of a namespace names."""

    namespace: str
    name: str
    """As the provider takes it: without prefix and without the provider's own name."""


class SecretFault(NamedTuple):
    """The reason why there is no value."""

    detail: str
    """For people: what is missing and what to do. Never a value, nor a part of one."""
    is_passing: bool
    """True if the same question may be answered later: the provider is away. False: nothing of this name is there."""


class SecretProvider(Protocol):
    """One place that keeps secrets."""

    @property
    def name(self) -> str:
        """The text that names it, between `secret:` and the secret's name; empty for our own store
        (`domain.secrets.references`)."""
        ...

    async def values(self, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, bytes | SecretFault]:
        """The newest value of each, or the reason why there is none. It answers within a few seconds, and never
        raises."""
        ...

    async def close(self) -> None:
        """End its connections."""
        ...
