"""The providers of secrets beside our own store, as far as the settings name them."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.secrets import SecretProvider


def further_providers(settings: Settings, clock: Clock, issuer: TokenIssuer | None) -> Sequence[SecretProvider]:
    """One of each kind that is set up. `issuer` signs the tokens that executors sign in to Vault with. Raises
    `Misconfigured`."""
    found: list[SecretProvider] = []
    if settings.secrets_files is not None:
        from tickwise.adapters.secrets.files import FileSecrets

        found.append(FileSecrets(settings.secrets_files))
    if settings.secrets_environment:
        from tickwise.adapters.secrets.environment import EnvironmentSecrets

        found.append(EnvironmentSecrets(settings.secrets_environment))
    if settings.secrets_vault_url is not None:
        found.append(_vault(settings, settings.secrets_vault_url, clock, issuer))
    elif settings.secrets_vault_paths:
        raise Misconfigured("secrets_vault_paths is set, and secrets_vault_url names no Vault")
    if settings.secrets_kubernetes:
        from tickwise.adapters.secrets.kubernetes import KubernetesSecrets, KubernetesSettings

        asked = KubernetesSettings(
            namespaces=settings.secrets_kubernetes,
            account=settings.secrets_kubernetes_account,
            url=settings.secrets_kubernetes_url,
            seconds=settings.secrets_seconds,
            kept_seconds=settings.secrets_kept_seconds,
        )
        found.append(KubernetesSecrets(asked, clock))
    return found


def _vault(settings: Settings, url: str, clock: Clock, issuer: TokenIssuer | None) -> SecretProvider:
    from tickwise.adapters.secrets.vault import VaultSecrets, VaultSettings

    if not settings.secrets_vault_paths:
        raise Misconfigured(
            "secrets_vault_url is set, and secrets_vault_paths gives no namespace a path: write NAMESPACE=MOUNT/PATH"
        )
    asked = VaultSettings(
        url=url,
        paths=settings.secrets_vault_paths,
        auth=settings.secrets_vault_auth,
        mount=settings.secrets_vault_mount,
        role=settings.secrets_vault_role,
        audience=settings.secrets_vault_audience,
        token_file=settings.secrets_vault_token_file,
        secret_id_file=settings.secrets_vault_secret_id_file,
        vault_namespace=settings.secrets_vault_namespace,
        authority=settings.secrets_vault_ca_file,
        seconds=settings.secrets_seconds,
        kept_seconds=settings.secrets_kept_seconds,
    )
    return VaultSecrets(asked, clock, issuer)
