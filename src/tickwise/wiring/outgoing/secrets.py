"""The providers of secrets of an executor, by the names that references have (`domain.secrets.references`).

our own store          always
files, environment, …  each if a setting of it is set
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.secrets import SecretProvider
from tickwise.ports.store.secrets import SealedSecrets


def secret_providers(
    store: SealedSecrets, sealer: EnvelopeSealer, further: Iterable[SecretProvider] = ()
) -> Mapping[str, SecretProvider]:
    """The providers of an executor, by name: our own store, and further ones. The executor closes them."""
    return {each.name: each for each in (OwnSecrets(store, sealer), *further)}
