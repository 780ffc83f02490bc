"""The settings that stand in modules of their own, by what they are about."""

from __future__ import annotations

from dataclasses import dataclass

from tickwise.config.blobs import BlobSettings
from tickwise.config.containers import ContainerSettings
from tickwise.config.factors import FactorSettings
from tickwise.config.identity import IdentitySettings
from tickwise.config.keepers import KeeperSettings
from tickwise.config.machines import MachineSettings
from tickwise.config.oidc import OidcSettings
from tickwise.config.proxy_sign_in import ProxySignInSettings
from tickwise.config.scripts import ScriptSettings
from tickwise.config.secrets import SecretSettings


@dataclass(frozen=True, kw_only=True)
class TaskSettings(ScriptSettings, ContainerSettings):
    """Of how tasks run."""


@dataclass(frozen=True, kw_only=True)
class StorageSettings(BlobSettings, KeeperSettings):
    """Of where it is kept."""


@dataclass(frozen=True, kw_only=True)
class KeptSettings(StorageSettings, SecretSettings, IdentitySettings):
    """Of what is kept: outputs, secrets, the keys of identity tokens."""


@dataclass(frozen=True, kw_only=True)
class VouchingSettings(OidcSettings, ProxySignInSettings):
    """Of who else vouches for people."""


@dataclass(frozen=True, kw_only=True)
class SignInSettings(VouchingSettings, FactorSettings, MachineSettings):
    """Of how people and programs sign in."""
