"""The providers of secrets that the settings name, for executors; and their names, for the check of tasks.

our own store          always
files, environment, …  each if a setting of it is set
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.secrets import SecretProvider
from tickwise.ports.store.secrets import SealedSecrets


def secret_providers(
    store: SealedSecrets, sealer: EnvelopeSealer, further: Iterable[SecretProvider] = ()
) -> Mapping[str, SecretProvider]:
    """The providers of an executor, by name: our own store, and further ones. The executor closes them."""
    return {each.name: each for each in (OwnSecrets(store, sealer), *further)}


def provider_names() -> Collection[str] | None:
    """The names that references may have. None: executors alone know them, so tasks are stored with any."""
    return None
